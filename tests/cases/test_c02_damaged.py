"""C2: empty, zeroed, truncated and extended files: stop, say so, keep the bytes, start nothing.

Method of all: the store of three saves on a disk, damaged as the case says; ``stops`` opens it
for reading and writing and compares pictures of the whole store.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood import CheckpointStore
from lastgood.errors import DamagedError
from tests.cases.harness import SESSION, inside, stops
from tests.cli.commands import Place
from tests.support import trees
from tests.support.check import check, check_equal


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store."""
    return trees.plant(trees.final(), tmp_path / "store")


def cut(path: Path, size_bytes: int) -> None:
    """Truncate a file in place, as a full disk leaves it."""
    with path.open("r+b") as file:
        file.truncate(size_bytes)


def zero(path: Path) -> None:
    """Overwrite a file with NUL in place, as a power cut leaves it."""
    with path.open("r+b") as file:
        file.write(b"\0" * path.stat().st_size)


@pytest.mark.parametrize("part", ["nothing", "1 byte", "half", "all but one byte"])
def test_c02_01_truncated_newest_checkpoint_stops_and_is_kept(place: Path, part: str) -> None:
    """C2-01: a cut newest checkpoint never becomes the one before it, nor a new session.

    Method: cut to 0, 1, half and all but one byte; the older generation is intact.
    """
    newest = inside(place) / trees.CURRENT
    size = newest.stat().st_size
    cut(newest, {"nothing": 0, "1 byte": 1, "half": size // 2, "all but one byte": size - 1}[part])
    stops(place, naming=trees.CURRENT)


@pytest.mark.parametrize(
    ("damaged", "naming"),
    [
        ([trees.CURRENT], trees.CURRENT),
        (["manifest.json"], "manifest"),
        (["manifest.json", trees.CURRENT], "manifest"),
        (["session.json"], "session.json"),
        (["manifest-000003.json"], "manifest-000003.json"),
    ],
    ids=str,
)
def test_c02_02_zeros_of_the_right_length_stop(
    place: Path, damaged: list[str], naming: str
) -> None:
    """C2-02: a file of the right length that is all NUL is damage, never a new session.

    Method: the checkpoint, the pointer (with the newest number, one inode), both, and each other
    record, zeroed in place.
    """
    for name in damaged:
        zero(inside(place) / name)
    outcome = stops(place, naming=naming)
    if len(damaged) > 1:
        findings = " ".join(outcome.report.findings if outcome.report else ())
        check(all(name in findings for name in damaged), f"not all is reported: {findings}")


@pytest.mark.parametrize("name", trees.FILES)
@pytest.mark.parametrize("tail", [b'"}', b"\n{}\n", b"{}", b"\n", b" ", b"\0" * 512])
def test_c02_04_bytes_behind_a_record_are_damage_and_no_prefix_is_read(
    place: Path, name: str, tail: bytes
) -> None:
    """C2-04: a record with anything behind it does not verify.

    Method: each tail appended to each file. Of the previous generation, whose payload a load does
    not read, the check must tell.
    """
    with (inside(place) / name).open("ab") as file:
        file.write(tail)
    if name != trees.PREVIOUS:
        stops(place, naming="manifest" if "manifest" in name else name)
        return
    outcome = trees.read(place)
    check_equal(outcome.reported, 2, outcome.says())
    check(outcome.loaded is not None and outcome.loaded.sequence == 30, outcome.says())


def test_c02_04_short_record_over_a_longer_one_is_damage(place: Path) -> None:
    """C2-04: shorter content written over longer without a truncation is damage.

    Method: the newest checkpoint followed by the tail of a longer one.
    """
    newest = inside(place) / trees.CURRENT
    newest.write_bytes(newest.read_bytes() + b"x" * 100 + newest.read_bytes()[-60:])
    stops(place, naming=trees.CURRENT)


def test_c02_05_empty_generations_stop(place: Path) -> None:
    """C2-05 (b): generations of 0 bytes are damage, never empty state that starts work again."""
    for name in (trees.PREVIOUS, trees.CURRENT):
        cut(inside(place) / name, 0)
    stops(place, naming="checkpoint")


@pytest.mark.parametrize("kept", [(), ("lock",), ("lock", "session.json")], ids=str)
def test_c02_05_only_a_lock_and_an_empty_directory_is_a_new_session(
    place: Path, kept: tuple[str, ...]
) -> None:
    """C2-05 (c): a new session only if nothing else exists, and it is reported as such.

    Method: everything but the lock, and session.json, removed; then it can be begun.
    """
    for path in inside(place).iterdir():
        if path.name not in kept:
            path.unlink()
    outcome = trees.read(place)
    check(outcome.loaded is None and outcome.error is None, outcome.says())
    verdict = outcome.report.verdict if outcome.report else ""
    check_equal(verdict, "new", "the verdict")
    with CheckpointStore(place, SESSION, keys=trees.KEYS) as store:
        store.save(trees.checkpoint(SESSION, 1))
    check_equal(trees.read(place).reported, 0, "the session that was begun")


def test_c02_05_empty_manifests_beside_checkpoints_stop(place: Path) -> None:
    """C2-05: no manifest, or empty ones, beside checkpoints are damage."""
    for path in inside(place).glob("manifest*"):
        path.unlink()
    stops(place, naming="without any manifest")


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["load", "verify", "save"])
def test_c02_07_damaged_store_says_the_same_for_ever_and_nothing_grows(
    place: Path, tmp_path: Path, verb: str
) -> None:
    """C2-07: no crash loop: the same error, exit code and next command each time, no new file.

    Method: five processes in a row on a damaged store.
    """
    cut(inside(place) / trees.CURRENT, 100)
    commands = Place(tmp_path)
    trees.KEYS.write_new(commands.keys)
    words = [verb, SESSION, *(["--sequence", "40"] if verb == "save" else [])]
    before = trees.picture(place)
    seen = set()
    for _ in range(5):
        ran = commands.run(*words, stdin=b"{}", environment={"LASTGOOD_ROOT": str(place)}).left(2)
        check(trees.CURRENT in ran.said + ran.text, f"the file is not named: {ran.said}")
        then = "lastgood repair nightly --accept-older --sequence 20 --reason TEXT"
        check(then in ran.said, f"no next command: {ran.said}")
        if verb != "verify":
            check_equal(ran.said.count("\n"), 1, f"lines of {ran.said}")
        seen.add((ran.out, ran.err))
        trees.check_untouched(place, before, f"after {verb}")
    check_equal(len(seen), 1, "different texts")


def test_c02_09_both_generations_damaged_stops_with_every_finding(place: Path) -> None:
    """C2-09: no chain of fall-backs; it ends, and the check lists every finding.

    Method: the newest, both, and both with a manifest damaged.
    """
    damaged: list[str] = []
    for name in (trees.CURRENT, trees.PREVIOUS, "manifest-000003.json"):
        zero(inside(place) / name)
        damaged.append(name)
        outcome = trees.read(place)
        check(isinstance(outcome.error, DamagedError), outcome.says())
        findings = " ".join(outcome.report.findings if outcome.report else ())
        check(all(one in findings for one in damaged), f"{damaged}: {findings}")
        check_equal(outcome.reported, 2, outcome.says())
    stops(place, naming="manifest-000003.json")


def test_c02_09_damage_of_one_session_stops_no_other(place: Path) -> None:
    """C2-09: the other sessions of the store go on.

    Method: nightly's directory emptied of all but its lock and a damaged checkpoint.
    """
    for path in inside(place).iterdir():
        if path.name not in {"lock", trees.CURRENT}:
            path.unlink()
    cut(inside(place) / trees.CURRENT, 0)
    stops(place, naming="session.json")
    check_equal(trees.read(place, "weekly").says(), "sequence 30; check says 0", "weekly")
