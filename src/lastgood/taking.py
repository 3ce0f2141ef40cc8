"""Taking a session for writing: R1 to R4, which end in a lease.

::

    R1  own      take the lock; fsync root and directory: what a killed process left in the
                 page cache is visible and not durable
    R2  log      where it ends, and what a crash left behind that; nothing on disk changes.
                 Its unattested end is written again, unchanged, and fdatasynced (R1)
    R3  choose   the last good checkpoint, by ``rules.selection``
    R4  bind     finish what was interrupted: write again what is adopted, link the missing
                 number, move the pointer up, sweep temporaries, fsync; then claim the next
                 revision with epoch + 1, the chosen checkpoint and the log's end, by S6 and
                 S7, and sweep again. From here on a paused earlier owner is fenced: what it
                 acknowledged before is read again, made durable, and is the log's end.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from typing import Final

from lastgood import binding, claim
from lastgood.claim import Owner
from lastgood.clock import utc_text
from lastgood.errors import (
    BusyError,
    ConflictError,
    FencedError,
    NotStoredError,
    PolicyError,
    RollbackDetectedError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.manifest import Entry, Manifest, Note
from lastgood.formats.session import LogKind, SessionRecord
from lastgood.lease import Lease, Standing
from lastgood.pruning import prune_revisions
from lastgood.reading import Scope
from lastgood.rules.selection import Selection
from lastgood.storage.interface import OwnedStorage
from lastgood.survey import Survey, choose

_ATTEMPTS: Final = 20
_MANY_REVISIONS: Final = 64
_LOST_EPOCHS: Final = 1_000
"""More than the claims that can be lost together: no epoch of a lost one is given out again."""


def take(
    scope: Scope,
    storage: OwnedStorage,
    *,
    owner: Owner,
    log: LogKind = None,
    accept: Callable[[SessionRecord], None] | None = None,
    after: Lease | None = None,
    acknowledged: LogAnchor | None = None,
    note: Note | None = None,
) -> Lease:
    """Take the session: R1 to R4.

    On return the lock is held, what was interrupted is finished, and a revision with an
    epoch of its own is durable. On raise nothing of the session is owned; what was made
    durable or finished stays so, harmlessly.

    Args:
        scope: The session.
        storage: Its directory, opened for writing.
        owner: Who takes it.
        log: ``events`` if it is used with an event log; a session has one for good, or none.
        accept: Raises if this program may not go on with the session; asked before anything is
            written.
        after: An ended lease of the same handle, whose ownership goes on.
        acknowledged: The last event that ``after`` acknowledged. What lies behind it failed, and
            is not believed because the page cache shows it.
        note: What a person decided, sealed into the claim.

    Raises:
        LockedError: Another process holds it.
        FencedError: Another owner took it since ``after`` ended.
        RollbackDetectedError: What ``after`` made is gone.
        PolicyError: The session has an event log and is used without, or the other way round.
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
        found = choose(scope, storage, clock=owner.clock, pause_s=0)  # nobody else writes
        if after is not None:
            _recognise(after, found)
        try:
            if found.session is None:
                claim.make_session(scope, storage, owner, log)
                continue
            if found.session.log != log:
                raise PolicyError(
                    "The session was made without an event log, for good; open its checkpoints"
                    if log
                    else "The session has an event log; open it as a session"
                )
            if accept is not None:
                accept(found.session)
            return _bind(
                scope,
                storage,
                owner,
                found,
                record=found.session,
                after=after,
                acknowledged=acknowledged,
                note=note,
            )
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
    scope: Scope,
    storage: OwnedStorage,
    owner: Owner,
    found: Survey,
    *,
    record: SessionRecord,
    after: Lease | None,
    acknowledged: LogAnchor | None,
    note: Note | None,
) -> Lease:
    """R4: finish, then claim.

    Raises:
        ConflictError: Something newer than what was chosen is there.
    """
    chosen = found.selection
    base = chosen.manifest
    log = None if found.log is None else binding.ending(found.log, acknowledged)
    if log is not None and acknowledged is None:
        binding.persist(scope, storage, log, base)
    if base is not None:
        _finish(scope, storage, chosen, base)
    following = claim.following(
        base,
        epoch=_next_epoch(scope, found, base),
        current=chosen.current,
        previous=chosen.previous,
        milestones=base.milestones if base else (),
        owner=owner,
        log=None if log is None else binding.attestable(log, base),
        notes=None if note is None else (*(base.notes if base else ()), note),
    )
    if after is not None:
        after.attempt = following.operations[-1]
    claimed = claim.swap(following, scope, storage)
    # Again, now that the claim is to be seen: who looked before it and is paused before a link
    # or a rename holds a temporary that the first sweep may have come too early for (F13).
    storage.settle(claimed.revision, number_missing=False, pointer_behind=False)
    if log is not None:
        log = binding.read_again(scope, storage, log, claimed, acknowledged=acknowledged)
    storage.note_holder(_holder(claimed.epoch, owner))
    warnings: tuple[str, ...] = ()
    if len(claim.revisions(storage)) > _MANY_REVISIONS:
        # A save prunes, an opening does not; but who opens for ever without saving must not fill
        # the directory. Durable since S7's fsync, so the same holds as in S9.
        warnings = prune_revisions(scope, storage, claimed).warnings
    body = None if found.base is None else found.bodies[found.base.sequence]
    return Lease(
        scope=scope,
        storage=storage,
        owner=owner,
        record=record,
        manifest=claimed,
        current=_standing(chosen.current, found),
        previous=_standing(chosen.previous, found),
        fingerprints=() if body is None else tuple(body.checkpoint.fingerprints),
        chosen=chosen,
        base=found.base,
        body=body,
        sealed=found.sealed,
        log=log,
        notices=chosen.notices + (log.notices if log is not None else ()) + warnings,
    )


def _next_epoch(scope: Scope, found: Survey, base: Manifest | None) -> int:
    """Above every epoch that anything here was written in, also by claims that were lost."""
    lost = _LOST_EPOCHS if "newer-epoch" in scope.waived else 0
    known = [base.epoch if base else 0, found.log.epoch if found.log else 0]
    return 1 + lost + max(*known, *(header.epoch for header in found.headers.values()))


def _standing(entry: Entry | None, found: Survey) -> Standing | None:
    if entry is None:
        return None
    header = found.headers.get(entry.sequence)
    return Standing(entry.sequence, entry.digest, "" if header is None else header.sha256)


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
