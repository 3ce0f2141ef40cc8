"""The session lock: it excludes, dies with the process, survives forks, and is never guessed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lastgood.errors import DamagedError, FencedError, LastgoodError, LockedError, StorageError
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.lock import HOLDER_BYTES
from lastgood.storage.posix import PosixStorage
from tests.storage.lock_holders import holder, is_locked
from tests.storage.places import SESSION, open_session
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, faulty, system_error


@pytest.fixture
def session(tmp_path: Path) -> Iterator[PosixStorage]:
    """A session whose lock this process holds."""
    held = open_session(tmp_path)
    held.acquire(timeout_s=0)
    yield held
    held.close()


def test_another_process_is_told_who_holds_the_session(tmp_path: Path) -> None:
    """R1: the error carries what the holder wrote, and nothing was changed."""
    with holder(tmp_path):
        contender = open_session(tmp_path)
        with pytest.raises(LockedError) as raised:
            contender.acquire(timeout_s=0.05)
        check_equal(raised.value.holder, "the other process", "the holder")
        contender.close()


def test_threads_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    """R1: two handles of one process never both hold the session.

    Method: eight threads take and give back the lock; each looks whether it is alone.
    """
    inside: list[int] = []
    crowds: list[list[int]] = []

    def work(number: int) -> None:
        mine = open_session(tmp_path)
        for _ in range(10):
            mine.acquire(timeout_s=30)
            inside.append(number)
            crowds.append(list(inside))
            inside.remove(number)
            mine.release()
        mine.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_equal(len(crowds), 80, "turns")
    check(all(len(crowd) == 1 for crowd in crowds), f"together inside: {crowds}")


def _symlink(lock: Path, outside: Path) -> None:
    lock.symlink_to(outside)


def _dangling(lock: Path, outside: Path) -> None:
    lock.symlink_to(outside.with_name("nothing"))


def _fifo(lock: Path, outside: Path) -> None:
    os.mkfifo(lock, 0o600)


def _directory(lock: Path, outside: Path) -> None:
    lock.mkdir(0o700)


def _hard_link(lock: Path, outside: Path) -> None:
    os.link(outside, lock)


def _readable_by_all(lock: Path, outside: Path) -> None:
    lock.touch(0o600)
    lock.chmod(0o644)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "plant", [_symlink, _dangling, _fifo, _directory, _hard_link, _readable_by_all]
)
def test_a_lock_that_is_not_a_plain_file_stops(
    tmp_path: Path, plant: Callable[[Path, Path], None]
) -> None:
    """T7: nothing outside is locked, read, written or made; nothing hangs on a FIFO."""
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    outside.chmod(0o600)
    session = open_session(tmp_path / "store")
    plant(tmp_path / "store" / SESSION / "lock", outside)
    with pytest.raises(DamagedError):
        session.acquire(timeout_s=0)
    check_equal(outside.read_bytes(), b"precious", "the file outside")
    check(not outside.with_name("nothing").exists(), "a file was made outside")
    session.close()


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"{", b"\xff\x1b[2J\n" * 99, b'{"pid":1,"host":"here"}']
)
def test_the_content_of_the_lock_is_never_believed(tmp_path: Path, content: bytes) -> None:
    """R1: garbage, zeros or a living process id in the file neither lock nor unlock anything."""
    session = open_session(tmp_path)
    lock = tmp_path / SESSION / "lock"
    lock.write_bytes(content)
    lock.chmod(0o600)
    session.acquire(timeout_s=0)
    check_equal(lock.read_bytes(), content, "taking the lock changed it")
    contender = open_session(tmp_path)
    with pytest.raises(LockedError) as raised:
        contender.acquire(timeout_s=0)
    shown = str(raised.value)
    check("\x1b" not in shown and "\n" not in shown, f"unescaped: {shown!r}")
    check(len(raised.value.holder) <= HOLDER_BYTES, "the holder's text is not bounded")
    contender.close()
    session.close()


def test_the_holders_text_is_one_sector_and_hides_an_older_one(
    tmp_path: Path, session: PosixStorage
) -> None:
    """T8, T12: the note has a fixed width, whatever is noted, and the file is never truncated."""
    lock = tmp_path / SESSION / "lock"
    for text in ("long " * 1_000, "\u202e\ud800", "short"):
        session.note_holder(text)
        check_equal(lock.stat().st_size, HOLDER_BYTES, "size of the lock file")
    check_equal(lock.read_bytes().strip(), b"short", "content of the lock file")


def test_a_deleted_lock_file_does_not_make_two_holders(
    tmp_path: Path, session: PosixStorage
) -> None:
    """backends 4: the second lock, on the directory, excludes; the holder is told."""
    lock = tmp_path / SESSION / "lock"
    for replacement in (None, b""):
        lock.unlink()
        if replacement is not None:
            lock.write_bytes(replacement)
            lock.chmod(0o600)
        check(is_locked(tmp_path), "a second holder beside the first")
        with pytest.raises(FencedError, match="deleted or replaced"):
            session.confirm_held()


def test_a_lock_file_replaced_before_it_is_locked_is_taken_anew(tmp_path: Path) -> None:
    """backends 4: a lock on a file that has lost its name excludes nobody; the new one is taken.

    Method: replace the lock file between its open and its flock.
    """
    lock = tmp_path / SESSION / "lock"
    replaced: list[int] = []

    class Replacing(OsFileSystem):
        def flock(self, fd: int, operation: int) -> None:
            if not replaced:
                replaced.append(lock.stat().st_ino)
                lock.rename(lock.with_name("old"))  # kept, so that the number is not used again
                lock.touch(0o600)
            super().flock(fd, operation)

    session = open_session(tmp_path, filesystem=Replacing())
    session.acquire(timeout_s=5)
    check(lock.stat().st_ino != replaced[0], "the lock file was not replaced")
    session.confirm_held()
    check(is_locked(tmp_path), "the new lock file is free")
    session.close()


def test_a_moved_directory_fences_its_holder(tmp_path: Path) -> None:
    """T7: the name must still lead to the directory that is held, from the root down."""
    for moved in (Path("store") / SESSION, Path("store")):
        place = tmp_path / str(len(moved.parts))
        session = open_session(place / "store")
        session.acquire(timeout_s=0)
        session.confirm_held()
        (place / moved).rename(place / "elsewhere")
        with pytest.raises(FencedError, match="moved or replaced"):
            session.confirm_held()
        (place / moved).mkdir(0o700)
        with pytest.raises(FencedError, match="moved or replaced"):
            session.confirm_held()
        session.close()


@pytest.mark.parametrize(
    "number", [errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EDEADLK, errno.EIO]
)
def test_where_locks_do_not_work_nothing_goes_on(tmp_path: Path, number: int) -> None:
    """C5-06: the error names the errno and what to do, and nothing is held.

    Method: each of the two flock calls fails.
    """
    clean = Calls()
    session = open_session(tmp_path, filesystem=faulty(clean))
    clean.begin()
    session.acquire(timeout_s=0)
    flocks = [at for at, name in enumerate(clean.made) if name == "flock"]
    session.close()
    check_equal(len(flocks), 2, "locks taken")
    for at in flocks:
        calls = Calls()
        session = open_session(tmp_path, filesystem=faulty(calls))
        calls.begin(Fault(at, system_error(number), repeats="for ever"))
        with pytest.raises(StorageError) as raised:
            session.acquire(timeout_s=5)
        check_equal(raised.value.errno, number, "the errno told")
        check("never goes on without a lock" in str(raised.value), str(raised.value))
        with pytest.raises(FencedError):
            session.confirm_held()
        check(not is_locked(tmp_path), "a failed attempt holds half a lock")
        session.close()


def test_an_interrupted_lock_is_tried_again(tmp_path: Path) -> None:
    """C5-06: EINTR is no answer; the wait goes on to its end."""
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    calls.begin(Fault(3, system_error(errno.EINTR)))
    session.acquire(timeout_s=5)
    check_equal(calls.failed, ["flock"], "the call that was interrupted")
    session.confirm_held()
    session.close()


def test_every_failing_call_of_the_lock_is_a_typed_error(tmp_path: Path) -> None:
    """R1: whatever fails, the lock is held whole or not at all, and can be taken later.

    Method: every call of an acquire fails once, not executed and executed.
    """
    for at in range(12):
        for when in ("instead", "after"):
            calls = Calls()
            session = open_session(tmp_path, filesystem=faulty(calls))
            calls.begin(
                Fault(at, system_error(errno.EIO), when="after" if when == "after" else "instead")
            )
            try:
                session.acquire(timeout_s=0)
            except LastgoodError:
                calls.begin()
                session.acquire(timeout_s=1)
            calls.begin()
            session.confirm_held()
            session.close()
            check(not is_locked(tmp_path), f"call {at} {when}: the lock stayed")
