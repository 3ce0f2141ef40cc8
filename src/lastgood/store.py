"""Store: a root of many sessions, and how one is opened."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self, TypeVar

from lastgood import history
from lastgood.checkpoints import CheckpointStore, Validator
from lastgood.claim import Owner
from lastgood.clock import Clock, SystemClock
from lastgood.entropy import Entropy, system_entropy
from lastgood.errors import (
    DamagedError,
    LastgoodError,
    NotStoredError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.formats import names, session
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.limits import Limits
from lastgood.formats.names import Kind
from lastgood.formats.session import Program, SessionRecord
from lastgood.history import Extent, History
from lastgood.keyring import Keyring
from lastgood.place import Place, find
from lastgood.reading import explained
from lastgood.reduction import Reducer, Reduction
from lastgood.rehearsal import Rehearsed, rehearse
from lastgood.replaying import Determinism
from lastgood.report import Row
from lastgood.resume import Resumed
from lastgood.rules.cadence import CheckpointPolicy
from lastgood.rules.migration import Migration
from lastgood.rules.retention import Retention
from lastgood.rules.selection import Waiver
from lastgood.session import APPROVED, Session
from lastgood.storage.interface import Storage, StorageRoot
from lastgood.storage.mounts import NetworkFileSystem
from lastgood.survey import choose, session_directories
from lastgood.version import WRITER

S = TypeVar("S")

_BEFORE_RECORDS: Final = (Kind.LOCK, Kind.TEMPORARY)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionEntry:
    """One session's directory.

    Attributes:
        directory: Its name in the root.
        record: What ``session.json`` says; None where it does not verify, or is not there yet.
        problem: Why it does not; empty for a sound session, or one that was never begun.
    """

    directory: str
    record: SessionRecord | None
    problem: LastgoodError | None = None


class Store:
    """A store, opened by ``open_store``. It holds no lock; its sessions do.

    Args:
        place: Where it is.
        clock: Given to its sessions.
        entropy: Given to its sessions.
    """

    def __init__(self, place: Place, *, clock: Clock, entropy: Entropy) -> None:
        self._place = place
        self._clock = clock
        self._entropy = entropy

    @property
    def location(self) -> str:
        """Where the store lies, for people."""
        return self._place.root.location()

    @property
    def place(self) -> Place:
        """Where it is, for what a person decides about a session that stopped."""
        return self._place

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of this place and of the keys."""
        return self._place.root.notices() + self._place.keyring.notices

    def sessions(self) -> Iterator[SessionEntry]:
        """Yield every session, in no order, as a stream: constant memory, O(1) each.

        A session that does not verify is yielded with its problem, not hidden. Names that are
        no session's are passed over.

        Raises:
            LastgoodError: The store's own record cannot be believed.
        """
        if self._place.read() is None:
            return
        for directory in session_directories(self._place.root):
            yield self._entry(directory)

    def checkpoints(
        self,
        session: str,
        *,
        mode: Literal["write", "read"] = "write",
        schema_version: int = 1,
        validate: Validator | None = None,
        retention: Retention | None = None,
        program: Program | None = None,
    ) -> CheckpointStore:
        """Open the checkpoints of one session; arguments and errors as ``CheckpointStore``."""
        return CheckpointStore(
            self._place.root,
            session,
            keys=self._place.keyring,
            mode=mode,
            schema_version=schema_version,
            validate=validate,
            retention=retention,
            limits=self._place.limits,
            program=program,
            store_id=self._place.store_id,
            clock=self._clock,
            entropy=self._entropy,
        )

    def session(
        self,
        session: str,
        *,
        reducer: Reducer[S],
        initial: S,
        schema_version: int = 1,
        migrations: Mapping[int, Migration] | None = None,
        validate: Callable[[S], object] | None = None,
        policy: CheckpointPolicy | None = None,
        program: Program | None = None,
        compatible_versions: Collection[str] = (),
        on_resume: Callable[[Resumed[S]], object] | None = None,
        state_type: type[S] | None = None,
        retention: Retention | None = None,
        determinism: Determinism = "trust",
        verify: Literal["recent", "full"] = "recent",
    ) -> Session[S]:
        """Open a session: resume it from its last good checkpoint and its log, or begin it.

        On return it is owned, and its state is that of every acknowledged event. On raise nothing
        was started.

        Args:
            session: Any text of 1 to 512 bytes of UTF-8; data, never a path.
            reducer: The state after an event; a function of its two arguments alone.
            initial: The state before the first event.
            schema_version: Version of the state's shape.
            migrations: ``{1: f, 2: g}``: from the state of version 1 to 2, from 2 to 3.
            validate: Raises, or returns False, if a state must not be.
            policy: When it saves by itself.
            program: Name and version; another program is refused.
            compatible_versions: Versions of the same program whose sessions this one goes on with.
            on_resume: Called with what was found before anything starts; what it raises stops.
            state_type: A dataclass or pydantic model class; without, plain JSON data.
            retention: What is kept beyond two generations and milestones.
            determinism: ``check`` runs every replay twice and compares.
            verify: ``full`` reads and verifies all of the log, not only what follows the older
                generation: damage of older events stops, too.

        Raises:
            LockedError: Another process holds it; names its pid, host and epoch.
            LastgoodError: As ``resume.resume``.
        """
        reduction = Reduction(
            reducer=reducer,
            initial=initial,
            schema_version=schema_version,
            migrations=migrations,
            validate=validate,
            kind=state_type,
            program=Program() if program is None else program,
            compatible_versions=compatible_versions,
            limits=self._place.limits,
        )
        if verify not in ("recent", "full"):
            raise UsageError("What is verified is 'recent' or 'full'")
        if on_resume is not None and not callable(on_resume):
            raise UsageError("on_resume is a function of what was found")
        return Session(
            self._place,
            self._place.scope(
                session,
                schemas=reduction.chain.readable,
                waived=APPROVED,
                whole_log=verify == "full",
            ),
            owner=Owner(
                program=reduction.program,
                writer=WRITER,
                clock=self._clock,
                entropy=self._entropy,
            ),
            reduction=reduction,
            policy=CheckpointPolicy() if policy is None else policy,
            retention=Retention() if retention is None else retention,
            determinism=determinism,
            on_resume=on_resume,
        )

    def rehearse(
        self,
        session: str,
        *,
        reducer: Reducer[S],
        initial: S,
        schema_version: int = 1,
        migrations: Mapping[int, Migration] | None = None,
        validate: Callable[[S], object] | None = None,
        program: Program | None = None,
        compatible_versions: Collection[str] = (),
        state_type: type[S] | None = None,
        determinism: Determinism = "trust",
        waived: Collection[Waiver] = APPROVED,
    ) -> Rehearsed[S] | None:
        """What ``session`` with these arguments would give, by reading only; None: a new session.

        With ``waived=("damage",)``: what it would give once a rebuild is approved.

        Raises:
            PolicyError: The session has no event log.
            LastgoodError: What ``session`` would raise.
        """
        reduction = Reduction(
            reducer=reducer,
            initial=initial,
            schema_version=schema_version,
            migrations=migrations,
            validate=validate,
            kind=state_type,
            program=Program() if program is None else program,
            compatible_versions=compatible_versions,
            limits=self._place.limits,
        )
        scope = self._place.scope(session, schemas=reduction.chain.readable, waived=waived)
        try:
            storage = self._place.root.session(scope.directory, access="read")
        except NotStoredError:
            return None
        with contextlib.closing(storage):
            return rehearse(
                scope, storage, reduction=reduction, determinism=determinism, clock=self._clock
            )

    def newest(self, session: str) -> tuple[Row, Checkpoint] | None:
        """The last good checkpoint as a row and its content, by one settled reading; None: none.

        Whatever its schema version is; it is to be shown, not used.

        Raises:
            BusyError: A writer kept moving the session.
            LastgoodError: What is there cannot be believed.
        """
        scope = self._place.scope(session, schemas=None)
        try:
            storage = self._place.root.session(scope.directory, access="read")
        except NotStoredError:
            return None
        with contextlib.closing(storage):
            found = choose(scope, storage, clock=self._clock)
        current = found.selection.current
        if current is None:
            return None
        manifest = found.selection.manifest
        milestones = () if manifest is None else manifest.milestones
        labels = {milestone.entry.sequence: milestone.label for milestone in milestones}
        header = found.headers[current.sequence]
        row = Row(
            name=current.name,
            sequence=current.sequence,
            role="published" if found.selection.rolled_forward else "current",
            schema_version=current.schema_version,
            size_bytes=header.size_bytes,
            sha256=header.sha256,
            kid=header.kid,
            created=header.created,
            label=labels.get(current.sequence, ""),
        )
        return row, found.bodies[current.sequence].checkpoint

    @contextlib.contextmanager
    def history(self, session: str, *, extent: Extent = "all") -> Iterator[History]:
        """The events of a session, verified, while the context lasts; nothing is changed.

        Raises:
            UnknownSessionError: There is no such session.
            PolicyError: It has no event log.
            BusyError: A writer kept moving it.
        """
        scope = self._place.scope(session, schemas=None)
        unknown = UnknownSessionError(
            f"There is no session {printable(session)} in {printable(self.location)}"
        )
        try:
            storage = self._place.root.session(scope.directory, access="read")
        except NotStoredError:
            raise unknown from None
        with contextlib.closing(storage):
            found = history.read(scope, storage, clock=self._clock, extent=extent)
            if found.is_new:
                raise unknown
            yield found

    def close(self) -> None:
        """Give back descriptors; sessions that are open stay so."""
        self._place.close()

    def __enter__(self) -> Self:
        """Use it as a context manager."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _entry(self, directory: str) -> SessionEntry:
        try:
            return SessionEntry(directory=directory, record=self._record(directory))
        except LastgoodError as error:
            return SessionEntry(directory=directory, record=None, problem=error)

    def _record(self, directory: str) -> SessionRecord | None:
        """What ``session.json`` says; None where nothing was begun yet."""
        place = self._place
        with contextlib.closing(place.root.session(directory, access="read")) as storage:
            data = _bytes_of_session(storage)
            if data is None and _is_begun(storage):
                # Its owner may have made both since; the record comes before every other.
                data = _bytes_of_session(storage)
                if data is None:
                    raise DamagedError("it is missing beside records", name=names.SESSION)
        if data is None:
            return None
        try:
            return session.decode(
                data,
                store_id=place.store_id,
                directory=directory,
                sealer=place.keyring.sealer(directory, store_id=place.store_id),
                limits=place.limits,
                name=names.SESSION,
            )
        except LastgoodError as error:
            found = explained(
                error,
                data,
                context=session.context(place.store_id, directory),
                keyring=place.keyring,
                store_id=place.store_id,
                limits=place.limits,
                name=names.SESSION,
            )
        raise found


def _bytes_of_session(storage: Storage) -> bytes | None:
    try:
        return storage.read(names.SESSION, max_bytes=session.MAX_BYTES)
    except NotStoredError:
        return None


def _is_begun(storage: Storage) -> bool:
    """Whether records lie there; a kill before the first one leaves a lock and temporaries."""
    parsed = map(names.parse, storage.list())
    if any(p is not None and p.kind not in _BEFORE_RECORDS for p in parsed):
        return True
    archived = (name.removeprefix(names.archived("")) for name in storage.list(names.archived("")))
    return any(names.parse(name) is not None or names.is_set_aside(name) for name in archived)


def open_store(
    where: str | os.PathLike[str] | StorageRoot,
    *,
    keys: Keyring,
    store_id: str | None = None,
    limits: Limits | None = None,
    network_filesystem: NetworkFileSystem = "refuse",
    clock: Clock | None = None,
    entropy: Entropy = system_entropy,
) -> Store:
    """Open a store; it is made by the first session that is opened for writing.

    Args:
        where: A path, ``file:…``, ``memory:NAME``, or a back end.
        keys: The keys, which pin the store's id.
        store_id: For several stores under one key.
        limits: What the store may make this process do.
        network_filesystem: ``accept`` where only one machine ever writes.
        clock: Wall clock for people, monotonic for waits.
        entropy: Randomness.

    Raises:
        KeyMismatchError: The store is sealed with other keys.
        LastgoodError: What is there cannot be believed, or the place cannot be used.
    """
    clock = clock or SystemClock()
    place = find(
        where,
        keys=keys,
        store_id=store_id,
        limits=Limits() if limits is None else limits,
        clock=clock,
        entropy=entropy,
        network_filesystem=network_filesystem,
    )
    opened = Store(place, clock=clock, entropy=entropy)
    try:
        place.read()
    except BaseException:
        opened.close()
        raise
    return opened
