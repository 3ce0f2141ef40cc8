"""The ownership of one session: taken by R1, R3 and R4, kept until it is given back.

::

    R1  own      take the lock; fsync root and directory: what a killed process left in the
                 page cache is visible and not durable
    R2  log      (sessions with an event log)
    R3  choose   the last good checkpoint, by ``rules.selection``
    R4  bind     finish what was interrupted: write again what is adopted, link the missing
                 number, move the pointer up, sweep temporaries, fsync; then claim the next
                 revision with epoch + 1 and the chosen checkpoint, by S6 and S7, and sweep
                 again. From here on a paused earlier owner is fenced.

The epoch is the fencing token: each opening has one of its own, because each claims a
revision that only one can. So correctness does not rest on the lock, which a network file
system, a deleted file or a broken kernel may not honour.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, replace
from typing import Final

from lastgood.clock import Clock, utc_text
from lastgood.entropy import Entropy
from lastgood.errors import (
    BusyError,
    ConflictError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    NotStoredError,
    PolicyError,
    RollbackDetectedError,
    printable,
)
from lastgood.formats import manifest, names, session
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import MAX_OPERATIONS, Entry, Manifest, Milestone
from lastgood.formats.names import Kind
from lastgood.formats.seal import Digest, digest_of
from lastgood.formats.session import Program, SessionRecord
from lastgood.pruning import prune_revisions
from lastgood.reading import Reading, Scope
from lastgood.rules.selection import Selection
from lastgood.storage.interface import OwnedStorage
from lastgood.survey import Survey, choose

_ATTEMPTS: Final = 20
_OPERATION_BYTES: Final = 16
_MANY_REVISIONS: Final = 64
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


@dataclass(slots=True, kw_only=True)
class Lease:
    """One ownership. Its fields change with each revision that it makes.

    Attributes:
        scope: The session.
        storage: Its directory, locked.
        owner: Who owns it.
        manifest: The newest revision, made by this owner.
        current: Header of the current checkpoint, None before the first.
        previous: Header of the generation before it.
        fingerprints: The current checkpoint's, in their order.
        notices: What was found when it was taken.
        attempt: Id of the last claim by which this handle tried to go on after ``over``.
        over: An unfinished save: take the session again before writing (R1).
        fenced: Somebody else owns the session; nothing can be written any more.
    """

    scope: Scope
    storage: OwnedStorage
    owner: Owner
    manifest: Manifest
    current: CheckpointHeader | None
    previous: CheckpointHeader | None
    fingerprints: tuple[str, ...]
    notices: tuple[str, ...] = ()
    attempt: str = ""
    over: bool = False
    fenced: bool = False

    def confirm(self) -> None:
        """S1: the lock is held, every name leads where it led, the epoch is still ours.

        Raises:
            FencedError: Not so; the lease is fenced for good.
            StorageError: That cannot be known.
        """
        try:
            if self.fenced:
                raise FencedError("This handle lost the session to another owner")
            self.storage.confirm_held()
            newest = max(_revisions(self.storage), default=0)
            if newest > self.manifest.revision:
                raise FencedError(
                    f"Another owner made revision {newest}; this handle stands on "
                    f"{self.manifest.revision}"
                )
        except FencedError:
            self.fenced = True
            raise

    def advance(self, entry: Entry | None, milestones: tuple[Milestone, ...]) -> Manifest:
        """S6 and S7: make ``entry`` the current checkpoint, by the next revision.

        On return it is committed, durably, and is ``self.manifest``.

        Raises:
            ConflictError: Somebody else made the next revision.
            DurabilityUnknownError, StorageError: As ``Storage.swap``.
        """
        base = self.manifest
        moved = entry is not None and entry != base.current
        following = _following(
            base,
            epoch=base.epoch,
            current=entry if moved else base.current,
            previous=base.current if moved else base.previous,
            milestones=milestones,
            owner=self.owner,
        )
        self.manifest = _swap(following, self.scope, self.storage)
        return self.manifest

    def resolve_lost_claim(self, digest: Digest) -> Manifest:
        """Find out what a lost claim means for the checkpoint of ``digest``; ends the lease.

        Returns the kept revision that names it: another owner rolled forward to it, so the
        save is done. Kept are the newest two: our own claim may stand under a number that was
        free again because newer owners had pruned it, and proves nothing. Nothing is
        withdrawn, whatever comes out.

        Raises:
            ConflictError: The winner of our number does not name it, and nobody else ever can.
            DurabilityUnknownError: The winner is pruned already, or cannot be read.
        """
        self.fenced = True
        ours = self.manifest.revision + 1
        reading = Reading(self.scope, self.storage)
        try:
            kept = _revisions(self.storage)[-2:]
        except LastgoodError:
            kept = []
        for winner in [reading.manifest(names.manifest(number)) for number in kept]:
            if isinstance(winner, Manifest) and winner.names_checkpoint(digest):
                return winner
        first = reading.manifest(names.manifest(ours))
        if isinstance(first, Manifest) and not first.names_checkpoint(digest):
            raise ConflictError(f"Another owner made revision {ours} from revision {ours - 1}")
        raise DurabilityUnknownError(
            f"Other owners moved the session on from revision {ours}",
            do="Open the session again, load its newest checkpoint and decide",
        )


def take(scope: Scope, storage: OwnedStorage, *, owner: Owner, after: Lease | None = None) -> Lease:
    """Take the session: R1, R3, R4.

    On return the lock is held, what was interrupted is finished, and a revision with an
    epoch of its own is durable. On raise nothing of the session is owned; what was made
    durable or finished stays so, harmlessly.

    Args:
        scope: The session.
        storage: Its directory, opened for writing.
        owner: Who takes it.
        after: An ended lease of the same handle, whose ownership goes on.

    Raises:
        LockedError: Another process holds it.
        FencedError: Another owner took it since ``after`` ended.
        RollbackDetectedError: What ``after`` made is gone.
        PolicyError: The session has an event log, so checkpoints alone may not move it.
        LastgoodError: What is there cannot be believed, or cannot be made durable.
    """
    # R1
    if after is None:
        storage.acquire(timeout_s=scope.limits.lock_wait_s)
    else:
        storage.confirm_held()
    for _ in range(_ATTEMPTS):
        storage.persist()
        # R3
        found = choose(scope, storage, clock=owner.clock)
        if after is not None:
            _recognise(after, found)
        try:
            if found.session is None:
                _make_session(scope, storage, owner)
                continue
            if found.session.log is not None:
                raise PolicyError("The session has an event log; open it as a session")
            return _bind(scope, storage, owner, found, after=after)
        except ConflictError:
            # Another owner, in spite of the lock, was faster: look again (R1).
            continue
    raise BusyError(f"Other owners kept taking session {printable(scope.session)}")


def _recognise(after: Lease, found: Survey) -> None:
    """Return only if the newest revision is one that this handle made, or began to make (R1).

    Raises:
        FencedError: Another owner made it.
        RollbackDetectedError: It is older than one that this handle made.
    """
    made, newest = after.manifest, found.selection.manifest
    if newest is None or newest.revision < made.revision:
        raise RollbackDetectedError(f"Revision {made.revision}, made by this handle, is gone")
    if newest.epoch > made.epoch:
        # Taking the session again may itself have failed, after its claim took effect.
        if newest.operations[-1:] != (after.attempt,):
            raise FencedError("Another owner took the session since the last save failed")
        after.manifest = newest


def _bind(
    scope: Scope, storage: OwnedStorage, owner: Owner, found: Survey, *, after: Lease | None
) -> Lease:
    """R4: finish, then claim.

    Raises:
        ConflictError: Something newer than what was chosen is there.
    """
    chosen = found.selection
    base = chosen.manifest
    if base is not None:
        _finish(scope, storage, chosen, base)
    claim = _following(
        base,
        epoch=base.epoch + 1 if base else 1,
        current=chosen.current,
        previous=chosen.previous,
        milestones=base.milestones if base else (),
        owner=owner,
    )
    if after is not None:
        after.attempt = claim.operations[-1]
    claimed = _swap(claim, scope, storage)
    # Again, now that the claim is to be seen: who looked before it and is paused before a link
    # or a rename holds a temporary that the first sweep may have come too early for (F13).
    storage.settle(claimed.revision, number_missing=False, pointer_behind=False)
    storage.note_holder(_holder(claimed.epoch, owner))
    warnings: tuple[str, ...] = ()
    if len(_revisions(storage)) > _MANY_REVISIONS:
        # A save prunes, an opening does not; but who opens for ever without saving must not fill
        # the directory. Durable since S7's fsync, so the same holds as in S9.
        warnings = prune_revisions(scope, storage, claimed).warnings
    current = chosen.current
    done = () if current is None else found.bodies[current.sequence].checkpoint.fingerprints
    return Lease(
        scope=scope,
        storage=storage,
        owner=owner,
        manifest=claimed,
        current=None if current is None else found.headers[current.sequence],
        previous=None if chosen.previous is None else found.headers[chosen.previous.sequence],
        fingerprints=tuple(done),
        notices=chosen.notices + warnings,
    )


def _finish(scope: Scope, storage: OwnedStorage, chosen: Selection, newest: Manifest) -> None:
    """Make durable what is adopted; finish numbers, pointer and temporaries.

    Crash in here: the next owner does it again.

    Raises:
        ConflictError: Something newer than what was chosen is there.
    """
    if chosen.rolled_forward and chosen.current is not None:
        _adopt(storage, chosen.current.name, scope)
    if chosen.number_missing:
        _adopt(storage, names.POINTER, scope)
    elif chosen.pointer_behind:
        _adopt(storage, names.manifest(newest.revision), scope)
    storage.settle(
        newest.revision,
        number_missing=chosen.number_missing,
        pointer_behind=chosen.pointer_behind > 0,
    )


def _adopt(storage: OwnedStorage, name: str, scope: Scope) -> None:
    """Make durable for certain what another process published and no revision names yet.

    A failed fsync of a dead process leaves pages that look clean and are not on disk, so
    the bytes are written again, unchanged.

    Raises:
        ConflictError: They changed or went: another owner moved the session on.
    """
    try:
        data = storage.read(name, max_bytes=scope.limits.record_bytes(scope.limits.payload_bytes))
        storage.rewrite(name, data)
    except NotStoredError as error:
        raise ConflictError(f"{name} went since it was chosen") from error


def _make_session(scope: Scope, storage: OwnedStorage, owner: Owner) -> None:
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
        log=None,
    )
    storage.create(names.SESSION, session.encode(record, sealer=scope.sealer))


def _following(
    base: Manifest | None,
    *,
    epoch: int,
    current: Entry | None,
    previous: Entry | None,
    milestones: tuple[Milestone, ...],
    owner: Owner,
) -> Manifest:
    """The revision after ``base``."""
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
        log=base.log if base else None,
        floor=base.floor if base else None,
        notes=base.notes if base else (),
    )


def _swap(following: Manifest, scope: Scope, storage: OwnedStorage) -> Manifest:
    record = manifest.encode(
        following, store_id=scope.store_id, session=scope.session, sealer=scope.sealer
    )
    storage.swap(record, expected=following.revision - 1)
    return replace(following, digest=digest_of(record))


def _revisions(storage: OwnedStorage) -> list[int]:
    parsed = map(names.parse, storage.list("manifest-"))
    return sorted(p.number for p in parsed if p is not None and p.kind is Kind.MANIFEST)


def _holder(epoch: int, owner: Owner) -> str:
    """What the lock file tells people; nothing believes it."""
    return json.dumps(
        {
            "pid": os.getpid(),
            "host": platform.node()[:64],
            "epoch": epoch,
            "since": utc_text(owner.clock.now()),
        }
    )
