"""Session: one agent run or job, whose event log is the source of truth.

A session is a state that follows a log. ``append`` makes an event durable and applies it;
``save`` makes a checkpoint, which only shortens the next replay. Opening is resuming: R1–R9.

Several threads may use one session. Two locks order them, always taken in this order:

* *saving* lets one save, or one taking again after an error, run at a time.
* *order* is held while events get their numbers and go through the reducer, so that the order
  of the state is the order of the log. Nobody waits for a disk in it, except a save's snapshot.

Waiting for the disk itself is outside both: threads that append meanwhile share one flush.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from lastgood import saving
from lastgood.claim import Owner
from lastgood.errors import (
    BusyError,
    DomainInvariantError,
    FencedError,
    LastgoodError,
    StateError,
    UsageError,
)
from lastgood.event_log import EventLog, Ticket
from lastgood.formats import event
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.event import check_event_type
from lastgood.formats.fields import check_type
from lastgood.formats.fingerprint import fingerprint, fingerprints
from lastgood.formats.manifest import Note
from lastgood.handle import SharedHandle
from lastgood.mending import approval, consumed
from lastgood.place import Place
from lastgood.reading import Scope
from lastgood.reduction import Reduction
from lastgood.replaying import Determinism, Going
from lastgood.resume import Opened, Resumed, follow, resume
from lastgood.rules.cadence import CheckpointPolicy, is_due
from lastgood.rules.retention import Retention
from lastgood.rules.selection import Waiver
from lastgood.saving import SaveReceipt

S = TypeVar("S")

_LOG: Final = logging.getLogger("lastgood")
_FINGERPRINTS_A_LINE: Final = 1_000

APPROVED: Final[tuple[Waiver, ...]] = ("approved-damage",)
"""What a session passes over: a damaged checkpoint that a person approved to be rebuilt."""


class Session(Generic[S]):
    """An owned session; made by ``Store.session``, given back by ``close`` or a ``with`` block.

    Args:
        place: The store.
        scope: The session.
        owner: Who takes it.
        reduction: The program's side.
        policy: When it saves by itself.
        retention: What is kept beyond two generations and milestones.
        determinism: ``check`` runs every replay twice and compares, and compares each saved state
            with a replay.

    Raises:
        LockedError: Another process holds it; names its pid, host and epoch.
        LastgoodError: As ``resume``; nothing was started.
    """

    def __init__(
        self,
        place: Place,
        scope: Scope,
        *,
        owner: Owner,
        reduction: Reduction[S],
        policy: CheckpointPolicy,
        retention: Retention,
        determinism: Determinism,
    ) -> None:
        if determinism not in ("trust", "check"):
            raise UsageError("The determinism is 'trust' or 'check'")
        self._policy = check_type(policy, CheckpointPolicy, what="policy")
        self._retention = check_type(retention, Retention, what="retention")
        self._scope = scope
        self._owner = owner
        self._reduction = reduction
        self._determinism: Determinism = determinism
        self._wait_s = scope.limits.lock_wait_s
        self._handle = SharedHandle()
        self._saving = _Turn()
        self._order = _Turn()
        self._stale = False
        self._unsaved: LastgoodError | None = None
        place.make(clock=owner.clock, writer=owner.writer)
        self._storage = place.root.session(scope.directory, access="write")
        try:
            opened = self._resume(after=None)
            self._take_over(opened)
            self._found = opened.found
            if approval(opened.lease) is not None:
                # An approved rebuild: the new checkpoint consumes the approval.
                self._save((), None, notes=consumed(opened.lease))
        except BaseException:
            self._storage.close()
            raise

    @property
    def id(self) -> str:
        """The session's id."""
        return self._scope.session

    @property
    def fencing_token(self) -> int:
        """The epoch: higher for each opening; give it to services that can refuse lower ones."""
        return self._log.lease.manifest.epoch

    @property
    def resumed(self) -> Resumed[S]:
        """What the opening found and decided."""
        return self._found

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know, of the opening and of the last automatic save."""
        failed = (
            () if self._unsaved is None else (f"The last automatic save failed: {self._unsaved}",)
        )
        return self._found.notices + failed

    @property
    def sequence(self) -> int:
        """Sequence of the last acknowledged event, lastgood's own included."""
        return self._log.end.count

    @property
    def state(self) -> S:
        """A copy of the state after every event that was acknowledged.

        Raises:
            StateError: It cannot be stored, so it cannot be copied either.
            LastgoodError: The session was lost, or has to be taken again and cannot be.
        """
        with self._handle.entered(), self._settled():
            return self._reduction.copy(self._going.state)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Side effects that are done, in the order of the log."""
        with self._handle.entered(), self._settled():
            return tuple(self._going.done)

    def should_replay(self, text: str) -> bool:
        """Whether the side effect of this fingerprint is still to be done.

        Raises:
            FingerprintError: It is malformed.
        """
        wanted = fingerprint(text)
        with self._handle.entered(), self._settled():
            return wanted not in self._going.known

    def append(self, kind: str, data: JSON = None) -> int:
        """Make an event durable and apply it; returns its sequence.

        On return it survives a crash and a loss of power. On raise it is not in the log, except
        for ``DurabilityUnknownError``, after which the session's next call settles it: only what
        was acknowledged is kept.

        Args:
            kind: Its type, 1 to 200 characters; those that begin with ``lastgood.`` are ours.
            data: Plain JSON data.

        Raises:
            ReducerError: The reducer refuses it. Nothing was stored.
            StateError: The data cannot be stored, or the validator refuses the new state.
            LimitError: It is larger than ``Limits.event_bytes``. Nothing was stored.
            BusyError: Called from a signal handler inside a call of this session.
            FencedError: Another owner took the session; nothing of this handle will be believed.
            DurabilityUnknownError, StorageError: The disk refused.
        """
        return self.append_many([(kind, data)])[0]

    def append_many(self, events: Iterable[tuple[str, JSON]]) -> tuple[int, ...]:
        """As ``append``, for several events that share one flush.

        If power is lost meanwhile, the first of them may be stored and the others not; on return
        all are.
        """
        given = [_event(pair) for pair in events]
        if not given:
            return ()
        with self._handle.entered():
            log, ticket = self._stage(given)
            log.commit(ticket)
            self._save_if_due()
            return ticket.sequences

    def save(
        self, *, fingerprints: Sequence[str] = (), milestone: str | None = None
    ) -> SaveReceipt:
        """Make a checkpoint of the state after every event that was acknowledged, durably.

        Args:
            fingerprints: Side effects that were done since; recorded in the log first, then in
                this checkpoint and every later one.
            milestone: Label under which this checkpoint is kept for good.

        Raises:
            StateError: The state cannot be stored, or (``determinism="check"``) is not what a
                replay gives.
            DurabilityUnknownError: The checkpoint may be current, or not; every event is stored.
            LastgoodError: As ``append``, and as ``CheckpointStore.save``.
        """
        with self._handle.entered(), self._saving.held(self._wait_s):
            receipt = self._save(fingerprints, milestone)
            self._unsaved = None
            return receipt

    def close(self) -> None:
        """Close the log and give the session back; idempotent.

        What was acknowledged is durable already. A call that is running, in another thread or in
        the code that a signal interrupted, comes to its end first; nothing waits for it here.

        Raises:
            LastgoodError: The last automatic save failed, and none succeeded since. The session
                is closed, every event is stored.
        """
        already = self._handle.is_ended
        self._handle.end(self._give_back)
        if self._unsaved is not None and not already:
            raise self._unsaved

    def __enter__(self) -> Self:
        """Use it as a context manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; nothing is saved by leaving, every event is stored."""
        try:
            self.close()
        except LastgoodError:
            if error is None:
                raise

    def _resume(self, *, after: EventLog | None) -> Opened[S]:
        return resume(
            self._scope,
            self._storage,
            owner=self._owner,
            reduction=self._reduction,
            determinism=self._determinism,
            after=after,
        )

    def _take_over(self, opened: Opened[S]) -> None:
        self._stale = True  # while only one of the two is there
        self._log = opened.log
        self._going: Going[S] = opened.going
        self._stale = False
        self._saved_at = (opened.log.end.count, self._now_s(), 0)

    def _stage(self, given: list[tuple[str, JSON]]) -> tuple[EventLog, Ticket]:
        """Number the events and apply them; the order of the state is the order of the log."""
        while True:
            with self._order.held(self._wait_s):
                if not self._is_over:
                    return self._log, self._enter(given)
            self._take_again()

    def _enter(self, given: list[tuple[str, JSON]]) -> Ticket:
        """Put the events behind what is staged, and apply them; the order lock is held."""
        self._refresh()
        ticket = self._log.prepare(given)
        # Until both are done: whatever raises, a reducer that changed the state before or a
        # signal's exception, the state is read again.
        self._stale = True
        for made in ticket.events:
            if made.type == event.FINGERPRINTS:
                self._going.learn(made.data)
            elif not made.is_ours:
                self._going.state = self._reduction.accept(self._going.state, made)
        self._log.stage(ticket)
        self._stale = False
        return ticket

    def _refresh(self) -> None:
        """Read the state again if a reducer may have spoiled it; the order lock is held."""
        if self._stale:
            self._log.flush()
            self._going = follow(self._log.lease, self._reduction, self._log.end)
            self._stale = False

    @contextmanager
    def _settled(self) -> Iterator[None]:
        """Hold the order, with everything that is staged acknowledged and the state sound."""
        while True:
            with self._order.held(self._wait_s):
                self._log.flush()
                if not self._is_over:
                    self._refresh()
                    yield
                    return
            self._take_again()

    @property
    def _is_over(self) -> bool:
        return self._log.over or self._log.lease.over

    def _take_again(self) -> None:
        with self._saving.held(self._wait_s):
            self._take_again_saving()

    def _take_again_saving(self) -> None:
        """R1 to R9 again after an error, going on from what was acknowledged."""
        with self._order.held(self._wait_s):
            if not self._is_over:
                return
            before = self._log
            # Who is writing is acknowledged, or not, before the end is taken for the log's end.
            before.flush()
            if before.lease.fenced:
                raise FencedError("This handle lost the session to another owner")
            try:
                self._take_over(self._resume(after=before))
                before.leave()
            except FencedError:
                before.lease.fenced = True
                raise

    def _save(
        self,
        given: Sequence[str],
        milestone: str | None,
        *,
        notes: tuple[Note, ...] | None = None,
    ) -> SaveReceipt:
        """S1 to S9; *saving* is held."""
        new = fingerprints(given)
        if self._is_over:
            self._take_again_saving()
        unknown = [text for text in new if text not in self._going.known]
        if unknown:
            self._record(unknown)
        with self._order.held(self._wait_s):
            self._log.flush()
            if self._is_over:
                raise BusyError("An append failed while the snapshot was waited for")
            self._refresh()
            end, lease = self._log.end, self._log.lease
            self._check_state()
            checkpoint = Checkpoint(
                end.count, self._reduction.to_json(self._going.state), tuple(self._going.done)
            )
            # S2
            snap = saving.snapshot(
                checkpoint,
                schema_version=self._reduction.schema_version,
                milestone=milestone,
                limits=self._scope.limits,
                log=end,
            )
            written = self._log.written_bytes
        receipt = saving.save(lease, snap, retention=self._retention, notes=notes)
        self._saved_at = (end.count, self._now_s(), written)
        return receipt

    def _check_state(self) -> None:
        """The caller's rules, and what a replay says."""
        state = self._going.state
        try:
            self._reduction.check_domain(state)
        except DomainInvariantError as error:
            do = "Mend the validator, or what led to this state; every event is stored"
            raise StateError("the registered validator refuses it", do=do) from error
        if self._determinism == "check":
            again = follow(self._log.lease, self._reduction, self._log.end)
            if not self._reduction.same(state, again.state):
                self._stale = True
                raise StateError(
                    "it is not what a replay of the log gives: the reducer depends on something "
                    "else than its arguments, or the state was changed from outside",
                    do="Take clocks, randomness, files and globals out of the reducer",
                )

    def _record(self, given: Sequence[str]) -> None:
        """Put fingerprints into the log, which outlives every checkpoint."""
        pieces = range(0, len(given), _FINGERPRINTS_A_LINE)
        lines = [list(given[at : at + _FINGERPRINTS_A_LINE]) for at in pieces]
        with self._order.held(self._wait_s):
            ticket = self._enter([(event.FINGERPRINTS, line) for line in lines])
        self._log.commit(ticket)

    def _save_if_due(self) -> None:
        """Save by the policy. The event is durable: a failure here is told, and never its error."""
        count, at_s, written = self._saved_at
        due = is_due(
            self._policy,
            events=self._log.end.count - count,
            seconds=self._now_s() - at_s,
            log_bytes=self._log.written_bytes - written,
        )
        if not due:
            return
        is_mine = False
        try:
            with self._saving.held(0):
                is_mine = True
                self._save((), None)
                self._unsaved = None
        except LastgoodError as error:
            if not is_mine:  # another thread is saving
                return
            self._unsaved = error
            self._saved_at = (self._log.end.count, self._now_s(), self._log.written_bytes)
            _LOG.error("session %s: the automatic save failed: %s", self._scope.directory, error)

    def _give_back(self) -> None:
        try:
            if not self._is_over:
                self._log.close()
        except LastgoodError as error:
            _LOG.warning("session %s: not closed cleanly: %s", self._scope.directory, error)
        finally:
            self._storage.close()

    def _now_s(self) -> float:
        return self._owner.clock.monotonic_s()


def _event(pair: object) -> tuple[str, JSON]:
    """Type and data, as a caller gave them.

    Raises:
        UsageError: It is no such pair, or the type is none.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UsageError("An event is given as a pair: its type and its data")
    return check_event_type(pair[0]), pair[1]


class _Turn:
    """A lock for which one waits so long, and which an exception of a signal handler cannot keep.

    A plain lock that was acquired with a timeout is held before anybody knows it.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._free = threading.Condition(self._mutex)
        self._holder: object = None

    @contextmanager
    def held(self, wait_s: float) -> Iterator[None]:
        """Hold it.

        Raises:
            BusyError: Other threads held it all the time.
        """
        me = object()
        try:
            with self._mutex:
                if not self._free.wait_for(lambda: self._holder is None, wait_s):
                    raise BusyError(f"Other threads have been using this session for {wait_s:g} s")
                self._holder = me
            yield
        finally:
            with self._mutex:
                if self._holder is me:
                    self._holder = None
                    self._free.notify()  # broken off: who waits looks again when its time is up
