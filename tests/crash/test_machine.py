"""Real refusals of a real machine: a full disk, a read-only mount, a limit, a busy file.

Each runs in a child process, in a mount name space of its own where it mounts something.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from lastgood.errors import StorageError
from lastgood.saving import SaveReceipt
from tests.crash.scenes import Scenes, check_settled, checkpoint, latest, outcome, told, writer
from tests.crash.seam import Seam
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_unshare


class FailingSync(Seam):
    """Fails the first fsync once it is armed, and notes which files were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.armed = False
        self.synced: list[int] = []
        self.failed = 0
        self._held: list[int] = []

    def fsync(self, fd: int) -> None:
        """System call fsync, or EIO."""
        self.synced.append(os.fstat(fd).st_ino)
        if self.armed:
            self.armed = False
            self.failed = self.synced[-1]
            self._held.append(os.dup(fd))  # its number cannot be given to another file
            raise OSError(errno.EIO, "injected")
        os.fsync(fd)

    def let_go(self) -> None:
        """Close what was held."""
        for fd in self._held:
            os.close(fd)


pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

HEAD: Final = """
import errno, os, resource, signal, subprocess, sys
from pathlib import Path
from lastgood.errors import DurabilityUnknownError, LastgoodError, StorageError
from lastgood.formats.checkpoint import Checkpoint
from lastgood.saving import SaveReceipt
from tests.crash.scenes import (DIRECTORY, believed, check_settled, checkpoint, files, latest,
                                outcome, reader, snapshot, writer)
from tests.support.check import check, check_equal
from tests.support.records import fingerprint
place = Path(sys.argv[1])
def run(*command):
    subprocess.run(command, check=True)
def big(sequence, size_bytes):
    state = {"author": "big", "text": "x" * size_bytes}
    return Checkpoint(sequence, state, checkpoint(30).fingerprints)
"""


def in_child(program: str, place: Path, *, unshare: str = "") -> None:
    """Run ``program`` in a child, in its own mount name space if ``unshare`` names the command."""
    prefix = [unshare, "--mount", "--propagation", "private"] if unshare else []
    ran = subprocess.run(
        [*prefix, sys.executable, "-B", "-c", HEAD + program, place],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"the child: {ran.stderr}")


FULL: Final = """
run("mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", str(place))
store = writer(place / "store")
for sequence in (10, 20, 30):
    store.save(checkpoint(sequence))
before = snapshot(place / "store")
refused = outcome(lambda: store.save(big(40, 200_000)))
check(type(refused) is StorageError and refused.errno == errno.ENOSPC, f"told {refused!r}")
check_equal(snapshot(place / "store"), before, "what lies on the full disk")
ballast = os.open(place / "ballast", os.O_CREAT | os.O_WRONLY)
try:
    while os.write(ballast, bytes(4096)):
        pass
except OSError:
    pass
for _ in range(3):
    refused = outcome(lambda: store.save(checkpoint(40)))
    check(isinstance(refused, StorageError), f"told {refused!r}")
    check_equal(refused.exit_code, 8, "exit code")
    check_equal(latest(place / "store") in ((30, "owner"), (40, "owner")), True, "believed")
with reader(place / "store") as full:
    check_equal(full.check().findings, (), "findings while the disk is full")
os.unlink(place / "ballast")
os.close(ballast)
for sequence in (40, 50, 60):
    came = outcome(lambda: store.save(checkpoint(sequence)))
    check(isinstance(came, SaveReceipt), f"after space was freed: {came!r}")
store.close()
check_settled(place / "store", (60, "owner"), "after space was freed")
"""


@pytest.mark.needs_unshare
def test_a_full_disk_refuses_and_goes_on_when_it_is_freed(tmp_path: Path) -> None:
    """C6-01: nothing changes, reading works while full, and saving works after.

    Method: a tmpfs of 64 KiB, once too small for a record, once filled to the last page.
    """
    in_child(FULL, tmp_path, unshare=require_unshare())


