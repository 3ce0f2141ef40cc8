"""Storage in the memory of this process, for the tests of those who use lastgood.

The same contract as on a disk, with the same numbered manifests beside the pointer, safe
among threads and exclusive between handles. It survives its handles and not its process;
what a disk adds (crashes, other users, full file systems) cannot be tested with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field

from lastgood.clock import Clock, SystemClock
from lastgood.errors import (
    ConflictError,
    DamagedError,
    FencedError,
    LimitError,
    LockedError,
    NotStoredError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.limits import Limits
from lastgood.storage.directory import CHUNK_BYTES, component
from lastgood.storage.interface import Access, OwnedStorage, Storage

_PAUSE_S = 0.005
_ARCHIVED = names.archived("")


@dataclass(slots=True)
class _Directory:
    """The files of one directory, shared by all handles on it."""

    files: dict[str, bytes] = field(default_factory=dict)
    mutex: threading.RLock = field(default_factory=threading.RLock)
    owner: MemoryRecords | None = None
    holder: str = ""


class MemoryRoot:
    """A store in memory; as many handles and threads as one likes may share it.

    Args:
        name: What messages call it.
        clock: Measures waits for a lock.
        limits: How many entries of a session's directory are listed.
    """

    def __init__(
        self, name: str = "", *, clock: Clock | None = None, limits: Limits | None = None
    ) -> None:
        self._name = name
        self._clock = clock or SystemClock()
        self._entry_limit = (limits or Limits()).directory_entries
        self._root = _Directory()
        self._sessions: dict[str, _Directory] = {}

    def records(self) -> Storage:
        """The store's own records (``store.json``)."""
        return MemoryRecords(self._root, access="write", entry_limit=None)

    def directories(self) -> Iterator[str]:
        """Yield the names of the sessions' directories and of the store's records."""
        with self._root.mutex:
            listed = [*self._sessions, *self._root.files]
        yield from listed

    def session(self, directory: str, *, access: Access) -> OwnedStorage:
        """Open the directory of one session; ``write`` makes it.

        Raises:
            NotStoredError: ``read``, and it does not exist.
        """
        component(directory)
        with self._root.mutex:
            if access == "read" and directory not in self._sessions:
                raise NotStoredError(f"Opening {printable(directory)}")
            found = self._sessions.setdefault(directory, _Directory())
        return MemoryStorage(found, access=access, clock=self._clock, entry_limit=self._entry_limit)

    def location(self) -> str:
        """``memory:`` and its name."""
        return f"memory:{self._name}"

    def notices(self) -> tuple[str, ...]:
        """That it forgets."""
        return (f"{self.location()} is in this process's memory and ends with it",)

    def close(self) -> None:
        """Nothing is to be given back; what is stored stays."""


