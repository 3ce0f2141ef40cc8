"""The event log as its owner writes it: append, group commit, rolling, closing.

::

    stage    give events their numbers, chain and seal their lines, choose their segment;
             no I/O, so its order is the order of the log
    commit   one thread writes all that is staged, for every thread that waits:
             confirm ownership → one write → one fdatasync → confirm ownership → acknowledge

One write and one flush for any number of events that were staged meanwhile. If either fails,
nobody who waits gets an acknowledgement and the log is over: nothing more is written into that
segment, and the next owner, of the same process too, begins a new one behind the last
acknowledged event.
"""

from __future__ import annotations

import contextlib
import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lastgood.clock import utc_text
from lastgood.errors import (
    BusyError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    StorageError,
)
from lastgood.formats import anchor, event, names, segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.event import Event, EventKeys
from lastgood.lease import Lease

_OVER: Final = "The event log of this handle ended with an error"


@dataclass(slots=True)
class _Chunk:
    """What goes into one segment by one write.

    Attributes:
        name: The segment.
        begin_bytes: What is reserved for it, if it is to be made first; else 0.
        lines: What is written.
        end: The log's end when it is durable.
    """

    name: str
    begin_bytes: int
    lines: list[bytes]
    end: LogAnchor


@dataclass(slots=True)
class _Writing:
    """Where the next line goes: ``end`` is the log's end with all that is staged."""

    end: LogAnchor
    name: str = ""
    reserved_bytes: int = 0


@dataclass(slots=True, eq=False)
class Ticket:
    """Events on their way into the log.

    Attributes:
        after: Where the next line goes behind them.
        before: Where it went before them.
        events: The caller's, numbered.
        chunks: What is to be written.
        is_done: Whether the outcome is known.
        error: Why they are not acknowledged.
    """

    after: _Writing
    before: _Writing
    events: list[Event] = field(default_factory=list)
    chunks: list[_Chunk] = field(default_factory=list)
    is_done: bool = False
    error: LastgoodError | None = None

    @property
    def sequences(self) -> tuple[int, ...]:
        """The numbers of the events, ascending."""
        return tuple(made.sequence for made in self.events)


