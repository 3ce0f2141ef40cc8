"""One directory of records: what a store's root and a session's directory have in common."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from lastgood.entropy import Entropy
from lastgood.errors import (
    DurabilityUnknownError,
    FencedError,
    NotStoredError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.storage import contents, publish, revisions
from lastgood.storage.directory import Directory, component, reported
from lastgood.storage.filesystem import READ_WRITE
from lastgood.storage.interface import Access

_ARCHIVED = names.archived("")


class Place(Protocol):
    """What leads records to their directory."""

    def directory(self, access: Access) -> Directory:
        """The directory, opened for ``access``."""
        ...


class PosixRecords:
    """One directory of records (``Storage``).

    Args:
        place: Leads to the directory.
        entropy: Names temporaries.
    """

    def __init__(self, place: Place, *, entropy: Entropy) -> None:
        self._place = place
        self._entropy = entropy

    def create(self, name: str, data: Sequence[bytes]) -> None:
        """Create ``name`` durably and exclusively; see ``publish.create``."""
        directory = self._place.directory("write")
        publish.create(directory, name, data, random=self._entropy(names.TOKEN_BYTES))

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return all bytes of ``name``; see ``contents.read``."""
        with self._located(name, access="read") as (directory, leaf, siblings):
            return contents.read(directory, leaf, max_bytes=max_bytes, siblings=siblings)

    def stream(self, name: str, *, max_bytes: int) -> Generator[bytes, None, None]:
        """Yield the bytes of ``name``; see ``contents.stream``."""
        with self._located(name, access="read") as (directory, leaf, siblings):
            yield from contents.stream(directory, leaf, max_bytes=max_bytes, siblings=siblings)

    def swap(self, data: Sequence[bytes], *, expected: int) -> int:
        """Claim revision ``expected + 1`` and move the pointer; see ``revisions.swap``."""
        directory = self._place.directory("write")
        random = self._entropy(names.TOKEN_BYTES)
        made = revisions.swap(directory, data, expected=expected, random=random)
        made.release()
        return made.number

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Return the names that begin with ``prefix``; none where there is no root yet."""
        try:
            directory = self._place.directory("read")
        except NotStoredError:
            return ()
        with reported(f"Listing {printable(directory.label)}"):
            if not prefix.startswith(_ARCHIVED):
                listed = (name for name, _ in directory.entries() if name != names.ARCHIVE)
                return tuple(name for name in listed if name.startswith(prefix))
            kept = contents.open_archive(directory)
            if kept is None:
                return ()
            with contextlib.closing(kept):
                archived = (names.archived(name) for name, _ in kept.entries())
                return tuple(name for name in archived if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove ``name`` if it is there."""
        try:
            with (
                self._located(name, access="write") as (directory, leaf, _),
                reported(f"Deleting {printable(name)}"),
                contextlib.suppress(FileNotFoundError),
            ):
                directory.filesystem.unlink(leaf, dir_fd=directory.fd)
        except NotStoredError:  # there is no archive
            return

    def close(self) -> None:
        """The directory belongs to the place."""

    @contextlib.contextmanager
    def _located(self, name: str, *, access: Access) -> Iterator[tuple[Directory, str, Directory]]:
        """Where ``name`` lies, its last component, and where its links are counted."""
        directory = self._place.directory(access)
        if not name.startswith(_ARCHIVED):
            yield directory, component(name), directory
            return
        leaf = component(name.removeprefix(_ARCHIVED))
        kept = contents.open_archive(directory)
        if kept is None:
            raise NotStoredError(f"Opening {printable(name)}")
        with contextlib.closing(kept):
            yield kept, leaf, directory


class HeldPlace:
    """The held directory of a session, and what its handle may do to it.

    Args:
        directory: The directory; given back with ``close``.
        access: ``read`` refuses every change.
    """

    def __init__(self, directory: Directory, *, access: Access) -> None:
        self._directory = directory
        self._access = access
        self._pid = directory.filesystem.getpid()

    def directory(self, access: Access) -> Directory:
        """The directory.

        Raises:
            UsageError: A change, and this handle was opened for reading, or is closed.
            FencedError: A change, and this is a forked child.
        """
        if access == "write" and self._access != "write":
            raise UsageError("This session was opened for reading")
        if access == "write" and self._directory.filesystem.getpid() != self._pid:
            raise FencedError("This is a forked child; the session belongs to its parent")
        if self._directory.is_closed:
            raise UsageError("This storage is closed")
        return self._directory

    def close(self) -> None:
        """Give the directory back; idempotent, never raises."""
        self._directory.close()


@contextlib.contextmanager
def overwriting(directory: Directory, name: str) -> Iterator[int]:
    """Open an existing file to read it and to write into it; yields the descriptor.

    Raises:
        NotStoredError: There is none.
        DamagedError: It is not a private regular file of ours, or has names elsewhere.
        DurabilityUnknownError: What was written may be lost: the close has failed.
        StorageError: It cannot be opened.
    """
    fd, status = directory.open_file(name, flags=READ_WRITE)
    closing = False
    try:
        contents.check_links(directory, name, fd, status, siblings=directory)
        yield fd
        closing = True
        directory.filesystem.close(fd)
    except OSError as error:
        raise DurabilityUnknownError(
            f"Closing {printable(name)}", errno=error.errno or 0
        ) from error
    finally:
        if not closing:
            directory.give_back(fd)
