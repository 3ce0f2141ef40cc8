"""The events of a session as a stream for people: verified before shown, nothing changed (G8).

A sound log is verified whole, bound to its checkpoints, and then read again, line by line, so
that memory does not grow with it. Of a damaged one, what can still be believed is shown before
the error: the lines from its beginning on that verify and chain, up to the first that does not
(C1-05). Nothing behind that is shown, however well it verifies.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Literal

from lastgood.clock import Clock
from lastgood.errors import LastgoodError, PolicyError, printable
from lastgood.formats import names, segment
from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.formats.event import Event, Line
from lastgood.formats.names import Kind
from lastgood.formats.segment import Walk
from lastgood.formats.session import SessionRecord
from lastgood.log_found import LogFound
from lastgood.log_reading import SEGMENTS, LogReading
from lastgood.reading import Reading, Scope, newest_of
from lastgood.rules import selection
from lastgood.storage.interface import Storage
from lastgood.survey import Attempt, base_of, read_log, read_whole, until_settled

_TRIMMINGS: Final = 3

Extent = Literal["all", "recent"]
"""``recent``: from the segment of the older generation on, which is what resuming reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The events of a session.

    Attributes:
        scope: The session.
        storage: Its directory.
        is_new: Whether there is no session.
        checkpoint: Sequence of the last good checkpoint; 0 if there is none to give.
        floor: Where the kept log begins, if it was cut.
        found: The log; None where it cannot be believed.
        error: Why a load would stop; None if it would not.
    """

    scope: Scope
    storage: Storage
    is_new: bool = False
    checkpoint: int = 0
    floor: LogAnchor | None = None
    found: LogFound | None = None
    error: LastgoodError | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of the log."""
        return () if self.found is None else self.found.notices

    def events(self, *, since: int = 1) -> Iterator[Event]:
        """Yield the events from ``since`` on in their order, lastgood's own included.

        Raises:
            LastgoodError: Behind the last event that can be believed: what stops a load.
        """
        names.sequence(since)
        log = LogReading(self.scope, self.storage)
        if self.error is not None or self.found is None:
            for line in _believable(log, self.floor or EMPTY):
                if line.event.sequence >= since:
                    yield line.event
        else:
            for line in log.replay(self.found, after=since - 1):
                yield line.event
        if self.error is not None:
            raise self.error

    def behind(self, sequence: int) -> int:
        """How many events of the program's lie behind event ``sequence``.

        Raises:
            LastgoodError: As ``events``.
        """
        return sum(not event.is_ours for event in self.events(since=sequence + 1))


def read(scope: Scope, storage: Storage, *, clock: Clock, extent: Extent = "all") -> History:
    """Find and verify the log of a session.

    Raises:
        PolicyError: The session has none.
        BusyError: A writer kept moving it.
    """
    record = Reading(scope, storage).session_record()
    if isinstance(record, SessionRecord) and record.log is None:
        raise PolicyError(
            f"Session {printable(scope.session)} has no event log",
            do="See its checkpoints with: lastgood list SESSION",
        )
    for _ in range(_TRIMMINGS):
        found = until_settled(
            lambda: _attempt(Reading(scope, storage)),
            what=f"session {printable(scope.session)}",
            clock=clock,
        )
        if extent == "recent" or found.error is not None or found.found is None:
            return found
        try:
            whole = found.found
            if whole.end.count:
                whole = read_whole(scope, storage, whole, floor=found.floor)
            return replace(found, found=whole)
        except LastgoodError as error:
            stopped = replace(found, found=None, error=error)
        # A trimming may have taken segments away since the floor was read: then look again.
    return stopped


def _attempt(reading: Reading) -> Attempt[History]:
    scope, storage = reading.scope, reading.storage
    floor = None
    try:
        evidence = reading.evidence()
        newest = newest_of(evidence)
        floor = None if newest is None else newest.floor
        record = evidence.session
        chosen = selection.select(evidence)
        sound = record if isinstance(record, SessionRecord) else None
        base = base_of(reading, chosen)
        found = read_log(reading, sound, chosen, base=base)
    except LastgoodError as error:
        stopped = History(scope=scope, storage=storage, floor=floor, error=error)
        return Attempt(stopped, is_plain=False, trace=reading.trace)
    history = History(
        scope=scope,
        storage=storage,
        is_new=chosen.manifest is None,
        checkpoint=0 if base is None else base.sequence,
        floor=floor,
        found=found,
    )
    settled = chosen.is_settled and found is not None and found.is_settled
    return Attempt(history, settled and base is not None and not reading.lost_names, reading.trace)


def _believable(log: LogReading, floor: LogAnchor) -> Iterator[Line]:
    """The lines from the beginning on that verify and chain, as far as they do."""
    order = _segments(log)
    befores: dict[str, LogAnchor] = {}
    for each in order:
        with contextlib.suppress(LastgoodError):  # it is what stops, and is told behind
            befores[each] = segment.read_first(_data(log, each), name=each, keys=log.keys)
    name = _continuing(floor.segment, befores, order)
    while name is not None:
        newer = order[order.index(name) + 1 :]
        following = _continuing(name, befores, newer)
        until = None if following is None else befores[following].offset
        # One that cannot be read names at least where it begins: what its owner did not take
        # over is not shown.
        begins = (segment.parse(other).number for other in newer if other not in befores)
        stop = min(begins, default=math.inf)
        begin = segment.begin_of(name, befores[name])
        walk = Walk(_data(log, name), begin=begin, keys=log.keys, until=until)
        for line in walk:
            if line.event.sequence >= stop:
                return
            yield line
        if walk.bad is not None or (following is not None and walk.end != befores[following]):
            return
        name = following


def _segments(log: LogReading) -> list[str]:
    """The names of all segments, by epoch, then first sequence."""
    parsed = {name: names.parse(name) for name in log.storage.list(SEGMENTS)}
    found = [(p.epoch, p.number, n) for n, p in parsed.items() if p and p.kind is Kind.SEGMENT]
    return [name for _, _, name in sorted(found)]


def _continuing(before: str, befores: dict[str, LogAnchor], newer: list[str]) -> str | None:
    """The newest segment that continues ``before``; an older one is a fenced owner's."""
    named = (n for n in reversed(newer) if n in befores and befores[n].segment == before)
    return next(named, None)


def _data(log: LogReading, name: str) -> bytes:
    return log.storage.read(name, max_bytes=segment.max_bytes(log.scope.limits))
