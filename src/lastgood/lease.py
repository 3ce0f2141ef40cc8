"""The ownership of one session, as long as it lasts; ``taking.take`` begins it.

The epoch is the fencing token: each opening has one of its own, because each claims a
revision that only one can. So correctness does not rest on the lock, which a network file
system, a deleted file or a broken kernel may not honour.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from lastgood import claim
from lastgood.claim import Owner
from lastgood.errors import (
    ConflictError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
)
from lastgood.formats import names
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.checkpoint import Body
from lastgood.formats.manifest import Entry, Manifest, Milestone, Note
from lastgood.formats.seal import Digest
from lastgood.formats.session import SessionRecord
from lastgood.log_found import LogFound
from lastgood.reading import Reading, Scope
from lastgood.rules.selection import Selection
from lastgood.storage.interface import OwnedStorage
from lastgood.survey import Sealed


@dataclass(frozen=True, slots=True)
class Standing:
    """A generation, as far as the next save needs it.

    Attributes:
        sequence: Its sequence.
        digest: Its record's digest.
        sha256: Of its payload, as hex; empty if it cannot be read.
    """

    sequence: int
    digest: Digest
    sha256: str


@dataclass(slots=True, kw_only=True)
class Lease:
    """One ownership. Its fields change with each revision that it makes.

    Attributes:
        scope: The session.
        storage: Its directory, locked.
        owner: Who owns it.
        record: What ``session.json`` says.
        manifest: The newest revision, made by this owner.
        current: The current checkpoint, None before the first.
        previous: The generation before it.
        fingerprints: The current checkpoint's, in their order.
        chosen: What was chosen when it was taken.
        base: The checkpoint to start from; None: from the beginning.
        body: Its payload.
        sealed: What is still intact of a damaged current checkpoint.
        log: The event log when it was taken; None in a session of checkpoints only.
        notices: What was found when it was taken.
        attempt: Id of the last claim by which this handle tried to go on after ``over``.
        over: An unfinished save: take the session again before writing (R1).
        fenced: Somebody else owns the session; nothing can be written any more.
    """

    scope: Scope
    storage: OwnedStorage
    owner: Owner
    record: SessionRecord
    manifest: Manifest
    current: Standing | None
    previous: Standing | None
    fingerprints: tuple[str, ...]
    chosen: Selection
    base: Entry | None = None
    body: Body | None = None
    sealed: Sealed | None = None
    log: LogFound | None = None
    notices: tuple[str, ...] = ()
    attempt: str = ""
    over: bool = False
    fenced: bool = False
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def confirm_owner(self) -> None:
        """The lock is held and the pointer is the one that this owner moved; a few system calls.

        Asked before each write of the log, and again after its fdatasync: an owner that took the
        session meanwhile reads the log again after it has moved the pointer, so an event is
        either seen by it or not acknowledged here (T11).

        Raises:
            FencedError: Not so; the lease is fenced for good.
            DurabilityUnknownError: Not so, and a save of this handle is unfinished: taking the
                session again tells whether anybody else owns it.
            StorageError: That cannot be known.
        """
        with self.mutex:  # a save of this very handle may be moving the pointer
            try:
                if self.fenced:
                    raise FencedError("This handle lost the session to another owner")
                self.storage.confirm_held()
                self.storage.confirm_newest(self.manifest.revision)
            except FencedError as error:
                if self.over and not self.fenced:
                    # A save of this handle broke off: its own swap may be all that is there.
                    raise DurabilityUnknownError("A save failed while events were written") from (
                        error
                    )
                self.fenced = True
                raise

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
            newest = max(claim.revisions(self.storage), default=0)
            if newest > self.manifest.revision:
                raise FencedError(
                    f"Another owner made revision {newest}; this handle stands on "
                    f"{self.manifest.revision}"
                )
        except FencedError:
            self.fenced = True
            raise

    def advance(
        self,
        entry: Entry | None,
        milestones: tuple[Milestone, ...],
        *,
        log: LogAnchor | None = None,
        floor: LogAnchor | None = None,
        notes: tuple[Note, ...] | None = None,
    ) -> Manifest:
        """S6 and S7: make ``entry`` the current checkpoint, by the next revision.

        On return it is committed, durably, and is ``self.manifest``.

        Args:
            entry: The current checkpoint.
            milestones: What is kept for good.
            log: Where the log ends; None: where it did.
            floor: Where the kept log begins; None: where it did.
            notes: What people decided; None: what the revision before holds.

        Raises:
            ConflictError: Somebody else made the next revision.
            DurabilityUnknownError, StorageError: As ``Storage.swap``.
        """
        base = self.manifest
        moved = entry is not None and entry != base.current
        following = claim.following(
            base,
            epoch=base.epoch,
            current=entry if moved else base.current,
            previous=self.sound if moved else base.previous,
            milestones=milestones,
            owner=self.owner,
            log=log,
            floor=floor,
            notes=notes,
        )
        with self.mutex:
            self.manifest = claim.swap(following, self.scope, self.storage)
        return self.manifest

    @property
    def sound(self) -> Entry | None:
        """The current checkpoint, or, as long as that is a damaged one, what stands for it."""
        current = self.manifest.current
        damaged = self.chosen.damage is not None and current == self.chosen.current
        return self.base if damaged else current

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
            kept = claim.revisions(self.storage)[-2:]
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
