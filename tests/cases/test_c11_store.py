"""C11: names, paths and foreign files, with a real store on a real disk."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest

from lastgood import Checkpoint, CheckpointStore, open_store
from lastgood.errors import DamagedError, InvalidIdError, LastgoodError, StorageError
from lastgood.formats import names
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.cases.harness import SESSION, inside, latest, refusal, stops, writer
from tests.security import rules
from tests.support import trees
from tests.support.check import check, check_equal

PATHS = [
    "../x", "x/../../P", "/abs", "..", ".", "a/b", "a\\b", "C:\\x", "~", "%2e%2e%2f", "a:b", " a",
    "Abc", "abc", "é", "e\u0301", "lock", "manifest.json", "-", "--root", "CON", "x" * 512,
]  # fmt: skip
ILLEGAL: list[Any] = [
    "", "a\0b", "a\n", "\x1b[2J", "\x9b", "\ud800", "x" * 513, "x" * 4096, "字" * 171, 5, None,
    b"nightly", True, 1.5, ["nightly"],
]  # fmt: skip


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


class _Inside(OsFileSystem):
    """Fails the test when a name below the root is opened by anything but one component."""

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        if dir_fd is not None:
            check("/" not in path and path != "..", f"opened {path!r} in a directory")
        return super().open(path, flags, mode=mode, dir_fd=dir_fd)


def test_c11_01_ids_are_data_and_nothing_outside_the_root_is_touched(tmp_path: Path) -> None:
    """C11-01: whatever an id looks like, it names a digest; every one is a session of its own.

    Method: each saved and loaded; the root then holds digests only, beside it nothing is new, and
    every open in a directory was of one component.
    """
    place = tmp_path / "in" / "store"
    place.parent.mkdir()
    for number, session in enumerate(PATHS, start=1):
        root = PosixRoot(place, filesystem=_Inside())
        with CheckpointStore(root, session, keys=trees.KEYS) as store:
            store.save(Checkpoint(number, {"id": session}))
    for number, session in enumerate(PATHS, start=1):
        with CheckpointStore(place, session, keys=trees.KEYS, mode="read") as store:
            check_equal(store.load_latest(), Checkpoint(number, {"id": session}, (), 1), session)
    with open_store(place, keys=trees.KEYS) as opened:
        ids = {entry.record.session for entry in opened.sessions() if entry.record is not None}
    check_equal(ids, set(PATHS), "the ids that are listed")
    directories = {path.name for path in place.iterdir() if path.is_dir()}
    check(all(names.is_directory(name) for name in directories), f"{directories}")
    check_equal(len(directories), len(PATHS), "directories")
    check_equal([p.name for p in tmp_path.iterdir()], ["in"], "beside the root")
    check_equal([p.name for p in place.parent.iterdir()], ["store"], "beside the store")


@pytest.mark.parametrize("session", ILLEGAL, ids=lambda value: ascii(value)[:14])
@pytest.mark.parametrize("mode", ["read", "write"])
def test_c11_01_illegal_id_is_refused_before_anything_is_made(
    tmp_path: Path, session: Any, mode: Any
) -> None:
    """C11-01: empty, control characters, half pairs, over 512 bytes, no string: InvalidIdError.

    Method: each in both modes; the root is not even made.
    """
    error = refusal(
        lambda: CheckpointStore(tmp_path / "store", session, keys=trees.KEYS, mode=mode)
    )
    check(isinstance(error, InvalidIdError) and error.exit_code == 1, repr(error))
    check(str(error).isprintable(), f"printed raw: {error!r}")
    check(not any(tmp_path.iterdir()), "something was made")


def _known_entropy(size_bytes: int, /) -> bytes:
    return b"\x5a" * size_bytes


@pytest.mark.parametrize("kind", ["symlink", "dangling symlink", "hard link", "FIFO", "directory"])
@pytest.mark.parametrize("base", ["checkpoint-000040.json", "manifest.json"])
@pytest.mark.timeout(30)
def test_c11_02_temporary_name_that_was_foreseen_leads_nowhere(
    place: Path, kind: str, base: str
) -> None:
    """C11-02, T7: even a foreseen temporary name is created anew, exclusively, or refused.

    Method: the name that the next save will use is planted, while its owner works, as each kind;
    a file outside stays as it is, and what was planted stays too.
    """
    outside = place.parent / "outside"
    outside.write_bytes(b"precious")
    outside.chmod(0o600)
    root = PosixRoot(place, entropy=_known_entropy)
    with CheckpointStore(root, SESSION, keys=trees.KEYS) as store:
        planted = inside(place) / names.temporary(base, _known_entropy(names.TOKEN_BYTES))
        if kind == "symlink":
            planted.symlink_to(outside)
        elif kind == "dangling symlink":
            planted.symlink_to(place.parent / "nothing")
        elif kind == "hard link":
            os.link(outside, planted)
        elif kind == "FIFO":
            os.mkfifo(planted, 0o600)
        else:
            planted.mkdir(0o700)
        error = refusal(lambda: store.save(trees.checkpoint(SESSION, 4)))
        check(isinstance(error, StorageError) and error.exit_code == 8, repr(error))
        check(os.path.lexists(planted), "what was planted is gone")
    check_equal(outside.read_bytes(), b"precious", "the file outside")
    check(not (place.parent / "nothing").exists(), "a file was made outside")
    found = latest(place)
    check(found is not None and found.sequence in {30, 40}, f"believed: {found}")


def test_c11_02_planted_checkpoint_name_is_never_written_through(place: Path) -> None:
    """C11-02: the next checkpoint's name, planted as a link, is neither followed nor replaced.

    Method: a symlink to a file outside under that name while the owner works.
    """
    outside = place.parent / "outside"
    outside.write_bytes(b"precious")
    with writer(place) as store:
        (inside(place) / "checkpoint-000040.json").symlink_to(outside)
        error = refusal(lambda: store.save(trees.checkpoint(SESSION, 4)))
        check(error.exit_code in {2, 7, 8}, repr(error))
    check_equal(outside.read_bytes(), b"precious", "the file outside")
    check((inside(place) / "checkpoint-000040.json").is_symlink(), "the link is gone")


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["x", "字", "😀"])
def test_c11_05_every_accepted_id_works_for_every_file_from_the_first_save_on(
    tmp_path: Path, unit: str
) -> None:
    """C11-05: an id that is accepted fits all names, temporaries too; else it is refused at once.

    Method: ids of 200 to 256 characters, of 85 and 86, and at the limit of 512 bytes.
    """
    for length in (1, 84, 85, 86, 128, 129, 170, 171, 200, 254, 255, 256, 511, 512, 513):
        session = unit * length
        place = tmp_path / f"{length}"
        if len(session.encode()) <= names.MAX_SESSION_ID_BYTES:
            with CheckpointStore(place, session, keys=trees.KEYS) as store:
                for number in (1, 2, 3):
                    check_equal(store.save(Checkpoint(number, {})).status, "saved", f"{length}")
            check_equal(trees.read(place, session).reported, 0, f"{length} of {unit}")
        else:
            error = refusal(lambda p=place, s=session: CheckpointStore(p, s, keys=trees.KEYS))  # type: ignore[misc]
            check(isinstance(error, InvalidIdError), repr(error))
            check(not place.exists(), f"{length}: something was made")


def test_c11_05_root_near_the_longest_path_works_or_is_refused_at_once(tmp_path: Path) -> None:
    """C11-05: names are resolved from the held directory, so a deep root never fails at a save.

    Method: roots whose paths have 3,900 to 4,200 characters; opened, then saved to three times, or
    a typed error at the opening.
    """
    outcomes = set()
    for length in (3_900, 4_040, 4_090, 4_094, 4_200):
        deep = str(tmp_path)
        while len(deep) + 201 < length:
            deep += "/" + "d" * 200
        deep += "/" + "e" * max(1, length - len(deep) - 1)
        try:
            store = CheckpointStore(deep, SESSION, keys=trees.KEYS)
        except StorageError as error:
            check_equal(error.errno, errno.ENAMETOOLONG, f"{length}: {str(error)[:200]}")
            outcomes.add("refused")
            continue
        with store:
            for number in (1, 2, 3):
                check_equal(store.save(Checkpoint(number, {})).status, "saved", f"{length}")
        outcomes.add("works")
    check_equal(outcomes, {"works", "refused"}, "both sides of the limit")


def test_c11_06_foreign_names_are_listed_never_parsed_never_deleted() -> None:
    """C11-06: every copy that a desktop, an editor or a sync makes is foreign.

    Method: a valid record under each such name; load and check are as before, the name is listed,
    and a save with its prune leaves it.
    """
    rules.foreign_names_are_ignored()


def test_c11_06_foreign_things_of_every_kind_change_nothing(place: Path) -> None:
    """C11-06: directories, links, FIFOs and unreadable files of others in root and session.

    Method: all at once; load, check and the next save are as without; all are still there.
    """
    planted = []
    for directory in (place, inside(place)):
        (directory / ".DS_Store").write_bytes(b"\0" * 10)
        (directory / "checkpoint-5 (1).json").mkdir()
        (directory / "tmpXXXX").symlink_to("nowhere")
        os.mkfifo(directory / "Thumbs.db")
        (directory / "desktop.ini").write_bytes(b"x")
        (directory / "desktop.ini").chmod(0)
        (directory / "._x").write_bytes(b"")
        planted += [directory / name for name in (".DS_Store", "checkpoint-5 (1).json", "tmpXXXX",
                                                  "Thumbs.db", "desktop.ini", "._x")]  # fmt: skip
    with contextlib.suppress(OSError):
        os.mkdir(os.fsencode(place) + b"/\xff\xfe")  # no text at all
    outcome = trees.read(place)
    check_equal(outcome.says(), "sequence 30; check says 0", "with foreign things")
    listed = set(outcome.report.foreign if outcome.report else ())
    check(listed >= {path.name for path in planted}, f"listed: {listed}")
    with writer(place) as store:
        store.save(trees.checkpoint(SESSION, 4))
    check(all(os.path.lexists(path) for path in planted), "something was deleted")
    with open_store(place, keys=trees.KEYS) as opened:
        check_equal(len(list(opened.sessions())), 2, "sessions")


def test_c11_06_directory_under_a_generations_own_name_stops(place: Path) -> None:
    """C11-06, design 6: a name of ours that is no record is no foreign name: it stops.

    Method: a directory under the next checkpoint's exact name.
    """
    (inside(place) / "checkpoint-000040.json").mkdir(mode=0o700)
    outcome = stops(place, naming="checkpoint-000040.json")
    check(isinstance(outcome.error, DamagedError), outcome.says())


def test_c11_06_second_copy_of_a_session_directory_is_no_session(place: Path) -> None:
    """C11-06: a copied directory is no second session, and no fork of the first.

    Method: the whole directory copied under a name as copies have, and under a digest's name.
    """
    copy = trees.plant(trees.final(), place.parent / "copied")
    (copy / trees.directory(SESSION)).rename(place / f"{trees.directory(SESSION)} (copy)")
    (copy / trees.directory("weekly")).rename(place / ("0" * 40))
    check_equal(trees.read(place).says(), "sequence 30; check says 0", "the session")
    with open_store(place, keys=trees.KEYS) as opened:
        problems = [entry.problem for entry in opened.sessions()]
    check_equal(sum(problem is None for problem in problems), 2, "sound sessions")
    found = [problem for problem in problems if isinstance(problem, LastgoodError)]
    check_equal([problem.exit_code for problem in found], [2], "the copy under a digest's name")
