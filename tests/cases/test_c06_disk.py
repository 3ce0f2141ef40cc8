"""C6: full disks, failing disks and files that cannot be renamed, seen by whoever saves.

What storage does with each error at each call is tested in ``tests/storage``; here is what a
store of checkpoints tells and keeps.
"""

from __future__ import annotations

import errno
import shlex
from pathlib import Path

import pytest

from lastgood import CheckpointStore, SaveReceipt
from lastgood.errors import DurabilityUnknownError, StorageError
from tests.cases.harness import (
    SESSION,
    contents,
    in_a_process,
    in_mount_namespace,
    inside,
    latest,
    refusal,
    temporaries,
    writer,
)
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, faulty, system_error


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


def save(store: CheckpointStore) -> SaveReceipt:
    """The next save."""
    return store.save(trees.checkpoint(SESSION, 4))


@pytest.mark.needs_unshare
def test_c06_01_full_disk_changes_nothing_and_the_next_save_works(tmp_path: Path) -> None:
    """C6-01: ENOSPC is told (exit 8), all is as it was, and readable; then the chain goes on.

    Method: a tmpfs of 64 KiB, saved to until it is full, read while it is, and then freed.
    """
    in_mount_namespace(
        f"mount -t tmpfs -o size=64k tmpfs {shlex.quote(str(tmp_path))}",
        """
        store, saved = writer(place / "store"), 0
        filler = (place / "filler").open("ab", buffering=0)
        while True:
            state = {"text": "x" * 3000, "n": saved}
            try:
                store.save(Checkpoint(saved + 1, state))
            except StorageError as error:
                check_equal((error.errno, error.exit_code), (errno.ENOSPC, 8), str(error))
                break
            saved += 1
            filler.write(b"f" * 4096)
        check(saved >= 2, f"only {saved} saves before the disk was full")
        try:
            while filler.write(b"f" * 4096):
                pass
        except OSError:
            pass  # not a byte is left
        before = contents(place / "store")
        for _ in range(3):
            error = refusal(lambda: store.save(Checkpoint(saved + 1, state)))
            check_equal((error.errno, error.exit_code), (errno.ENOSPC, 8), str(error))
            check(contents(place / "store") == before, "a failed save changed a byte or a name")
            check_equal(temporaries(place), [], "temporaries")
            found = latest(place / "store")
            check(found.sequence in {saved, saved + 1}, f"loaded while full: {found}")
        filler.truncate(0)
        receipt = store.save(Checkpoint(saved + 1, state))
        check(receipt.status in {"saved", "unchanged"}, f"with space again: {receipt}")
        store.close()
        check_equal(trees.read(place / "store").reported, 0, "the chain")
        check_equal(latest(place / "store").sequence, saved + 1, "the newest")
        """,
        tmp_path,
    )


def test_c06_01_full_disk_at_any_write_is_told_and_settled_by_the_same_save(place: Path) -> None:
    """C6-01, K3: before S4's link nothing changes; from then on the same save settles it.

    Method: ENOSPC at every write and open of a save, once; then the same save again.
    """
    calls = Calls()
    with writer(place, faulty(calls)) as store:
        calls.begin()
        save(store)
        at = [n for n, name in enumerate(calls.made) if name in {"writev", "link", "open"}]
    check(len(at) >= 5, f"calls that can find the disk full: {at}")
    for number in at:
        copy = trees.plant(trees.final(), place.parent / f"at-{number}")
        with writer(copy, faulty(calls)) as store:
            before = contents(copy)
            calls.begin(Fault(number, system_error(errno.ENOSPC)))
            try:
                save(store)
            except DurabilityUnknownError:
                published = inside(copy) / "checkpoint-000040.json"
                check(published.exists(), f"at {number}: unknown, and nothing was published")
            except StorageError as error:
                check_equal(error.errno, errno.ENOSPC, str(error))
                check(contents(copy) == before, f"at {number}: a byte or a name changed")
            check_equal(temporaries(copy), [], f"at {number}: temporaries")
            calls.begin()
            check(save(store).status in {"saved", "unchanged"}, f"at {number}: the retry")
        check_equal(trees.read(copy).reported, 0, f"at {number}: the chain")


