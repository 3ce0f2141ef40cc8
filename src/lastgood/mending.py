"""Repair: what a person decides about damage that no crash leaves, and how it is recorded.

A stopped session names the one command that goes on. Every repair has an actor and a reason,
sealed into a revision and, where there is a log, into an event; damaged bytes are kept; nothing
goes backwards: what comes out is a new, higher revision or sequence.

==================  ===========================================================================
repair              what it decides
==================  ===========================================================================
approve rebuild     the current checkpoint is damaged or gone: the next opening with the
                    program's reducer makes a new one from an older one and the log. The
                    approval names the very checkpoint and is consumed once
accept the tail     the log is damaged behind its last anchor: it ends before that
rebuild pointer     a revision is damaged: the newest one that verifies is what the session
                    stands on
accept an older     checkpoints only, the current one is damaged: a kept older one goes on under
                    a new sequence, and side effects in between may be unknown
==================  ===========================================================================

Crash at any point: the repair is run again. Before its revision nothing is decided; after it,
what is decided stands, and the rest is finished by the next opening.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from lastgood import claim, saving
from lastgood.claim import Owner
from lastgood.clock import Clock, utc_text
from lastgood.diagnosis import WAIVED, Diagnosis, Repair, diagnose
from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    NotStoredError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.event_log import EventLog
from lastgood.formats import event, names, segment
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.event import EventKeys
from lastgood.formats.manifest import Entry, Note
from lastgood.formats.names import Kind
from lastgood.formats.session import LogKind, SessionRecord
from lastgood.lease import Lease
from lastgood.log_found import LogFound
from lastgood.place import Place
from lastgood.reading import Reading, Scope
from lastgood.rules import tail
from lastgood.rules.retention import Retention
from lastgood.rules.selection import MISSING, REBUILD_APPROVED, Selection, approval_in
from lastgood.rules.tail import Torn
from lastgood.storage.interface import OwnedStorage, Storage
from lastgood.taking import take

REBUILT: Final = "rebuilt-from-log"
TAIL_ACCEPTED: Final = "tail-accepted"
POINTER_REBUILT: Final = "pointer-rebuilt"
OLDER_ACCEPTED: Final = "older-accepted"
_MAX_TEXT_CHARS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """What a repair did.

    Attributes:
        session: The session.
        repair: Which one; the type of the note in the manifest.
        revision: The revision that holds the decision.
        sequence: The current checkpoint after it; 0 without one.
        kept: Damaged files that were moved, by their names in the archive.
        details: What was decided, for people.
        missing: What may be missing of what was acknowledged; empty: nothing.
        warnings: What a person should know.
    """

    session: str
    repair: str
    revision: int
    sequence: int
    kept: tuple[str, ...] = ()
    details: str = ""
    missing: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Who decides, and why.

    Attributes:
        actor: Who, for the record.
        reason: Why, for the record.

    Raises:
        UsageError: One of them is empty, too long or no text.
    """

    actor: str
    reason: str

    def __post_init__(self) -> None:
        """Nothing is repaired without a reason."""
        for what, text in (("actor", self.actor), ("reason", self.reason)):
            if type(text) is not str or not text.strip() or len(text) > _MAX_TEXT_CHARS:
                raise UsageError(
                    f"A repair's {what} is a text of 1 to {_MAX_TEXT_CHARS} characters"
                )
            if not names.is_text(text):
                raise UsageError(f"A repair's {what} holds a control character")


def approve_rebuild(place: Place, session: str, *, owner: Owner, decision: Decision) -> Repaired:
    """Approve that the damaged current checkpoint is rebuilt from the log.

    On return the approval is durable; the next opening with the program's reducer consumes it.

    Raises:
        UsageError: The current checkpoint is not damaged, or this is approved already.
        PolicyError: The session has no event log.
        LastgoodError: Something else is damaged, too, or the session cannot be owned.
    """
    with _opened(place, session, repair="rebuild", clock=owner.clock) as (scope, storage, found):
        if found.is_approved:
            raise UsageError(
                "The rebuild of this checkpoint is approved already",
                do="Open the session with its program, or use: lastgood repair SESSION "
                "--rebuild-from-log --program MODULE:OBJECT --reason TEXT",
            )
        current = found.chosen.current
        note = _note(owner, decision, REBUILD_APPROVED, "" if current is None else current.digest)
        lease = _take(scope, storage, owner=owner, log="events", note=note, repair="rebuild")
        return _repaired(lease, REBUILD_APPROVED, details=_happened(found))


