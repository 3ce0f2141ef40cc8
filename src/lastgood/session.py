"""Session: one agent run or job, whose event log is the source of truth.

A session is a state that follows a log. ``append`` makes an event durable and applies it;
``save`` makes a checkpoint, which only shortens the next replay. Opening is resuming: R1–R9.

Several threads may use one session; ``following`` says how they are ordered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from lastgood import saving
from lastgood.acting import Acting
from lastgood.claim import Owner
from lastgood.deciding import undecided_of
from lastgood.errors import LastgoodError, StateError, UsageError
from lastgood.following import Following
from lastgood.formats.canonical import JSON
from lastgood.formats.effect import EffectClass
from lastgood.formats.event import check_event_type
from lastgood.formats.fields import check_type
from lastgood.formats.fingerprint import fingerprint
from lastgood.formats.manifest import Note
from lastgood.handle import SharedHandle
from lastgood.mending import approval, consumed
from lastgood.place import Place
from lastgood.reading import Scope
from lastgood.reduction import Reduction
from lastgood.replaying import Determinism
from lastgood.resume import Resumed
from lastgood.rules.cadence import CheckpointPolicy, is_due
from lastgood.rules.retention import Retention
from lastgood.rules.selection import Waiver
from lastgood.saving import SaveReceipt
from lastgood.with_effects import WithEffects

S = TypeVar("S")

_LOG: Final = logging.getLogger("lastgood")

APPROVED: Final[tuple[Waiver, ...]] = ("approved-damage",)
"""What a session passes over: a damaged checkpoint that a person approved to be rebuilt."""


class Session(WithEffects, Generic[S]):
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
        on_resume: Called with what was found before anything is done; what it raises stops.

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
        on_resume: Callable[[Resumed[S]], object] | None,
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
        self._unsaved: LastgoodError | None = None
        place.make(clock=owner.clock, writer=owner.writer)
        self._storage = place.root.session(scope.directory, access="write")
        try:
            self._following = Following(
                scope,
                self._storage,
                owner=owner,
                reduction=reduction,
                determinism=determinism,
            )
            opened = self._following.opened
            self._found = opened.found
            self._acting = Acting(
                self._handle,
                self._following,
                bytes.fromhex(opened.lease.record.salt),
                scope.limits,
                self.save_if_due,
            )
            if on_resume is not None:
                on_resume(self._found)
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
        return self._following.log.lease.manifest.epoch

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
        return self._following.log.end.count

    @property
    def state(self) -> S:
        """A copy of the state after every event that was acknowledged.

        Raises:
            StateError: It cannot be stored, so it cannot be copied either.
            LastgoodError: The session was lost, or has to be taken again and cannot be.
        """
        with self._handle.entered(), self._following.settled() as going:
            return self._reduction.copy(going.state)

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Side effects that are done, in the order of the log."""
        with self._handle.entered(), self._following.settled() as going:
            return tuple(going.effects.known)

    def should_replay(self, text: str) -> bool:
        """Whether the side effect of this fingerprint is still to be done.

        Raises:
            FingerprintError: It is malformed.
            EffectUndecidedError: It was intended, and nobody knows whether it was done.
        """
        wanted = fingerprint(text)
        with self._handle.entered(), self._following.settled() as going:
            if wanted in going.effects.open:
                raise undecided_of("An effect was intended, and nobody knows its outcome", [wanted])
            return wanted not in going.effects.known

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
            FencedError: Another owner took the session; only where the error says so can it have
                read the events.
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
            log, ticket = self._following.stage(lambda _: given)
            log.commit(ticket)
            self.save_if_due()
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
        with self._handle.entered(), self._following.saving.held(self._wait_s):
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
        if self._handle.is_inherited:
            return
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

    def save_if_due(self, outcome_of: EffectClass | None = None) -> None:
        """Save if the policy says so, as after every ``append``.

        The events are durable: a failure here is told, and never their error.

        Args:
            outcome_of: The class of an effect that has just come to an outcome.
        """
        events, seconds, log_bytes = self._following.behind()
        if not (
            (outcome_of is not None and self._policy.is_after(outcome_of))
            or is_due(self._policy, events=events, seconds=seconds, log_bytes=log_bytes)
        ):
            return
        is_mine = False
        try:
            with self._following.saving.held(0):
                is_mine = True
                self._save((), None)
                self._unsaved = None
        except Exception as error:  # noqa: BLE001 - of the caller's own code; the events are durable
            if not is_mine:  # another thread is saving
                return
            told = StateError(f"saving it raised {type(error).__name__}")
            self._unsaved = error if isinstance(error, LastgoodError) else told
            self._following.postponed()
            _LOG.error("session %s: the automatic save failed: %s", self._scope.directory, error)

    def _save(
        self,
        done: Sequence[str],
        milestone: str | None,
        *,
        notes: tuple[Note, ...] | None = None,
    ) -> SaveReceipt:
        """S2 to S9; *saving* is held."""
        lease, snap = self._following.snapshot(done, milestone)
        receipt = saving.save(lease, snap, retention=self._retention, notes=notes)
        self._following.saved()
        return receipt

    def _give_back(self) -> None:
        try:
            if not self._following.is_over:
                self._following.log.close()
        except LastgoodError as error:
            _LOG.warning("session %s: not closed cleanly: %s", self._scope.directory, error)
        finally:
            self._storage.close()


def _event(pair: object) -> tuple[str, JSON]:
    """Type and data, as a caller gave them.

    Raises:
        UsageError: It is no such pair, or the type is none.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UsageError("An event is given as a pair: its type and its data")
    return check_event_type(pair[0]), pair[1]
