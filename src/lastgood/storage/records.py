"""One directory of records: what a store's root and a session's directory have in common."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from lastgood.entropy import Entropy
from lastgood.errors import (
    DurabilityUnknownError,
    FencedError,
    NotStoredError,
    StorageError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.storage import contents, publish, revisions
from lastgood.storage.directory import Directory, component, reported, unknown
from lastgood.storage.filesystem import WRITE
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
        self._appending = threading.Lock()
        self._given_up: set[str] = set()

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
        return revisions.swap(directory, data, expected=expected, random=random)

    def append(self, name: str, data: bytes) -> None:
        """Append ``data`` at the end of ``name``: one write, one fdatasync.

        Raises:
            NotStoredError: ``name`` was not created.
            DamagedError: It is not a private regular file of ours.
            DurabilityUnknownError: Some, all or none of ``data`` is there.
            StorageError: Nothing was written; perhaps because of an error before.
        """
        directory = self._place.directory("write")
        with self._appending:
            if name in self._given_up:
                raise StorageError(
                    f"Appending to {printable(name)} after an error",
                    safe="What was acknowledged is on the disk",
                    do="Open the session again, it goes on from what is durable",
                )
            with overwriting(directory, name, flags=WRITE) as (fd, size_bytes):
                self._given_up.add(name)  # until all of it is known to be durable
                with unknown(f"Appending to {printable(name)}"):
                    publish.write_at(directory.filesystem, fd, data, offset=size_bytes)
                    directory.filesystem.fdatasync(fd)
            self._given_up.discard(name)

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
        return self._directory

    def close(self) -> None:
        """Give the directory back; idempotent, never raises."""
        self._directory.close()


@contextlib.contextmanager
def overwriting(directory: Directory, name: str, *, flags: int) -> Iterator[tuple[int, int]]:
    """Open an existing file to write into it; yields descriptor and size.

    Raises:
        NotStoredError: There is none.
        DamagedError: It is not a private regular file of ours, or has names elsewhere.
        DurabilityUnknownError: What was written may be lost: the close has failed.
        StorageError: It cannot be opened.
    """
    fd, status = directory.open_file(name, flags=flags)
    closing = False
    try:
        contents.check_links(directory, name, fd, status, siblings=directory)
        yield fd, status.st_size
        closing = True
        directory.filesystem.close(fd)
    except OSError as error:
        raise DurabilityUnknownError(
            f"Closing {printable(name)}", errno=error.errno or 0
        ) from error
    finally:
        if not closing:
            directory.give_back(fd)
