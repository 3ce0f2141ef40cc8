"""A state that follows its log, in one owned session: staged, read again, taken again.

Several threads may use one. Two turns order them, always taken in this order:

* *saving* lets one save, or one taking again after an error, run at a time.
* *order* is held while events get their numbers and go through the reducer, so that the order
  of the state is the order of the log. Nobody waits for a disk in it, except a save's snapshot.

Waiting for the log's flush is outside both: threads that append meanwhile share one. Who appends
while a save publishes and claims (S4 to S7) waits for that: whether it broke off is not known yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from lastgood import saving
from lastgood.claim import Owner
from lastgood.errors import BusyError, DomainInvariantError, FencedError, StateError
from lastgood.event_log import EventLog, Ticket
from lastgood.formats import event
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import fingerprints
from lastgood.handle import Turn
from lastgood.lease import Lease
from lastgood.reading import Scope
from lastgood.recall import Recall
from lastgood.reduction import Reduction
from lastgood.replaying import Determinism, Going
from lastgood.resume import Opened, follow, resume
from lastgood.saving import Snapshot
from lastgood.storage.interface import OwnedStorage

S = TypeVar("S")

Decide = Callable[[Going[S]], Sequence[tuple[str, JSON]]]
"""The events that follow a state: types and data."""

_FINGERPRINTS_A_LINE: Final = 1_000


class Following(Generic[S]):
    """An opened session's log and the state after it; made by resuming (R1–R9).

    Args:
        scope: The session.
        storage: Its directory, opened for writing; given back by whoever opened it.
        owner: Who takes it.
        reduction: The program's side.
        determinism: ``check`` compares each snapshot with a replay.

    Attributes:
        opened: What the opening gave.
        log: The log, as long as this ownership lasts.
        saving: Held by whoever saves.
    """

    def __init__(
        self,
        scope: Scope,
        storage: OwnedStorage,
        *,
        owner: Owner,
        reduction: Reduction[S],
        determinism: Determinism,
    ) -> None:
        self._scope = scope
        self._storage = storage
        self._owner = owner
        self._reduction = reduction
        self._determinism: Determinism = determinism
        self._wait_s = scope.limits.lock_wait_s
        self._order = Turn()
        self._stale = False
        self._recall: Recall | None = None
        self.saving = Turn()
        self.opened = self._resume(after=None)
        self._take_over(self.opened)

    @property
    def is_over(self) -> bool:
        """Whether an error ended the log or the lease: the next call takes the session again."""
        return self.log.over or self.log.lease.over

    def stage(self, decide: Decide[S]) -> tuple[EventLog, Ticket]:
        """Number the events and apply them; the order of the state is the order of the log.

        Args:
            decide: Gives them, at least one, where nothing comes between what it sees and them.
        """
        while True:
            with self._order.held(self._wait_s):
                if not self.is_over:
                    self._refresh()
                    return self.log, self._enter(decide(self._going))
            self._take_again()

    @contextmanager
    def settled(self) -> Iterator[Going[S]]:
        """Hold the order, with everything that is staged acknowledged and the state sound."""
        while True:
            with self._order.held(self._wait_s):
                self.log.flush()
                if not self.is_over:
                    self._refresh()
                    yield self._going
                    return
            self._take_again()

    def recall(self, *, until: int = 0) -> Recall:
        """What the log says of effects below the checkpoint; read once, and again as it grows.

        Args:
            until: The last event that is asked for.
        """
        with self.settled():
            if self._recall is None or self._recall.end.count < until:
                lease = self.log.lease
                self._recall = Recall(
                    lease.scope, lease.storage, self.log.end, lease.manifest.floor
                )
            return self._recall

    def _take_again(self) -> None:
        with self.saving.held(self._wait_s):
            self.take_again_saving()

    def take_again_saving(self) -> None:
        """R1 to R9 again after an error, going on from what was acknowledged."""
        with self._order.held(self._wait_s):
            if not self.is_over:
                return
            before = self.log
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

    def snapshot(self, done: Sequence[str], milestone: str | None) -> tuple[Lease, Snapshot]:
        """S2: the state after every acknowledged event, as bytes; *saving* is held.

        Args:
            done: Fingerprints of side effects; those that are new go into the log first.
            milestone: Label under which the checkpoint is kept for good.

        Raises:
            StateError: The state cannot be stored, or is not what a replay gives.
            LastgoodError: The session was lost, or has to be taken again and cannot be.
        """
        given = fingerprints(done)
        if self.is_over:
            self.take_again_saving()
        unknown = [text for text in given if text not in self._going.effects.known]
        if unknown:
            self._record(unknown)
        with self._order.held(self._wait_s):
            self.log.flush()
            if self.is_over:
                raise BusyError("An append failed while the snapshot was waited for")
            self._refresh()
            self._check_state()
            end, going = self.log.end, self._going
            snap = saving.snapshot(
                going.checkpoint(end.count, self._reduction.to_json(going.state)),
                schema_version=self._reduction.schema_version,
                open_effects=tuple(going.effects.open.values()),
                milestone=milestone,
                limits=self._scope.limits,
                log=end,
            )
            self._pending = (end.count, self._now_s(), self.log.written_bytes)
        return self.log.lease, snap

    def saved(self) -> None:
        """The last snapshot is current: ``behind`` counts from there on."""
        self._saved_at = self._pending

    def postponed(self) -> None:
        """A save failed: ``behind`` counts from here on, so that not each event tries it again."""
        self._saved_at = (self.log.end.count, self._now_s(), self.log.written_bytes)

    def behind(self) -> tuple[int, float, int]:
        """Events, seconds and bytes of the log since the last checkpoint of this ownership."""
        count, at_s, written = self._saved_at
        log = self.log
        return log.end.count - count, self._now_s() - at_s, log.written_bytes - written

    def _record(self, given: Sequence[str]) -> None:
        """Put fingerprints into the log, which outlives every checkpoint."""
        pieces = range(0, len(given), _FINGERPRINTS_A_LINE)
        lines = [list(given[at : at + _FINGERPRINTS_A_LINE]) for at in pieces]
        with self._order.held(self._wait_s):
            self._refresh()
            ticket = self._enter([(event.FINGERPRINTS, line) for line in lines])
        self.log.commit(ticket)

    def _check_state(self) -> None:
        """The caller's rules, and what a replay says."""
        state = self._going.state
        try:
            self._reduction.check_domain(state)
        except DomainInvariantError as error:
            do = "Mend the validator, or what led to this state; every event is stored"
            raise StateError("the registered validator refuses it", do=do) from error
        if self._determinism == "check":
            again = follow(self.log.lease, self._reduction, self.log.end)
            if not self._reduction.same(state, again.state):
                self._stale = True
                raise StateError(
                    "it is not what a replay of the log gives: the reducer depends on something "
                    "else than its arguments, or the state was changed from outside",
                    do="Take clocks, randomness, files and globals out of the reducer",
                )

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
        self.log = opened.log
        self._going: Going[S] = opened.going
        self._recall = None
        self._stale = False
        # What a death left unsaved counts, or a job that dies often would never save.
        self._saved_at = self._pending = (opened.found.checkpoint, self._now_s(), 0)

    def _enter(self, given: Sequence[tuple[str, JSON]]) -> Ticket:
        """Put the events behind what is staged, and apply them; the order lock is held."""
        ticket = self.log.prepare(given)
        # Until both are done: whatever raises, a reducer that changed the state before or a
        # signal's exception, the state is read again.
        self._stale = True
        for made in ticket.events:
            callers = self._going.effects.follow(made)
            if callers is not None:
                self._going.state = self._reduction.accept(self._going.state, callers)
        self.log.stage(ticket)
        self._stale = False
        return ticket

    def _refresh(self) -> None:
        """Read the state again if a reducer may have spoiled it; the order lock is held."""
        if self._stale:
            self.log.flush()
            self._going = follow(self.log.lease, self._reduction, self.log.end)
            self._recall = None  # it began at another checkpoint
            self._stale = False

    def _now_s(self) -> float:
        return self._owner.clock.monotonic_s()