class MemoryRecords:
    """One directory of records (``Storage``)."""

    def __init__(self, directory: _Directory, *, access: Access, entry_limit: int | None) -> None:
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
            files[name] = content

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
            data = files[name]
        if len(data) > max_bytes:
            raise DamagedError(
                f"it has {len(data)} bytes, more than the {max_bytes} that such a file may have",
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
            newest = _newest(files)
            if newest > expected:
                raise ConflictError(f"Revision {newest} exists, this writer is still at {expected}")
            if newest < expected:
                raise ConflictError(
                    f"Revision {expected}, on which this writer stands, is not there"
                )
            files[names.manifest(expected + 1)] = content
            files[names.POINTER] = content
        return expected + 1

    def append(self, name: str, data: bytes) -> None:
        """Append ``data`` to ``name``.

        Raises:
            NotStoredError: ``name`` was not created.
        """
        component(name)
        with self._directory.mutex:
            files = self._changing()
            if name not in files:
                raise NotStoredError(f"Opening {printable(name)}")
            files[name] += data

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

    def _files(self) -> dict[str, bytes]:
        if self._closed:
            raise UsageError("This storage is closed")
        return self._directory.files

    def _changing(self) -> dict[str, bytes]:
        """The files, for a change."""
        if self._access != "write":
            raise UsageError("This session was opened for reading")
        if os.getpid() != self._pid:
            raise FencedError("This is a forked child; the session belongs to its parent")
        return self._files()


class MemoryStorage(MemoryRecords):
    """A session's directory (``OwnedStorage``)."""

    def __init__(
        self, directory: _Directory, *, access: Access, clock: Clock, entry_limit: int | None
    ) -> None:
        super().__init__(directory, access=access, entry_limit=entry_limit)
        self._clock = clock

    def acquire(self, *, timeout_s: float) -> None:
        """Take the session lock.

        Raises:
            LockedError: Another handle, or this one, held it for all of ``timeout_s``.
        """
        deadline_s = self._clock.monotonic_s() + timeout_s
        while not self._attempt():
            left_s = deadline_s - self._clock.monotonic_s()
            if left_s <= 0:
                holder = printable(self._directory.holder) or "unknown"
                raise LockedError(f"The session is held by another: {holder}", holder=holder)
            self._clock.sleep(min(_PAUSE_S, left_s))

    def release(self) -> None:
        """Give the lock back; idempotent."""
        with self._directory.mutex:
            if self._directory.owner is self:
                self._directory.owner = None

    def note_holder(self, text: str) -> None:
        """Write who holds the lock, for people."""
        with self._directory.mutex:
            if self._directory.owner is self:
                self._directory.holder = text

    def confirm_held(self) -> None:
        """Return only if this handle holds the lock.

        Raises:
            FencedError: It does not, or this is a forked child.
        """
        self._changing()
        if self._directory.owner is not self:
            raise FencedError("This handle does not hold the session's lock")

    def persist(self) -> None:
        """Memory is what it is."""
        self._changing()

    def rewrite(self, name: str, data: bytes) -> None:
        """Return if ``name`` holds ``data``.

        Raises:
            NotStoredError: There is no such name.
            ConflictError: It holds other bytes.
        """
        with self._directory.mutex:
            self._changing()
            self._check_content(component(name), data)

    def settle(self, revision: int, *, number_missing: bool, pointer_behind: bool) -> None:
        """Finish what an interrupted swap left.

        Raises:
            ConflictError: Something newer than ``revision`` is there.
        """
        with self._directory.mutex:
            files = self._changing()
            newest = _newest(files)
            if newest > revision:
                raise ConflictError(
                    f"Revision {newest} appeared while revision {revision} was settled"
                )
            for name in filter(names.is_temporary, tuple(files)):
                del files[name]
            number = names.manifest(revision)
            if number_missing:
                _link(files, names.POINTER, number)
            if pointer_behind:
                if number not in files:
                    raise NotStoredError(f"Opening {number}")
                files[names.POINTER] = files[number]

    def archive(self, name: str, *, as_name: str | None = None) -> None:
        """Move ``name`` to ``archive/as_name``.

        Raises:
            NotStoredError: It is in neither place.
            ConflictError: The archive holds another record of this name.
        """
        with self._directory.mutex:
            files = self._changing()
            kept = names.archived(component(as_name or component(name)))
            if name not in files and kept in files:
                return
            if name not in files or files.get(kept) != files[name]:
                _link(files, name, kept)
            del files[name]

    def supersede(
        self, name: str, data: Sequence[bytes], *, fenced: bytes, as_name: str, revision: int
    ) -> None:
        """Create ``name`` over a fenced writer's record, which is kept in the archive.

        Raises:
            ConflictError: It changed since it was read, or a newer revision exists.
        """
        with self._directory.mutex:
            files = self._changing()
            kept = names.archived(component(as_name))
            if files.get(component(name)) != fenced or files.get(kept, fenced) != fenced:
                raise ConflictError(f"{printable(name)} changed since it was read")
            if _newest(files) > revision:
                raise ConflictError(f"A revision newer than {revision} exists")
            files[kept] = fenced
            files[name] = b"".join(data)

    def close(self) -> None:
        """Give back the lock and end this handle; idempotent."""
        self.release()
        super().close()

    def _attempt(self) -> bool:
        with self._directory.mutex:
            self._changing()
            if self._directory.owner is not None:
                return False
            self._directory.owner = self
            return True

    def _check_content(self, name: str, expected: bytes) -> None:
        files = self._files()
        if name not in files:
            raise NotStoredError(f"Opening {printable(name)}")
        if files[name] != expected:
            raise ConflictError(f"{printable(name)} changed since it was read")


def _checked(name: str) -> str:
    """Return ``name`` if it is one component, or one in the archive."""
    component(name.removeprefix(_ARCHIVED))
    return name


def _link(files: dict[str, bytes], source: str, target: str) -> None:
    """Give the content of ``source`` a second name, which must be free."""
    if source not in files:
        raise NotStoredError(f"Opening {printable(source)}")
    if target in files:
        raise ConflictError(f"{printable(target)} exists already")
    files[target] = files[source]


def _newest(files: dict[str, bytes]) -> int:
    """The highest revision that has a number."""
    parsed = (names.parse(name) for name in files if not name.startswith(_ARCHIVED))
    return max(
        (found.number for found in parsed if found and found.kind is names.Kind.MANIFEST),
        default=0,
    )