READ_ONLY: Final = """
run("mount", "--bind", str(place), str(place))
run("mount", "-o", "remount,ro,bind", str(place))
before = snapshot(place)
with reader(place) as store:
    check_equal(believed(store.load_latest()), (30, "owner"), "loaded")
    check_equal(store.check().verdict, "good", "verified")
    check_equal(store.load(20).sequence, 20, "loaded by number")
try:
    writer(place)
except StorageError as error:
    check_equal((error.errno, error.exit_code), (errno.EROFS, 8), f"told: {error}")
else:
    raise AssertionError("a read-only store was opened for writing")
check_equal(snapshot(place), before, "what lies on the disk")
"""


@pytest.mark.needs_unshare
def test_a_read_only_mount_is_read_and_never_written(scenes: Scenes) -> None:
    """G8: load, list and verify work; opening for writing is a StorageError before anything.

    Method: remount the store read-only in a name space of its own.
    """
    with scenes.copy("three") as place:
        in_child(READ_ONLY, place, unshare=require_unshare())


BUSY: Final = """
session = place / DIRECTORY
store = writer(place)
pointer = (session / "manifest.json").read_bytes()
run("mount", "--bind", str(session / "manifest.json"), str(session / "manifest.json"))
came = outcome(lambda: store.save(checkpoint(40)))
check(type(came) is DurabilityUnknownError and came.errno == errno.EBUSY, f"told {came!r}")
check("Mount the directory" in str(came), f"the text does not say it: {came}")
check_equal((session / "manifest.json").read_bytes(), pointer, "the mounted pointer")
again = outcome(lambda: store.save(checkpoint(40)))
check(isinstance(again, DurabilityUnknownError), f"while it is mounted: {again!r}")
check_equal([name for name in files(place) if name.endswith(".tmp")], [], "temporaries")
run("umount", str(session / "manifest.json"))
for sequence in (40, 50):
    came = outcome(lambda: store.save(checkpoint(sequence)))
    check(isinstance(came, SaveReceipt), f"after the mount is mended: {came!r}")
store.close()
check_settled(place, (50, "owner"), "after the mount is mended")
"""


@pytest.mark.needs_unshare
def test_a_pointer_that_is_a_mount_is_never_overwritten(scenes: Scenes) -> None:
    """C6-06: the claim stands, the text names the directory, the next call completes it.

    Method: bind-mount manifest.json on itself, so that its rename is EBUSY.
    """
    with scenes.copy("three") as place:
        in_child(BUSY, place, unshare=require_unshare())


LIMITED: Final = """
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = writer(place)
before = snapshot(place)
resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
refused = outcome(lambda: store.save(big(40, 20_000)))
check(type(refused) is StorageError and refused.errno == errno.EFBIG, f"told {refused!r}")
check_equal(snapshot(place), before, "what lies on the disk")
came = outcome(lambda: store.save(checkpoint(40)))
check(isinstance(came, SaveReceipt), f"a smaller one: {came!r}")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.save(checkpoint(50))
store.close()
check_settled(place, (50, "owner"), "after the limit")
"""


def test_a_limit_on_file_sizes_is_told_and_changes_nothing(scenes: Scenes) -> None:
    """F6, F8: a short write, then EFBIG: a definite refusal; what fits goes on.

    Method: RLIMIT_FSIZE in a child, with SIGXFSZ ignored.
    """
    with scenes.copy("three") as place:
        in_child(LIMITED, place)


def test_a_failed_fsync_is_never_repeated_on_the_same_file(scenes: Scenes) -> None:
    """C6-04: the save that comes after writes another file; the failed inode is given up.

    Method: fail the first fsync, hold its file so that its number is not given again, save again.
    """
    with scenes.copy("three") as place:
        failing = FailingSync()
        with writer(place, failing) as store:
            failing.begin()
            failing.armed = True
            refused = outcome(lambda: store.save(checkpoint(40)))
            check(type(refused) is StorageError, f"told {refused!r}")
            check_equal(latest(place), (30, "owner"), "what is believed")
            for sequence in (40, 50):
                came = told(store, sequence)
                check(isinstance(came, SaveReceipt), f"the same save again: {came!r}")
        again = failing.synced.count(failing.failed)
        check_equal(again, 1, "fsyncs of the file whose fsync failed")
        check(len(set(failing.synced)) >= 3, "another file was not written")
        failing.let_go()
        check_settled(place, (50, "owner"), "after a failed fsync")
