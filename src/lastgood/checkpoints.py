"""CheckpointStore: the checkpoints of one session, saved by S1–S9 and loaded by R3.

Invariants, checked before writing and after reading:

* I1 An official name always holds a complete record.
* I2 The pointer only names what was read back and verified.
* I3 One sequence, one content.
* I4 At least two verified generations are on disk once two exist, at every instant.
* I5 A lower sequence never becomes current.
* I6 Along ``previous`` the set of fingerprints only grows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Literal, Self

from lastgood import saving
from lastgood.claim import Owner
from lastgood.clock import Clock, SystemClock
from lastgood.entropy import Entropy, system_entropy
from lastgood.errors import (
    DamagedError,
    DomainInvariantError,
    FencedError,
    ForkDetectedError,
    LastgoodError,
    NotStoredError,
    PolicyError,
    StateError,
    StorageError,
    UnknownSchemaError,
    UsageError,
)
from lastgood.formats import names
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.fields import check_type
from lastgood.formats.limits import Limits
from lastgood.formats.session import Program
from lastgood.handle import HandleLock
from lastgood.inspection import Report, inspect
from lastgood.keyring import Keyring
from lastgood.lease import Lease
from lastgood.place import find
from lastgood.pruning import Pruned, prune
from lastgood.reading import Reading
from lastgood.rules.retention import Retention
from lastgood.rules.selection import MISSING, NOTHING
from lastgood.saving import SaveReceipt
from lastgood.storage.interface import OwnedStorage, StorageRoot
from lastgood.storage.mounts import NetworkFileSystem
from lastgood.survey import choose
from lastgood.taking import take
from lastgood.version import WRITER

Validator = Callable[[JSON], object]
"""Looks at a state; raises, or returns False, if it must not be saved or believed."""

_LOADS: Final = 5


class CheckpointStore:
    """The checkpoints of one session.

    A writer takes the session when it is made, and keeps it until ``close``: R1, R3, R4, or
    a typed error. A reader takes no lock and changes nothing. One handle may be used by
    several threads; a forked child may not use its parent's.

    Args:
        root: The store: a path, ``file:…``, ``memory:NAME``, or a back end.
        session: Any text of 1 to 512 bytes of UTF-8; data, never a path.
        keys: The keys, which pin the store's id.
        mode: ``write`` or ``read``.
        schema_version: Version of the state's shape that this program knows; any other stops.
        validate: Checks a state before it is saved and after it is loaded.
        retention: What is kept beyond two generations and milestones.
        limits: What the store may make this process do.
        program: Recorded when the session is made.
        store_id: For several stores under one key.
        network_filesystem: ``accept`` where only one machine ever writes.
        clock: Wall clock for people, monotonic for waits.
        entropy: Randomness.

    Raises:
        LockedError: Another process holds the session.
        LastgoodError: What is there cannot be believed, or cannot be owned.

    Crash points: any, while it opens; the next opening finishes what this one began.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | StorageRoot,
        session: str,
        *,
        keys: Keyring,
        mode: Literal["write", "read"] = "write",
        schema_version: int = 1,
        validate: Validator | None = None,
        retention: Retention | None = None,
        limits: Limits | None = None,
        program: Program | None = None,
        store_id: str | None = None,
        network_filesystem: NetworkFileSystem = "refuse",
        clock: Clock | None = None,
        entropy: Entropy = system_entropy,
    ) -> None:
        if mode not in ("write", "read"):
            raise UsageError("The mode is 'write' or 'read'")
        self._schema_version = names.sequence(schema_version, what="schema version")
        if validate is not None and not callable(validate):
            raise UsageError("The validator is a function of a state")
        self._validate = validate
        retention = Retention() if retention is None else retention
        self._retention = check_type(retention, Retention, what="retention")
        self._clock = clock or SystemClock()
        program = Program() if program is None else program
        self._owner = Owner(
            program=check_type(program, Program, what="program"),
            writer=WRITER,
            clock=self._clock,
            entropy=entropy,
        )
        limits = Limits() if limits is None else limits
        self._place = find(
            root,
            keys=keys,
            store_id=store_id,
            limits=limits,
            clock=self._clock,
            entropy=entropy,
            network_filesystem=network_filesystem,
        )
        self._scope = self._place.scope(session, schemas=frozenset({schema_version}))
        self._handle = HandleLock(wait_s=limits.lock_wait_s)
        self._storage: OwnedStorage | None = None
        self._lease: Lease | None = None
        self._closed = False
        try:
            self._open(mode)
        except BaseException:
            self.close()
            raise

    @property
    def session(self) -> str:
        """The session's id."""
        return self._scope.session

    @property
    def fencing_token(self) -> int:
        """The epoch of this ownership: give it to services that can refuse an older one.

        Raises:
            PolicyError: This handle only reads.
        """
        if self._lease is None:
            raise PolicyError("This handle only reads, so it owns no session")
        return self._lease.manifest.epoch

    @property
    def current_sequence(self) -> int:
        """The sequence of the current checkpoint, 0 before the first.

        Raises:
            PolicyError: This handle only reads.
            LastgoodError: The session had to be taken again, and could not be.
        """
        with self._handle.held():
            current = self._owned().current
            return current.sequence if current else 0

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Those of the current checkpoint, in their order: what the next save must hold (I6).

        Whatever its schema version is; a program may succeed one whose state it cannot read.

        Raises:
            PolicyError: This handle only reads.
            LastgoodError: The session had to be taken again, and could not be.
        """
        with self._handle.held():
            return self._owned().fingerprints

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of this place, and of what was found when it was opened."""
        found = self._lease.notices if self._lease else ()
        return self._place.root.notices() + self._place.keyring.notices + found

    def save(self, checkpoint: Checkpoint, *, milestone: str | None = None) -> SaveReceipt:
        """Make ``checkpoint`` the current one of this session, durably.

        On return with ``saved`` or ``unchanged`` it survives a process crash and a loss of
        power. On raise the checkpoint that was current still is, except for
        ``DurabilityUnknownError``, after which either may be: the same call again settles it.

        Args:
            checkpoint: State as plain JSON data; the fingerprints of the current checkpoint
                and any new ones.
            milestone: A label under which it is kept for good.

        Raises:
            StateError: The state would not come back as it is; has the JSON path. (S2)
            LimitError: Too large, too deep, or too many milestones. (S2)
            SequenceConflictError: This sequence holds other content. (I3)
            FingerprintLossError: A fingerprint of the current checkpoint is missing. (I6)
            ConflictError: Another owner moved the session on, or an older sequence knows an
                effect that the current one does not. (S6, I5)
            FencedError: This handle lost the session.
            BusyError: The call came from a signal handler inside another one.
            StorageError: The system refused before anything took effect. (S4)
            DurabilityUnknownError: A sync failed or an answer was lost. (S4–S7)

        Crash points: S4–S6 leave a record that no manifest names, chosen by the next load,
        claimed by the next open; after S6 it is current; R4 completes S7.
        """
        check_type(checkpoint, Checkpoint, what="checkpoint")
        # S2 comes first, so that nothing is waited for before the snapshot is taken.
        self._check_domain(checkpoint.state, StateError("the registered validator refuses it"))
        snap = saving.snapshot(
            checkpoint,
            schema_version=self._schema_version,
            milestone=milestone,
            limits=self._scope.limits,
        )
        with self._handle.held():
            return saving.save(self._owned(), snap, retention=self._retention)

    def load_latest(self) -> Checkpoint | None:
        """Load the last good checkpoint; None if and only if the session is new.

        Changes nothing. Without the lock, a checkpoint that a live writer has published and
        not yet acknowledged may be returned; a lower one never after it, short of a power loss.

        Raises:
            UnknownSchemaError: Its schema version is not this program's.
            DomainInvariantError: ``validate`` refuses it.
            LastgoodError: What is there cannot be believed; nothing older is returned instead.
        """
        storage = self._reading_storage()
        if storage is None:
            return None
        found = choose(self._scope, storage, clock=self._clock)
        current = found.selection.current
        if current is None:
            return None
        return self._believed(found.bodies[current.sequence].checkpoint, current.name)

    def load(self, sequence: int) -> Checkpoint:
        """Load the checkpoint at ``sequence``: a generation, a milestone, or an archived one.

        Raises:
            UsageError: Not a sequence, or none that is stored.
            UnknownSchemaError: Its schema version is not this program's.
            LastgoodError: It, or the session's newest, cannot be believed.
        """
        names.sequence(sequence)
        scope = self._place.scope(self._scope.session, schemas=None)
        unknown = UsageError(
            f"Sequence {sequence} is not stored", do="See what there is with: lastgood list SESSION"
        )
        missing: LastgoodError = unknown
        for _ in range(_LOADS):
            storage = self._reading_storage()
            if storage is None:
                break
            found = choose(scope, storage, clock=self._clock).selection
            kept = {e.sequence: e for e in found.kept()}
            name = names.checkpoint(sequence)
            name = name if sequence in kept else names.archived(name)
            reading = Reading(scope, storage)
            record = reading.checkpoint(sequence, name=name)
            if isinstance(record, LastgoodError):
                raise record
            if record is not None:
                if kept.get(sequence, record[1]) != record[1]:
                    raise ForkDetectedError(f"{name} is intact, but not the one that is named")
                return self._believed(reading.bodies[sequence].checkpoint, name)
            # Gone since it was chosen: pruned, or moved to the archive meanwhile. Look again.
            missing = DamagedError(MISSING, name=name) if sequence in kept else unknown
        raise missing

    def check(self) -> Report:
        """Read and verify everything of this session; raises nothing that it can report.

        Raises:
            BusyError: A writer kept moving the session.
        """
        try:
            storage = self._reading_storage()
        except (DamagedError, StorageError) as error:
            # What stands in the directory's place is a finding as any other (T7).
            return Report(session=self.session, error=error, findings=(str(error),))
        if storage is None:
            return Report(session=self.session, selection=NOTHING)
        return inspect(self._place.scope(self.session, schemas=None), storage, clock=self._clock)

    def verify(self) -> Report:
        """As ``check``, but raises the worst finding instead of returning it.

        Raises:
            LastgoodError: Something stored cannot be believed.
        """
        report = self.check()
        if report.error is not None:
            raise report.error
        return report

    def prune(self, *, release: Sequence[int] = ()) -> Pruned:
        """Remove what two generations and the milestones do not need (S9).

        Args:
            release: Sequences of milestones that need no longer be kept.

        Raises:
            UsageError: A sequence in ``release`` is not a milestone.
            LastgoodError: As ``save``, where ``release`` makes a new revision.
        """
        with self._handle.held():
            lease = self._owned()
            if release:
                saving.release(lease, release)
            else:
                lease.confirm()
            return prune(self._scope, lease.storage, lease.manifest, retention=self._retention)

    def close(self) -> None:
        """Give the session back; idempotent. What was acknowledged is durable already.

        A save that is running, in another thread or in the code that a signal interrupted, comes
        to its end first; nothing waits for it here.
        """
        self._closed = True
        self._handle.end(self._give_back)

    def __enter__(self) -> Self:
        """Use it as a context manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; nothing is saved by leaving."""
        self.close()

    def _open(self, mode: Literal["write", "read"]) -> None:
        if mode == "read":
            self._place.read()
            return
        owner = self._owner
        self._place.make(clock=owner.clock, writer=owner.writer)
        self._storage = self._place.root.session(self._scope.directory, access="write")
        # A program may succeed an older schema, never a newer one (C13-01).
        succeeded = range(1, self._schema_version + 1)
        scope = self._place.scope(self._scope.session, schemas=succeeded)
        self._lease = take(scope, self._storage, owner=owner)

    def _give_back(self) -> None:
        if self._storage is not None:
            self._storage.close()
        self._place.close()

    def _owned(self) -> Lease:
        """The lease, taken again if an unfinished save ended it (R1)."""
        lease = self._lease
        if lease is None:
            raise PolicyError("This handle was opened for reading")
        if self._closed:
            raise UsageError("This handle is closed")
        if lease.over and not lease.fenced:
            try:
                lease = take(lease.scope, lease.storage, owner=self._owner, after=lease)
            except FencedError:
                lease.fenced = True
                raise
            self._lease = lease
        return lease

    def _reading_storage(self) -> OwnedStorage | None:
        """The session's directory; None as long as it does not exist."""
        if self._closed:
            raise UsageError("This handle is closed")
        if self._storage is None:
            try:
                self._storage = self._place.root.session(self._scope.directory, access="read")
            except NotStoredError:
                return None
        return self._storage

    def _believed(self, checkpoint: Checkpoint, name: str) -> Checkpoint:
        version = checkpoint.schema_version
        if version != self._schema_version:
            raise UnknownSchemaError(
                f"{name} has schema version {version}, this program knows {self._schema_version}"
            )
        refusal = DomainInvariantError("the registered validator refuses its state", name=name)
        self._check_domain(checkpoint.state, refusal)
        return checkpoint

    def _check_domain(self, state: JSON, refusal: LastgoodError) -> None:
        """Ask the caller's own rules, the same before publishing and after loading (C9-08)."""
        if self._validate is None:
            return
        try:
            accepted = self._validate(state) is not False
        except Exception as error:
            raise refusal from error
        if not accepted:
            raise refusal
