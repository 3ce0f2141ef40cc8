"""The log anchor: the place in the event log that a checkpoint or a claim was made at.

``{"count":110,"segment":"events-000001-0001.jsonl","offset":51234,"head":"…64 hex"}``

=======  ====  ==================================================================
field    type  meaning, limit
=======  ====  ==================================================================
count    int   events up to here
segment  text  name of the segment that event ``count`` lies in
offset   int   bytes of that segment up to and with that event's line feed
head     hex   MAC of that event's line, 64 characters
=======  ====  ==================================================================

Before the first event it is ``(0, "", 0, 64 zeros)``; a session of checkpoints only
has null in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from lastgood.errors import DamagedError, ForkDetectedError
from lastgood.formats import names
from lastgood.formats.canonical import JSON
from lastgood.formats.fields import Fields

_FIELDS: Final = ("count", "segment", "offset", "head")
NO_HEAD: Final = "0" * 64


@dataclass(frozen=True, slots=True)
class LogAnchor:
    """A place in the log, and the MAC there."""

    count: int
    segment: str
    offset: int
    head: str


EMPTY: Final = LogAnchor(0, "", 0, NO_HEAD)


def encode(anchor: LogAnchor | None) -> JSON:
    """The JSON of ``anchor``; inverse of ``decode``."""
    if anchor is None:
        return None
    return {
        "count": anchor.count,
        "segment": anchor.segment,
        "offset": anchor.offset,
        "head": anchor.head,
    }


def decode(value: JSON, *, name: str) -> LogAnchor | None:
    """Read an anchor, or null.

    Raises:
        DamagedError: Not an anchor; an empty log with a segment, or the other way round.
    """
    if value is None:
        return None
    fields = Fields(value, _FIELDS, what="log anchor", name=name)
    anchor = LogAnchor(
        fields.integer("count"),
        fields.text("segment", limit_chars=60),
        fields.integer("offset"),
        fields.hex("head", digits=64),
    )
    parsed = names.parse(anchor.segment)
    in_segment = parsed is not None and parsed.kind is names.Kind.SEGMENT
    if anchor != EMPTY and (anchor.count == 0 or not in_segment):
        raise DamagedError("its log anchor names no place in a log", name=name)
    return anchor


def is_same_line(one: LogAnchor, other: LogAnchor) -> bool:
    """Whether two anchors name one line; its line feed may not have been there for one of them."""
    same = (one.count, one.segment, one.head) == (other.count, other.segment, other.head)
    return same and abs(one.offset - other.offset) <= 1


def by_count(anchors: Iterable[LogAnchor]) -> dict[int, LogAnchor]:
    """The anchors by their event; those before the first event say nothing.

    Raises:
        ForkDetectedError: Two of them name different events of one sequence.
    """
    found: dict[int, LogAnchor] = {}
    for anchor in anchors:
        other = found.get(anchor.count, anchor)
        if not is_same_line(anchor, other):
            raise ForkDetectedError(f"Two records name different events {anchor.count}")
        if anchor.count:
            found[anchor.count] = max(anchor, other, key=lambda at: at.offset)
    return found