@dataclass(slots=True)
class EventLog:
    """The log of an owned session; several threads may append.

    Attributes:
        lease: The ownership; its log's end is where this log goes on.
        end: The anchor of the last acknowledged event.
        over: An append failed: take the session again before the next one.
        written_bytes: What was appended so far.
    """

    lease: Lease
    end: LogAnchor = field(init=False)
    over: bool = False
    written_bytes: int = 0
    _keys: EventKeys = field(init=False)
    _writing: _Writing = field(init=False)
    _open: str = ""
    _staged: list[Ticket] = field(default_factory=list)
    _leader: Ticket | None = None
    # Held as the lock itself: to enter and to leave it is one step for a signal's exception.
    _mutex: threading.RLock = field(default_factory=threading.RLock)
    _turn: threading.Condition = field(init=False)

    def __post_init__(self) -> None:
        """Go on at the end that R4 read."""
        self._turn = threading.Condition(self._mutex)
        scope, found = self.lease.scope, self.lease.log
        self.end = anchor.EMPTY if found is None else found.end
        self._keys = EventKeys(scope.sealer, store_id=scope.store_id, session=scope.session)
        self._writing = _Writing(self.end)

    def append(self, events: Sequence[tuple[str, JSON]]) -> Ticket:
        """``prepare``, ``stage`` and ``commit``, where nobody else stages."""
        ticket = self.prepare(events)
        self.stage(ticket)
        self.commit(ticket)
        return ticket

    def prepare(self, events: Sequence[tuple[str, JSON]]) -> Ticket:
        """Give ``events`` the numbers and lines that they would have; nothing is changed.

        Args:
            events: Types and data, at least one.

        Raises:
            StateError: Data that would not come back as it is.
            LimitError: An event is too large or too deep.
            StorageError: The log is over.
        """
        with self._mutex:
            self._check()
            ticket = Ticket(copy.copy(self._writing), self._writing)
        for kind, data in events:
            ticket.events.append(self._add(ticket.chunks, ticket.after, kind, data))
        return ticket

    def stage(self, ticket: Ticket) -> None:
        """Let ``ticket`` be written by the next ``commit`` of anybody.

        Raises:
            BusyError: Something else was staged since it was prepared.
            StorageError: The log is over.
        """
        with self._mutex:
            self._check()
            if self._writing is not ticket.before:
                raise BusyError("Another thread appended in between")
            # In one step: numbers that are given out and never written would break the chain.
            self._writing, self._staged = ticket.after, [*self._staged, ticket]

    def commit(self, ticket: Ticket) -> None:
        """Wait until ``ticket`` is durable; one of those who wait writes for all.

        Raises:
            FencedError: Another owner took the session. Its ``safe`` tells whether it may have
                read the events.
            DurabilityUnknownError: It may be in the log, or not.
            StorageError: It is not in the log.
        """
        try:
            with self._mutex:
                while self._leader is not None and not ticket.is_done:
                    self._turn.wait()
                if not ticket.is_done:
                    self._leader = ticket
            if self._leader is ticket:
                self._lead()
        finally:
            if self._leader is ticket:  # a signal's exception: nobody is to wait for ever
                self._settle((), DurabilityUnknownError("Appending was interrupted"))
        if ticket.error is not None:
            raise copy.copy(ticket.error) from ticket.error

    def flush(self) -> None:
        """Wait until everything that is staged is durable, or known to have failed."""
        with self._mutex:
            while self._leader is not None:
                self._turn.wait()
            waiting = self._staged[-1] if self._staged else None
        if waiting is not None:
            with contextlib.suppress(LastgoodError):  # its own thread is told
                self.commit(waiting)

    def close(self) -> None:
        """Write the line that closes an owner's segment, and give back its reserved bytes.

        Raises:
            LastgoodError: It is not closed; everything that was acknowledged is durable.
        """
        if self._open and not self.over:
            self.append([(event.CLOSED, None)])
            self.lease.storage.finish(self._open)
            self._open = ""

    def leave(self) -> None:
        """Give back the last segment, whose valid length its successor names by now."""
        if self._open and not self.over:  # else it may be empty, or hold what failed
            with contextlib.suppress(LastgoodError):  # reserved bytes stay, which is legal
                self.lease.storage.finish(self._open)
            self._open = ""

    def _check(self) -> None:
        if self.over:
            raise StorageError(_OVER, do="Run the call again: it takes the session again")

    def _add(self, chunks: list[_Chunk], writing: _Writing, kind: str, data: JSON) -> Event:
        """Encode one event, behind a segment's first line where it needs a new one."""
        made, line, mac = self._encode(writing.end, kind, data)
        if writing.end.offset + len(line) >= writing.reserved_bytes:
            # The first line takes a number of its own: the event's line is made again behind it.
            before = writing.end
            _, first, first_mac = self._encode(before, event.SEGMENT, anchor.encode(before))
            name = names.segment(before.count + 1, self.lease.manifest.epoch)
            begun = LogAnchor(before.count + 1, name, len(first), first_mac)
            made, line, mac = self._encode(begun, kind, data)
            size_bytes = segment.size_for(writing.reserved_bytes, len(first) + len(line))
            writing.name, writing.reserved_bytes, writing.end = name, size_bytes, begun
            chunks.append(_Chunk(name, size_bytes, [first], begun))
        _put(chunks, writing, line, mac)
        return made

    def _encode(self, before: LogAnchor, kind: str, data: JSON) -> tuple[Event, bytes, str]:
        lease = self.lease
        made = Event(
            sequence=before.count + 1,
            previous=before.head,
            synced=self.end.count,
            epoch=lease.manifest.epoch,
            at=utc_text(lease.owner.clock.now()),
            type=kind,
            data=data,
        )
        line, mac = event.encode(made, keys=self._keys, limits=lease.scope.limits)
        return made, line, mac

    def _lead(self) -> None:
        """Write what is staged, for everybody; sets every ticket's outcome."""
        batch = tuple(self._staged)
        error: LastgoodError | None = None
        try:
            self._write(_joined(batch))
        except LastgoodError as failed:
            error = failed
        self._settle(batch, error)

    def _settle(self, batch: Sequence[Ticket], error: LastgoodError | None) -> None:
        """Tell everybody; may be broken off and done again."""
        with self._mutex:
            if error is not None:
                self.over = True
                batch = self._staged  # what was staged meanwhile is chained to what failed
            for ticket in batch:
                if not ticket.is_done:
                    ticket.error, ticket.is_done = self._outcome(ticket, error), True
            self._staged = [ticket for ticket in self._staged if not ticket.is_done]
            self._turn.notify_all()
            self._leader = None

    def _outcome(self, ticket: Ticket, error: LastgoodError | None) -> LastgoodError | None:
        """What ``error`` means for one of those who wait."""
        numbers = ticket.sequences
        if error is None or numbers[-1] <= self.end.count:
            return None
        if numbers[0] <= self.end.count:
            partly = f"Appending events {numbers[0]} to {numbers[-1]}, of which some are stored"
            return DurabilityUnknownError(f"{partly} ({error.code})")
        return error

    def _write(self, chunks: list[_Chunk]) -> None:
        """One write and one fdatasync for each segment that is touched."""
        for chunk in chunks:
            self.lease.confirm_owner()
            before = self._open
            if chunk.begin_bytes:
                # Crash here: an empty segment, which the next owner skips.
                self._begin(chunk)
                self._open = chunk.name
            data = b"".join(chunk.lines)
            # Crash here: the lines are there, in part or not at all; nobody was told.
            self.lease.storage.append(chunk.name, data)
            self._confirm_written()
            with self._mutex:
                self.end = chunk.end
                self.written_bytes += len(data)
            if chunk.begin_bytes and before:
                with contextlib.suppress(StorageError):  # reserved bytes stay, which is legal
                    self.lease.storage.finish(before)

    def _confirm_written(self) -> None:
        """Return only if nobody took the session before the lines were durable.

        Raises:
            FencedError: Somebody did, and may have read them: they may be in the log.
            DurabilityUnknownError: That cannot be known.
        """
        try:
            self.lease.confirm_owner()
        except FencedError as error:
            error.safe = "The events may be in the log; nothing behind them will be believed"
            raise
        except StorageError as error:
            raise DurabilityUnknownError(
                "Confirming what was written", errno=error.errno
            ) from error

    def _begin(self, chunk: _Chunk) -> None:
        try:
            self.lease.storage.begin(chunk.name, size_bytes=chunk.begin_bytes)
        except LastgoodError:
            with contextlib.suppress(StorageError):  # of two errors the first is told
                self.lease.confirm_owner()  # a newer owner's sweep looks like damage (F13)
            raise


def _put(chunks: list[_Chunk], writing: _Writing, line: bytes, mac: str) -> None:
    """Add a line to the segment that is being written."""
    before = writing.end
    writing.end = LogAnchor(before.count + 1, writing.name, before.offset + len(line), mac)
    if not chunks or chunks[-1].name != writing.name:
        chunks.append(_Chunk(writing.name, 0, [], before))
    chunks[-1].lines.append(line)
    chunks[-1].end = writing.end


def _joined(tickets: Iterable[Ticket]) -> list[_Chunk]:
    """What all tickets write, as one chunk for each segment."""
    joined: list[_Chunk] = []
    for ticket in tickets:
        for chunk in ticket.chunks:
            if not joined or joined[-1].name != chunk.name:
                joined.append(_Chunk(chunk.name, chunk.begin_bytes, [], chunk.end))
            joined[-1].lines += chunk.lines
            joined[-1].end = chunk.end
    return joined
