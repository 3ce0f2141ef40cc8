"""Moving records out of a session's way, without losing or overwriting any.

Nothing is ever in neither place: a record is durable in ``archive/`` before it leaves. After a
sync on the way has failed, nothing leaves any more by this handle: a later sync that succeeds
would say nothing of what the failed one was to write (F5).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lastgood.errors import ConflictError, NotStoredError, StorageError, printable
from lastgood.formats import names
from lastgood.storage.contents import open_archive
from lastgood.storage.directory import Directory, component, reported
from lastgood.storage.filesystem import Status

_STAYS = "It stays where it is"
_OPEN_AGAIN = "Open the session again; its next save archives it"


def keep(directory: Directory, name: str, as_name: str) -> None:
    """Move ``name`` to ``archive/as_name``, create-only.

    Raises:
        NotStoredError: It is in neither place.
        ConflictError: The archive holds another record of this name; nothing was changed.
        StorageError: It may be in both places; archiving it again, by a handle whose syncs
            have not failed, goes on.
    """
    component(name)
    component(as_name)
    filesystem = directory.filesystem
    doing = f"Archiving {printable(name)}"
    if directory.is_doubtful:
        raise StorageError(f"{doing} after a sync that failed", safe=_STAYS, do=_OPEN_AGAIN)
    with _opened(directory) as archive:
        with reported(doing):
            source = _status(directory, name)
            kept = _status(archive, as_name)
        if source is None:
            if kept is None:
                raise NotStoredError(doing)
            return
        with reported(doing):
            if kept is None:
                filesystem.link(name, as_name, source_fd=directory.fd, target_fd=archive.fd)
            elif not _same(source, kept):
                _check_copy(directory, archive, name, as_name, source)
            # Crash here: in both places, one inode; the next archiving goes on.
            try:
                archive.sync()
            finally:
                directory.is_doubtful = archive.is_doubtful
            filesystem.unlink(name, dir_fd=directory.fd)


def copy(directory: Directory, name: str, as_name: str, *, expected: bytes) -> None:
    """Give the record ``name`` a second name, ``archive/as_name``, if it holds ``expected``.

    Raises:
        ConflictError: It is gone or holds other bytes, or ``as_name`` does; nothing was changed.
        StorageError: It may have the second name, which harms nothing.
    """
    component(as_name)
    doing = f"Keeping {printable(name)}"
    with _opened(directory) as archive, reported(doing):
        made = True
        try:
            directory.filesystem.link(name, as_name, source_fd=directory.fd, target_fd=archive.fd)
        except FileExistsError:
            made = False  # an attempt that did not come to its end made it
        except FileNotFoundError as error:
            raise ConflictError(f"{printable(name)} went since it was read") from error
        if not (archive.holds(as_name, [expected]) and directory.holds(name, [expected])):
            if made:
                archive.filesystem.unlink(as_name, dir_fd=archive.fd)
            raise ConflictError(f"{printable(name)} changed since it was read")
        archive.sync()


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


def _check_copy(
    directory: Directory, archive: Directory, name: str, as_name: str, source: Status
) -> None:
    """Return if the archive's record, a file of its own, has the same bytes."""
    fd, status = directory.open_file(name)
    try:
        content = directory.filesystem.read(fd, source.st_size + 1)
        same = _same(status, source) and archive.holds(as_name, [content])
    finally:
        directory.give_back(fd)
    if not same:
        raise ConflictError(f"archive/{printable(as_name)} exists already, with other content")
