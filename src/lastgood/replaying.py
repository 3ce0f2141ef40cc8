"""Replay: the state that events lead to, from a checkpoint or from the beginning (R5, R6).

Where a damaged checkpoint is rebuilt and its header is still intact, the header's SHA-256 of the
payload proves the result: at that event the replay must give those very bytes.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from lastgood.errors import ProgramMismatchError, StateError
from lastgood.formats import checkpoint, event, names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Body, Checkpoint
from lastgood.formats.fingerprint import Fingerprint, fingerprints
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Scope
from lastgood.reduction import Reduction
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
        done: Fingerprints of the side effects that are done, in the order of the log.
        replayed: Events of the caller's that went through the reducer.
        is_proved: Whether it passed through the very state that a damaged checkpoint held.
        known: The same fingerprints, to be looked up.
    """

    state: S
    done: list[Fingerprint]
    replayed: int = 0
    is_proved: bool = False
    known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Make the look-up."""
        self.known = set(self.done)

    def learn(self, given: JSON) -> None:
        """Add fingerprints that are not known yet."""
        for text in fingerprints(given):
            if text not in self.known:
                self.known.add(text)
                self.done.append(text)


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
        going, after = Going(reduction.first(), []), 0
    else:
        after = body.checkpoint.sequence
        state = reduction.restore(body.checkpoint, name=names.checkpoint(after))
        going = Going(state, [Fingerprint(text) for text in body.checkpoint.fingerprints])
    comparable = sealed is not None and sealed.schema_version == reduction.schema_version
    reading = LogReading(scope, storage)
    for line in reading.replay(found, after=after):
        stored = line.event
        if stored.type == event.FINGERPRINTS:
            going.learn(stored.data)
        elif not stored.is_ours:
            going.state = reduction.replay(going.state, stored)
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
        Checkpoint(sequence, reduction.to_json(going.state), tuple(going.done)),
        schema_version=sealed.schema_version,
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