def accept_tail(place: Place, session: str, *, owner: Owner, decision: Decision) -> Repaired:
    """Decide that the log ends before its damaged end.

    On return a sealed event names the length that is valid; the bytes behind it are kept and are
    never believed.

    Raises:
        UsageError: The end of the log is not damaged.
        PolicyError: The session has no event log.
        LastgoodError: The damage is not behind the last anchor, or something else is damaged.
    """
    with _opened(place, session, repair="tail", clock=owner.clock) as (scope, storage, found):
        note = _note(owner, decision, TAIL_ACCEPTED, _happened(found))
        lease = _take(scope, storage, owner=owner, log="events", note=note, repair="tail")
        log = LogFound() if lease.log is None else lease.log
        # After a crash in here one may lie before the segments that the claim read again.
        damaged = dict.fromkeys((*(found.log.damaged if found.log else ()), *log.damaged))
        where: dict[str, Any] = {"end": log.end.count, "setAside": list(damaged)}
        if log.torn is not None:
            torn = log.torn
            where |= {"segment": torn.segment, "offset": torn.offset, "length": torn.size_bytes}
        records = _records_behind(lease, log.torn, damaged)
        _record(lease, decision, TAIL_ACCEPTED, where | {"records": records})
        # Crash here: what no first line names is damage again, and the repair is run again.
        kept = tuple(_set_aside(scope, storage, name) for name in damaged)
        return _repaired(
            lease,
            TAIL_ACCEPTED,
            kept=kept,
            details=f"the log ends at event {log.end.count}; {_happened(found)}",
            missing=f"events behind {log.end.count}, and the side effects that they told of: "
            f"{records} records that verify lie there, and are not believed any more",
        )


def rebuild_pointer(place: Place, session: str, *, owner: Owner, decision: Decision) -> Repaired:
    """Go on from the newest revision that verifies, and from what verifies of what it names.

    On return the damaged records are in the archive, and a new revision follows the one that was
    chosen. A checkpoint that continues it is rolled forward to.

    Raises:
        UsageError: Nothing of that is damaged.
        DamagedError: No revision verifies.
        LastgoodError: Something else is damaged, or the session cannot be owned.
    """
    with _opened(place, session, repair="pointer", clock=owner.clock) as (scope, storage, _):
        storage.acquire(timeout_s=scope.limits.lock_wait_s)
        found = _needed(scope, storage, repair="pointer", clock=owner.clock)
        kept = tuple(_set_aside(scope, storage, name) for name in found.bad)
        best = found.chosen.manifest
        if best is not None and best.revision not in claim.revisions(storage):
            storage.settle(best.revision, number_missing=True, pointer_behind=False)
        storage.release()
        note = _note(owner, decision, POINTER_REBUILT, " ".join(kept))
        log: LogKind = None if found.log is None else "events"
        lease = take(scope, storage, owner=owner, log=log, note=note)
        if lease.log is not None and found.end_damage is None:
            # A damaged end is another decision: an event behind it would accept it.
            _record(lease, decision, POINTER_REBUILT, {"kept": list(kept)})
        chosen = 0 if best is None else best.revision
        details = f"revision {chosen} is the newest that verifies; {_happened(found)}"
        missing = _lost_with(found, chosen)
        return _repaired(lease, POINTER_REBUILT, kept=kept, details=details, missing=missing)


def accept_older(
    place: Place, session: str, *, owner: Owner, decision: Decision, sequence: int
) -> Repaired:
    """Go on from an older checkpoint, in a session without a log, because the current is damaged.

    On return its state and fingerprints are current under a new, higher sequence.

    Raises:
        UsageError: The current checkpoint is not damaged, or ``sequence`` is not kept.
        PolicyError: The session has an event log, which knows more than an older checkpoint.
        LastgoodError: It does not verify, or the session cannot be owned.
    """
    names.sequence(sequence)
    with _opened(place, session, repair="older", clock=owner.clock) as (scope, storage, found):
        current = found.chosen.current
        lost = 0 if current is None else current.sequence
        _readable(Reading(scope, storage), found.chosen, sequence)
        note = _note(owner, decision, OLDER_ACCEPTED, f"{sequence}..{lost}")
        lease = _take(scope, storage, owner=owner, log=None, note=note, repair="older")
        return _go_on(lease, sequence, lost=lost)


