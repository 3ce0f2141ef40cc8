"""The seam to the operating system: one method, one system call, no policy.

Every crash point of POSIX storage lies between two calls of this ``Protocol``, so a
harness that wraps it sees them all and can inject any error at any of them, and the
code above holds no failpoint. Nothing else in lastgood calls ``os`` for files.

Errors are ``OSError`` with the system's number. A call interrupted by a signal is
repeated by Python below the seam (PEP 475), so EINTR above it is an error as any other.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Protocol

from lastgood.errors import ConfigurationError

if sys.platform != "win32":
    import fcntl

Status = os.stat_result

SUPPORTED_PLATFORMS = ("linux", "darwin")

# A symlink, FIFO or device in place of a file neither leads elsewhere nor blocks (T7), and
# no descriptor outlives an exec (C5-04). Windows has none of these and is refused below.
_GUARDED: int = (
    getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
)
READ: int = os.O_RDONLY | _GUARDED
WRITE: int = os.O_WRONLY | _GUARDED
READ_WRITE: int = os.O_RDWR | _GUARDED
CREATE_NEW: int = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _GUARDED
READ_WRITE_OR_CREATE: int = os.O_RDWR | os.O_CREAT | _GUARDED
DIRECTORY: int = READ | getattr(os, "O_DIRECTORY", 0)

PRIVATE_FILE = 0o600
PRIVATE_DIRECTORY = 0o700

LOCK_EXCLUSIVE_NOW = 6
"""flock's LOCK_EX | LOCK_NB, the same numbers on every supported platform."""
UNLOCK = 8
"""flock's LOCK_UN. It unlocks the open file *description*, in every process that shares it."""


class FileSystem(Protocol):
    """What POSIX storage asks of the operating system."""

    def open(
        self, path: str, flags: int, *, mode: int = PRIVATE_FILE, dir_fd: int | None = None
    ) -> int:
        """System call openat."""
        ...

    def close(self, fd: int) -> None:
        """System call close. After an error, too, the descriptor is gone: never close it twice."""
        ...

    def read(self, fd: int, size_bytes: int) -> bytes:
        """System call read: at most ``size_bytes``; nothing at the end."""
        ...

    def pread(self, fd: int, size_bytes: int, offset: int) -> bytes:
        """System call pread."""
        ...

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        """System call writev: bytes written, perhaps fewer than given."""
        ...

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """System call pwrite: bytes written, perhaps fewer than given."""
        ...

    def fsync(self, fd: int) -> None:
        """System call fsync down to the medium (F_FULLFSYNC on macOS), of a file or a directory."""
        ...

    def fdatasync(self, fd: int) -> None:
        """System call fdatasync down to the medium."""
        ...

    def fstat(self, fd: int) -> Status:
        """System call fstat."""
        ...

    def stat(self, path: str, *, dir_fd: int | None = None) -> Status:
        """System call fstatat of the name itself, links are not followed."""
        ...

    def fchmod(self, fd: int, mode: int) -> None:
        """System call fchmod."""
        ...

    def ftruncate(self, fd: int, size_bytes: int) -> None:
        """System call ftruncate."""
        ...

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call linkat: fails where ``target`` exists; a symlink is linked, not followed."""
        ...

    def rename(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call renameat: replaces ``target``; does nothing where both are one inode."""
        ...

    def unlink(self, name: str, *, dir_fd: int) -> None:
        """System call unlinkat."""
        ...

    def mkdir(self, name: str, *, mode: int = PRIVATE_DIRECTORY, dir_fd: int) -> None:
        """System call mkdirat."""
        ...

    def listdir(self, fd: int) -> Iterator[tuple[str, int]]:
        """System call getdents: names with their inodes, from the beginning whoever shares ``fd``.

        Without ``.`` and ``..``, as a stream. Names that are not UTF-8 hold surrogate escapes.
        """
        ...

    def flock(self, fd: int, operation: int) -> None:
        """System call flock."""
        ...

    def geteuid(self) -> int:
        """System call geteuid."""
        ...

    def getpid(self) -> int:
        """System call getpid."""
        ...

    def realpath(self, path: str) -> str:
        """Return ``path`` absolute, links resolved, as far as it exists (many readlink(2))."""
        ...


