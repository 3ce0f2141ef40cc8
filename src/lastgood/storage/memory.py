"""Storage in the memory of this process, for the tests of those who use lastgood.

The same contract as on a disk, with the same numbered manifests beside the pointer, safe
among threads and exclusive between handles. It survives its handles and not its process;
what a disk adds (crashes, other users, full file systems) cannot be tested with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lastgood.clock import Clock, SystemClock
from lastgood.errors import (
    ConflictError,
    FencedError,
    LockedError,
    NotStoredError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.limits import Limits
from lastgood.storage.directory import component
from lastgood.storage.interface import Access, OwnedStorage, Storage
from lastgood.storage.lock import told
from lastgood.storage.memory_records import (
    Directory,
    File,
    MemoryRecords,
    link,
    newest_revision,
)

_PAUSE_S = 0.005


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
        self._root = Directory()
        self._sessions: dict[str, Directory] = {}

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
            found = self._sessions.setdefault(directory, Directory())
        return MemoryStorage(found, access=access, clock=self._clock, entry_limit=self._entry_limit)

    def location(self) -> str:
        """``memory:`` and its name."""
        return f"memory:{self._name}"

    def notices(self) -> tuple[str, ...]:
        """That it forgets."""
        return (f"{self.location()} is in this process's memory and ends with it",)

    def close(self) -> None:
        """Nothing is to be given back; what is stored stays."""


class MemoryStorage(MemoryRecords):
    """A session's directory (``OwnedStorage``)."""

    def __init__(
        self, directory: Directory, *, access: Access, clock: Clock, entry_limit: int | None
    ) -> None:
        super().__init__(directory, access=access, entry_limit=entry_limit)
        self._clock = clock
        self._segments: dict[str, Segment] = {}
        self._own: tuple[int, File] | None = None
        self._is_standing = True  # no swap of this handle met somebody else's revision

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
                raise LockedError(f"The session is held by {told(holder)}", holder=holder)
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

    def swap(self, data: Sequence[bytes], *, expected: int) -> int:
        """Make ``data`` the manifest of revision ``expected + 1``.

        Raises:
            ConflictError: ``expected`` is not the newest revision.
        """
        with self._directory.mutex:
            try:
                revision = super().swap(data, expected=expected)
            except ConflictError:
                self._is_standing = False
                raise
            self._own = revision, self._directory.files[names.POINTER]
            self._is_standing = True
        return revision

    def confirm_newest(self, revision: int) -> None:
        """Return only if the pointer still is the one of this handle's swap to ``revision``.

        Raises:
            FencedError: It is not, or the last swap was a conflict, or this is a forked child.
            UsageError: No swap of this handle made ``revision``, or a later one followed.
        """
        with self._directory.mutex:
            files = self._changing()
            if not self._is_standing:
                raise FencedError("The last swap of this handle did not come to its end")
            if self._own is None or self._own[0] != revision:
                raise UsageError(f"The last swap of this handle did not make revision {revision}")
            if files.get(names.POINTER) is not self._own[1]:
                raise FencedError(f"{names.POINTER} is no longer revision {revision} of this owner")

    def begin(self, name: str, *, size_bytes: int) -> None:
        """Make a log segment of ``size_bytes`` reserved zeros, exclusively.

        Raises:
            UsageError: Not even one byte is to be reserved.
            ConflictError: The name exists, or this handle began it and did not finish it.
        """
        component(name)
        if size_bytes < 1:
            raise UsageError(f"A log segment of {size_bytes} bytes cannot end in a reserved one")
        with self._directory.mutex:
            files = self._changing()
            if name in files or name in self._segments:
                raise ConflictError(f"{printable(name)} exists already")
            reserved = bytearray(size_bytes)
            files[name] = File(reserved)
            self._segments[name] = Segment(reserved)

    def append(self, name: str, data: bytes) -> None:
        """Write ``data`` behind what this handle appended to ``name`` before.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
            UsageError: It would not leave one reserved byte; nothing was written.
        """
        with self._directory.mutex:
            self._changing()
            self._segment(name).append(name, data)

    def finish(self, name: str) -> None:
        """Cut the reserved bytes of ``name`` that were not used.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
        """
        with self._directory.mutex:
            self._changing()
            self._segment(name).cut()
            del self._segments[name]

    def persist(self) -> None:
        """Memory is what it is."""
        self._changing()

    def rewrite(self, name: str, data: bytes, *, offset: int | None = None) -> None:
        """Return if ``name`` holds ``data``, all in all or from ``offset`` on.

        Raises:
            NotStoredError: There is no such name.
            ConflictError: It holds other bytes.
            UsageError: ``offset`` is negative.
        """
        component(name)
        if offset is not None and offset < 0:
            raise UsageError(f"There is no byte {offset} in a file")
        with self._directory.mutex:
            files = self._changing()
            if name not in files:
                raise NotStoredError(f"Opening {printable(name)}")
            held = files[name].data
            if offset is not None:
                held = held[offset : offset + len(data)]
            if held != data:
                raise ConflictError(f"{printable(name)} changed since it was read")

    def settle(self, revision: int, *, number_missing: bool, pointer_behind: bool) -> None:
        """Finish what an interrupted swap left.

        Raises:
            ConflictError: Something newer than ``revision`` is there.
        """
        with self._directory.mutex:
            files = self._changing()
            newest = newest_revision(files)
            if newest > revision:
                raise ConflictError(
                    f"Revision {newest} appeared while revision {revision} was settled"
                )
            for name in filter(names.is_temporary, tuple(files)):
                del files[name]
            number = names.manifest(revision)
            if number_missing:
                link(files, names.POINTER, number)
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
            if name not in files or kept not in files or files[kept].data != files[name].data:
                link(files, name, kept)
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
            held, before = files.get(component(name)), files.get(kept)
            if held is None or held.data != fenced or (before and before.data != fenced):
                raise ConflictError(f"{printable(name)} changed since it was read")
            if newest_revision(files) > revision:
                raise ConflictError(f"A revision newer than {revision} exists")
            files[kept] = before or held
            files[name] = File(b"".join(data))

    def close(self) -> None:
        """Give back the lock and end this handle; idempotent, and no log segment is cut."""
        self.release()
        self._segments.clear()
        super().close()

    def _attempt(self) -> bool:
        with self._directory.mutex:
            self._changing()
            if self._directory.owner is not None:
                return False
            self._directory.owner = self
            return True

    def _segment(self, name: str) -> Segment:
        segment = self._segments.get(component(name))
        if segment is None:
            raise NotStoredError(
                f"Using {printable(name)}, which this handle did not begin, or has finished"
            )
        return segment


@dataclass(slots=True)
class Segment:
    """A log segment that one handle appends to.

    Attributes:
        reserved: What was reserved, and what was appended at its beginning.
        appended_bytes: How much of it is used.
    """

    reserved: bytearray
    appended_bytes: int = 0

    def append(self, name: str, data: bytes) -> None:
        """Write ``data`` behind what was appended before.

        Raises:
            UsageError: It would not leave one reserved byte.
        """
        end = self.appended_bytes + len(data)
        if end >= len(self.reserved):
            raise UsageError(
                f"{len(data)} bytes do not fit behind {self.appended_bytes} of the "
                f"{len(self.reserved)} that {printable(name)} has, with one left reserved"
            )
        self.reserved[self.appended_bytes : end] = data
        self.appended_bytes = end

    def cut(self) -> None:
        """Give back what is not used."""
        del self.reserved[self.appended_bytes :]