def approval(lease: Lease) -> Note | None:
    """The approval to rebuild that this ownership goes on with; None: it found none.

    That of a damaged checkpoint, or of one for which a crash left what replaces it.
    """
    chosen = lease.chosen
    if chosen.damage is None and not chosen.rolled_forward:
        return None
    return approval_in(chosen.manifest)


def consumed(lease: Lease) -> tuple[Note, ...]:
    """The notes of a session whose approval to rebuild is used up."""
    used = approval(lease)
    return tuple(
        replace(note, type=REBUILT) if note == used else note for note in lease.manifest.notes
    )


def _lost_with(found: Diagnosis, chosen: int) -> str:
    """What may be lost with newer revisions; empty if the pointer says that there are none."""
    above = [p.number for p in map(names.parse, found.bad) if p and p.kind is Kind.MANIFEST]
    is_newest = not found.chosen.pointer_behind and names.POINTER not in found.bad
    if is_newest and max(above, default=0) < chosen:
        return ""
    cut = "" if found.log is None else "; events, too, if the log was cut with them"
    what = f"saves whose checkpoints are gone, milestones, notes{cut}"
    return (
        f"whatever a revision above {chosen} decided: {what}. Compare with a receipt kept elsewhere"
    )


def _go_on(lease: Lease, sequence: int, *, lost: int) -> Repaired:
    reading = Reading(lease.scope, lease.storage)
    entry, older = _readable(reading, lease.chosen, sequence)
    lease.base = entry
    lease.fingerprints = tuple(older.fingerprints)
    snap = saving.snapshot(
        replace(older, sequence=lost + 1),
        schema_version=entry.schema_version,
        milestone=None,
        limits=lease.scope.limits,
    )
    receipt = saving.save(lease, snap, retention=Retention())
    name = names.checkpoint(lost)
    archived = lease.storage.list(names.archived("damaged-"))
    kept = tuple(sorted(moved for moved in archived if moved.endswith(f"-{name}")))
    return _repaired(
        lease,
        OLDER_ACCEPTED,
        kept=kept,
        details=f"sequence {sequence} goes on as {receipt.sequence}",
        missing=f"what was saved and done after sequence {sequence}, up to {lost}: its state is "
        "lost, and its side effects are not known",
        warnings=tuple(w for w in receipt.warnings if not any(moved in w for moved in kept)),
    )


def _readable(reading: Reading, chosen: Selection, sequence: int) -> tuple[Entry, Checkpoint]:
    """An older checkpoint that is kept.

    Raises:
        UsageError: It is none.
        LastgoodError: It does not verify.
    """
    kept = {entry.sequence: entry for entry in chosen.kept() if entry != chosen.current}
    if sequence not in kept:
        known = ", ".join(map(str, sorted(kept))) or "none"
        raise UsageError(f"Sequence {sequence} is no older checkpoint that is kept: {known}")
    stored = reading.checkpoint(sequence)
    if isinstance(stored, LastgoodError):
        raise stored
    if stored is None:
        raise DamagedError(MISSING, name=kept[sequence].name)
    if stored[1] != kept[sequence]:
        raise ForkDetectedError(f"{kept[sequence].name} is intact, but not the one that is named")
    return stored[1], reading.bodies[sequence].checkpoint


@contextmanager
def _opened(
    place: Place, session: str, *, repair: Repair, clock: Clock
) -> Iterator[tuple[Scope, OwnedStorage, Diagnosis]]:
    """A session that needs ``repair``, to be taken; given back at the end.

    Raises:
        UsageError: It does not.
        LastgoodError: As ``diagnose``. Nothing was changed.
    """
    scope = scope_of(place, session, repair=repair)
    with closing(_to_read(place, scope)) as reading:
        _needed(scope, reading, repair=repair, clock=clock)
    with closing(place.root.session(scope.directory, access="write")) as storage:
        yield scope, storage, _needed(scope, storage, repair=repair, clock=clock)


