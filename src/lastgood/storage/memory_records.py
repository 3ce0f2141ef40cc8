"""One directory of records in memory: what a store's root and a session have in common.

A name leads to a ``File`` as on a disk a name leads to an inode: two names may share one,
and a file that its last name has left is still the file of whoever holds it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field

from lastgood.errors import (
    ConflictError,
    DamagedError,
    FencedError,
    LimitError,
    NotStoredError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.storage.contents import OVER_LIMIT
from lastgood.storage.directory import CHUNK_BYTES, component
from lastgood.storage.interface import Access

_ARCHIVED = names.archived("")


@dataclass(slots=True, eq=False)
class File:
    """What a name leads to; only a log segment is ever changed."""

    data: bytes | bytearray


Files = dict[str, File]


@dataclass(slots=True)
class Directory:
    """The files of one directory, shared by all handles on it."""

    files: Files = field(default_factory=dict)
    mutex: threading.RLock = field(default_factory=threading.RLock)
    owner: MemoryRecords | None = None
    holder: str = ""


class MemoryRecords:
    """One directory of records (``Storage``)."""

    def __init__(self, directory: Directory, *, access: Access, entry_limit: int | None) -> None:
        self._directory = directory
        self._access: Access = access
        self._entry_limit = entry_limit
        self._pid = os.getpid()
        self._closed = False

    def create(self, name: str, data: Sequence[bytes]) -> None:
        """Create ``name``.

        Raises:
            ConflictError: It exists.
        """
        component(name)
        content = b"".join(data)
        with self._directory.mutex:
            files = self._changing()
            if name in files:
                raise ConflictError(f"{printable(name)} exists already")
            files[name] = File(content)

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return all bytes of ``name``.

        Raises:
            NotStoredError: There is no such name.
            DamagedError: It has more than ``max_bytes``.
        """
        with self._directory.mutex:
            files = self._files()
            if _checked(name) not in files:
                raise NotStoredError(f"Opening {printable(name)}")
            data = bytes(files[name].data)
        if len(data) > max_bytes:
            raise DamagedError(
                f"it has {len(data)} bytes, more than the {max_bytes} that such a file may have",
                do=OVER_LIMIT,
                name=name,
            )
        return data

    def stream(self, name: str, *, max_bytes: int) -> Generator[bytes, None, None]:
        """Yield the bytes of ``name`` in chunks; else as ``read``."""
        data = self.read(name, max_bytes=max_bytes)
        for start in range(0, len(data), CHUNK_BYTES):
            yield data[start : start + CHUNK_BYTES]

    def swap(self, data: Sequence[bytes], *, expected: int) -> int:
        """Make ``data`` the manifest of revision ``expected + 1``.

        Raises:
            ConflictError: ``expected`` is not the newest revision.
        """
        content = b"".join(data)
        with self._directory.mutex:
            files = self._changing()
            newest = newest_revision(files)
            if newest > expected:
                raise ConflictError(f"Revision {newest} exists, this writer is still at {expected}")
            if newest < expected:
                raise ConflictError(
                    f"Revision {expected}, on which this writer stands, is not there"
                )
            files[names.manifest(expected + 1)] = files[names.POINTER] = File(content)
        return expected + 1

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Return the names that begin with ``prefix``, those of the archive only if it asks.

        Raises:
            LimitError: There are too many.
        """
        archived = prefix.startswith(_ARCHIVED)
        with self._directory.mutex:
            listed = [name for name in self._files() if name.startswith(_ARCHIVED) == archived]
        if self._entry_limit is not None and len(listed) > self._entry_limit:
            raise LimitError(f"There are more than {self._entry_limit} entries")
        return tuple(name for name in listed if name.startswith(prefix))

    def delete(self, name: str) -> None:
        """Remove ``name`` if it is there."""
        with self._directory.mutex:
            self._changing().pop(_checked(name), None)

    def close(self) -> None:
        """End this handle; idempotent."""
        self._closed = True

    def _files(self) -> Files:
        if self._closed:
            raise UsageError("This storage is closed")
        return self._directory.files

    def _changing(self) -> Files:
        """The files, for a change."""
        if self._access != "write":
            raise UsageError("This session was opened for reading")
        if os.getpid() != self._pid:
            raise FencedError("This is a forked child; the session belongs to its parent")
        return self._files()


def link(files: Files, source: str, target: str) -> None:
    """Give the content of ``source`` a second name, which must be free."""
    if source not in files:
        raise NotStoredError(f"Opening {printable(source)}")
    if target in files:
        raise ConflictError(f"{printable(target)} exists already")
    files[target] = files[source]


def newest_revision(files: Files) -> int:
    """The highest revision that has a number."""
    parsed = (names.parse(name) for name in files if not name.startswith(_ARCHIVED))
    return max(
        (found.number for found in parsed if found and found.kind is names.Kind.MANIFEST),
        default=0,
    )


def _checked(name: str) -> str:
    """Return ``name`` if it is one component, or one in the archive."""
    component(name.removeprefix(_ARCHIVED))
    return name
