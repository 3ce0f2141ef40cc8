"""T8: what lies in a session's directory costs a reader bounded memory and time, whatever it says.

Method of most: many large sparse files are planted under names of ours, with heads copied from
sound records, which is all that somebody without the key can do; ``verify`` and ``list`` run in a
child that tells its peak of resident memory.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lastgood import Limits
from lastgood.formats import names
from tests.crash.scenes import clone
from tests.sessions import repaired
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

MIB: Final = 1024 * 1024
PEAK: Final = 150 * MIB
LONGEST_S: Final = 240
"""Generous: what is bounded is that it ends; measured are about two seconds."""

_CHILD: Final = """
import sys
from pathlib import Path
from lastgood.cli.main import main
code = main(sys.argv[2:])
# Not ru_maxrss, which begins with that of the process that was forked.
status = Path("/proc/self/status").read_text().splitlines()
peak = next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
Path(sys.argv[1]).write_text(f"{peak}")
sys.exit(code)
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a command said and needed."""

    code: int
    peak_bytes: int
    said: str


def cost(root: Path, verb: str) -> Cost:
    """Run a command on the session, in a process of its own."""
    told = root.with_name("peak")
    place = ("--root", str(root), "--keys", str(root.with_name("keys.json")))
    ran = subprocess.run(
        [sys.executable, "-c", _CHILD, str(told), verb, repaired.SESSION, *place],
        cwd=REPOSITORY, capture_output=True, timeout=LONGEST_S, check=False, text=True,
    )  # fmt: skip
    check(told.exists(), f"{verb} did not come to its end: {ran.stderr[-2_000:]}")
    return Cost(ran.returncode, int(told.read_text()), ran.stdout + ran.stderr)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound session of a log, several checkpoints and revisions."""
    root = tmp_path_factory.mktemp("planted") / "store"
    repaired.make(root, rounds=3, milestone=None)
    return root


