"""Replay: the state that events lead to, from a checkpoint or from the beginning (R5, R6).

Where a damaged checkpoint is rebuilt and its header is still intact, the header's SHA-256 of the
payload proves the result: at that event the replay must give those very bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from lastgood.errors import ProgramMismatchError, StateError
from lastgood.formats import checkpoint, names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Body, Checkpoint
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Scope
from lastgood.reduction import Reduction
from lastgood.rules.effects import Effects
from lastgood.storage.interface import Storage
from lastgood.survey import Sealed

S = TypeVar("S")

Determinism = Literal["trust", "check"]
"""``check``: every replay runs twice and must give the same bytes."""


@dataclass(slots=True)
class Going(Generic[S]):
    """A state that follows the log.

    Attributes:
        state: After every event that was passed to ``replay``.
        since: Sequence of the checkpoint that was started from; 0: from the beginning.
        effects: What became of each effect, as far.
        replayed: Events of the caller's that went through the reducer.
        is_proved: Whether it passed through the very state that a damaged checkpoint held.
    """

    state: S
    since: int = 0
    effects: Effects = field(default_factory=Effects)
    replayed: int = 0
    is_proved: bool = False

    def checkpoint(self, sequence: int, state: JSON) -> Checkpoint:
        """The checkpoint at ``sequence``, the last event that it followed."""
        return Checkpoint(sequence, state, tuple(self.effects.known))


def replay(
    scope: Scope,
    storage: Storage,
    reduction: Reduction[S],
    body: Body | None,
    found: LogFound,
    *,
    sealed: Sealed | None = None,
) -> Going[S]:
    """The state after the log's last event, from ``body`` on; None: from the initial state.

    Args:
        scope: The session.
        storage: Its directory.
        reduction: The program's side.
        body: The payload of the checkpoint to start from.
        found: The log.
        sealed: A damaged checkpoint that the replay passes.

    Raises:
        ProgramMismatchError: The reducer does not know an event, or leads to another state than
            was sealed.
        LastgoodError: The state cannot be migrated, or the log is no longer what was found.
    """
    if body is None:
        going, after = Going(reduction.first()), 0
    else:
        after = body.checkpoint.sequence
        state = reduction.restore(body.checkpoint, name=names.checkpoint(after))
        going = Going(state, after, Effects.at(body.checkpoint.fingerprints, body.open_effects))
    comparable = sealed is not None and sealed.schema_version == reduction.schema_version
    reading = LogReading(scope, storage)
    for line in reading.replay(found, after=after):
        stored = line.event
        callers = going.effects.follow(stored)
        if callers is not None:
            going.state = reduction.replay(going.state, callers)
            going.replayed += 1
        if comparable and sealed is not None and stored.sequence == sealed.header.sequence:
            _prove(going, sealed, reading.at, reduction)
    return going


def determined(
    scope: Scope,
    storage: Storage,
    reduction: Reduction[S],
    body: Body | None,
    found: LogFound,
    *,
    determinism: Determinism,
    sealed: Sealed | None = None,
) -> Going[S]:
    """``replay``, twice if ``determinism`` asks for it, and the caller's own rules (R6).

    Raises:
        StateError: Two replays gave different states.
        DomainInvariantError: The state breaks the caller's rules.
        LastgoodError: As ``replay``.
    """
    going = replay(scope, storage, reduction, body, found, sealed=sealed)
    if determinism == "check":
        again = replay(scope, storage, reduction, body, found)
        if not reduction.same(going.state, again.state):
            raise StateError(
                "two replays of the same events gave different states: the reducer depends on "
                "something else than its arguments",
                do="Take clocks, randomness, files and globals out of the reducer",
            )
    reduction.check_domain(going.state)
    return going


def _prove(going: Going[S], sealed: Sealed, at: LogAnchor, reduction: Reduction[S]) -> None:
    """Return only if the state at a damaged checkpoint's event is the one that was sealed.

    Raises:
        ProgramMismatchError: It is another one.
    """
    sequence = sealed.header.sequence
    payload = checkpoint.encode_payload(
        going.checkpoint(sequence, reduction.to_json(going.state)),
        schema_version=sealed.schema_version,
        open_effects=tuple(going.effects.open.values()),
        log=at,
        limits=reduction.limits,
    )
    if hashlib.sha256(payload).hexdigest() != sealed.header.sha256:
        raise ProgramMismatchError(
            f"This program's replay gives another state at event {sequence} than the damaged "
            "checkpoint was sealed with",
            safe="Nothing was changed; every event is stored as it was",
            do="Rebuild it with the program, and its version, that saved it",
        )
    going.is_proved = True
