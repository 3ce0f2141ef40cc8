"""Rehearsal: what opening a session with a program would give, found out by reading only (G8).

The steps of a resume that decide something, without those that write: R2 the log, R3 the last
good checkpoint, R5 migrate, R6 replay and check. Nothing is owned, so a writer may move on
meanwhile; what is said was true of what was read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from lastgood.clock import Clock
from lastgood.errors import PolicyError, printable
from lastgood.log_found import LogFound
from lastgood.reading import Scope
from lastgood.reduction import Reduction
from lastgood.replaying import Determinism, determined
from lastgood.rules.effects import Effects
from lastgood.storage.interface import Storage
from lastgood.survey import choose

S = TypeVar("S")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsed(Generic[S]):
    """What an opening would give.

    Attributes:
        state: The state that it would go on with.
        schema_version: Of that state.
        migrated_from: The schema that it would be brought up from, or None.
        checkpoint: Sequence of the checkpoint that it would start from; 0: the initial state.
        replayed: Events of the program's behind it.
        is_proved: Whether a damaged checkpoint was passed with the very state that it held.
        end: The last event of the log.
        effects: What became of each effect.
        salt: Keys the fingerprints of the session.
        notices: What a person should know.
    """

    state: S
    schema_version: int
    migrated_from: int | None
    checkpoint: int
    replayed: int
    is_proved: bool
    end: int
    effects: Effects
    salt: bytes = field(repr=False)
    notices: tuple[str, ...]


def rehearse(
    scope: Scope,
    storage: Storage,
    *,
    reduction: Reduction[S],
    determinism: Determinism,
    clock: Clock,
) -> Rehearsed[S] | None:
    """Choose, migrate and replay in memory; None if the session is new.

    Raises:
        PolicyError: The session has no event log.
        StateError: The state that comes out could not be stored, or is another one each time.
        LastgoodError: What ``resume`` would raise.
    """
    found = choose(scope, storage, clock=clock)
    if found.session is None or found.selection.manifest is None:
        return None
    if found.session.log is None:
        raise PolicyError(f"Session {printable(scope.session)} has no event log")
    reduction.check_program(found.session)
    base, log = found.base, LogFound() if found.log is None else found.log
    body = found.bodies[base.sequence] if base else None
    going = determined(
        scope, storage, reduction, body, log, determinism=determinism, sealed=found.sealed
    )
    version = base.schema_version if base else reduction.schema_version
    return Rehearsed(
        state=reduction.copy(going.state),
        schema_version=reduction.schema_version,
        migrated_from=None if version == reduction.schema_version else version,
        checkpoint=base.sequence if base else 0,
        replayed=going.replayed,
        is_proved=going.is_proved,
        end=log.end.count,
        effects=going.effects,
        salt=bytes.fromhex(found.session.salt),
        notices=(*found.selection.notices, *log.notices),
    )
