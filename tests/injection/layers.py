"""Layers between a job and the system, each with one thing that is wrong about an error."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from contextlib import suppress

from lastgood.errors import BusyError, LockedError
from tests.injection.planted import Layer


class FsyncRetried(Layer):
    """F5: the second sync reports success."""

    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except OSError:
            self.inner.fsync(fd)


class FsyncSwallowed(Layer):
    """F5: nobody is told."""

    def fsync(self, fd: int) -> None:
        with suppress(OSError):
            self.inner.fsync(fd)


class FdatasyncSwallowed(Layer):
    """F5, of the log."""

    def fdatasync(self, fd: int) -> None:
        with suppress(OSError):
            self.inner.fdatasync(fd)


class CloseIgnored(Layer):
    """F9: nobody is told."""

    def close(self, fd: int) -> None:
        with suppress(OSError):
            self.inner.close(fd)


class ShortWriteIgnored(Layer):
    """F8: the rest is not written."""

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        self.inner.writev(fd, buffers)
        return sum(len(buffer) for buffer in buffers)


class ShortAppendIgnored(Layer):
    """F8, of the log."""

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        self.inner.pwrite(fd, data, offset)
        return len(data)


class LastSyncForgotten(Layer):
    """An act is acknowledged before the fsync behind the pointer's rename."""

    is_renamed = False

    def rename(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        self.inner.rename(source, target, source_fd=source_fd, target_fd=target_fd)
        self.is_renamed = True

    def fsync(self, fd: int) -> None:
        if not self.is_renamed:
            self.inner.fsync(fd)
        self.is_renamed = False


class Untyped(Layer):
    """An error that is no error of lastgood's."""

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        try:
            self.inner.link(source, target, source_fd=source_fd, target_fd=target_fd)
        except OSError as error:
            raise KeyError(target) from error


class ToldAsDamage(Layer):
    """A call that fails is taken for a link in the place of a file."""

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        try:
            return self.inner.open(path, flags, mode=mode, dir_fd=dir_fd)
        except OSError as error:
            if error.errno == errno.EIO:
                raise OSError(errno.ELOOP, "a link") from error
            raise


class ToldAsFenced(Layer):
    """A name that cannot be linked is said to have been swept by another owner."""

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        try:
            self.inner.link(source, target, source_fd=source_fd, target_fd=target_fd)
        except OSError as error:
            raise OSError(errno.ENOENT, "swept") from error


class TriedForEver(Layer):
    """A call that fails is made again, and again."""

    def listdir(self, fd: int) -> object:
        while True:
            with suppress(OSError):
                return self.inner.listdir(fd)


class Leaking(Layer):
    """Behind an error of a sync, nothing is closed any more."""

    has_failed = False

    def fsync(self, fd: int) -> None:
        try:
            self.inner.fsync(fd)
        except OSError:
            self.has_failed = True
            raise

    def close(self, fd: int) -> None:
        if not self.has_failed:
            self.inner.close(fd)


class ToldAsLocked(Layer):
    """A lock that cannot be taken is taken for somebody else's."""

    def flock(self, fd: int, operation: int) -> None:
        try:
            self.inner.flock(fd, operation)
        except OSError as error:
            raise OSError(errno.EAGAIN, "held") from error


class LockedAtOnce(Layer):
    """The same, and it is not waited for."""

    def flock(self, fd: int, operation: int) -> None:
        try:
            self.inner.flock(fd, operation)
        except OSError as error:
            raise LockedError("Somebody holds it") from error


class ToldAsBusy(Layer):
    """A name that cannot be linked is taken for a writer at work."""

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        try:
            self.inner.link(source, target, source_fd=source_fd, target_fd=target_fd)
        except OSError as error:
            raise BusyError("A writer kept moving it") from error
