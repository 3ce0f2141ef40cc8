"""One side effect: a change to the outside world that is not repeated blindly (design 8).

::

    E1  identity   fingerprint of the exact action; its key must not belong to another one
    E2  look       done: skip it · open: the class decides, or a person · else go on
    E3  intent     durable before anything is done
    E4  run        the caller's code, with the fingerprint as idempotency key
    E5  done       durable with the result and the caller's event, in one record

========================  ====================================================================
crash                     the next run finds
========================  ====================================================================
before E3 is durable      nothing: it runs
after E3, before E4       an intent without an outcome: idempotent runs again, a probe is asked,
                          manual stops
after E4, before E5       the same: nobody wrote down that it was done
after E5 is durable       it is done: skipped, with the stored result
========================  ====================================================================

Two flushes an effect: those of E3 and E5.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Literal, Self

from lastgood.acting import Acting, undecided
from lastgood.deciding import undecided_of
from lastgood.errors import (
    DivergenceError,
    EffectConflictError,
    LastgoodError,
    UsageError,
    printable,
)
from lastgood.formats import effect as records
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import OpenEffect
from lastgood.formats.effect import (
    CLASSES,
    MAX_ERROR_CHARS,
    Applied,
    Done,
    EffectClass,
    Intent,
    NotDone,
    Raised,
    Word,
)
from lastgood.formats.event import check_event_type
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.identity import Identity
from lastgood.probes import Answer, Asked, Probe
from lastgood.replaying import Going

OnUnknown = Literal["manual", "idempotent"] | Probe
"""What is done about an intent without an outcome; a probe is a function that is asked."""
MakeEvent = Callable[[JSON], tuple[str, JSON]]
"""The caller's event, made of an effect's result."""

_LOG: Final = logging.getLogger("lastgood")


class _MovedError(Exception):
    """The state was read again from another checkpoint meanwhile."""


class Effect:
    """One side effect, in a ``with`` block; made by ``Session.effect``.

    On entering, its intent is durable if ``should_run``. Inside, the caller does it and says what
    became of it: ``done`` or ``not_done``. Leaving by an exception records that it raised, by the
    name of the exception's type; then nobody knows whether it was done. Leaving without a word
    is an ``EffectUndecidedError``, too.

    Args:
        acting: The session's side.
        identity: The exact action.
        fingerprint: That of it in this session.
        on_unknown: What is done about an intent without an outcome.
        supersedes: The fingerprint of the action with this key that it stands in for.
        event: Makes the caller's event of a result, whoever says that it was done.
    """

    def __init__(
        self,
        acting: Acting,
        identity: Identity,
        *,
        fingerprint: Fingerprint,
        on_unknown: OnUnknown,
        supersedes: Fingerprint | None,
        event: MakeEvent | None,
    ) -> None:
        self._acting = acting
        self._identity = identity
        self._fingerprint = fingerprint
        self._probe = on_unknown if callable(on_unknown) else None
        self._class: EffectClass = "probe" if callable(on_unknown) else on_unknown
        self._supersedes = supersedes
        self._event = event
        self._intent = 0
        self._outcome: Done | NotDone | None = None
        self._should_run: bool | None = None

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the exact action."""
        return self._fingerprint

    @property
    def idempotency_key(self) -> str:
        """What the outside is to be given, so that it can tell a repetition: the fingerprint."""
        return self._fingerprint

    @property
    def is_entered(self) -> bool:
        """Whether its block was entered."""
        return self._should_run is not None

    @property
    def should_run(self) -> bool:
        """Whether it is still to be done; False: it is done, ``result`` holds what it gave.

        Raises:
            UsageError: Asked outside of the block.
        """
        if self._should_run is None:
            raise UsageError("An effect is decided when its with block is entered")
        return self._should_run

    @property
    def result(self) -> JSON:
        """The result that is stored.

        Raises:
            UsageError: It is not done yet.
            NotStoredError: The event that holds it left the log, or a caller only said by its
                fingerprint that it is done.
        """
        if isinstance(self._outcome, Done):
            return self._outcome.result
        if self.should_run:
            raise UsageError("The effect is not done yet")
        return self._acting.result(self._fingerprint)

    def done(self, result: JSON = None, *, event: tuple[str, JSON] | None = None) -> None:
        """It was done: store the result, and the caller's event in the same record, durably.

        The same again is no error; a result that cannot be stored leaves the effect undecided, and
        another may be given.

        Args:
            result: Plain JSON data; what a later run is given.
            event: Type and data; it goes through the reducer. None: what ``event=`` of the
                effect makes of the result, if it was given.

        Raises:
            EffectConflictError: Something else was said already, or it was not to be run.
            StateError, LimitError, ReducerError: It cannot be stored. Nothing was.
            LastgoodError: As ``Session.append``.
        """
        self._settle(self._made(result, Word(), event=event))

    def not_done(self, reason: str) -> None:
        """It definitely was not done, and will not be any more: it may be tried again.

        Raises:
            UsageError: Without a reason.
            EffectConflictError: Something else was said already, or it was not to be run.
            LastgoodError: As ``Session.append``.
        """
        if not reason:
            raise UsageError("Say why it was not done")
        self._settle(self._failed(Word(reason=reason)))

    def __enter__(self) -> Self:
        """E1 to E3; returns with its intent durable, or with what is known of it.

        Raises:
            EffectConflictError: Its key belongs to another action, or this open session asked for
                it already. Nothing was run.
            EffectUndecidedError: Nobody knows whether it was done; lists every such effect.
            DivergenceError: It is done, and its target says otherwise.
            LastgoodError: As ``Session.append``.
        """
        if self._should_run is not None:
            raise UsageError("An effect's with block is entered once")
        self._acting.enter(self._fingerprint, self._shown)
        try:
            self._should_run = self._decide()
        except BaseException:
            self._acting.leave(self._fingerprint, settled=False)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave; what was not said is recorded as unknown."""
        is_open = self.should_run and self._outcome is None
        settled = not self.should_run or isinstance(self._outcome, Done)
        try:
            if is_open and error is not None:
                self._raised(error)
        finally:
            self._acting.leave(self._fingerprint, settled=settled)
        if is_open and error is None:
            raise undecided(self._acting, f"{self._shown} was left without done or not_done")

    # --- E1, E2, E3 --------------------------------------------------------------------------

    @property
    def _shown(self) -> str:
        return f"Effect {printable(self._identity.kind)} {printable(self._identity.key)}"

    def _decide(self) -> bool:
        """Whether it is to be run; then its intent is durable."""
        found = self._acting.state_of(self._fingerprint)
        if isinstance(found, int):
            self._check_target()
            self._apply_owed()
            return False
        if found is not None:
            self._intent = found.sequence
            answer = self._answer(found)
            if answer is None:
                # Idempotent: again, with the same key; its intent is durable. Nothing is written,
                # so nobody else has looked whether a newer owner has the session.
                self._acting.confirm_owner()
                return True
            if answer.verdict == "done":
                word = Word(by="probe", reason=answer.reason or None)
                self._settle(self._made(answer.result, word))
                return False
            self._settle(self._failed(Word(by="probe", reason=answer.reason or None)))
            self._outcome, self._intent = None, 0
        self._intend()
        return True

    def _answer(self, found: OpenEffect) -> Answer | None:
        """What is done about an intent without an outcome; None: it is run again.

        The more careful class counts, of the two that were declared, then and now.

        Raises:
            EffectUndecidedError: A person has to decide.
        """
        chosen = max(map(CLASSES.index, (self._class, found.effect_class)))
        if CLASSES[chosen] == "idempotent":
            return None
        why = "nobody knows whether it was done"
        if CLASSES[chosen] == "probe" and self._probe is not None:
            answer = self._asked(is_done=False)
            if answer.verdict != "unknown":
                return answer
            why = f"its probe cannot tell: {answer.reason or 'it gives no reason'}"
        raise undecided(self._acting, f"{self._shown} was intended, and {why}", found)

    def _asked(self, *, is_done: bool) -> Answer:
        """What the probe says; what it raises is no answer."""
        if self._probe is None:
            return Answer("unknown")
        asked = Asked(
            kind=self._identity.kind,
            key=self._identity.key,
            fingerprint=self._fingerprint,
            is_done=is_done,
        )
        try:
            answer: object = self._probe(asked)
        except Exception as error:  # noqa: BLE001 - the caller's own code; it says nothing
            return Answer("unknown", None, f"it raised {type(error).__name__}")
        if not isinstance(answer, Answer):
            return Answer("unknown", None, f"it returned a {type(answer).__name__}, no answer")
        return answer

    def _check_target(self) -> None:
        """Ask a probe that rechecks whether what is done still shows.

        Raises:
            DivergenceError: It does not.
        """
        if getattr(self._probe, "rechecks", False) is not True:
            return
        answer = self._asked(is_done=True)
        if answer.verdict != "done":
            raise DivergenceError(
                f"{self._shown} is done, and its target says otherwise: {answer.reason}",
                do="Find out who changed the target, and bring back what the effect left there",
            )

    def _apply_owed(self) -> None:
        """Apply the event of an effect that a person said is done."""
        done = 0 if self._event is None else self._acting.owed(self._fingerprint)
        if self._event is None or not done:
            return
        pair = _pair(self._event(self._acting.result(self._fingerprint)))
        self._record(Applied(fingerprint=self._fingerprint, done=done, event=pair))

    def _intend(self) -> None:
        """E3; the key is looked up where nothing comes between that and the intent.

        Raises:
            EffectConflictError: The key belongs to another action.
        """
        key = self._identity.key_digest(self._acting.salt)
        intent = Intent(
            fingerprint=self._fingerprint,
            key=key,
            effect_class=self._class,
            kind=self._identity.kind,
            id=self._identity.key,
            occurrence=self._identity.occurrence,
            supersedes=self._supersedes,
        )

        def decide(going: Going[Any]) -> list[tuple[str, JSON]]:
            if going.since != since:
                raise _MovedError  # what was looked up was said of an older checkpoint
            holder = going.effects.keys.get(key, old)
            if holder not in (None, self._fingerprint, self._supersedes):
                raise EffectConflictError(
                    f"{self._shown} was asked for with other arguments before, as {holder}",
                    do="Give it the arguments that it had, another key, or supersedes= that "
                    "fingerprint",
                )
            if self._supersedes is not None and holder != self._supersedes:
                raise EffectConflictError(
                    f"{self._shown} supersedes {self._supersedes}, which its key does not belong to"
                )
            if self._supersedes in going.effects.open:
                raise undecided_of(
                    f"{self._shown} supersedes an effect, and nobody knows whether that was done",
                    (self._supersedes,),
                )
            return [records.encode(intent)]

        while not self._intent:
            old, since = self._acting.holder_of(key)
            with contextlib.suppress(_MovedError):
                self._intent = self._acting.record(decide)

    # --- E5 ----------------------------------------------------------------------------------

    def _made(self, result: JSON, word: Word, *, event: tuple[str, JSON] | None = None) -> Done:
        made = self._event(result) if event is None and self._event is not None else event
        return Done(
            fingerprint=self._fingerprint,
            intent=self._intent,
            word=word,
            result=result,
            event=None if made is None else _pair(made),
        )

    def _failed(self, word: Word) -> NotDone:
        return NotDone(fingerprint=self._fingerprint, intent=self._intent, word=word)

    def _settle(self, outcome: Done | NotDone) -> None:
        """Say what became of it, once."""
        if self._should_run is None and outcome.word.by == "program":
            raise UsageError("What became of an effect is said inside of its with block")
        if self._outcome is not None and records.is_same(self._outcome, outcome):
            return
        if self._should_run is False or self._outcome is not None:
            raise EffectConflictError(
                f"{self._shown}: what became of it is recorded already, and this says otherwise"
            )
        self._record(outcome)
        self._outcome = outcome

    def _record(self, record: records.Record) -> None:
        made = [records.encode(record)]
        outcome_of = None if isinstance(record, Raised) else self._class
        self._acting.record(lambda _: made, outcome_of=outcome_of)

    def _raised(self, error: BaseException) -> None:
        """Record that its code raised; whatever comes of that, the caller's exception goes on."""
        raised = Raised(
            fingerprint=self._fingerprint,
            intent=self._intent,
            error=type(error).__name__[:MAX_ERROR_CHARS],
        )
        try:
            self._record(raised)
        except LastgoodError as failed:
            _LOG.warning("%s raised, and that could not be recorded: %s", self._shown, failed)


def _pair(pair: object) -> tuple[str, JSON]:
    """Type and data of an event, as a caller gave them.

    Raises:
        UsageError: It is no such pair.
    """
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise UsageError("An effect's event is a pair: its type and its data")
    return check_event_type(pair[0]), pair[1]
