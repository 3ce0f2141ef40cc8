"""Effects without an outcome, and what a person decides of them.

What a person decides is sealed into the log like any outcome, with who and why. No program is
needed for it: the reducer's event of such an effect is applied when the program asks for the
effect the next time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lastgood.claim import Owner
from lastgood.clock import Clock
from lastgood.errors import (
    EffectConflictError,
    EffectUndecidedError,
    NotStoredError,
    PolicyError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.event_log import EventLog
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Body, OpenEffect
from lastgood.formats.effect import Done, NotDone, Word, encode
from lastgood.formats.fingerprint import Fingerprint
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.place import Place
from lastgood.reading import Scope
from lastgood.recall import Recall
from lastgood.rules.effects import Effects
from lastgood.storage.interface import Storage
from lastgood.survey import choose
from lastgood.taking import take

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Question:
    """An effect that was intended, and nobody knows whether it was done.

    Attributes:
        fingerprint: Its identity.
        effect_class: ``idempotent``, ``probe`` or ``manual``.
        sequence: The event that intended it.
        kind: What was to be done; empty if that event left the log.
        key: Which one; likewise.
    """

    fingerprint: Fingerprint
    effect_class: str
    sequence: int
    kind: str = ""
    key: str = ""

    @classmethod
    def of(cls, one: OpenEffect, recall: Recall) -> Question:
        """What is to be asked about an intent without an outcome."""
        intent = recall.intent(one.sequence)
        kind, key = ("", "") if intent is None else (intent.kind, intent.id)
        return cls(one.fingerprint, one.effect_class, one.sequence, kind, key)

    def __str__(self) -> str:
        """For people."""
        named = f"{printable(self.kind)} {printable(self.key)}" if self.kind else "an effect"
        return f"{named} ({self.effect_class}, event {self.sequence}, {self.fingerprint})"


Decided = Callable[[Fingerprint, Effects], tuple[str, JSON]]
"""The event of a person's decision about one of the effects."""


def decision(verdict: object, result: JSON, *, actor: str, reason: str) -> Decided:
    """What a person decided, as the event that says so.

    Raises:
        UsageError: The verdict is none, or actor or reason is missing. Calling what is returned:
            no such effect is open.
        EffectConflictError: Calling it: the effect is done already.
    """
    if verdict not in ("done", "not done"):
        raise UsageError("A verdict is 'done' or 'not done'")
    if verdict == "not done" and result is not None:
        raise UsageError("What was not done has no result")
    word = Word(by="person", actor=actor, reason=reason)

    def decided(found: Fingerprint, effects: Effects) -> tuple[str, JSON]:
        if found in effects.known:
            raise EffectConflictError(f"The effect {found} is done already")
        intent = effects.open.get(found)
        if intent is None:
            raise UsageError(
                f"No effect {found} is undecided",
                do="See which ones are with: lastgood effects list SESSION",
            )
        if verdict == "not done":
            return encode(NotDone(fingerprint=found, intent=intent.sequence, word=word))
        done = Done(fingerprint=found, intent=intent.sequence, word=word, result=result, event=None)
        return encode(done)

    return decided


def undecided_of(why: str, effects: Sequence[Question | Fingerprint]) -> EffectUndecidedError:
    """An error that lists these."""
    shown = "; ".join(map(str, effects[:_SHOWN]))
    rest = f", and {len(effects) - _SHOWN} more" if len(effects) > _SHOWN else ""
    told = f"{why}. Undecided: {shown}{rest}" if effects else why
    return EffectUndecidedError(told, undecided=effects)


def questions(place: Place, session: str, *, clock: Clock) -> tuple[Question, ...]:
    """Every effect of a session without an outcome, oldest first, by reading only (G8).

    Raises:
        UnknownSessionError: There is no such session.
        PolicyError: It has no event log.
        LastgoodError: What is there cannot be believed.
    """
    with _read(place, session, clock=clock) as found:
        if not found.effects.open:
            return ()
        recall = found.recall()
        return tuple(Question.of(one, recall) for one in found.effects.open.values())


def resolve(
    place: Place, session: str, found: Fingerprint, decided: Decided, *, owner: Owner
) -> Question:
    """Seal a person's decision about an effect; returns what it was asked about.

    On return it is durable. On raise nothing was decided, but for ``DurabilityUnknownError``.

    Raises:
        UsageError: No such effect is open, or the result cannot be stored.
        EffectConflictError: It is done already.
        LastgoodError: The session cannot be owned or believed.
    """
    with _read(place, session, clock=owner.clock) as read:
        decided(found, read.effects)  # what is refused is refused before anything is written
        asked = Question.of(read.effects.open[found], read.recall())
    scope = read.scope
    storage = place.root.session(scope.directory, access="write")
    with contextlib.closing(storage):
        lease = take(scope, storage, owner=owner, log="events")
        known = LogFound() if lease.log is None else lease.log
        made = decided(found, _effects(scope, storage, lease.body, known))
        log = EventLog(lease)
        log.append([made])
        log.close()
        return asked


@dataclass(frozen=True, slots=True)
class _Read:
    """A session, by one settled reading."""

    scope: Scope
    storage: Storage
    effects: Effects
    end: LogAnchor
    floor: LogAnchor | None

    def recall(self) -> Recall:
        return Recall(self.scope, self.storage, self.end, self.floor)


@contextlib.contextmanager
def _read(place: Place, session: str, *, clock: Clock) -> Iterator[_Read]:
    """What became of each effect, while the context lasts; nothing is changed.

    Raises:
        LastgoodError: As ``questions``.
    """
    scope = place.scope(session, schemas=None)
    unknown = UnknownSessionError(
        f"There is no session {printable(session)} in {printable(place.root.location())}"
    )
    try:
        storage = place.root.session(scope.directory, access="read")
    except NotStoredError:
        raise unknown from None
    with contextlib.closing(storage):
        found = choose(scope, storage, clock=clock)
        if found.session is None or found.selection.manifest is None:
            raise unknown
        if found.session.log is None:
            raise PolicyError(f"Session {printable(scope.session)} has no event log")
        base, log = found.base, LogFound() if found.log is None else found.log
        body = found.bodies[base.sequence] if base else None
        effects = _effects(scope, storage, body, log)
        yield _Read(scope, storage, effects, log.end, found.selection.manifest.floor)


def _effects(scope: Scope, storage: Storage, body: Body | None, log: LogFound) -> Effects:
    """What became of each effect; the caller's events are passed over."""
    effects, after = Effects(), 0
    if body is not None:
        effects = Effects.at(body.checkpoint.fingerprints, body.open_effects)
        after = body.checkpoint.sequence
    for line in LogReading(scope, storage).replay(log, after=after):
        effects.follow(line.event)
    return effects
