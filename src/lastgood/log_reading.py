"""The event log as it lies on the disk: which segments are the log, where it ends, what it says.

Nothing here changes a byte. One segment is held at a time, so memory does not grow with the log.

The log is found from its end, never from the listing (R2):

* The newest segment (by epoch, then first sequence) that has a whole first line is the last
  live one. Newer ones are empty or hold a torn first line; they are skipped, kept, reported.
* Each first line names the segment before it, its valid length and its head. So the chain is
  followed backwards by first lines, and every line on it is verified forwards.
* What no first line names belongs to no log: an owner was fenced, or died before its first
  append. If it has a whole first line, it is of an older epoch than the one that took over.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    LogGapError,
    NotStoredError,
    RollbackDetectedError,
    SplicedError,
)
from lastgood.formats import anchor, event, names, segment
from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.formats.event import EventKeys, Line
from lastgood.formats.names import Kind
from lastgood.formats.segment import BadLine, Walk
from lastgood.log_found import Link, LogFound
from lastgood.reading import Scope
from lastgood.rules import tail
from lastgood.rules.tail import Torn
from lastgood.storage.interface import Storage

SEGMENTS: Final = "events-"


@dataclass(slots=True)
class LogReading:
    """One reading of a log.

    Attributes:
        scope: The session.
        storage: Its directory.
        trace: Names and bytes that were seen, to be compared with those of the next reading.
        at: The anchor of the line that ``replay`` yielded last.
    """

    scope: Scope
    storage: Storage
    trace: list[tuple[str, str]] = field(default_factory=list)
    at: LogAnchor = EMPTY
    keys: EventKeys = field(init=False)
    _damaged: list[str] = field(init=False, default_factory=list)
    _behind: list[str] = field(init=False, default_factory=list)
    _passed: dict[int, LogAnchor | None] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Take the session's keys for events."""
        scope = self.scope
        self.keys = EventKeys(scope.sealer, store_id=scope.store_id, session=scope.session)

    def find(
        self,
        *,
        anchors: Iterable[LogAnchor] = (),
        since: int = 1,
        floor: LogAnchor | None = None,
    ) -> LogFound:
        """Find the log and verify it from the segment of event ``since`` on (R2, R4).

        Args:
            anchors: What checkpoints and claims say of it; each must be at or below its end,
                with the head that it names.
            since: The first event that the caller needs; what lies before its segment is not
                read.
            floor: Where the kept log begins, if it was cut.

        Raises:
            RollbackDetectedError: The log is older than an anchor.
            ForkDetectedError: An anchor, or a segment, is of another history.
            DamagedError: It holds what no crash leaves.
            StorageError: It cannot be read.
        """
        self._damaged.clear()
        self._behind.clear()
        named = self._segments()
        marks = anchor.by_count(anchors if floor is None else (*anchors, floor))
        attested = max(marks, default=0)
        if not named:
            _refuse_missing(attested)
            return LogFound()
        newest, skipped = self._newest(named, marks)
        if newest is None:
            _refuse_missing(attested)
            self._check_skipped(skipped, EMPTY)
            return LogFound(
                skipped=tuple(skipped),
                damaged=tuple(self._damaged),
                epoch=segment.parse(named[-1]).epoch,
            )
        links = self._links(newest, since=max(1, since), floor=floor)
        strays = self._strays(named, links, skipped)
        self._passed = {begin.count: None for begin in strays.values() if begin is not None}
        end, torn, size_bytes = links[0].before, None, 0
        for link in links:
            if link.before != end:
                raise ForkDetectedError(f"{link.name} names another end of {end.segment}")
            self._pass(marks, end)
            end, torn = self._verify(link, marks, attested=attested)
            size_bytes += end.offset
        if end.count < attested:
            raise RollbackDetectedError(
                f"The log ends at event {end.count}; event {attested} was acknowledged"
            )
        if not self._ends_at_damage:
            self._check_skipped(skipped, end)
        self._check_strays(strays, links)
        return LogFound(
            end=end,
            links=tuple(links),
            torn=torn,
            skipped=tuple(skipped),
            stray=tuple(strays),
            damaged=tuple(self._damaged),
            leftovers=tuple(_up_to(floor, named)),
            behind=tuple(self._behind),
            epoch=segment.parse(named[-1]).epoch,
            size_bytes=size_bytes,
        )

    def replay(self, found: LogFound, *, after: int = 0) -> Iterator[Line]:
        """Yield the verified lines of events ``after + 1`` to the end that was found, as a stream.

        Raises:
            LastgoodError: The log is no longer what was found.
        """
        reached = after
        for place, link in enumerate(found.links):
            last = place == len(found.links) - 1
            stop = found.end if last else found.links[place + 1].before
            if stop.count <= after:
                continue
            data = self._read(link.name)
            walk = Walk(
                data,
                begin=segment.begin_of(link.name, link.before),
                keys=self.keys,
                until=stop.offset,
            )
            for line in walk:
                if line.event.sequence > reached:
                    reached, self.at = line.event.sequence, walk.end
                    yield line
            if walk.end != stop:
                raise DamagedError("it changed since it was verified", name=link.name)
        if reached != max(after, found.end.count):
            raise LogGapError(f"events {reached + 1} to {found.end.count} are not there")

    @property
    def _ends_at_damage(self) -> bool:
        """Whether a person decided that the log ends where its last segment is damaged."""
        return "log-end" in self.scope.waived

    def _segments(self) -> list[str]:
        """The names of all segments, by epoch, then first sequence; never by their text."""
        parsed = [(names.parse(name), name) for name in self.storage.list(SEGMENTS)]
        found = sorted(
            (p.epoch, p.number, name)
            for p, name in parsed
            if p is not None and p.kind is Kind.SEGMENT
        )
        self.trace += ((name, "") for _, _, name in found)
        return [name for _, _, name in found]

    def _newest(
        self, named: list[str], marks: dict[int, LogAnchor]
    ) -> tuple[Link | None, list[str]]:
        """The last live segment, and the newer ones, which hold no whole first line."""
        skipped: list[str] = []
        for name in reversed(named):
            if skipped and self._is_blank(name):  # seldom many, unless they were planted (T8)
                skipped.insert(0, name)
                continue
            data = self._read(name)
            try:
                return Link(name, segment.read_first(data, name=name, keys=self.keys)), skipped
            except LastgoodError as problem:
                # An event of the same number may have been acknowledged in an older segment.
                within = [at.count for at in marks.values() if _order(at.segment) >= _order(name)]
                self._skip(name, data, problem, attested=max(within, default=0))
                skipped.insert(0, name)
        return None, skipped

    def _is_blank(self, name: str) -> bool:
        """Whether a segment is nothing but reserved bytes, found out without holding it."""
        limit_bytes = segment.max_bytes(self.scope.limits)
        size_bytes = 0
        with contextlib.closing(self.storage.stream(name, max_bytes=limit_bytes)) as chunks:
            for chunk in chunks:
                size_bytes += len(chunk)
                if chunk != bytes(len(chunk)):
                    return False
        return size_bytes > 0

    def _skip(self, name: str, data: bytes, problem: LastgoodError, *, attested: int) -> None:
        """Return only if ``name`` is empty, or its first line is torn."""
        if data and not data.strip(b"\0"):
            return
        try:
            self._judge_first(name, data, problem, is_newest=True, attested=attested)
        except DamagedError as error:
            if not self._ends_at_damage or error.do != tail.ACCEPT:
                raise
            if name not in self._damaged:
                self._damaged.append(name)

    def _judge_first(
        self, name: str, data: bytes, problem: LastgoodError, *, is_newest: bool, attested: int
    ) -> None:
        """Return only if the first line of ``name``, which cannot be read, is torn."""
        try:
            event.authenticate(segment.first_text(data), keys=self.keys, name=name)
            authentic = True
        except LastgoodError:
            authentic = False
        bad = BadLine(0, segment.parse(name).number, problem, authentic)
        stop = len(data.rstrip(b"\0"))
        self._judge(data, bad, name, stop, is_newest=is_newest, attested=attested)

    def _links(self, newest: Link, *, since: int, floor: LogAnchor | None) -> list[Link]:
        """Follow first lines backwards to the segment that holds event ``since``."""
        links = [newest]
        lowest = max(since, floor.count + 1 if floor is not None else 1)
        while links[0].before.count >= lowest:
            before = links[0].before
            name = before.segment
            if _order(name) >= _order(links[0].name):
                raise SplicedError(f"it continues {name}, which is newer", name=links[0].name)
            try:
                data = self._read(name)
            except NotStoredError as error:
                raise LogGapError(
                    f"it is missing, and {links[0].name} continues it", name=name
                ) from error
            try:
                begin = segment.read_first(data, name=name, keys=self.keys)
            except LastgoodError as problem:
                self._judge_first(name, data, problem, is_newest=False, attested=0)
                raise
            links.insert(0, Link(name, begin, before.offset))
        return links

    def _verify(
        self, link: Link, marks: dict[int, LogAnchor], *, attested: int
    ) -> tuple[LogAnchor, Torn | None]:
        """Verify one segment, and the anchors that lie in it; returns where it ends."""
        data = self._read(link.name)
        is_last = link.until is None
        begin = segment.begin_of(link.name, link.before)
        walk = Walk(data, begin=begin, keys=self.keys, until=link.until)
        kind = ""
        for line in walk:
            kind = line.event.type
            self._pass(marks, walk.end)
        torn = None
        try:
            if walk.bad is not None:
                bad, stop = walk.bad, walk.stop
                torn = self._judge(data, bad, link.name, stop, is_newest=is_last, attested=attested)
            elif is_last and data[-1:] != b"\0" and kind != event.CLOSED:
                raise DamagedError(
                    "it was shortened: an open segment ends in reserved bytes, a closed one in "
                    "the line that closes it",
                    name=link.name,
                    offset=len(data),
                    do=tail.ACCEPT if walk.end.count >= attested else None,
                )
        except DamagedError:
            if not self._ends_at_damage or not is_last or walk.end.count < attested:
                raise
            torn = Torn(link.name, walk.end.offset, walk.stop - walk.end.offset, walk.end.count + 1)
        if link.until is not None and data[link.until :].strip(b"\0\n"):
            self._behind.append(link.name)
        return walk.end, torn

    def _judge(
        self, data: bytes, bad: BadLine, name: str, stop: int, *, is_newest: bool, attested: int
    ) -> Torn:
        self.trace.append((name, hashlib.sha256(data).hexdigest()))
        return tail.judge(
            data,
            bad,
            segment=name,
            stop=stop,
            is_newest=is_newest,
            attested=attested,
            keys=self.keys,
        )

    def _check_skipped(self, skipped: Iterable[str], end: LogAnchor) -> None:
        """An owner that opens a segment stands at the log's end, or before what failed there."""
        for name in skipped:
            # Crash before that owner's first append: an event whose append had failed, so that
            # it was begun without it, may be whole in the segment before, and counts again.
            if segment.parse(name).number > end.count + 1:
                raise LogGapError(f"the log ends at event {end.count}", name=name)

    def _strays(
        self, named: list[str], links: list[Link], skipped: list[str]
    ) -> dict[str, LogAnchor | None]:
        """What no first line names, and where it begins; None for a torn or missing first line."""
        live = [link.name for link in links]
        found: dict[str, LogAnchor | None] = {}
        for name in named[named.index(live[0]) :]:
            if name in live or name in skipped:
                continue
            data = self._read(name)
            try:
                found[name] = segment.read_first(data, name=name, keys=self.keys)
            except LastgoodError as problem:
                self._skip(name, data, problem, attested=0)
                found[name] = None
        return found

    def _check_strays(self, strays: dict[str, LogAnchor | None], links: list[Link]) -> None:
        """A fenced owner stood on this log, not behind the place where the next one took over.

        One that wrote what is live stood at the end of that.
        """
        writers = {segment.parse(link.name).epoch for link in links}
        for name, begin in strays.items():
            if begin is None or begin.count < links[0].before.count:
                continue
            later = next(link for link in links if _order(link.name) > _order(name))
            lowest = later.before.count if segment.parse(name).epoch in writers else 0
            on_the_log = self._passed.get(begin.count) == begin
            if not (lowest <= begin.count <= later.before.count and on_the_log):
                raise ForkDetectedError(
                    f"{name} is intact, and no segment continues it; {later.name} begins at "
                    "another event"
                )

    def _pass(self, marks: dict[int, LogAnchor], here: LogAnchor) -> None:
        """Return only if the anchor of this event, where there is one, names it.

        Raises:
            ForkDetectedError: It names another event of this sequence.
            DamagedError: It names this one, with a line feed that is gone.
        """
        if here.count in self._passed:
            self._passed[here.count] = here
        mark = marks.get(here.count, here)
        if mark == here:
            return
        if not anchor.is_same_line(mark, here):
            raise ForkDetectedError(
                f"Event {here.count} is intact, but not the one that was acknowledged"
            )
        # A claim may have been made before the line feed was to be seen (a broken lock).
        if mark.offset > here.offset:
            raise DamagedError("a line feed is gone", name=here.segment, offset=here.offset)

    def _read(self, name: str) -> bytes:
        try:
            return self.storage.read(name, max_bytes=segment.max_bytes(self.scope.limits))
        except LastgoodError as error:
            self.trace.append((name, str(error)))
            raise


def _order(name: str) -> tuple[int, int]:
    """Epoch, then first sequence."""
    parsed = segment.parse(name)
    return parsed.epoch, parsed.number


def _up_to(floor: LogAnchor | None, named: Iterable[str]) -> Iterator[str]:
    """The segments that lie before the kept log."""
    if floor is not None:
        yield from (name for name in named if _order(name) <= _order(floor.segment))


def _refuse_missing(attested: int) -> None:
    if attested:
        raise RollbackDetectedError(f"The log holds no event; event {attested} was acknowledged")
