"""Publication: a name appears once, whole and durable, or not at all (S4, P2, P3).

    1  open    a temporary of random name, exclusively, for its owner alone
    2  write   all of it; a short write goes on, one of nothing is an error
    3  fsync   the file
    4  close   whose error counts
    5  link    to the name, which must not exist: from here on it is published
    6  unlink  the temporary
    7  fsync   the directory

An error of steps 1 to 4 is definite: the temporary is removed, nothing has changed. An
error of step 5 is resolved by a read: a name that holds other bytes or none is a definite
refusal, one that holds ours, or cannot be read, is an unknown outcome. If the temporary is
gone, a newer owner has swept it: this one is fenced (F13). An error of steps 6 and 7 is an
unknown outcome. Nothing is fsynced again after an error: the second fsync of
an inode reports what the first has hidden (C6-04). What a kill leaves behind is a
temporary, which only the owner sweeps.

Who needs the published file afterwards opens it between steps 4 and 5 (``hold``): an error
of that open still is definite, and the descriptor is on the very file that gets the name.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Sequence
from functools import partial

from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    NotStoredError,
    StorageError,
    printable,
)
from lastgood.formats import names
from lastgood.storage.directory import Directory, component, make_private, unknown
from lastgood.storage.filesystem import CREATE_NEW, WRITE, FileSystem, Status

_BUFFERS_A_CALL = 1024
"""IOV_MAX of the supported systems."""

_NO_HARD_LINKS = {
    errno.EPERM,
    errno.EMLINK,
    errno.ENOSYS,
    errno.EXDEV,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
}

_HARD_LINKS = "Put the store on a file system with hard links, which this one does not offer"


def create(directory: Directory, name: str, data: Sequence[bytes], *, random: bytes) -> None:
    """Create ``name`` with the concatenation of ``data``, exclusively and durably.

    Args:
        directory: Where.
        name: One component.
        data: The bytes.
        random: 8 bytes for the temporary's name.

    Raises:
        ConflictError: The name exists and holds other bytes; nothing was changed.
        FencedError: Another owner removed the temporary; nothing was changed.
        DurabilityUnknownError: The name holds these bytes, or that cannot be known.
        StorageError: Nothing was changed, no temporary is left.
    """
    component(name)
    temporary = prepare(directory, name, data, random=random)
    try:
        link_new(directory, temporary, name, data)
        _make_durable(directory, temporary, name)
    except BaseException:
        discard(directory, temporary)
        raise


def create_open(directory: Directory, name: str, data: Sequence[bytes], *, random: bytes) -> int:
    """Create ``name`` as ``create`` does, and return a descriptor that writes into it.

    Whose file stands under the name is told by its inode and not by its bytes: reserved
    zeros look like everybody's.

    Args:
        directory: Where.
        name: One component.
        data: The bytes.
        random: 8 bytes for the temporary's name.

    Raises:
        ConflictError: The name exists; nothing was changed.
        FencedError: Another owner removed the temporary; nothing was changed.
        DurabilityUnknownError: The name leads to what was made, or that cannot be known.
        StorageError: Nothing was changed, no temporary is left.
    """
    component(name)
    temporary = prepare(directory, name, data, random=random)
    fd: int | None = None
    try:
        fd, status = hold(directory, temporary, flags=WRITE)
        _link(directory, temporary, name, is_ours=partial(directory.leads_to, name, status))
        _make_durable(directory, temporary, name)
        with unknown(f"Looking at {printable(name)}"):
            if not directory.leads_to(name, status):
                raise DamagedError("another file was put in its place", name=name)
    except BaseException:
        if fd is not None:
            directory.give_back(fd)
        discard(directory, temporary)
        raise
    return fd


def prepare(directory: Directory, name: str, data: Sequence[bytes], *, random: bytes) -> str:
    """Steps 1 to 4: write a temporary, whole and on the medium, and return its name.

    Raises:
        StorageError: Nothing was changed, no temporary is left.
    """
    filesystem = directory.filesystem
    temporary = names.temporary(name, random)
    fd: int | None = None
    try:
        fd = filesystem.open(temporary, CREATE_NEW, dir_fd=directory.fd)
        make_private(filesystem, fd)
        write_all(filesystem, fd, data)
        filesystem.fsync(fd)
        closing, fd = fd, None  # even when close fails the descriptor is gone
        filesystem.close(closing)
    except BaseException as error:  # an interrupt, too, leaves nothing behind
        if fd is not None:
            directory.give_back(fd)
        if not isinstance(error, FileExistsError):  # that one would be somebody else's
            discard(directory, temporary)
        if isinstance(error, OSError):
            raise StorageError(f"Writing {printable(name)}", errno=error.errno or 0) from error
        raise
    return temporary


def hold(directory: Directory, temporary: str, *, flags: int) -> tuple[int, Status]:
    """Open what was prepared before it is published; returns descriptor and status.

    Raises:
        FencedError: ``temporary`` is gone: another owner, who swept it, has the session.
        DamagedError: It is not the private file of ours with one name that was prepared.
        StorageError: It cannot be opened.
    """
    try:
        fd, status = directory.open_file(temporary, flags=flags)
    except NotStoredError as error:
        raise FencedError(
            f"Another owner removed {printable(temporary)} before it was published"
        ) from error
    if status.st_nlink == 0:
        directory.give_back(fd)
        raise FencedError(f"Another owner removed {printable(temporary)} while it was opened")
    if status.st_nlink != 1:
        directory.give_back(fd)
        raise DamagedError(f"it has {status.st_nlink} links before its first", name=temporary)
    return fd, status


def link_new(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
    """Step 5: publish ``temporary`` as ``name``, which must not exist.

    Raises:
        ConflictError: It exists and holds other bytes than ``data``.
        FencedError: ``temporary`` is gone: another owner, who swept it, has the session.
        DurabilityUnknownError: It holds ``data`` in spite of an error, or cannot be read.
        StorageError: It was not published.
    """
    _link(directory, temporary, name, is_ours=partial(directory.holds, name, data))


def replace(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
    """Publish ``temporary`` in the place of what ``name`` holds, durably.

    Raises:
        FencedError: ``temporary`` is gone: another owner, who swept it, has the session.
        DurabilityUnknownError: ``name`` holds ``data``, or that cannot be known.
        StorageError: It was not published.
    """
    try:
        directory.filesystem.rename(temporary, name, source_fd=directory.fd, target_fd=directory.fd)
    except OSError as error:
        is_ours = partial(directory.holds, name, data)
        raise _resolved(name, error, is_ours=is_ours, advice=None) from error
    with unknown(f"Making {printable(name)} durable"):
        directory.sync()


def discard(directory: Directory, temporary: str) -> None:
    """Remove a temporary if that is possible; what remains is swept by the next owner."""
    with contextlib.suppress(OSError):
        directory.filesystem.unlink(temporary, dir_fd=directory.fd)


def write_all(filesystem: FileSystem, fd: int, data: Sequence[bytes]) -> None:
    """Write all of ``data`` at the descriptor's position.

    Raises:
        OSError: Not all of it was written.
    """
    pending = [memoryview(piece) for piece in data if piece]
    while pending:
        written = filesystem.writev(fd, pending[:_BUFFERS_A_CALL])
        if written <= 0:
            raise OSError(errno.EIO, "a write wrote nothing")
        while pending and written >= len(pending[0]):
            written -= len(pending.pop(0))
        if written:
            pending[0] = pending[0][written:]


def write_at(filesystem: FileSystem, fd: int, data: bytes, *, offset: int) -> None:
    """Write all of ``data`` from ``offset`` on.

    Raises:
        OSError: Not all of it was written.
    """
    pending = memoryview(data)
    while pending:
        written = filesystem.pwrite(fd, pending, offset)
        if written <= 0:
            raise OSError(errno.EIO, "a write wrote nothing")
        pending, offset = pending[written:], offset + written


def _link(directory: Directory, temporary: str, name: str, *, is_ours: Callable[[], bool]) -> None:
    try:
        directory.filesystem.link(temporary, name, source_fd=directory.fd, target_fd=directory.fd)
    except OSError as error:
        advice = _HARD_LINKS if error.errno in _NO_HARD_LINKS else None
        raise _resolved(name, error, is_ours=is_ours, advice=advice) from error


def _make_durable(directory: Directory, temporary: str, name: str) -> None:
    """Steps 6 and 7."""
    with unknown(f"Making {printable(name)} durable"):
        # Crash here: two names of one file; the owner's next opening sweeps one.
        directory.filesystem.unlink(temporary, dir_fd=directory.fd)
        # Crash here: published, and perhaps not yet durable; R1 makes it so.
        directory.sync()


def _resolved(
    name: str, error: OSError, *, is_ours: Callable[[], bool], advice: str | None
) -> LastgoodError:
    """What an error of a link or a rename means, by what the name leads to now."""
    number = error.errno or 0
    doing = f"Publishing {printable(name)}"
    try:
        ours = is_ours()
    except OSError:
        return DurabilityUnknownError(doing, errno=number)
    if ours:
        return DurabilityUnknownError(doing, errno=number)
    if number == errno.EEXIST:
        return ConflictError(f"{printable(name)} exists already, with other content")
    if number == errno.ENOENT:
        return FencedError(f"Another owner removed {printable(name)} before it was published")
    return StorageError(doing, errno=number, do=advice)
