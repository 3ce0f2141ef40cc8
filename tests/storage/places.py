"""What the tests of POSIX storage share: a session to damage, and pictures of it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lastgood.storage.filesystem import FileSystem
from lastgood.storage.interface import Access
from lastgood.storage.posix import PosixRoot, PosixStorage
from tests.support.check import check

SESSION = "0123456789abcdef0123456789abcdef01234567"
MAX_BYTES = 1 << 20

ERRORS = [
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EMFILE, errno.EPERM,
    errno.EMLINK, errno.ENOSYS, errno.EBUSY, errno.EXDEV,
]  # fmt: skip


def open_session(
    place: Path, *, filesystem: FileSystem | None = None, access: Access = "write"
) -> PosixStorage:
    """The session in the store at ``place``."""
    root = PosixRoot(place, filesystem=filesystem)
    try:
        session = root.session(SESSION, access=access)
    finally:
        root.close()
    if not isinstance(session, PosixStorage):
        raise TypeError("not the storage under test")
    return session


def picture(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every name below ``directory`` with its inode and bytes; links are not followed."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        data = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        found[str(path.relative_to(directory))] = (status.st_ino, data)
    return found


def temporaries(directory: Path) -> list[str]:
    """Unpublished names below ``directory``."""
    return [path.name for path in directory.rglob(".*.tmp")]


def descriptors() -> set[str]:
    """The descriptors of this process that are open now."""
    listed = Path("/proc/self/fd")
    return {entry.name for entry in listed.iterdir() if entry.is_symlink()}


@contextmanager
def none_leaked(message: str) -> Iterator[None]:
    """Fail if the block leaves a descriptor open."""
    before = descriptors()
    yield
    left = [os.readlink(f"/proc/self/fd/{fd}") for fd in descriptors() - before]
    check(not left, f"{message}: left open {left}")


def in_child(work: Callable[[], object]) -> str:
    """What a forked child says of ``work``: ``returned``, or the error it raises."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            work()
            os.write(writing, b"returned")
        except BaseException as error:  # noqa: BLE001 - the child must never come back into pytest
            os.write(writing, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said
