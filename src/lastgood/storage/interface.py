"""What a back end must do, and nothing else.

``Storage`` is one directory of records: the root of a store, which holds
``store.json``, or one session. ``OwnedStorage`` adds what the owner of a session
needs, ``StorageRoot`` leads to both. There is no unconditional put anywhere.

The contract, tested on every implementation and double by
``lastgood.testing.StorageContract``:

* P1 ``create``, ``swap``, ``begin`` and ``append`` are durable when they return.
* P2 A name holds all bytes of one write or is not there, never a mixture. A log segment
  grows: it holds what was appended, in order, and reserved zeros behind it.
* P3 ``create`` is exclusive: of any number of callers one returns.
* P4 Three outcomes: returned (done), ``ConflictError`` (somebody else was first),
  ``DurabilityUnknownError``. An unknown outcome is never reported as a conflict, and
  every other error means that nothing took effect.
* P5 ``read``, ``stream`` and ``list`` see every write that has returned.
* P6 ``delete`` is idempotent. Its durability is not promised: a deleted name may be back
  after a power loss, a leftover.
* P7 Reads are bounded: an object over its limit is refused before it is held in memory.

Names are those of ``formats.names``: one component, or one below ``archive/``.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Literal, Protocol, runtime_checkable

Access = Literal["read", "write"]
"""``read`` changes nothing in a store, not even by opening it (G8)."""


class Storage(Protocol):
    """One directory of records."""

    def create(self, name: str, data: Sequence[bytes]) -> None:
        """Create ``name`` with the concatenation of ``data``, durably (S4).

        Raises:
            ConflictError: The name exists. Nothing was changed.
            FencedError: Another owner took the session meanwhile. Nothing was changed.
            DurabilityUnknownError: The name holds these bytes, or cannot be read; they may be
                ours, and they may not survive.
            StorageError: Nothing was changed, no temporary is left.
        """
        ...

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """Return all bytes of ``name``, in one bounded read.

        Raises:
            NotStoredError: There is no such name; never raised when that cannot be known.
            DamagedError: Not a private regular file of ours, or over ``max_bytes``.
            StorageError: It cannot be read.
        """
        ...

    def stream(self, name: str, *, max_bytes: int) -> Generator[bytes, None, None]:
        """Yield the bytes of ``name`` in chunks of at most 256 KiB; errors as in ``read``.

        Closing it early gives back what it holds. The first chunk holds the first 16 KiB, or all.
        """
        ...

    def swap(self, data: Sequence[bytes], *, expected: int) -> int:
        """Make ``data`` the manifest of revision ``expected + 1``, if nothing newer is there.

        The compare-and-swap: S6 and S7 on POSIX, one conditional put on an object store.

        Args:
            data: The manifest record, concatenated.
            expected: The revision that the caller stands on; 0 before the first.

        Returns:
            ``expected + 1``.

        Raises:
            ConflictError: Somebody else holds that revision, or a newer one exists. Our claim,
                where it was made, stays: a winner may already stand on it.
            DurabilityUnknownError: Claimed or moved, but not known to survive.
            StorageError: Nothing took effect.
        """
        ...

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """Return the names that begin with ``prefix``, in no order, temporaries and foreign too.

        ``archive/`` and what follows lists the archive; other prefixes never do. A name that is
        not UTF-8 comes with surrogate escapes.

        Raises:
            LimitError: More entries than the limit allows.
            StorageError: It cannot be listed; nothing is never reported instead.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove ``name``; it may be gone already (P6).

        Raises:
            StorageError: It may still be there.
        """
        ...

    def close(self) -> None:
        """Give back descriptors and the lock, if held; idempotent, never raises."""
        ...


class OwnedStorage(Storage, Protocol):
    """A session's directory, with what only its owner does."""

    def acquire(self, *, timeout_s: float) -> None:
        """Take the session lock; it dies with the process (R1).

        Raises:
            LockedError: Somebody else held it for all of ``timeout_s``; names the holder.
            StorageError: Locks do not work here; never goes on without one.
        """
        ...

    def release(self) -> None:
        """Give the lock back; idempotent."""
        ...

    def note_holder(self, text: str) -> None:
        """Write who holds the lock, for people; never believed, errors are ignored."""
        ...

    def confirm_held(self) -> None:
        """Return only if the lock is held and directory and lock are still those of the names.

        Raises:
            FencedError: The directory or its lock file was replaced, or this is a forked child.
            StorageError: That cannot be known.
        """
        ...

    def persist(self) -> None:
        """Make durable what a killed process left visible: fsync root and directory (R1)."""
        ...

    def confirm_newest(self, revision: int) -> None:
        """Return only if the pointer still is the one of this handle's own swap to ``revision``.

        It costs a few microseconds however full the directory is, so that it can be asked
        before each write of the log and again before that write is acknowledged. A newer
        claim whose pointer did not move yet may pass: its owner reads the log again after
        its swap has returned.

        Args:
            revision: What the last swap of this handle returned.

        Raises:
            FencedError: Another owner moved the pointer, or the last swap of this handle did
                not come to its end; or this is a forked child.
            UsageError: No swap of this handle made ``revision``, or a later one followed.
            StorageError: That cannot be known.
        """
        ...

    def begin(self, name: str, *, size_bytes: int) -> None:
        """Make a log segment of ``size_bytes`` reserved zeros, exclusively and durably.

        Only this handle appends to it. Crash here: a temporary, or an empty segment, all
        zeros, which holds no line.

        Raises:
            UsageError: Not even one byte is to be reserved.
            LimitError: The session's directory is too full.
            ConflictError: The name exists, or this handle began it and did not finish it.
                Nothing was changed.
            FencedError: Another owner took the session meanwhile. Nothing was changed.
            DurabilityUnknownError: The name may lead to what was made; nothing can be appended.
            StorageError: Nothing was changed, no temporary is left.
        """
        ...

    def append(self, name: str, data: bytes) -> None:
        """Write ``data`` behind what this handle appended to ``name`` before, durably.

        After an error that is not a ``UsageError`` the handle appends nothing more to this
        name: what the page cache shows is no longer what the disk holds. Crash here: a
        beginning of ``data``, all of it, or sectors of it in any combination.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
            UsageError: It would not leave one reserved byte, in which an open segment ends.
                Nothing was written.
            DurabilityUnknownError: Some, all or none of ``data`` is there.
            StorageError: This name was given up after an earlier error; nothing was written.
        """
        ...

    def finish(self, name: str) -> None:
        """Give back the reserved bytes of ``name`` that were not used; it is appended to no more.

        Not promised to be durable: afterwards the segment ends in reserved zeros or in the
        last byte that was appended, and both are legal.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
            StorageError: The segment is intact, perhaps not cut.
        """
        ...

    def rewrite(self, name: str, data: bytes, *, offset: int | None = None) -> None:
        """Write the very bytes that ``name`` holds over themselves, durably (R1, adoption).

        A failed fsync of a dead process leaves pages that look clean and are not on disk.

        Args:
            name: What is made durable.
            data: What it holds: all of it, or, with an ``offset``, what it holds from there
                on for the length of ``data``, which may be nothing. Never the reserved zeros
                of a segment: an owner whose lock failed may be appending there.
            offset: Where in a log segment, whose size is durable already; the cheaper fdatasync.

        Raises:
            NotStoredError: There is no such name.
            ConflictError: It holds other bytes; nothing was written.
            DamagedError: It is not a private regular file of ours.
            UsageError: ``offset`` is negative.
            StorageError: It is not known to be durable; its content is what it was.
        """
        ...

    def settle(self, revision: int, *, number_missing: bool, pointer_behind: bool) -> None:
        """Finish what an interrupted ``swap`` left (R4): number, pointer, temporaries, fsync.

        Links the number of ``revision`` if it is missing, moves the pointer up to ``revision`` if
        it is behind, and sweeps temporaries. Called by the owner only, and only after numbers and
        pointer were read again under the lock: sweeping disarms a paused writer's rename.
        """
        ...

    def archive(self, name: str, *, as_name: str | None = None) -> None:
        """Move ``name`` to ``archive/as_name``, create-only, durable there before it leaves here.

        Raises:
            NotStoredError: It is in neither place.
            ConflictError: The archive holds another record of this name; nothing was changed.
            StorageError: It may be in both places; archiving it again goes on.
        """
        ...

    def supersede(
        self, name: str, data: Sequence[bytes], *, fenced: bytes, as_name: str, revision: int
    ) -> None:
        """Create ``name`` over a fenced writer's record, durably, and keep that one (S4).

        Only for a record of an older epoch that no revision names. A newer owner's record is
        never replaced, wherever this one is paused, with or without a lock.

        Args:
            name: The name that is taken.
            data: What it shall hold.
            fenced: All bytes that it holds now.
            as_name: The fenced record's name in the archive.
            revision: The revision that the caller stands on.

        Raises:
            ConflictError: It changed since it was read, or a newer revision exists.
            FencedError: Another owner took the session meanwhile.
            DurabilityUnknownError: It holds ``data``, or that cannot be known.
            StorageError: It holds what it held, no temporary is left.
        """
        ...


@runtime_checkable
class StorageRoot(Protocol):
    """Where a store lies."""

    def records(self) -> Storage:
        """The store's own records (``store.json``)."""
        ...

    def directories(self) -> Iterator[str]:
        """Yield the names in the root, as a stream, in no order, foreign ones too."""
        ...

    def session(self, directory: str, *, access: Access) -> OwnedStorage:
        """Open the directory of one session; ``write`` makes it, durably.

        Raises:
            NotStoredError: ``read``, and it does not exist.
            DamagedError: It is not a private directory of ours.
        """
        ...

    def location(self) -> str:
        """Where it is, for messages and for the check that keys lie outside."""
        ...

    def notices(self) -> tuple[str, ...]:
        """What a person should know of this place: a file system that may forget."""
        ...

    def close(self) -> None:
        """Give back descriptors; idempotent, never raises."""
        ...
