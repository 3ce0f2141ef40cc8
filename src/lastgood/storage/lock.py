"""The lock of a session: flock on the lock file *and* on the session's directory (R1).

It dies with the process, however that dies; nothing is ever stale, and no process id is
ever believed. Whoever deletes or replaces the lock file meets the second lock, on the
directory itself. The file is never truncated and never unlinked: an unlinked lock has two
holders. What is written in it is information for people.

A forked child shares the parent's locks, because flock belongs to the open file
*description*: it closes its copies as its first act and never unlocks, else the parent
would lose them unseen (C5-02), and a child that outlives the parent does not keep them
(C5-04). Should a fork bypass that hook, the child still cannot use the handle.

Correctness does not stand on this lock: with it broken, revisions are still claimed by
one writer each (S6).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import platform
import weakref

from lastgood.clock import Clock
from lastgood.errors import DamagedError, FencedError, LockedError, StorageError, printable
from lastgood.formats import names
from lastgood.storage.directory import Directory, make_private, reported
from lastgood.storage.filesystem import (
    DIRECTORY,
    LOCK_EXCLUSIVE_NOW,
    READ_WRITE_OR_CREATE,
    UNLOCK,
)
from lastgood.storage.publish import write_at

HOLDER_BYTES = 512
"""The holder's text is padded to this, one sector, so that a shorter one hides no longer one."""

_FIRST_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.05
_BUSY = {errno.EAGAIN, errno.EWOULDBLOCK, errno.EINTR}

_ADVICE = (
    "Put the store on a local file system whose locks work (an NFS mount needs a lock daemon); "
    "lastgood never goes on without a lock"
)


class SessionLock:
    """One handle's hold on a session, or the lack of it.

    Args:
        directory: The session's directory; it outlives this object.
        clock: Measures the wait.
    """

    def __init__(self, directory: Directory, *, clock: Clock) -> None:
        self._directory = directory
        self._filesystem = directory.filesystem
        self._clock = clock
        self._fds: list[int] = []  # the lock file's, then the directory's
        self._pid = self._filesystem.getpid()
        _known.add(self)

    def acquire(self, *, timeout_s: float) -> None:
        """Take both locks, trying until ``timeout_s`` has passed; at least once.

        Raises:
            LockedError: Somebody else held them to the end, perhaps in this very process.
            DamagedError: The lock file is not a private regular file with one name.
            StorageError: Locks do not work here. There is no going on without.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        pause_s = _FIRST_PAUSE_S
        while not self._attempt():
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                holder = self._holder()
                raise LockedError(f"The session is held by {told(holder)}", holder=holder)
            self._clock.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def release(self) -> None:
        """Give the locks back; idempotent, never raises."""
        fds, self._fds = self._fds, []
        own = self._filesystem.getpid() == self._pid
        with contextlib.ExitStack() as given_back:  # whatever a signal handler raises in between
            for fd in fds:
                given_back.callback(self._directory.give_back, fd)
            for fd in reversed(fds):
                with contextlib.suppress(OSError):
                    if own:  # at once, also where a child is between its fork and its exec
                        self._filesystem.flock(fd, UNLOCK)

    def note_holder(self, text: str) -> None:
        """Write who holds the lock, for people; errors are ignored."""
        line = text.encode("utf-8", "backslashreplace")[: HOLDER_BYTES - 1]
        if self._fds:
            with contextlib.suppress(OSError):
                padded = line.ljust(HOLDER_BYTES - 1) + b"\n"
                write_at(self._filesystem, self._fds[0], padded, offset=0)

    def confirm(self) -> None:
        """Return only if this process holds the lock, and the lock file is still the name's.

        Raises:
            FencedError: It does not, or this is a forked child, or the file was replaced.
            StorageError: That cannot be known.
        """
        if self._filesystem.getpid() != self._pid:
            raise FencedError("This is a forked child; the session belongs to its parent")
        if not self._fds:
            raise FencedError("This handle does not hold the session's lock")
        with reported("Looking at the session's lock"):
            same = self._is_named(self._fds[0])
        if not same:
            raise FencedError("The session's lock file was deleted or replaced")

    def disown(self) -> None:
        """Forget the locks without unlocking: they are the parent's, this is its child."""
        fds, self._fds = self._fds, []
        for fd in fds:
            self._directory.give_back(fd)

    def _attempt(self) -> bool:
        """Try once, without waiting; nothing is held unless all is."""
        try:
            with reported("Locking the session", do=_ADVICE):
                held = self._lock_file() and self._lock_directory()
        except BaseException:
            self.release()
            raise
        if not held:
            self.release()
        return held

    def _lock_file(self) -> bool:
        fd, status = self._directory.open_file(names.LOCK, flags=READ_WRITE_OR_CREATE)
        self._fds.append(fd)
        if status.st_nlink > 1:
            raise DamagedError(
                f"it has {status.st_nlink} links, a lock has one name only", name=names.LOCK
            )
        make_private(self._filesystem, fd)
        # The name is compared after locking: a lock on a file that was unlinked or replaced
        # meanwhile excludes nobody.
        return self._flock(fd) and self._is_named(fd)

    def _lock_directory(self) -> bool:
        fd = self._filesystem.open(".", DIRECTORY, dir_fd=self._directory.fd)
        self._fds.append(fd)
        return self._flock(fd)

    def _flock(self, fd: int) -> bool:
        try:
            self._filesystem.flock(fd, LOCK_EXCLUSIVE_NOW)
        except OSError as error:
            if error.errno in _BUSY:
                return False
            raise
        return True

    def _is_named(self, fd: int) -> bool:
        held = self._filesystem.fstat(fd)
        try:
            named = self._filesystem.stat(names.LOCK, dir_fd=self._directory.fd)
        except FileNotFoundError:
            return False
        return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)

    def _holder(self) -> str:
        """What the lock file says, escaped and bounded."""
        try:
            fd, _ = self._directory.open_file(names.LOCK)
        except (DamagedError, StorageError):
            return "unknown"
        try:
            data = self._filesystem.pread(fd, HOLDER_BYTES, 0)
        except OSError:
            return "unknown"
        finally:
            self._directory.give_back(fd)
        return printable(data.decode("utf-8", "replace").strip(" \n\0")) or "unknown"


def told(holder: str) -> str:
    """What the lock file says, for people; it is not believed, only shown."""
    try:
        said = json.loads(holder)
        pid, host, epoch, since = (printable(said[k]) for k in ("pid", "host", "epoch", "since"))
    except (ValueError, TypeError, KeyError):
        return f"another: {holder}"
    is_own = (pid, host) == (str(os.getpid()), printable(platform.node()[:64]))
    own = ", which is this very process," if is_own else ""
    return f"process {pid}{own} on host {host}, epoch {epoch}, since {since}"


_known: weakref.WeakSet[SessionLock] = weakref.WeakSet()


def _disown_all() -> None:
    for lock in list(_known):
        lock.disown()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_disown_all)
