r"""``events-<first sequence>-<epoch>.jsonl``: a piece of the event log, of one ownership.

Example (lines as in ``formats.event``, then reserved bytes)::

    {"mac":…,"e":{"seq":6,…,"epoch":3,…,"type":"lastgood.segment","data":{"count":5,
     "segment":"events-000001-0002.jsonl","offset":2210,"head":"…64 hex"}}}
    {"mac":…,"e":{"seq":7,…,"type":"paid","data":{"id":7}}}
    NUL NUL NUL …

The first line is an event, ``lastgood.segment``, written together with the first event of the
segment. Its data is the log anchor of the end that the log had before: the newest segment with
a whole first line, its valid length, the head there; ``(0, "", 0, 64 zeros)`` in the first
segment. What lies behind a named length is never believed.

A segment is made of zeros, so that an append overwrites bytes which are there already: one
write and one flush, without a commit of metadata. An open segment always ends in a NUL. A clean
close writes ``lastgood.closed`` and gives back the zeros; so a segment without a NUL at its
end ends in that line, or a successor names its length.

Order is epoch, then first sequence. Versions: those of ``formats.event``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    LogGapError,
    SplicedError,
)
from lastgood.formats import anchor, event, names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.event import EventKeys, Line
from lastgood.formats.limits import Limits
from lastgood.formats.names import Kind, Parsed

FIRST_BYTES: Final = 64 * 1024
LARGEST_BYTES: Final = 1024 * 1024


def size_for(previous_bytes: int, line_bytes: int) -> int:
    """How many bytes a new segment reserves.

    Args:
        previous_bytes: What this owner reserved for its last segment; 0 for its first. Each is
            twice the one before it, so that small sessions stay small and large logs have few.
        line_bytes: What is to be written at once; a multiple of the first size that leaves at
            least one NUL behind it.
    """
    usual = min(max(FIRST_BYTES, 2 * previous_bytes), LARGEST_BYTES)
    needed = (line_bytes // FIRST_BYTES + 1) * FIRST_BYTES
    return max(usual, needed)


def max_bytes(limits: Limits) -> int:
    """The largest segment that anybody writes: a first line, and a line as long as may be."""
    return size_for(LARGEST_BYTES, limits.event_bytes + FIRST_BYTES)


def parse(name: str) -> Parsed:
    """The first sequence and the epoch of a segment's ``name``.

    Raises:
        DamagedError: It is no segment's name.
    """
    found = names.parse(name)
    if found is None or found.kind is not Kind.SEGMENT:
        raise DamagedError("it is not the name of a log segment", name=name)
    return found


@dataclass(frozen=True, slots=True)
class BadLine:
    """Where the lines of a segment end, other than in reserved bytes.

    Attributes:
        offset: Where the line begins.
        sequence: Which event should stand there.
        problem: Why it does not.
        is_authentic: Whether it is whole and its MAC is right: then no crash made it.
    """

    offset: int
    sequence: int
    problem: LastgoodError
    is_authentic: bool


class Walk:
    """The lines of one segment, verified and chained one after another; iterate once.

    Attributes:
        end: The anchor of the last line that was passed.
        bad: Why the walk ended before its end; None while it has not, or at a good end.
    """

    def __init__(self, data: bytes, *, begin: LogAnchor, keys: EventKeys, until: int | None = None):
        """Begin behind ``begin``.

        Args:
            data: The whole segment.
            begin: The anchor of the line before, its ``segment`` being this one.
            keys: The session's.
            until: The valid length that a successor names; None: up to the reserved bytes.
        """
        self.end = begin
        self.bad: BadLine | None = None
        self._data = data
        self._keys = keys
        self._epoch = parse(begin.segment).epoch
        self._stop = len(data.rstrip(b"\0")) if until is None else until

    @property
    def stop(self) -> int:
        """Where the data ends."""
        return self._stop

    def __iter__(self) -> Iterator[Line]:
        """Yield lines; sets ``bad`` instead of raising."""
        while self.end.offset < self._stop:
            start = self.end.offset
            feed = self._data.find(b"\n", start, self._stop)
            # The sector of a last line feed may be the one that never arrived: it reads as zeros.
            text = self._data[start : self._stop if feed < 0 else feed]
            authentic = False
            try:
                mac, kid, body = event.authenticate(text, keys=self._keys, name=self.end.segment)
                if feed < 0 and self._data[self._stop : self._stop + 1] != b"\0":
                    raise DamagedError("its line feed was cut off", name=self.end.segment)
                authentic = True
                found = event.read_body(body, name=self.end.segment)
                self._check(found, mac)
            except LastgoodError as problem:
                self.bad = BadLine(start, self.end.count + 1, problem, authentic)
                return
            after = self._stop if feed < 0 else feed + 1
            self.end = LogAnchor(found.sequence, self.end.segment, after, mac)
            yield Line(found, mac, kid)

    def _check(self, found: event.Event, mac: str) -> None:
        """Return only if the line continues the chain (C1-07)."""
        name, expected = self.end.segment, self.end.count + 1
        if found.sequence == expected and found.previous == self.end.head:
            if found.epoch != self._epoch:
                raise SplicedError(f"event {expected} is of epoch {found.epoch}", name=name)
            return
        if found.sequence > expected:
            raise LogGapError(f"event {found.sequence} follows event {expected - 1}", name=name)
        if mac == self.end.head:
            raise DamagedError(f"event {found.sequence} stands there twice", name=name)
        raise ForkDetectedError(
            f"{name}: event {found.sequence} at offset {self.end.offset} does not continue the "
            f"log, which is at event {expected - 1}"
        )


def first_text(data: bytes) -> bytes:
    """The bytes of a segment's first line, without its line feed."""
    feed = data.find(b"\n")
    return data.rstrip(b"\0") if feed < 0 else data[:feed]


def read_first(data: bytes, *, name: str, keys: EventKeys) -> LogAnchor:
    """The log's end before this segment, as its first line says.

    Raises:
        DamagedError: The first line does not verify; an empty segment has none.
        SplicedError: It is of another segment, or no first line.
        UnknownFormatError: It was written by another release.
    """
    line = event.decode(first_text(data), keys=keys, name=name)
    parsed, found = parse(name), line.event
    if found.type != event.SEGMENT or (found.sequence, found.epoch) != (
        parsed.number,
        parsed.epoch,
    ):
        raise SplicedError("its first line is of another segment", name=name)
    before = anchor.decode(found.data, name=name)
    if before is None or (before.count + 1, before.head) != (found.sequence, found.previous):
        raise SplicedError("its first line does not continue what it names", name=name)
    return before


def begin_of(name: str, before: LogAnchor) -> LogAnchor:
    """Where the walk through segment ``name`` begins, whose first line names ``before``."""
    return LogAnchor(before.count, name, 0, before.head)
