"""What a session offers about side effects: do one, do one once, see and decide what is open."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Literal

from lastgood.acting import Acting
from lastgood.deciding import Question, decision
from lastgood.effect import Effect, MakeEvent, OnUnknown
from lastgood.errors import UsageError
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import Fingerprint, fingerprint
from lastgood.formats.identity import Identity


class WithEffects:
    """The part of a session that is about effects."""

    _acting: Acting

    def effect(
        self,
        kind: str,
        *,
        key: str,
        args: JSON = None,
        on_unknown: OnUnknown = "manual",
        occurrence: int = 0,
        supersedes: str | None = None,
        event: MakeEvent | None = None,
        cwd: str | None = None,
        inputs: Mapping[str, str] | None = None,
        target: str | None = None,
        policy_version: str | None = None,
    ) -> Effect:
        """One side effect, in a ``with`` block: it is not repeated without a decision (G5).

        lastgood does not give exactly-once: where it cannot know whether the effect was done, it
        says so, and does what ``on_unknown`` decided beforehand.

        Args:
            kind: What is done, ``pay``.
            key: Which one: the id of the operation, made when it was first planned. Never an
                attempt's, never a position. It is stored as it is, so it is no secret.
            args: With what; plain JSON data. The fingerprint covers it, nothing of it is stored.
            on_unknown: If it was intended and no outcome is written down: ``"manual"`` stops
                until a person decides; ``"idempotent"`` runs it again with the same idempotency
                key; a probe is asked.
            occurrence: Which of several that are meant to be alike, from 0.
            supersedes: The fingerprint of an earlier action with this key that this one stands in
                for; the earlier one stays what it was.
            event: Makes the caller's event of the result, whoever says that it was done: the
                program, a probe, or a person.
            cwd: Where, if that is a part of what the action is.
            inputs: Digests of what it reads, by name.
            target: On what, if that is not among ``args``.
            policy_version: Of the rules that allowed it.

        Raises:
            UsageError: An argument is not what it must be.
            StateError, LimitError: The arguments are not plain JSON data, or too large.
        """
        identity = Identity(
            kind=kind,
            key=key,
            args=args,
            cwd=cwd,
            inputs={} if inputs is None else inputs,
            target=target,
            policy_version=policy_version,
            occurrence=occurrence,
        )
        if not callable(on_unknown) and on_unknown not in ("manual", "idempotent"):
            raise UsageError("on_unknown is 'manual', 'idempotent', or a probe")
        if event is not None and not callable(event):
            raise UsageError("event is a function of the result that makes a type and its data")
        return Effect(
            self._acting,
            identity,
            fingerprint=identity.fingerprint(self._acting.salt, limits=self._acting.limits),
            on_unknown=on_unknown,
            supersedes=None if supersedes is None else fingerprint(supersedes),
            event=event,
        )

    def run_once(
        self,
        kind: str,
        function: Callable[[Effect], JSON],
        /,
        *,
        key: str,
        args: JSON = None,
        on_unknown: OnUnknown = "manual",
        occurrence: int = 0,
        supersedes: str | None = None,
        event: MakeEvent | None = None,
    ) -> JSON:
        """Do ``function`` as an effect, and return its result: now, or what it gave before.

        ``once`` is the same as a decorator.

        Args:
            kind: As ``effect``, like all the rest.
            function: Given the effect, for its ``idempotency_key``; returns plain JSON data.
            key: As ``effect``.
            args: As ``effect``.
            on_unknown: As ``effect``.
            occurrence: As ``effect``.
            supersedes: As ``effect``.
            event: As ``effect``.

        Raises:
            EffectUndecidedError: It raised before, or was killed, and nobody knows the outcome.
            LastgoodError: As ``effect``, on entering it and on ``done``.
            Exception: What ``function`` raises; that it did is recorded.
        """
        with self.effect(
            kind,
            key=key,
            args=args,
            on_unknown=on_unknown,
            occurrence=occurrence,
            supersedes=supersedes,
            event=event,
        ) as effect:
            if effect.should_run:
                effect.done(function(effect))
            return effect.result

    def once(
        self,
        kind: str,
        *,
        key: Callable[..., str],
        on_unknown: OnUnknown = "manual",
        event: MakeEvent | None = None,
    ) -> Callable[[Callable[..., JSON]], Callable[..., JSON]]:
        """``run_once`` as a decorator: each call is an effect, its arguments are the action's.

        Args:
            kind: As ``effect``.
            key: Given a call's arguments, says which operation it is.
            on_unknown: As ``effect``.
            event: As ``effect``.

        Raises:
            StateError: In a call: its arguments are not plain JSON data.
            LastgoodError: In a call: as ``run_once``.
        """

        def decorate(function: Callable[..., JSON]) -> Callable[..., JSON]:
            signature = inspect.signature(function)

            @functools.wraps(function)
            def call(*given: JSON, **named: JSON) -> JSON:
                bound = signature.bind(*given, **named)
                bound.apply_defaults()
                return self.run_once(
                    kind,
                    lambda _: function(*given, **named),
                    key=key(*given, **named),
                    args=_plain(bound.arguments),
                    on_unknown=on_unknown,
                    event=event,
                )

            return call

        return decorate

    @property
    def open_effects(self) -> tuple[Question, ...]:
        """Effects that were intended, and nobody knows whether they were done; oldest first."""
        return self._acting.questions()

    def resolve(
        self,
        text: str,
        verdict: Literal["done", "not done"],
        *,
        result: JSON = None,
        actor: str,
        reason: str,
    ) -> None:
        """Decide what became of an effect, for good; on return the decision is durable.

        Args:
            text: Its fingerprint.
            verdict: ``done``: it is skipped from now on, with ``result``. ``not done``: it may be
                run once more.
            result: Plain JSON data; of ``done``.
            actor: Who decided; recorded.
            reason: How that is known; recorded.

        Raises:
            UsageError: No such effect is open, or actor or reason is missing.
            EffectConflictError: It is done already, or somebody is at it.
            LastgoodError: As ``append``.
        """
        self._acting.resolve(
            fingerprint(text), decision(verdict, result, actor=actor, reason=reason)
        )


def newest(session: WithEffects, kind: str, *, key: str) -> Fingerprint | None:
    """The action that was intended last with this key; None: none that is known.

    Raises:
        UsageError: They are no kind and no key.
        LastgoodError: As ``Session.append``.
    """
    acting = session._acting
    return acting.holder_of(Identity(kind=kind, key=key).key_digest(acting.salt))[0]


def as_intended(
    session: WithEffects,
    found: Fingerprint,
    kind: str,
    *,
    key: str,
    on_unknown: OnUnknown,
    event: MakeEvent | None = None,
) -> Effect:
    """An effect that was intended before, under the fingerprint that it had then.

    For who cannot ask for the very same action any more, because what it read has changed; it
    may have changed that itself.
    """
    return Effect(
        session._acting,
        Identity(kind=kind, key=key),
        fingerprint=found,
        on_unknown=on_unknown,
        supersedes=None,
        event=event,
    )


def _plain(given: Mapping[str, JSON]) -> JSON:
    """A call's arguments as JSON: ``*args`` is a tuple in Python."""
    return {name: list(value) if type(value) is tuple else value for name, value in given.items()}
