"""T7, C14-05, G8: directories replaced or opened to others; umasks; reading is reading."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import Checkpoint, CheckpointStore, open_store
from lastgood.errors import DamagedError, FencedError, LastgoodError
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.support import trees
from tests.support.check import check, check_equal

NIGHTLY, WEEKLY = map(trees.directory, trees.SESSIONS)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The final store, on a disk."""
    return trees.plant(trees.final(), tmp_path / "store")


def refused(place: Path, what: str) -> None:
    """Fail unless reader and writer refuse (exit 2) and leave all as it is."""
    before = trees.picture(place.parent)
    outcome = trees.read(place)
    check(isinstance(outcome.error, DamagedError), f"{what}: {outcome.says()}")
    with pytest.raises(DamagedError):
        CheckpointStore(place, "nightly", keys=trees.KEYS)
    trees.check_untouched(place.parent, before, what)


def _as_symlink(place: Path) -> None:
    (place / NIGHTLY).rename(place.parent / "moved")
    (place / NIGHTLY).symlink_to(place.parent / "moved")


def _as_file(place: Path) -> None:
    (place / NIGHTLY).rename(place.parent / "moved")
    (place / NIGHTLY).write_bytes(b"")
    (place / NIGHTLY).chmod(0o600)


def _as_fifo(place: Path) -> None:
    (place / NIGHTLY).rename(place.parent / "moved")
    os.mkfifo(place / NIGHTLY, 0o700)


def _open_to_others(place: Path) -> None:
    (place / NIGHTLY).chmod(0o755)


def _open_to_group(place: Path) -> None:
    (place / NIGHTLY).chmod(0o730)


def _root_open_to_others(place: Path) -> None:
    place.chmod(0o777)


def _sessions_swapped(place: Path) -> None:
    (place / NIGHTLY).rename(place / "aside")
    (place / WEEKLY).rename(place / NIGHTLY)
    (place / "aside").rename(place / WEEKLY)


CHANGES = [
    _as_symlink, _as_file, _as_fifo, _open_to_others, _open_to_group, _root_open_to_others,
    _sessions_swapped,
]  # fmt: skip


@pytest.mark.timeout(30)
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_changed_directory_is_refused_and_nothing_is_touched(
    place: Path, change: Callable[[Path], None]
) -> None:
    """T5, T7: a session's directory is a private one of ours, of this session, in a safe root.

    Method: each change of the directory or the root; reader and writer.
    """
    change(place)
    refused(place, change.__name__)


def _another_store(place: Path) -> None:
    trees.plant(trees.history()[1], place)


def test_directory_replaced_while_a_writer_holds_it_stops_the_next_save(place: Path) -> None:
    """T7, S1: a writer never writes into a directory that took the place of its own.

    Method: the session's directory, then the root, is replaced by an older copy while a handle is
    open; save raises FencedError for good, and neither the old nor the new one changes.
    """
    for replaced in ("session", "root"):
        with CheckpointStore(place, "nightly", keys=trees.KEYS) as store:
            taken = place / NIGHTLY if replaced == "session" else place
            taken.rename(place.parent / f"held {replaced}")
            _another_store(place)
            before = trees.picture(place.parent)
            for _ in range(2):
                with pytest.raises(FencedError):
                    store.save(Checkpoint(99, {}, trees.checkpoint("nightly", 3).fingerprints))
            trees.check_untouched(place.parent, before, f"{replaced} replaced")


def test_directory_replaced_while_a_reader_holds_it_gives_no_mixture(place: Path) -> None:
    """T7: a reader goes on in the directory that it opened, or stops; never half of each.

    Method: the session's directory is replaced by an older copy while a reading handle is open.
    """
    with CheckpointStore(place, "nightly", keys=trees.KEYS, mode="read") as store:
        first = store.load_latest()
        (place / NIGHTLY).rename(place.parent / "held")
        _another_store(place)
        again = store.load_latest()
        check(first is not None and again is not None, "both load")
        if first is not None and again is not None:
            check(trees.same(again, first), f"then {again}, before {first}")


