"""What an owner writes to own a session: ``session.json`` once, then one revision after another.

The pure part makes the revision that follows another; the rest publishes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from lastgood.clock import Clock, utc_text
from lastgood.entropy import Entropy
from lastgood.formats import manifest, names, session
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.manifest import MAX_NOTES, MAX_OPERATIONS, Entry, Manifest, Milestone, Note
from lastgood.formats.names import Kind
from lastgood.formats.seal import digest_of
from lastgood.formats.session import LogKind, Program, SessionRecord
from lastgood.reading import Scope
from lastgood.storage.interface import OwnedStorage

_OPERATION_BYTES: Final = 16
_SALT_BYTES: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who takes a session, and the clock and randomness that it uses.

    Attributes:
        program: Recorded when the session is made.
        writer: Recorded in every record, for people.
        clock: Wall clock for people, monotonic clock for waits.
        entropy: For operation ids, salts and names of temporaries.
    """

    program: Program
    writer: str
    clock: Clock
    entropy: Entropy


def make_session(scope: Scope, storage: OwnedStorage, owner: Owner, log: LogKind) -> None:
    """Create ``session.json``.

    Raises:
        ConflictError: It appeared meanwhile.
    """
    record = SessionRecord(
        store=scope.store_id,
        session=scope.session,
        created=utc_text(owner.clock.now()),
        writer=owner.writer,
        program=owner.program,
        salt=owner.entropy(_SALT_BYTES).hex(),
        log=log,
    )
    storage.create(names.SESSION, session.encode(record, sealer=scope.sealer))


def following(
    base: Manifest | None,
    *,
    epoch: int,
    current: Entry | None,
    previous: Entry | None,
    milestones: tuple[Milestone, ...],
    owner: Owner,
    log: LogAnchor | None,
    floor: LogAnchor | None = None,
    notes: tuple[Note, ...] | None = None,
) -> Manifest:
    """The revision after ``base``; what is None stays as it was."""
    operations = (*(base.operations if base else ()), owner.entropy(_OPERATION_BYTES).hex())
    return Manifest(
        epoch=epoch,
        revision=base.revision + 1 if base else 1,
        previous_manifest=base.digest if base else None,
        created=utc_text(owner.clock.now()),
        writer=owner.writer,
        current=current,
        previous=previous,
        milestones=milestones,
        operations=operations[-MAX_OPERATIONS:],
        log=log if log is not None or base is None else base.log,
        floor=floor if floor is not None or base is None else base.floor,
        notes=(notes if notes is not None else base.notes if base else ())[-MAX_NOTES:],
    )


def swap(following: Manifest, scope: Scope, storage: OwnedStorage) -> Manifest:
    """S6 and S7: publish ``following``; returns it with its digest.

    Raises:
        ConflictError: Somebody else made that revision.
        DurabilityUnknownError, StorageError: As ``Storage.swap``.
    """
    record = manifest.encode(
        following, store_id=scope.store_id, session=scope.session, sealer=scope.sealer
    )
    storage.swap(record, expected=following.revision - 1)
    return replace(following, digest=digest_of(record))


def revisions(storage: OwnedStorage) -> list[int]:
    """The revisions that have a number, ascending."""
    parsed = map(names.parse, storage.list("manifest-"))
    return sorted(p.number for p in parsed if p is not None and p.kind is Kind.MANIFEST)
