"""Save: the protocol S1–S9, on a lease.

::

    S1  ownership  lock held, names lead where they led, the epoch is still ours
    S2  snapshot   validate, prove fidelity, serialise, check limits; nothing on disk
    S3  seal       header with the previous checkpoint's digest; MAC
    S4  publish    create the checkpoint's name, exclusively and durably
    S5  read back  as a stranger would: seal, MAC, header, length, SHA-256
    S6  claim      create the next revision's number, confirm that nothing newer exists
    S7  point      move the pointer, fsync: committed, durably
    S8  witness    (the witness's place: after S7's fsync, never before S4's)
    S9  prune      what two generations and the milestones do not need

Four fsyncs: the checkpoint, its directory, the manifest, its directory.

Any error after S4's link ends the lease, whatever its kind: the next call takes the session
again, by R1, R3 and R4, and so adopts or finishes what was left. A published checkpoint is
never withdrawn: another owner may have rolled forward to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from lastgood.clock import utc_text
from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    LimitError,
    NotStoredError,
    StorageError,
    UsageError,
)
from lastgood.formats import checkpoint as records
from lastgood.formats import names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.checkpoint import Checkpoint, CheckpointHeader, OpenEffect
from lastgood.formats.limits import Limits
from lastgood.formats.manifest import MAX_LABEL_CHARS, Entry, Manifest, Milestone, Note
from lastgood.formats.seal import Digest, digest_of
from lastgood.lease import Lease, Standing
from lastgood.pruning import prune
from lastgood.reading import Reading, verify_checkpoint
from lastgood.rules.retention import Retention
from lastgood.rules.succession import Succession, succeed

Status = Literal["saved", "unchanged", "superseded"]

ADOPTED: Final = "Another owner took the session and made this save current; this handle is over"


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveReceipt:
    """What became of a save.

    Attributes:
        session: The session.
        sequence: The checkpoint's sequence.
        status: ``saved``; ``unchanged``: the same content was there, durably; ``superseded``:
            a higher sequence is current, nothing was written, this state is **not** durable.
        digest: The checkpoint record's digest; None if superseded.
        revision: A manifest revision that names it, or, if superseded, the newest.
        manifest_digest: That revision's digest. Kept elsewhere, it proves a rollback.
        warnings: What a person should know; none of it makes the save less durable.
    """

    session: str
    sequence: int
    status: Status
    digest: Digest | None
    revision: int
    manifest_digest: Digest | None
    warnings: tuple[str, ...] = ()

    @property
    def is_durable(self) -> bool:
        """Whether the state that was given to ``save`` survives."""
        return self.status != "superseded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """S2's result: bytes, independent of what the caller does from now on.

    Attributes:
        checkpoint: Sequence and fingerprints; its ``state`` is not looked at any more.
        payload: The canonical payload.
        sha256: Its SHA-256, as hex.
        schema_version: Of the state.
        milestone: Label under which it is kept for good.
        log: Where the log ended; None in a session of checkpoints only.
    """

    checkpoint: Checkpoint
    payload: bytes
    sha256: str
    schema_version: int
    milestone: str | None
    log: LogAnchor | None = None


def snapshot(
    checkpoint: Checkpoint,
    *,
    schema_version: int,
    milestone: str | None,
    limits: Limits,
    log: LogAnchor | None = None,
    open_effects: tuple[OpenEffect, ...] = (),
) -> Snapshot:
    """S2; in a session with a log also the anchor of the last acknowledged event, and what is open.

    Raises:
        UsageError: Another schema version than the store's, or a label that is none.
        StateError: The state would not come back as it is.
        LimitError: Too large or too deep.
    """
    if checkpoint.schema_version not in (None, schema_version):
        raise UsageError(
            f"The checkpoint has schema version {checkpoint.schema_version}, this store "
            f"was opened for {schema_version}"
        )
    if milestone is not None and not _is_label(milestone):
        raise UsageError(f"A milestone's label is a text of 1 to {MAX_LABEL_CHARS} characters")
    payload = records.encode_payload(
        checkpoint,
        schema_version=schema_version,
        open_effects=open_effects,
        log=log,
        limits=limits,
    )
    return Snapshot(
        checkpoint=checkpoint,
        payload=payload,
        sha256=hashlib.sha256(payload).hexdigest(),
        schema_version=schema_version,
        milestone=milestone,
        log=log,
    )


def save(
    lease: Lease,
    snap: Snapshot,
    *,
    retention: Retention,
    notes: tuple[Note, ...] | None = None,
) -> SaveReceipt:
    """Make a snapshot the current checkpoint; ``CheckpointStore.save`` says what holds.

    S2 was before: nothing is waited for until the snapshot is taken.
    """
    sequence = snap.checkpoint.sequence
    # S1
    lease.confirm()
    verdict = _judge(lease, snap)
    if verdict != "save":
        return _already(lease, snap, verdict)
    _check_milestones(lease, snap)
    # S3
    record = records.encode(
        snap.payload,
        store_id=lease.scope.store_id,
        session=lease.scope.session,
        epoch=lease.manifest.epoch,
        sequence=sequence,
        previous=lease.current.digest if lease.current else None,
        created=utc_text(lease.owner.clock.now()),
        writer=lease.owner.writer,
        sealer=lease.scope.sealer,
    )
    digest = digest_of(record)
    # S4
    lease.over = True  # until S7 has returned; but see _publish for a definite refusal
    warnings = _publish(lease, names.checkpoint(sequence), sequence, record)
    try:
        # S5. Crash here: published, no manifest names it; R4 rolls forward to it (I2).
        header = verify_checkpoint(lease.scope, lease.storage, sequence)
        if header.digest != digest:
            raise DamagedError("it is not what was written", name=names.checkpoint(sequence))
        # S6, S7
        entry = Entry(sequence, digest, snap.schema_version, header.length)
        lease.advance(entry, _milestones(lease, snap, entry), log=snap.log, notes=notes)
    except ConflictError:
        winner = lease.resolve_lost_claim(digest)
        return _adopted(lease, snap, digest, winner)
    except DurabilityUnknownError:
        raise
    except LastgoodError as error:
        raise DurabilityUnknownError(
            f"Sequence {sequence} was written and could not be made current ({error.code})",
            errno=error.errno if isinstance(error, StorageError) else 0,
        ) from error
    lease.previous = lease.current
    lease.current = Standing(header.sequence, header.digest, header.sha256)
    lease.fingerprints = tuple(snap.checkpoint.fingerprints)
    lease.over = False
    # S8: no witness yet.
    # S9
    pruned = prune(lease.scope, lease.storage, lease.manifest, retention=retention)
    warnings += (*_size_warning(snap, lease.scope.limits), *pruned.warnings)
    return _receipt(lease, sequence, status="saved", digest=digest, warnings=warnings)


def release(lease: Lease, sequences: Iterable[int]) -> None:
    """Make a revision that keeps the milestones of ``sequences`` no longer.

    Raises:
        UsageError: One of them is not a milestone; nothing was changed.
        ConflictError, DurabilityUnknownError, StorageError: As ``save``.
    """
    lease.confirm()
    given = {names.sequence(sequence) for sequence in sequences}
    held = {m.entry.sequence for m in lease.manifest.milestones}
    if not given <= held:
        raise UsageError(f"Sequence {min(given - held)} is not a milestone")
    kept = tuple(m for m in lease.manifest.milestones if m.entry.sequence not in given)
    _relabel(lease, kept)


def _judge(lease: Lease, snap: Snapshot) -> Succession:
    """May it follow (I3, I5, I6)? Decided against what this owner knows to be kept."""
    kept = {h.sequence: h.sha256 for h in (lease.current, lease.previous) if h is not None}
    sequence = snap.checkpoint.sequence
    if sequence not in kept and sequence in lease.manifest.kept_sequences():
        stored = _stored(lease, sequence)
        if stored is None:
            raise DamagedError("it vanished", name=names.checkpoint(sequence))
        kept[sequence] = stored.sha256
    return succeed(
        sequence,
        sha256=snap.sha256,
        fingerprints=snap.checkpoint.known,
        current_sequence=lease.current.sequence if lease.current else 0,
        current_fingerprints=frozenset(lease.fingerprints),
        kept=kept,
    )


def _already(lease: Lease, snap: Snapshot, verdict: Status) -> SaveReceipt:
    """Nothing is to be written, except perhaps a label that an interrupted save left out."""
    sequence = snap.checkpoint.sequence
    if verdict == "superseded":
        return _receipt(lease, sequence, status=verdict)
    entry = next(e for e in lease.manifest.kept() if e.sequence == sequence)
    labels = {m.entry.sequence: m.label for m in lease.manifest.milestones}
    if snap.milestone is not None and labels.get(sequence) != snap.milestone:
        _check_milestones(lease, snap)
        _relabel(lease, _milestones(lease, snap, entry))
    return _receipt(lease, sequence, status=verdict, digest=entry.digest)


def _adopted(lease: Lease, snap: Snapshot, digest: Digest, winner: Manifest) -> SaveReceipt:
    """The receipt of a save that another owner made current; this handle is fenced."""
    warning = ADOPTED
    if snap.milestone is not None:
        warning += "; it is not kept as a milestone, save it again to have that"
    return _receipt(
        lease,
        snap.checkpoint.sequence,
        status="saved",
        digest=digest,
        named_by=winner,
        warnings=(warning,),
    )


def _relabel(lease: Lease, milestones: tuple[Milestone, ...]) -> None:
    """S6 and S7 with the same checkpoints and other milestones."""
    lease.over = True
    try:
        lease.advance(lease.manifest.current, milestones)
    except DurabilityUnknownError:
        raise
    except ConflictError:
        lease.fenced = True
        raise
    except LastgoodError:
        lease.over = False  # definite: the revision was not claimed
        raise
    lease.over = False


def _publish(lease: Lease, name: str, sequence: int, record: list[bytes]) -> tuple[str, ...]:
    """S4; an error other than ``DurabilityUnknownError`` is definite and ends nothing."""
    try:
        return _create(lease, name, sequence, record)
    except DurabilityUnknownError:
        raise
    except (FencedError, NotStoredError) as error:
        lease.fenced = True
        if isinstance(error, FencedError):
            raise
        raise FencedError(f"Another owner moved {name} away") from error
    except LastgoodError:
        lease.over = False
        raise


def _create(lease: Lease, name: str, sequence: int, record: list[bytes]) -> tuple[str, ...]:
    try:
        lease.storage.create(name, record)
    except FencedError:
        raise
    except ConflictError:
        kept = _supersede(lease, name, sequence, record)
        return (f"A fenced writer's {name} was kept as {names.archived(kept)}",)
    return ()


def _supersede(lease: Lease, name: str, sequence: int, record: list[bytes]) -> str:
    """S4 where a fenced writer of an older epoch published its record under our name.

    No revision names that record and none ever can: its epoch's number is taken.

    Raises:
        FencedError: It is, or was, a newer owner's.
        NotStoredError: Another owner moved it away.
        LastgoodError: It does not verify: then it is damage, and stays where it is.
    """
    limits = lease.scope.limits
    # Read before it is judged: a newer owner may replace it by its own at any moment, and only
    # these bytes may be replaced (F13).
    fenced = lease.storage.read(name, max_bytes=limits.record_bytes(limits.payload_bytes))
    found = _stored(lease, sequence)
    if found is None or found.epoch >= lease.manifest.epoch:
        raise FencedError(f"{name} was written by another owner of this session")
    kept = names.fenced(name, hashlib.sha256(fenced).digest()[: names.TOKEN_BYTES])
    try:
        lease.storage.supersede(
            name, record, fenced=fenced, as_name=kept, revision=lease.manifest.revision
        )
    except FencedError:
        raise
    except ConflictError as error:
        raise FencedError(f"{name} was taken by another owner of this session") from error
    return kept


def _stored(lease: Lease, sequence: int) -> CheckpointHeader | None:
    found = Reading(lease.scope, lease.storage).checkpoint_header(sequence)
    if isinstance(found, LastgoodError):
        raise found
    return found


def _check_milestones(lease: Lease, snap: Snapshot) -> None:
    limit = lease.scope.limits.milestones
    held = {m.entry.sequence for m in lease.manifest.milestones}
    if snap.milestone is not None and len(held | {snap.checkpoint.sequence}) > limit:
        raise LimitError(
            f"The session has {limit} milestones already",
            do="Release milestones with CheckpointStore.prune(release=...)",
        )


def _milestones(lease: Lease, snap: Snapshot, entry: Entry) -> tuple[Milestone, ...]:
    held = {m.entry.sequence: m for m in lease.manifest.milestones}
    if snap.milestone is not None:
        held[entry.sequence] = Milestone(entry, snap.milestone)
    return tuple(held[sequence] for sequence in sorted(held))


def _is_label(text: object) -> bool:
    return type(text) is str and 1 <= len(text) <= MAX_LABEL_CHARS and names.is_text(text)


def _size_warning(snap: Snapshot, limits: Limits) -> tuple[str, ...]:
    if len(snap.payload) <= limits.payload_bytes // 2:
        return ()
    return (
        f"The payload has {len(snap.payload)} bytes, more than half of the limit "
        f"{limits.payload_bytes}",
    )


def _receipt(
    lease: Lease,
    sequence: int,
    *,
    status: Status,
    digest: Digest | None = None,
    named_by: Manifest | None = None,
    warnings: tuple[str, ...] = (),
) -> SaveReceipt:
    manifest = named_by or lease.manifest
    return SaveReceipt(
        session=lease.scope.session,
        sequence=sequence,
        status=status,
        digest=digest,
        revision=manifest.revision,
        manifest_digest=manifest.digest,
        warnings=warnings,
    )
