"""The torn tail: what a crash may leave at the log's end, and what is damage (R2).

An append is one write into reserved zeros. A crash may keep any of its sectors and lose any
other, in any order; a lost one reads as zeros. So the bad region, which runs from the first
line that does not verify and chain to the end of the data, is a torn tail only if:

 1. Its first line does not verify. One that does, and does not continue the log, was sealed
    with our key: no crash makes that.
 2. It lies in the newest segment with a whole first line, or is the first line of a newer one.
 3. That segment still ends in a NUL: a crash does not shorten it.
 4. Its first event is above every anchor: what an anchor names was acknowledged.
 5. Its first line holds a NUL, which is a sector that never arrived, or is the beginning of a
    line, unterminated. A line that is bad, whole and terminated was changed (C1-09), whatever a
    crash did behind it; so was one that would verify without its last byte, its line feed.
 6. No line that verifies anywhere in it says that its first event was synced. Such lines are
    looked for at every occurrence of a line's beginning, not only after line feeds. Where
    that would cost too much (T8), only where a crash leaves them: behind a line feed or a NUL.

Otherwise it is damage in acknowledged data, and stops. Torn bytes are never parsed, moved or
overwritten; the next append opens a new segment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lastgood.errors import DamagedError, LastgoodError
from lastgood.formats import event
from lastgood.formats.event import BEGINNING, EventKeys
from lastgood.formats.segment import BadLine

ACCEPT: Final = (
    "Go on with the events before it, and keep its bytes, with: lastgood repair SESSION --tail "
    "--reason TEXT"
)
"""What to do about a damaged end; only above every anchor."""

_LARGEST_FACTOR: Final = 16
_LEAST_BYTES: Final = 1024 * 1024
_END: Final = re.compile(rb"[\n\0]")


@dataclass(frozen=True, slots=True)
class Torn:
    """A torn tail.

    Attributes:
        segment: Where it lies.
        offset: Where it begins.
        size_bytes: Its bytes, up to the reserved zeros.
        sequence: The first event that is not there; nobody was told that it was stored.
    """

    segment: str
    offset: int
    size_bytes: int
    sequence: int

    def __str__(self) -> str:
        """For people."""
        return (
            f"{self.segment}: {self.size_bytes} bytes from offset {self.offset} on are what a "
            f"crash leaves of a write of event {self.sequence} before it is acknowledged; they "
            "stay where they are and are not believed"
        )


@dataclass(frozen=True, slots=True)
class _Behind:
    """What verifies inside the bad region."""

    records: int
    highest_synced: int


def judge(
    data: bytes,
    bad: BadLine,
    *,
    segment: str,
    stop: int,
    is_newest: bool,
    attested: int,
    keys: EventKeys,
) -> Torn:
    """Return the torn tail that begins at ``bad``.

    Args:
        data: The whole segment.
        bad: Its first line that does not verify and chain.
        segment: Its name.
        stop: Where its data ends.
        is_newest: Whether it is the newest with a whole first line, or ``bad`` is the first line
            of one that is newer still.
        attested: The highest sequence that an anchor names.
        keys: The session's.

    Raises:
        DamagedError: It is damage; names file, line, offset and what follows.
        LastgoodError: The line verifies and does not continue the log.
    """
    problem = bad.problem
    # 1; and a key that may not verify is no damage
    if bad.is_authentic or not isinstance(problem, DamagedError):
        raise _placed(problem, data, bad, segment)
    region = data[bad.offset : stop]
    behind = _behind(region, keys=keys, segment=segment)
    # 2, 3, 4, 5, 6
    if (
        is_newest
        and data[-1:] == b"\0"
        and bad.sequence > attested
        and _is_cut(region, keys=keys, segment=segment)
        and behind.highest_synced < bad.sequence
    ):
        return Torn(segment, bad.offset, len(region), bad.sequence)
    raise DamagedError(
        f"{problem.what}; it should be event {bad.sequence}, and {behind.records} further records "
        f"in {len(region)} bytes follow",
        name=segment,
        line=_line(data, bad.offset),
        offset=bad.offset,
        do=ACCEPT if is_newest and bad.sequence > attested else None,
    )


def records_behind(region: bytes, *, keys: EventKeys, segment: str) -> int:
    """How many lines verify behind the first one of a damaged region.

    Raises:
        LastgoodError: One that verifies cannot be read.
    """
    return _behind(region, keys=keys, segment=segment).records


def _placed(problem: LastgoodError, data: bytes, bad: BadLine, segment: str) -> LastgoodError:
    """The problem, with its line and offset where its class tells them."""
    if not isinstance(problem, DamagedError):
        return problem
    placed = type(problem)(
        problem.what, name=segment, line=_line(data, bad.offset), offset=bad.offset, do=problem.do
    )
    placed.__cause__ = problem
    return placed


def _line(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _is_cut(region: bytes, *, keys: EventKeys, segment: str) -> bool:
    """Whether something of the region's first line never arrived (5)."""
    text, feed, _ = region.partition(b"\n")
    if feed or b"\0" in text:
        return b"\0" in text
    try:
        event.authenticate(text[:-1], keys=keys, name=segment)
    except DamagedError:
        return BEGINNING.startswith(text[: len(BEGINNING)])
    return False


def _behind(region: bytes, *, keys: EventKeys, segment: str) -> _Behind:
    """Look for lines that verify, at every beginning of one.

    Raises:
        LastgoodError: One that verifies cannot be read: it may say that the region was synced.
    """
    records = synced = 0
    left_bytes = max(_LEAST_BYTES, _LARGEST_FACTOR * len(region))
    at = region.find(BEGINNING, 1)
    while at >= 0:
        text = b""
        if left_bytes >= 0 or _END.match(region, at - 1):
            text = _text(region, at)
            left_bytes -= len(text)
        try:
            _, _, body = event.authenticate(text, keys=keys, name=segment)
        except DamagedError:
            at = region.find(BEGINNING, at + 1)
            continue
        records += 1
        synced = max(synced, event.read_body(body, name=segment).synced)
        at = region.find(BEGINNING, at + len(text))
    return _Behind(records, synced)


def _text(region: bytes, at: int) -> bytes:
    """From ``at`` to the next byte that no line holds; looks no further (T8)."""
    end = _END.search(region, at)
    return region[at : end.start() if end else len(region)]
