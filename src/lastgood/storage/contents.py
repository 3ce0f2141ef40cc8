"""Contents of files that somebody else may have put there, read within bounds (P7, T7, T8).

The size is judged before a byte is read and again while reading. A file may have as many
links as it has names in its own session's directory: ``manifest.json`` and its numbered
twin are one inode, a kill may leave a temporary beside a published name, and an
interrupted move a twin in the archive. A link more leads out of the directory.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Final

from lastgood.errors import DamagedError, NotStoredError, printable
from lastgood.formats import names
from lastgood.storage.directory import CHUNK_BYTES, Directory, reported
from lastgood.storage.filesystem import FileSystem, Status

_COUNTINGS = 5
"""Times to count: a writer may unlink between ``fstat`` and the listing."""


OVER_LIMIT: Final = (
    "If the store's program raised a limit, raise it here, too (Limits, --raise-limit); else look "
    "at every finding with: lastgood verify SESSION"
)


def read(directory: Directory, name: str, *, max_bytes: int, siblings: Directory) -> bytes:
    """Return all bytes of ``name``.

    Args:
        directory: Where the file lies.
        name: One component.
        max_bytes: The most to hold in memory.
        siblings: The session's directory, in which (and in whose archive) links are counted.

    Raises:
        NotStoredError: There is no such name.
        DamagedError: Not a private regular file of ours, linked elsewhere, or too large.
        StorageError: It cannot be read.
    """
    return b"".join(
        _chunks(directory, name, max_bytes=max_bytes, siblings=siblings, chunk_bytes=max_bytes + 1)
    )


def stream(
    directory: Directory, name: str, *, max_bytes: int, siblings: Directory
) -> Generator[bytes, None, None]:
    """Yield the bytes of ``name`` in chunks of 256 KiB, the last one less; else as ``read``."""
    return _chunks(directory, name, max_bytes=max_bytes, siblings=siblings, chunk_bytes=CHUNK_BYTES)


def _chunks(
    directory: Directory, name: str, *, max_bytes: int, siblings: Directory, chunk_bytes: int
) -> Generator[bytes, None, None]:
    fd, status = directory.open_file(name)
    try:
        check_links(directory, name, fd, status, siblings=siblings)
        _check_size(name, status.st_size, max_bytes)
        seen_bytes = 0
        # One byte more than the file has, so that the end is seen without a second buffer.
        size_bytes = min(chunk_bytes, status.st_size + 1)
        while True:
            with reported(f"Reading {printable(name)}"):
                chunk = _fill(directory.filesystem, fd, size_bytes)
            seen_bytes += len(chunk)
            _check_size(name, seen_bytes, max_bytes)  # it may have grown meanwhile
            if chunk:
                yield chunk
            if len(chunk) < size_bytes:
                return
    finally:
        directory.give_back(fd)


def _fill(filesystem: FileSystem, fd: int, size_bytes: int) -> bytes:
    """Read ``size_bytes``, or fewer at the end only."""
    pieces = [filesystem.read(fd, size_bytes)]
    missing = size_bytes - len(pieces[0])
    while pieces[-1] and missing:
        pieces.append(filesystem.read(fd, missing))
        missing -= len(pieces[-1])
    return b"".join(filter(None, pieces))  # of a single piece it makes no copy


def _check_size(name: str, size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise DamagedError(
            f"it has {size_bytes} bytes, more than the {max_bytes} that such a file may have",
            do=OVER_LIMIT,
            name=name,
        )


def check_links(
    directory: Directory, name: str, fd: int, status: Status, *, siblings: Directory
) -> None:
    """Return if every link of an open file is a name beside it.

    Raises:
        DamagedError: The file has names elsewhere, five times in a row.
        StorageError, LimitError: The names cannot be counted.
    """
    links, found = status.st_nlink, 1
    for _ in range(_COUNTINGS):
        if links <= found:
            return
        with reported(f"Counting the names of {printable(name)}"):
            found = _count(siblings, status)
            links = directory.filesystem.fstat(fd).st_nlink
    if links > found:
        raise DamagedError(
            f"it has {links} links, but {found} names in this directory: it was linked to or "
            "from elsewhere",
            name=name,
        )


def _count(siblings: Directory, status: Status) -> int:
    """Count the names of one inode in a session's directory and its archive."""
    by_listing = 0
    for _, _, inode in _names(siblings):
        by_listing += inode == status.st_ino
        if by_listing >= status.st_nlink:
            return by_listing  # mostly before the archive, however large that is
    # The listing of a layered file system may tell other numbers than stat does.
    return sum(_is(place, name, status) for place, name, _ in _names(siblings))


def _is(place: Directory, name: str, status: Status) -> bool:
    try:
        found = place.filesystem.stat(name, dir_fd=place.fd)
    except FileNotFoundError:
        return False  # unlinked since it was listed
    return (found.st_dev, found.st_ino) == (status.st_dev, status.st_ino)


def _names(siblings: Directory) -> Iterator[tuple[Directory, str, int]]:
    for name, inode in siblings.entries():
        yield siblings, name, inode
    archive = open_archive(siblings) if siblings.role == "session" else None
    if archive is not None:
        try:
            for name, inode in archive.entries():
                yield archive, name, inode
        finally:
            archive.close()


def has_at(filesystem: FileSystem, fd: int, data: bytes, *, offset: int) -> bool:
    """Whether the bytes of an open file from ``offset`` on begin with ``data``.

    Raises:
        OSError: That cannot be known.
    """
    expected = memoryview(data)
    while expected:
        chunk = filesystem.pread(fd, min(len(expected), CHUNK_BYTES), offset)
        if not chunk or expected[: len(chunk)] != chunk:
            return False
        expected, offset = expected[len(chunk) :], offset + len(chunk)
    return True


def open_archive(directory: Directory) -> Directory | None:
    """Open the archive of a session, or return None where there is none.

    Raises:
        DamagedError: It is not a private directory of the session's owner.
        StorageError: It cannot be opened.
    """
    try:
        return directory.subdirectory(names.ARCHIVE)
    except NotStoredError:
        return None
