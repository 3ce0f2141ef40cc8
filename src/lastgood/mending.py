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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from lastgood import saving
from lastgood.claim import Owner
from lastgood.clock import utc_text
from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    NotStoredError,
    PolicyError,
    UnknownFormatError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.event_log import EventLog
from lastgood.formats import event, names
from lastgood.formats.manifest import Manifest, Note
from lastgood.formats.session import LogKind, SessionRecord
from lastgood.lease import Lease, take
from lastgood.place import Place
from lastgood.reading import Reading, Scope, newest_of
from lastgood.rules.retention import Retention
from lastgood.rules.selection import REBUILD_APPROVED, Evidence, Waiver
from lastgood.storage.interface import OwnedStorage

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
        warnings: What a person should know.
    """

    session: str
    repair: str
    revision: int
    sequence: int
    kept: tuple[str, ...] = ()
    details: str = ""
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
        UsageError: The current checkpoint is not damaged.
        PolicyError: The session has no event log.
        LastgoodError: Something else is damaged, too, or the session cannot be owned.
    """
    with _opened(place, session, waived=("damage",)) as (scope, storage):
        evidence = _evidence(scope, storage)
        if not evidence.has_log:
            raise PolicyError("The session has no event log to rebuild from")
        newest = newest_of(evidence)
        current = None if newest is None else newest.current
        data = "" if current is None else current.digest
        note = _note(owner, decision, REBUILD_APPROVED, data)
        lease = take(scope, storage, owner=owner, log="events", note=note)
        damage = lease.chosen.damage
        details = (
            "nothing is damaged; the approval is not used" if damage is None else damage.happened
        )
        return _repaired(lease, REBUILD_APPROVED, details=details)


def accept_tail(place: Place, session: str, *, owner: Owner, decision: Decision) -> Repaired:
    """Decide that the log ends before its damaged end.

    On return a sealed event names the length that is valid; the bytes behind it stay where they
    are and are never believed.

    Raises:
        PolicyError: The session has no event log.
        LastgoodError: The damage is not behind the last anchor, or something else is damaged.
    """
    with _opened(place, session, waived=("log-end", "approved-damage")) as (scope, storage):
        if not _evidence(scope, storage).has_log:
            raise PolicyError("The session has no event log")
        note = _note(owner, decision, TAIL_ACCEPTED, "")
        lease = take(scope, storage, owner=owner, log="events", note=note)
        torn = None if lease.log is None else lease.log.torn
        details = "nothing was damaged" if torn is None else str(torn)
        found: dict[str, Any] = {} if torn is None else {
            "segment": torn.segment, "offset": torn.offset, "length": torn.size_bytes
        }  # fmt: skip
        _record(lease, decision, TAIL_ACCEPTED, found)
        return _repaired(lease, TAIL_ACCEPTED, details=details)


def rebuild_pointer(place: Place, session: str, *, owner: Owner, decision: Decision) -> Repaired:
    """Go on from the newest revision that verifies.

    On return the damaged ones are in the archive, and a new revision follows the one that was
    chosen. A checkpoint that continues it is rolled forward to.

    Raises:
        DamagedError: No revision verifies.
        LastgoodError: Something else is damaged, or the session cannot be owned.
    """
    waived: tuple[Waiver, ...] = ("revision-before", "newer-epoch", "approved-damage")
    with _opened(place, session, waived=waived) as (scope, storage):
        storage.acquire(timeout_s=scope.limits.lock_wait_s)
        evidence = _evidence(scope, storage)
        best = newest_of(evidence)
        if best is None:
            raise DamagedError("no revision of the session verifies", name=names.POINTER)
        kept = tuple(_set_aside(scope, storage, name) for name in _bad_revisions(evidence))
        if best.revision not in evidence.numbers:
            storage.settle(best.revision, number_missing=True, pointer_behind=False)
        storage.release()
        note = _note(owner, decision, POINTER_REBUILT, " ".join(kept)[:_MAX_TEXT_CHARS])
        log: LogKind = "events" if evidence.has_log else None
        lease = take(scope, storage, owner=owner, log=log, note=note)
        if lease.log is not None:
            _record(lease, decision, POINTER_REBUILT, {"kept": list(kept)})
        details = f"revision {best.revision} is the newest that verifies"
        return _repaired(lease, POINTER_REBUILT, kept=kept, details=details)


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
    with _opened(place, session, waived=("damage",)) as (scope, storage):
        if _evidence(scope, storage).has_log:
            raise PolicyError(
                "The session has an event log",
                do="Use: lastgood repair SESSION --rebuild-from-log --program MODULE:OBJECT "
                "--reason TEXT",
            )
        found = _current_of(scope, storage)
        lost = 0 if found.current is None else found.current.sequence
        note = _note(owner, decision, OLDER_ACCEPTED, f"{sequence}..{lost}")
        lease = take(scope, storage, owner=owner, note=note)
        if lease.chosen.damage is None:
            raise UsageError("The current checkpoint is not damaged")
        return _go_on(lease, sequence, lost=lost)


