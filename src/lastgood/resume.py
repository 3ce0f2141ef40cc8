"""Resume: the protocol R1–R9, from a session's directory to a state that may go on.

::

    R1  own        take the lock; make durable what a killed process left visible
    R2  log        where it ends, and what a crash left behind that
    R3  choose     the last good checkpoint
    R4  bind       log and checkpoint agree; finish what was interrupted; claim an epoch
    R5  migrate    the checkpoint's state to this program's schema, in memory
    R6  replay     the events behind the checkpoint through the reducer; domain invariants
    R7  effects    intents without an outcome are open questions: none is run before it is decided
    R8  finish     append ``lastgood.resumed``: what was found and decided, sealed
    R9  hand over  state and notices; only now may an effect start

Any doubt in R1–R8 means that nothing starts. R1 to R4 are ``taking.take``. Resume never prunes.

Crash at any point: the next opening does the same again. A claim without any event after it is
an epoch that nothing was written in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from lastgood.claim import Owner
from lastgood.errors import DamagedError, ForkDetectedError, LastgoodError, StateError
from lastgood.event_log import EventLog
from lastgood.formats import event
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Body, OpenEffect
from lastgood.lease import Lease
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Reading, Scope
from lastgood.reduction import Reduction
from lastgood.replaying import Determinism, Going, determined, replay
from lastgood.rules.selection import MISSING, approval_in
from lastgood.rules.tail import Torn
from lastgood.storage.interface import OwnedStorage
from lastgood.taking import take

S = TypeVar("S")

_MAX_NOTICES: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed(Generic[S]):
    """What an opening found and decided (R9).

    Attributes:
        session: The session.
        state: A copy of the state it goes on with.
        epoch: The ownership that began: the fencing token.
        is_new: Whether nothing was there before.
        checkpoint: Sequence of the checkpoint it started from; 0: from the initial state.
        rolled_forward: Whether a crash had left that checkpoint before it was named.
        migrated_from: The schema that it was brought up from, or None.
        replayed: Events behind it that went through the reducer.
        end: The last event of the log that was found; 0 in an empty one.
        torn: What a crash left behind that, or None.
        undecided: Effects that were intended, and nobody knows whether they were done.
        notices: What a person should know.
    """

    session: str
    state: S
    epoch: int
    is_new: bool
    checkpoint: int
    rolled_forward: bool
    migrated_from: int | None
    replayed: int
    end: int
    torn: Torn | None
    undecided: tuple[OpenEffect, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Opened(Generic[S]):
    """An owned session that may go on."""

    lease: Lease
    log: EventLog
    going: Going[S]
    found: Resumed[S]


def resume(
    scope: Scope,
    storage: OwnedStorage,
    *,
    owner: Owner,
    reduction: Reduction[S],
    determinism: Determinism,
    after: EventLog | None = None,
) -> Opened[S]:
    """Take the session and go on from its last good checkpoint: R1 to R9.

    On return the session is owned and its log says what was decided. On raise nothing was
    started; what was made durable or finished stays so, harmlessly.

    Args:
        scope: The session.
        storage: Its directory, opened for writing.
        owner: Who takes it.
        reduction: The program's side.
        determinism: Whether replay is done twice and compared.
        after: The log of this very handle, which ended with an error.

    Raises:
        LockedError: Another process holds it; names the holder.
        ProgramMismatchError: Another program made it, or the reducer does not know its events.
        UnknownSchemaError, MigrationError: The state cannot be brought to this schema.
        DomainInvariantError: The state breaks the caller's rules.
        LastgoodError: What is there cannot be believed, or cannot be owned.
    """
    # R1, R2, R3, R4
    lease = take(
        scope,
        storage,
        owner=owner,
        log="events",
        accept=reduction.check_program,
        after=None if after is None else after.lease,
        acknowledged=None if after is None else after.end,
    )
    try:
        # R5, R6
        going = rebuild(lease, reduction, determinism=determinism)
        # R7: ``going`` holds them; ``Session.effect`` reconciles each before it would run.
        # R8
        log = EventLog(lease)
        found = _found(lease, reduction, going)
        log.append(_decisions(found, reduction, retaken=after is not None) + _rebuilding(lease))
    except BaseException:
        lease.over = True
        raise
    # R9
    return Opened(lease, log, going, found)


def rebuild(
    lease: Lease, reduction: Reduction[S], *, determinism: Determinism = "trust"
) -> Going[S]:
    """The state after the last event, from the checkpoint that the lease was taken on (R5, R6).

    Raises:
        LastgoodError: As ``resume``.
    """
    return determined(
        lease.scope,
        lease.storage,
        reduction,
        lease.body,
        LogFound() if lease.log is None else lease.log,
        determinism=determinism,
        sealed=lease.sealed,
    )


def follow(lease: Lease, reduction: Reduction[S], end: LogAnchor) -> Going[S]:
    """The state after event ``end``, read again from the current checkpoint and the log.

    Raises:
        LastgoodError: They are no longer what they were, or as ``resume``.
    """
    reading = Reading(lease.scope, lease.storage)
    body: Body | None = None
    anchors = [end]
    current = lease.sound
    if current is not None:
        stored = reading.checkpoint(current.sequence)
        if isinstance(stored, LastgoodError):
            raise stored
        if stored is None:
            raise DamagedError(MISSING, name=current.name)
        body = reading.bodies[current.sequence]
        if stored[1] != current or body.log is None or body.log.count != current.sequence:
            raise ForkDetectedError(f"{current.name} is intact, but not the one that is named")
        anchors.append(body.log)
    since = current.sequence if current is not None else 1
    log = LogReading(lease.scope, lease.storage)
    found = log.find(anchors=anchors, since=since, floor=lease.manifest.floor)
    return replay(lease.scope, lease.storage, reduction, body, found)


def _found(lease: Lease, reduction: Reduction[S], going: Going[S]) -> Resumed[S]:
    log = LogFound() if lease.log is None else lease.log
    current = lease.base
    version = None if lease.body is None else lease.body.checkpoint.schema_version
    return Resumed(
        session=lease.scope.session,
        state=_copied(going.state, reduction),
        epoch=lease.manifest.epoch,
        is_new=lease.chosen.manifest is None,
        checkpoint=0 if current is None else current.sequence,
        rolled_forward=lease.chosen.rolled_forward,
        migrated_from=None if version == reduction.schema_version else version,
        replayed=going.replayed,
        end=log.end.count,
        torn=log.torn,
        undecided=tuple(going.effects.open.values()),
        notices=lease.notices + _undecided(going),
    )


def _undecided(going: Going[Any]) -> tuple[str, ...]:
    count = len(going.effects.open)
    if not count:
        return ()
    said = "1 effect has" if count == 1 else f"{count} effects have"
    return (f"{said} no known outcome. See what is undecided with: lastgood effects list SESSION",)


def _copied(state: S, reduction: Reduction[S]) -> S:
    """A copy of a state that the log led to.

    Raises:
        StateError: The reducer made one that cannot be stored.
    """
    try:
        return reduction.copy(state)
    except StateError as error:
        error.safe = "Every event is stored, and nothing was started"
        error.do = "Mend the reducer so that what it returns can be stored, and open it again"
        raise


def _rebuilding(lease: Lease) -> list[tuple[str, JSON]]:
    """What the log says of a rebuild that a person approved; a save consumes the approval."""
    if lease.chosen.damage is None:
        return []
    note, damaged = approval_in(lease.chosen.manifest), lease.chosen.current
    if note is None:
        return []
    details = {
        "repair": "rebuild-from-log",
        "actor": note.actor,
        "reason": note.reason,
        "damaged": None if damaged is None else damaged.sequence,
        "from": 0 if lease.base is None else lease.base.sequence,
    }
    return [(event.REPAIRED, details)]


def _decisions(
    found: Resumed[Any], reduction: Reduction[Any], *, retaken: bool
) -> list[tuple[str, JSON]]:
    """What the log says of this opening (R8)."""
    torn = found.torn
    resumed = {
        "epoch": found.epoch,
        "new": found.is_new,
        "retaken": retaken,
        "checkpoint": found.checkpoint,
        "rolledForward": found.rolled_forward,
        "replayed": found.replayed,
        "end": found.end,
        "torn": None
        if torn is None
        else {"segment": torn.segment, "offset": torn.offset, "length": torn.size_bytes},
        "program": {"name": reduction.program.name, "version": reduction.program.version},
        "schemaVersion": reduction.schema_version,
        "notices": list(found.notices[:_MAX_NOTICES]),
    }
    events: list[tuple[str, JSON]] = [(event.RESUMED, resumed)]
    if found.migrated_from is not None:
        migrated = {
            "from": found.migrated_from,
            "to": reduction.schema_version,
            "sequence": found.checkpoint,
        }
        events.append((event.MIGRATED, migrated))
    return events