class _Modes(OsFileSystem):
    """Notes the mode of every file and directory in the instant that it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.files: set[int] = set()
        self.directories: set[int] = set()

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        fd = super().open(path, flags, mode=mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            self.files.add(stat.S_IMODE(os.fstat(fd).st_mode))
        return fd

    def mkdir(self, name: str, *, mode: int = 0o700, dir_fd: int) -> None:
        super().mkdir(name, mode=mode, dir_fd=dir_fd)
        made = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        self.directories.add(stat.S_IMODE(made.st_mode))


@pytest.mark.slow
def test_everything_made_under_any_umask_is_private_in_every_instant(tmp_path: Path) -> None:
    """C14-05: 0700 and 0600 from the first instant, under each umask from 000 to 077.

    Method: two sessions, two saves each, under all 64 umasks; every file and directory is looked
    at as it is made, and all of them again in the end.
    """
    before = os.umask(0o022)
    try:
        for mask in range(0o100):
            os.umask(mask)
            modes = _Modes()
            place = tmp_path / f"{mask:03o}"
            for session in trees.SESSIONS:
                root = PosixRoot(place, filesystem=modes)
                with CheckpointStore(root, session, keys=trees.KEYS) as store:
                    for time in (1, 2):
                        store.save(trees.checkpoint(session, time))
            check_equal(modes.files, {0o600}, f"files at birth, umask {mask:03o}")
            check_equal(modes.directories, {0o700}, f"directories at birth, umask {mask:03o}")
            for path in place.rglob("*"):
                wanted = 0o700 if path.is_dir() else 0o600
                check_equal(stat.S_IMODE(path.stat().st_mode), wanted, f"{path}, {mask:03o}")
    finally:
        os.umask(before)


def _loads(place: Path) -> None:
    with CheckpointStore(place, "nightly", keys=trees.KEYS, mode="read") as store:
        store.load_latest()
        store.load(20)
        store.load(30)


def _checks(place: Path) -> None:
    with CheckpointStore(place, "nightly", keys=trees.KEYS, mode="read") as store:
        store.check()
        store.verify()


def _sessions(place: Path) -> None:
    with open_store(place, keys=trees.KEYS) as store:
        check(len(list(store.sessions())) >= 1, "no session is listed")


def _looks_for_nothing(place: Path) -> None:
    with CheckpointStore(place, "never made", keys=trees.KEYS, mode="read") as store:
        check(store.load_latest() is None, "a session that was never made")
        store.check()


def _sound(place: Path) -> None:
    """Nothing is damaged."""


def _interrupted(place: Path) -> None:
    (place / NIGHTLY / "manifest.json").unlink()


def _damaged(place: Path) -> None:
    (place / NIGHTLY / trees.CURRENT).write_bytes(b"")


def _with_leftovers(place: Path) -> None:
    for name in (".checkpoint-000040.json.0123456789abcdef.tmp", "notes.txt", "checkpoint-5.json"):
        (place / NIGHTLY / name).write_bytes(b"left")


@pytest.mark.parametrize("state", [_sound, _interrupted, _damaged, _with_leftovers])
@pytest.mark.parametrize("look", [_loads, _checks, _sessions, _looks_for_nothing])
def test_reading_changes_no_name_byte_mode_or_mtime(
    place: Path, look: Callable[[Path], None], state: Callable[[Path], None]
) -> None:
    """G8: load, check, verify and the list of sessions change nothing, whatever they find.

    Method: a picture of names, kinds, modes, owners, links, inodes, mtimes and bytes, before and
    after, of a sound store, an interrupted one, a damaged one, and one with leftovers.
    """
    state(place)
    for path in [*place.rglob("*"), place]:
        os.utime(path, ns=(1_000_000_000, 2_000_000_000))
    before = trees.picture(place.parent)
    try:
        look(place)
    except LastgoodError as error:
        check(state is _damaged and error.exit_code == 2, f"{look.__name__}: {error}")
    trees.check_untouched(place.parent, before, look.__name__)