class OsFileSystem:
    """The operating system itself.

    Raises:
        ConfigurationError: On a platform whose files lack what lastgood builds on.
    """

    def __init__(self, *, platform: str = sys.platform) -> None:
        if platform not in SUPPORTED_PLATFORMS:
            raise ConfigurationError(
                f"Stores in directories need Linux or macOS; this is {platform}, whose files have "
                "no create-only links, directory syncs and advisory locks of the kind needed",
                do="Run lastgood on Linux or macOS, or in a Linux container or WSL 2",
            )
        self._full_fsync: int | None = getattr(fcntl, "F_FULLFSYNC", None)

    def open(
        self, path: str, flags: int, *, mode: int = PRIVATE_FILE, dir_fd: int | None = None
    ) -> int:
        """System call openat."""
        return os.open(path, flags, mode, dir_fd=dir_fd)

    def close(self, fd: int) -> None:
        """System call close."""
        os.close(fd)

    def read(self, fd: int, size_bytes: int) -> bytes:
        """System call read."""
        return os.read(fd, size_bytes)

    def pread(self, fd: int, size_bytes: int, offset: int) -> bytes:
        """System call pread."""
        return os.pread(fd, size_bytes, offset)

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        """System call writev."""
        return os.writev(fd, buffers)

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """System call pwrite."""
        return os.pwrite(fd, data, offset)

    def fsync(self, fd: int) -> None:
        """System call fsync, or F_FULLFSYNC where fsync stops at the drive's cache."""
        if self._full_fsync is not None:
            try:
                fcntl.fcntl(fd, self._full_fsync)
            except OSError as error:
                # The file system does not know this call: nothing was tried, nothing failed.
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
            else:
                return
        os.fsync(fd)

    def fdatasync(self, fd: int) -> None:
        """System call fdatasync; macOS has none."""
        if self._full_fsync is None:
            os.fdatasync(fd)
        else:
            self.fsync(fd)

    def fstat(self, fd: int) -> Status:
        """System call fstat."""
        return os.fstat(fd)

    def stat(self, path: str, *, dir_fd: int | None = None) -> Status:
        """System call fstatat."""
        return os.stat(path, dir_fd=dir_fd, follow_symlinks=False)

    def fchmod(self, fd: int, mode: int) -> None:
        """System call fchmod."""
        os.fchmod(fd, mode)

    def ftruncate(self, fd: int, size_bytes: int) -> None:
        """System call ftruncate."""
        os.ftruncate(fd, size_bytes)

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call linkat."""
        os.link(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd, follow_symlinks=False)

    def rename(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call renameat."""
        os.rename(source, target, src_dir_fd=source_fd, dst_dir_fd=target_fd)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        """System call unlinkat."""
        os.unlink(name, dir_fd=dir_fd)

    def mkdir(self, name: str, *, mode: int = PRIVATE_DIRECTORY, dir_fd: int) -> None:
        """System call mkdirat."""
        os.mkdir(name, mode, dir_fd=dir_fd)

    def listdir(self, fd: int) -> Iterator[tuple[str, int]]:
        """System call getdents, on a descriptor of its own because position is shared."""
        own = os.open(".", DIRECTORY, dir_fd=fd)
        try:
            entries = os.scandir(own)
        finally:
            os.close(own)  # scandir reads a duplicate of it
        return _stream(entries)

    def flock(self, fd: int, operation: int) -> None:
        """System call flock."""
        fcntl.flock(fd, operation)

    def geteuid(self) -> int:
        """System call geteuid."""
        return os.geteuid()

    def getpid(self) -> int:
        """System call getpid."""
        return os.getpid()

    def realpath(self, path: str) -> str:
        """Resolve ``path``."""
        return os.path.realpath(path)


def _stream(entries: os._ScandirIterator[str]) -> Iterator[tuple[str, int]]:
    with contextlib.closing(entries):
        for entry in entries:
            yield entry.name, entry.inode()
