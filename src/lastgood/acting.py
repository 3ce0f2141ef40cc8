"""The effects of one open session: who is at one, what the log says of them, what is undecided."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lastgood.deciding import Decided, Question, undecided_of
from lastgood.errors import EffectConflictError, EffectUndecidedError
from lastgood.following import Decide, Following
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import OpenEffect
from lastgood.formats.effect import EffectClass
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.limits import Limits
from lastgood.handle import SharedHandle
from lastgood.recall import Recall


@dataclass(slots=True)
class Acting:
    """The effects of one open session: who is at one, and what the log says of it.

    Attributes:
        handle: Lets threads into the session.
        following: Its log and state.
        salt: Keys its fingerprints.
        limits: The reader's.
        save_if_due: Saves by itself, after an outcome of an effect of that class.
    """

    handle: SharedHandle
    following: Following[Any]
    salt: bytes = field(repr=False)
    limits: Limits
    save_if_due: Callable[[EffectClass | None], None]
    _inside: set[Fingerprint] = field(default_factory=set)
    _settled: set[Fingerprint] = field(default_factory=set)
    # A signal handler may come to an effect while its thread is in here.
    _mutex: threading.RLock = field(default_factory=threading.RLock)

    def enter(self, found: Fingerprint, what: str) -> None:
        """Be at an effect.

        Raises:
            EffectConflictError: This open session is at it, or was.
        """
        with self._mutex:
            if found in self._settled or found in self._inside:
                raise EffectConflictError(
                    f"{what} was asked for already since this session was opened",
                    do="Give what is meant to happen again another key or another occurrence",
                )
            self._inside.add(found)

    def leave(self, found: Fingerprint, *, settled: bool) -> None:
        """Be at it no more; ``settled``: it is not to be asked for again."""
        with self._mutex:
            self._inside.discard(found)
            if settled:
                self._settled.add(found)

    def record(self, decide: Decide[Any], *, outcome_of: EffectClass | None = None) -> int:
        """Make an event durable and apply it; returns its sequence.

        Args:
            decide: Gives it.
            outcome_of: The class of the effect whose outcome it is.

        Raises:
            LastgoodError: As ``Session.append``.
        """
        with self.handle.entered():
            log, ticket = self.following.stage(decide)
            log.commit(ticket)
            self.save_if_due(outcome_of)
            return ticket.sequences[-1]

    def confirm_owner(self) -> None:
        """Return only if nobody else has taken the session.

        Raises:
            FencedError: Somebody has.
            StorageError: That cannot be known.
        """
        with self.handle.entered(), self.following.settled():
            self.following.log.lease.confirm_owner()

    def state_of(self, found: Fingerprint) -> int | OpenEffect | None:
        """The sequence of its done (0: below the checkpoint), its intent, or that it is new."""
        with self.handle.entered(), self.following.settled() as going:
            if found in going.effects.known:
                return going.effects.known[found]
            return going.effects.open.get(found)

    def holder_of(self, key: str) -> tuple[Fingerprint | None, int]:
        """The newest action of this key, and the checkpoint that the state began at then."""
        with self.handle.entered():
            with self.following.settled() as going:
                holder, since = going.effects.keys.get(key), going.since
            if holder is None and since:
                holder = self.following.recall().keys.get(key)
            return holder, since

    def result(self, found: Fingerprint) -> JSON:
        """The stored result of an effect that is done.

        Raises:
            NotStoredError: There is none.
        """
        with self.handle.entered():
            return self._recall(found).result(found)

    def owed(self, found: Fingerprint) -> int:
        """Of an effect that a person said is done and whose event was never applied: its done.

        0: nothing is owed.
        """
        with self.handle.entered():
            with self.following.settled() as going:
                sequence = going.effects.known.get(found)
                if found in going.effects.unapplied and sequence:
                    return sequence
                is_applied = found in going.effects.applied
            if sequence != 0 or is_applied:
                return 0
            recall = self.following.recall()
            return recall.done[found] if found in recall.unapplied else 0

    def questions(self) -> tuple[Question, ...]:
        """Every effect without an outcome that nobody in this process is at, in their order."""
        with self.handle.entered():
            with self.following.settled() as going:
                found = list(going.effects.open.values())
            return tuple(
                self._question(one) for one in found if one.fingerprint not in self._inside
            )

    def resolve(self, found: Fingerprint, decided: Decided) -> None:
        """Record what a person decided.

        Raises:
            UsageError: No such effect is open.
            EffectConflictError: It is done already, or somebody is at it.
            LastgoodError: As ``Session.append``.
        """
        self.enter(found, "The effect")
        try:
            self.record(lambda going: [decided(found, going.effects)])
        finally:
            self.leave(found, settled=False)

    def question(self, one: OpenEffect) -> Question:
        """An effect without an outcome, with what its intent says."""
        with self.handle.entered():
            return self._question(one)

    def _question(self, one: OpenEffect) -> Question:
        return Question.of(one, self.following.recall(until=one.sequence))

    def _recall(self, found: Fingerprint) -> Recall:
        with self.following.settled() as going:
            sequence = going.effects.known.get(found, 0)
        return self.following.recall(until=sequence)


def undecided(acting: Acting, why: str, *among: OpenEffect) -> EffectUndecidedError:
    """An error that lists every effect without an outcome."""
    open_ones = acting.questions()
    listed = {one.fingerprint for one in open_ones}
    more = tuple(acting.question(one) for one in among if one.fingerprint not in listed)
    return undecided_of(why, (*more, *open_ones))