@pytest.fixture
def root(original: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    clone(original, tmp_path / "store")
    repaired.KEYS.write_new(tmp_path / "keys.json")
    return tmp_path / "store"


def sparse(path: Path, size_bytes: int, *, head: bytes = b"") -> None:
    """A private file of ``size_bytes`` that takes no room behind ``head``."""
    with path.open("xb") as file:
        file.write(head)
        file.truncate(size_bytes)
    path.chmod(0o600)


# --- large files under names of ours ------------------------------------------------------

LARGE: Final = Limits().payload_bytes - 1_000


def _checkpoints(root: Path, head: bytes, *, archived: bool = False) -> None:
    place = repaired.inside(root)
    if archived:
        place = place / names.archived("x").partition("/")[0]
        place.mkdir(0o700, exist_ok=True)
    for number in range(40):
        sparse(place / names.checkpoint(1_000 + number), LARGE, head=head)


def with_copied_heads(root: Path) -> None:
    """Checkpoints that begin as a sound one does."""
    _checkpoints(root, repaired.checkpoints(root)[-1].read_bytes())


def of_zeros(root: Path) -> None:
    """Checkpoints that hold nothing."""
    _checkpoints(root, b"")


def in_the_archive(root: Path) -> None:
    """Archived checkpoints that begin as a sound one does."""
    _checkpoints(root, repaired.checkpoints(root)[-1].read_bytes(), archived=True)


def manifests(root: Path) -> None:
    """Manifests of nearly the limit, newer than all, that begin as a sound one does."""
    newest = repaired.manifests(root)[-1]
    revision = repaired.newest(root).revision
    for number in range(30):
        path = newest.with_name(names.manifest(revision + 1 + number))
        sparse(path, MIB - 1_000, head=newest.read_bytes())


def segments(root: Path) -> None:
    """Segments of the newest epoch that begin as a sound one does."""
    newest = repaired.segments(root)[-1]
    epoch = repaired.newest(root).epoch
    for number in range(200):
        path = newest.with_name(names.segment(1_000 + number, epoch))
        sparse(path, 4 * MIB, head=newest.read_bytes())


Plant = Callable[[Path], None]
PLANTS: Final[tuple[Plant, ...]] = (
    with_copied_heads, of_zeros, in_the_archive, manifests, segments,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.timeout(2 * LONGEST_S + 30)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__)
def test_many_large_planted_files_cost_bounded_memory(
    original: Path, root: Path, plant: Plant
) -> None:
    """T8: planted files are read one after another, told, never held together, and hide nothing.

    Method: 640 MB of checkpoints, 30 MB of manifests, 800 MB of segments, none of it on the disk.
    """
    plant(root)
    for verb in ("verify", "list"):
        ran = cost(root, verb)
        check_equal(ran.code, 2, f"{verb}: {ran.said[:2_000]}")
        check("Damaged: " in ran.said or "it is the checkpoint of" in ran.said, ran.said[:2_000])
        for sound in repaired.checkpoints(original):
            sequence = names.parse(sound.name)
            shown = f"\n{sequence.number if sequence else 0} "
            check(verb == "verify" or shown in ran.said, f"{sound.name} is not listed any more")
        check(ran.peak_bytes < PEAK, f"{verb}: a peak of {ran.peak_bytes / MIB:.0f} MiB")


# --- what stands in the place of the lock -------------------------------------------------


def link(lock: Path) -> None:
    """A symbolic link to a private file."""
    lock.rename(lock.with_name("kept"))
    lock.symlink_to("kept")


def dangling(lock: Path) -> None:
    """A symbolic link to nothing."""
    lock.unlink()
    lock.symlink_to("nothing")


def hard_link(lock: Path) -> None:
    """A file that has a name elsewhere, too."""
    os.link(lock, lock.parent.parent.with_name("elsewhere"))


def fifo(lock: Path) -> None:
    """A FIFO, whose opening waits for a writer."""
    lock.unlink()
    os.mkfifo(lock, 0o600)


def directory(lock: Path) -> None:
    """A directory."""
    lock.unlink()
    lock.mkdir(0o700)


def bound_socket(lock: Path) -> None:
    """A socket."""
    lock.unlink()
    place = os.open(lock.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{place}/{lock.name}")  # the path of a socket is short
    finally:
        os.close(place)
    lock.chmod(0o600)


def public(lock: Path) -> None:
    """A file that others may read."""
    lock.chmod(0o644)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "plant",
    [link, dangling, hard_link, fifo, directory, bound_socket, public],
    ids=lambda plant: plant.__name__,
)
def test_what_is_no_lock_is_found_before_the_next_opening_stops_there(
    root: Path, plant: Plant
) -> None:
    """T7: ``verify`` tells of what would stop every opening, without waiting for it or locking it.

    Method: each kind in place of the lock of a sound session; an opening is refused alike.
    """
    check_equal(repaired.run(root, "verify", repaired.SESSION).code, 0, "before")
    plant(repaired.inside(root) / names.LOCK)
    ran = repaired.run(root, "verify", repaired.SESSION)
    check_equal(ran.code, 2, f"{ran.document} {ran.said}")
    check("Damaged: lock: " in f"{ran.document}", f"not named: {ran.document}")
    error = repaired.stop(root)
    check(error is not None and error.exit_code == 2, f"an opening says {error}")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("size_bytes", [0, 1, 10 * 1000 * MIB], ids=["empty", "1 B", "10 GB"])
def test_content_and_size_of_the_lock_are_nothing_to_verify(root: Path, size_bytes: int) -> None:
    """T8: a lock's content decides nothing, and a sparse lock of 10 GB is not read through."""
    lock = repaired.inside(root) / names.LOCK
    lock.unlink()
    sparse(lock, size_bytes)
    ran = cost(root, "verify")
    check_equal(ran.code, 0, ran.said)
    check(ran.peak_bytes < PEAK, f"a peak of {ran.peak_bytes / MIB:.0f} MiB")
    repaired.opened(root).close()
