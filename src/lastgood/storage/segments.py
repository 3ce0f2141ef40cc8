"""Log segments: reserved once, then written from front to back by the handle that made them.

A segment is published whole, as reserved zeros (``publish.create_open``), and only then
written to. Real zeros, not a hole and not an unwritten extent: to write over bytes that are
on the medium changes no metadata, so one fdatasync of the data is all that an append costs.

    begin    tmp O_EXCL → write zeros → fsync → close → open → link → unlink → fsync directory
    append   pwrite at the held position → fdatasync
    finish   ftruncate to what was appended → close

The descriptor is opened by the temporary's name, where an error still is definite and leaves
no segment behind; tools that list open files show that name, as deleted.

After any error of an append the name is given up by its handle: the page cache may show
bytes that the disk does not hold, and a second fdatasync would not tell (C6-04). What a kill
leaves behind is nothing, a temporary, a segment of zeros, or a beginning of what was
appended, with zeros behind it or where sectors did not arrive.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from lastgood.errors import ConflictError, NotStoredError, StorageError, UsageError, printable
from lastgood.storage import publish
from lastgood.storage.directory import CHUNK_BYTES, ROOM, Directory, component, reported, unknown

_ZEROS = bytes(CHUNK_BYTES)

_ACKNOWLEDGED = "What was acknowledged before is on the disk"
_OPEN_AGAIN = "Open the session again, it goes on from what is durable"


@dataclass(slots=True)
class _Segment:
    """One segment that this handle appends to.

    Attributes:
        directory: Where it lies.
        fd: Its descriptor; None: given up.
        size_bytes: Reserved.
        appended_bytes: Written and durable.
    """

    directory: Directory
    fd: int | None
    size_bytes: int
    appended_bytes: int = 0


class Segments:
    """The segments that one handle began and has not finished."""

    def __init__(self) -> None:
        self._begun: dict[str, _Segment] = {}
        # Reentrant: a signal handler may close the handle in the middle of its own call.
        self._mutex = threading.RLock()

    def begin(self, directory: Directory, name: str, *, size_bytes: int, random: bytes) -> None:
        """Make ``name``, ``size_bytes`` reserved zeros, exclusively and durably.

        Raises:
            UsageError: Not even one byte is to be reserved.
            LimitError: The directory is so full that a save might not find room.
            ConflictError: The name exists, or this handle gave it up; nothing was changed.
            FencedError: Another owner removed the temporary; nothing was changed.
            DurabilityUnknownError: It was made, or that cannot be known; it is not appended to.
            StorageError: Nothing was changed, no temporary is left.
        """
        component(name)
        if size_bytes < 1:
            raise UsageError(f"A log segment of {size_bytes} bytes cannot end in a reserved one")
        with self._mutex:
            if name in self._begun:
                raise ConflictError(f"{printable(name)} was begun by this handle already")
            with reported("Counting the entries"):
                for _ in directory.entries(room=2 * ROOM):  # what a claim keeps free, and some
                    pass
            fd = publish.create_open(directory, name, _reserved(size_bytes), random=random)
            self._begun[name] = _Segment(directory, fd, size_bytes)

    def append(self, directory: Directory, name: str, data: bytes) -> None:
        """Write ``data`` behind what was appended before: one write, one fdatasync, one fstat.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
            UsageError: It would not leave one reserved byte; nothing was written.
            DurabilityUnknownError: Some, all or none of ``data`` is there.
            StorageError: The name was given up after an earlier error; nothing was written.
        """
        with self._mutex:
            segment = self._segment(name)
            fd = _held(segment, f"Appending to {printable(name)}")
            end = segment.appended_bytes + len(data)
            if end >= segment.size_bytes:
                raise UsageError(
                    f"{len(data)} bytes do not fit behind {segment.appended_bytes} of the "
                    f"{segment.size_bytes} that {printable(name)} has, with one left reserved"
                )
            segment.fd = None  # given up until all of it is known to be durable
            try:
                with unknown(f"Appending to {printable(name)}", safe=_ACKNOWLEDGED, do=_OPEN_AGAIN):
                    publish.write_at(directory.filesystem, fd, data, offset=segment.appended_bytes)
                    # Crash here: a beginning of it may be there, in sectors of any order.
                    directory.filesystem.fdatasync(fd)
                    if directory.filesystem.fstat(fd).st_nlink == 0:
                        # What is durable under no name is lost with this descriptor (T2).
                        raise OSError(errno.ENOENT, "the segment was deleted")
            except BaseException:
                directory.give_back(fd)
                raise
            segment.appended_bytes = end
            segment.fd = fd
            if self._begun.get(name) is not segment:  # a signal handler closed the handle
                directory.give_back(fd)

    def finish(self, directory: Directory, name: str) -> None:
        """Cut the reserved bytes that were not used; nothing more is appended.

        Raises:
            NotStoredError: ``name`` was not begun by this handle, or is finished.
            StorageError: The segment is intact, perhaps not cut; or it was given up.
        """
        with self._mutex:
            segment = self._segment(name)
            doing = f"Giving back what {printable(name)} did not use"
            fd = _held(segment, doing)
            del self._begun[name]
            closing = False
            try:
                with reported(doing, safe="All that was appended is on the disk"):
                    # Not synced: zeros that are back after a loss of power are as legal.
                    directory.filesystem.ftruncate(fd, segment.appended_bytes)
                    closing = True
                    directory.filesystem.close(fd)
            finally:
                if not closing:
                    directory.give_back(fd)

    def close(self) -> None:
        """Give back every descriptor, and cut nothing; idempotent, never raises."""
        with self._mutex:
            while self._begun:
                _, segment = self._begun.popitem()
                if segment.fd is not None:
                    segment.directory.give_back(segment.fd)

    def _segment(self, name: str) -> _Segment:
        segment = self._begun.get(component(name))
        if segment is None:
            raise NotStoredError(
                f"Using {printable(name)}, which this handle did not begin, or has finished",
                safe=_ACKNOWLEDGED,
                do="Begin a segment of this owner's, and append to that",
            )
        return segment


def _held(segment: _Segment, doing: str) -> int:
    """The descriptor of a segment that was not given up.

    Raises:
        StorageError: It was.
    """
    if segment.fd is None:
        raise StorageError(f"{doing} after an error", safe=_ACKNOWLEDGED, do=_OPEN_AGAIN)
    return segment.fd


def _reserved(size_bytes: int) -> Sequence[bytes]:
    """``size_bytes`` zeros, in pieces that share their memory."""
    whole, rest = divmod(size_bytes, CHUNK_BYTES)
    return [_ZEROS] * whole + [bytes(rest)]