def test_c06_02_write_cut_in_the_middle_is_not_acknowledged_and_never_believed(
    tmp_path: Path,
) -> None:
    """C6-02: half a record is never published; after the limit is lifted the save works.

    Method: RLIMIT_FSIZE of half of a 10 KiB state, so that the write is short and then refused.
    """
    in_a_process(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = writer(place / "store")
        store.save(Checkpoint(1, {"n": 1}))
        before = contents(place)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, resource.RLIM_INFINITY))
        error = refusal(lambda: store.save(Checkpoint(2, {"text": "x" * 10_000})))
        check_equal((type(error), error.errno), (StorageError, errno.EFBIG), str(error))
        check_equal(temporaries(place), [], "temporaries")
        check(contents(place) == before, "a byte or a name changed")
        check_equal(latest(place / "store").sequence, 1, "what is believed")
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        check_equal(store.save(Checkpoint(2, {"text": "x" * 10_000})).status, "saved", "after it")
        store.close()
        check_equal(trees.read(place / "store").reported, 0, "the chain")
        """,
        tmp_path,
    )


def test_c06_04_failed_fsync_is_not_acknowledged_and_no_inode_is_synced_again(place: Path) -> None:
    """C6-04: fsync lies the second time; the retry writes a new file, or reopens and verifies.

    Method: EIO at each fsync of a save, once; the same save is repeated by the same owner; no
    inode whose fsync failed is fsynced again before something was written to it anew.
    """
    calls = Calls()
    with writer(place, faulty(calls)) as store:
        calls.begin()
        save(store)
        at = [number for number, name in enumerate(calls.made) if name == "fsync"]
    check_equal(len(at), 4, "fsyncs of a save")
    for number in at:
        copy = trees.plant(trees.final(), place.parent / f"at-{number}")
        with writer(copy, faulty(calls)) as store:
            calls.begin(Fault(number, system_error(errno.EIO)))
            error = refusal(lambda s=store: save(s))  # type: ignore[misc]
            check(isinstance(error, StorageError), f"at {number}: {error!r}")
            check_equal(error.exit_code, 8, f"at {number}")
            check_equal(calls.synced_again, [], f"at {number}: synced again in the same save")
            found = latest(copy)
            check(found is not None and found.sequence in {30, 40}, f"at {number}: {found}")
            calls.begin()
            check(save(store).status in {"saved", "unchanged"}, f"at {number}: the retry")
        check_equal(trees.read(copy).says(), "sequence 40; check says 0", f"at {number}")


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_c06_06_pointer_that_cannot_be_renamed_is_never_written_in_place(
    place: Path, number: int
) -> None:
    """C6-06: told with "mount the directory"; the claim stands and the next opening completes it.

    Method: the rename of a save refused.
    """
    calls = Calls()
    with writer(trees.plant(trees.final(), place.parent / "dry"), faulty(calls)) as store:
        calls.begin()
        save(store)
        at = calls.made.index("rename")
    with writer(place, faulty(calls)) as store:
        pointer = (inside(place) / "manifest.json").read_bytes()
        inode = (inside(place) / "manifest.json").stat().st_ino
        calls.begin(Fault(at, system_error(number)))
        error = refusal(lambda: save(store))
        check(isinstance(error, DurabilityUnknownError), repr(error))
        check("Mount the directory" in str(error), str(error))
        check_equal((inside(place) / "manifest.json").read_bytes(), pointer, "the pointer")
        check_equal((inside(place) / "manifest.json").stat().st_ino, inode, "its inode")
        check_equal(temporaries(place), [], "temporaries")
    found = latest(place)
    check_equal(found.sequence if found else 0, 40, "the claim stands")
    writer(place).close()
    check_equal(trees.read(place).says(), "sequence 40; check says 0", "after the next opening")
    check_equal(temporaries(place), [], "temporaries after it")


@pytest.mark.needs_unshare
def test_c06_06_bind_mounted_pointer_is_told_and_settled_later(tmp_path: Path) -> None:
    """C6-06: the same with a real bind mount of the single file, as containers make it.

    Method: EBUSY of the kernel; after the mount is gone the same save is acknowledged.
    """
    in_mount_namespace(
        "true",
        """
        store = writer(place / "store")
        store.save(Checkpoint(1, {"n": 1}))
        pointer = inside(place / "store") / "manifest.json"
        held = pointer.read_bytes()
        subprocess.run(["mount", "--bind", str(pointer), str(pointer)], check=True)
        error = refusal(lambda: store.save(Checkpoint(2, {"n": 2})))
        check_equal((type(error), error.errno), (DurabilityUnknownError, errno.EBUSY), str(error))
        check("Mount the directory" in str(error), str(error))
        check_equal(pointer.read_bytes(), held, "the pointer was written in place")
        check_equal(temporaries(place), [], "temporaries")
        check_equal(latest(place / "store").sequence, 2, "what was claimed stands")
        subprocess.run(["umount", str(pointer)], check=True)
        status = store.save(Checkpoint(2, {"n": 2})).status
        check(status in {"saved", "unchanged"}, f"the same save: {status}")
        store.close()
        check_equal(trees.read(place / "store").reported, 0, "the chain")
        """,
        tmp_path,
    )