def consumed(lease: Lease) -> tuple[Note, ...]:
    """The notes of a session whose approval to rebuild is used up."""
    return tuple(
        replace(note, type=REBUILT) if note.type == REBUILD_APPROVED else note
        for note in lease.manifest.notes
    )


def _go_on(lease: Lease, sequence: int, *, lost: int) -> Repaired:
    reading = Reading(lease.scope, lease.storage)
    entry = next((e for e in lease.manifest.kept() if e.sequence == sequence), None)
    if entry is None or sequence == lost:
        raise UsageError(f"Sequence {sequence} is no older checkpoint that is kept")
    stored = reading.checkpoint(sequence)
    if isinstance(stored, LastgoodError):
        raise stored
    if stored is None or stored[1] != entry:
        raise ForkDetectedError(f"{entry.name} is intact, but not the one that is named")
    lease.base = entry
    older = reading.bodies[sequence].checkpoint
    lease.fingerprints = tuple(older.fingerprints)
    checkpoint = replace(older, sequence=lost + 1)
    snap = saving.snapshot(
        checkpoint,
        schema_version=older.schema_version or 1,
        milestone=None,
        limits=lease.scope.limits,
    )
    receipt = saving.save(lease, snap, retention=Retention())
    details = (
        f"sequence {sequence} goes on as {receipt.sequence}; side effects between {sequence} and "
        f"{lost} may be unknown"
    )
    return _repaired(lease, OLDER_ACCEPTED, details=details, warnings=receipt.warnings)


@contextmanager
def _opened(
    place: Place, session: str, *, waived: tuple[Waiver, ...]
) -> Iterator[tuple[Scope, OwnedStorage]]:
    """An existing session, to be taken; given back at the end."""
    if place.read() is None:
        raise UnknownSessionError("There is no store here")
    scope = place.scope(session, schemas=None, waived=waived)
    try:
        place.root.session(scope.directory, access="read").close()
    except NotStoredError as error:
        raise UnknownSessionError(f"There is no session {printable(session)}") from error
    storage = place.root.session(scope.directory, access="write")
    try:
        yield scope, storage
    finally:
        storage.close()


def _evidence(scope: Scope, storage: OwnedStorage) -> Evidence:
    """What is there, to be judged again by whoever takes the session.

    Raises:
        UnknownSessionError: The session has no record.
    """
    evidence = Reading(scope, storage).evidence()
    if evidence.session is None:
        raise UnknownSessionError(f"There is no session {printable(scope.session)}")
    if not isinstance(evidence.session, SessionRecord):
        raise evidence.session
    return evidence


def _current_of(scope: Scope, storage: OwnedStorage) -> Manifest:
    newest = newest_of(_evidence(scope, storage))
    if newest is None:
        raise DamagedError("no revision of the session verifies", name=names.POINTER)
    return newest


def _bad_revisions(evidence: Evidence) -> Iterator[str]:
    """The names that hold no revision that can be believed."""
    for revision, found in evidence.manifests.items():
        if isinstance(found, DamagedError | UnknownFormatError) or (
            isinstance(found, Manifest) and found.revision != revision
        ):
            yield names.manifest(revision)
        elif isinstance(found, LastgoodError):
            raise found
    pointer = evidence.pointer
    if isinstance(pointer, DamagedError | UnknownFormatError):
        yield names.POINTER
    elif isinstance(pointer, LastgoodError):
        raise pointer
    elif pointer is not None and pointer.revision in evidence.numbers:
        numbered = evidence.manifests.get(pointer.revision)
        if isinstance(numbered, Manifest) and numbered.digest != pointer.digest:
            yield names.POINTER


def _set_aside(scope: Scope, storage: OwnedStorage, name: str) -> str:
    """Keep damaged bytes in the archive, under a name made of them."""
    limits = scope.limits
    data = storage.read(name, max_bytes=limits.record_bytes(limits.manifest_bytes))
    aside = names.damaged(name, hashlib.sha256(data).digest()[: names.TOKEN_BYTES])
    storage.archive(name, as_name=aside)
    return names.archived(aside)


def _note(owner: Owner, decision: Decision, kind: str, data: str) -> Note:
    return Note(
        at=utc_text(owner.clock.now()),
        type=kind,
        actor=decision.actor,
        reason=decision.reason,
        data=data,
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
        warnings=warnings,
    )