def look(place: Place, session: str, *, repair: Repair, clock: Clock) -> Diagnosis:
    """What ``repair`` would meet now; nothing is changed.

    Raises:
        UsageError: It is not needed.
        LastgoodError: It would be refused with this.
    """
    scope = scope_of(place, session, repair=repair)
    with closing(_to_read(place, scope)) as storage:
        return _needed(scope, storage, repair=repair, clock=clock)


def scope_of(place: Place, session: str, *, repair: Repair) -> Scope:
    """The session, with what ``repair`` passes over waived.

    Raises:
        UnknownSessionError: There is no store.
        InvalidIdError: It is no session's id.
    """
    if place.read() is None:
        raise UnknownSessionError("There is no store here")
    return place.scope(session, schemas=None, waived=WAIVED[repair])


def _to_read(place: Place, scope: Scope) -> Storage:
    try:
        return place.root.session(scope.directory, access="read")
    except NotStoredError as error:
        raise UnknownSessionError(f"There is no session {printable(scope.session)}") from error


def _needed(scope: Scope, storage: Storage, *, repair: Repair, clock: Clock) -> Diagnosis:
    found = diagnose(scope, storage, repair=repair, clock=clock)
    found.refuse_unneeded()
    return found


def _take(
    scope: Scope,
    storage: OwnedStorage,
    *,
    owner: Owner,
    log: LogKind,
    note: Note,
    repair: Repair,
) -> Lease:
    """Take the session, if it needs ``repair`` now that nobody else holds it."""

    def accept(_: SessionRecord) -> None:
        _needed(scope, storage, repair=repair, clock=owner.clock)

    return take(scope, storage, owner=owner, log=log, accept=accept, note=note)


def _records_behind(lease: Lease, torn: Torn | None, damaged: Iterable[str]) -> int:
    """How many lines verify behind the end that is accepted."""
    regions: list[tuple[str, int, int | None]] = [(name, 0, None) for name in damaged]
    if torn is not None:
        regions.append((torn.segment, torn.offset, torn.offset + torn.size_bytes))
    scope = lease.scope
    keys = EventKeys(scope.sealer, store_id=scope.store_id, session=scope.session)
    count = 0
    for name, since, until in regions:
        data = lease.storage.read(name, max_bytes=segment.max_bytes(scope.limits))[since:until]
        count += tail.records_behind(data, keys=keys, segment=name)
    return count


def _happened(found: Diagnosis) -> str:
    return "" if found.problem is None else found.problem.happened


def _set_aside(scope: Scope, storage: OwnedStorage, name: str) -> str:
    """Keep damaged bytes in the archive, under a name made of them."""
    limits = scope.limits
    most = max(limits.record_bytes(limits.payload_bytes), segment.max_bytes(limits))
    data = storage.read(name, max_bytes=most)
    aside = names.damaged(name, hashlib.sha256(data).digest()[: names.TOKEN_BYTES])
    storage.archive(name, as_name=aside)
    return names.archived(aside)


def _note(owner: Owner, decision: Decision, kind: str, data: str) -> Note:
    return Note(
        at=utc_text(owner.clock.now()),
        type=kind,
        actor=decision.actor,
        reason=decision.reason,
        data=data[:_MAX_TEXT_CHARS],
    )


def _record(lease: Lease, decision: Decision, kind: str, details: dict[str, Any]) -> None:
    """Seal the decision into the log; its segment's first line names the valid length."""
    log = EventLog(lease)
    told = {"repair": kind, "actor": decision.actor, "reason": decision.reason, **details}
    log.append([(event.REPAIRED, told)])
    log.close()


def _repaired(
    lease: Lease,
    kind: str,
    *,
    kept: tuple[str, ...] = (),
    details: str = "",
    missing: str = "",
    warnings: tuple[str, ...] = (),
) -> Repaired:
    current = lease.manifest.current
    return Repaired(
        session=lease.scope.session,
        repair=kind,
        revision=lease.manifest.revision,
        sequence=0 if current is None else current.sequence,
        kept=kept,
        details=details,
        missing=missing,
        warnings=warnings,
    )
