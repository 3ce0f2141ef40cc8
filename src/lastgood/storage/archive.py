"""Moving records out of a session's way, without losing or overwriting any.

Nothing is ever in neither place: a record is durable in ``archive/`` before it leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lastgood.errors import ConflictError, NotStoredError, printable
from lastgood.formats import names
from lastgood.storage.directory import Directory, component, reported, unknown
from lastgood.storage.filesystem import Status
from lastgood.storage.reading import open_archive


def keep(directory: Directory, name: str) -> None:
    """Move ``name`` to ``archive/name``, create-only.

    Raises:
        NotStoredError: It is in neither place.
        ConflictError: The archive holds another record of this name; nothing was changed.
        StorageError: It may be in both places; archiving it again goes on.
    """
    component(name)
    filesystem = directory.filesystem
    doing = f"Archiving {printable(name)}"
    with _opened(directory) as archive:
        with reported(doing):
            source = _status(directory, name)
            kept = _status(archive, name)
        if source is None:
            if kept is None:
                raise NotStoredError(doing)
            return
        with reported(doing):
            if kept is None:
                filesystem.link(name, name, source_fd=directory.fd, target_fd=archive.fd)
            elif not _same(source, kept):
                _check_copy(directory, archive, name, source)
            # Crash here: in both places, one inode; the next archiving goes on.
            archive.sync()
            filesystem.unlink(name, dir_fd=directory.fd)


def set_aside(directory: Directory, name: str, as_name: str, *, expected: bytes) -> None:
    """Move what may not stay to ``archive/as_name``, if it is still that record.

    A rename moves whatever holds the name, in one step; looked at first, it could be another
    by the time it is moved. So it is moved, looked at, and put back if it is another.

    Raises:
        NotStoredError: There is no such record.
        ConflictError: It held other bytes and was put back, or ``as_name`` is taken.
        DurabilityUnknownError: Moved, but not known to survive.
        StorageError: It was not moved.
    """
    component(name)
    component(as_name)
    doing = f"Setting {printable(name)} aside"
    with _opened(directory) as archive:
        with reported(doing):
            if _status(archive, as_name) is not None:
                raise ConflictError(f"archive/{printable(as_name)} exists already")
            if _status(directory, name) is None:
                raise NotStoredError(doing)
            try:
                directory.filesystem.rename(
                    name, as_name, source_fd=directory.fd, target_fd=archive.fd
                )
            except FileNotFoundError as error:  # another owner was faster (F13)
                raise NotStoredError(doing) from error
        with unknown(doing):
            if not archive.holds(as_name, [expected]):
                _put_back(directory, archive, name, as_name)
                raise ConflictError(f"{printable(name)} changed while it was set aside")
            archive.sync()
            directory.sync()


@contextlib.contextmanager
def _opened(directory: Directory) -> Iterator[Directory]:
    """The archive of a session, made durably if there is none."""
    archive = open_archive(directory)
    if archive is None:
        with reported("Making the archive"):
            with contextlib.suppress(FileExistsError):
                directory.filesystem.mkdir(names.ARCHIVE, dir_fd=directory.fd)
            directory.sync()
        archive = directory.subdirectory(names.ARCHIVE)
    try:
        yield archive
    finally:
        archive.close()


def _status(directory: Directory, name: str) -> Status | None:
    try:
        return directory.filesystem.stat(name, dir_fd=directory.fd)
    except FileNotFoundError:
        return None


def _same(one: Status, other: Status) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _check_copy(directory: Directory, archive: Directory, name: str, source: Status) -> None:
    """Return if the archive's record, a file of its own, has the same bytes."""
    fd, status = directory.open_file(name)
    try:
        content = directory.filesystem.read(fd, source.st_size + 1)
        same = _same(status, source) and archive.holds(name, [content])
    finally:
        directory.give_back(fd)
    if not same:
        raise ConflictError(f"archive/{printable(name)} exists already, with other content")


def _put_back(directory: Directory, archive: Directory, name: str, as_name: str) -> None:
    filesystem = directory.filesystem
    try:
        filesystem.link(as_name, name, source_fd=archive.fd, target_fd=directory.fd)
    except FileExistsError as error:
        raise ConflictError(
            f"{printable(name)} changed while it was set aside, and again since",
            safe=f"What was moved is in archive/{printable(as_name)}, nothing was overwritten",
        ) from error
    filesystem.unlink(as_name, dir_fd=archive.fd)
    archive.sync()
    directory.sync()
