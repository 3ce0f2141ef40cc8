"""One reading of a session's directory: each record verified, or the error that stands for it.

Nothing here changes a byte (G8), and nothing here decides: ``rules.selection`` does. The
bytes that were verified are the bytes that were parsed, also for the state, which comes out
of the same reading.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from lastgood.errors import (
    DamagedError,
    KeyMismatchError,
    LastgoodError,
    NotStoredError,
    SplicedError,
    printable,
)
from lastgood.formats import checkpoint, manifest, names, seal, session
from lastgood.formats.checkpoint import Body, CheckpointHeader
from lastgood.formats.limits import HEAD_BYTES, Limits
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.session import SessionRecord
from lastgood.keyring import STORE_DIRECTORY, Keyring
from lastgood.rules.selection import Evidence, Waiver
from lastgood.storage.interface import Storage

_Record = TypeVar("_Record")
_KEPT_REVISIONS: Final = 2
_GONE: Final = "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What is fixed of one session for everybody who reads or writes it.

    Attributes:
        keyring: The keys.
        store_id: Pinned outside the store; never taken from it.
        session: The id that was asked for; never one that was found.
        sealer: The session's keys, derived once.
        limits: The reader's.
        schemas: Schema versions whose state will be believed; None: no state will be.
        waived: What the caller decided to pass over.
        whole_log: Whether all of the log is verified, not only what follows the older generation.
    """

    keyring: Keyring
    store_id: str
    session: names.SessionId
    sealer: seal.Sealer
    limits: Limits
    schemas: Collection[int] | None = None
    waived: Collection[Waiver] = ()
    whole_log: bool = False

    @property
    def directory(self) -> str:
        """The session's directory."""
        return names.directory(self.session)


@dataclass(slots=True)
class Reading:
    """One reading, made by ``evidence``.

    Attributes:
        scope: What is read.
        storage: Where.
        trace: Names and bytes that were seen, to be compared with those of the next reading.
        bodies: Payloads that were verified, by sequence.
        foreign: Names that are not ours: never parsed, never deleted.
    """

    scope: Scope
    storage: Storage
    trace: list[tuple[str, str]] = field(default_factory=list)
    bodies: dict[int, Body] = field(default_factory=dict)
    foreign: tuple[str, ...] = ()

    def evidence(self) -> Evidence:
        """List the directory, then read what a verdict needs.

        Raises:
            LastgoodError: It cannot be listed.
        """
        listed = self._list()
        numbers = _numbers(listed, Kind.MANIFEST)
        pointer = self.manifest(names.POINTER) if names.POINTER in listed else None
        wanted = set(numbers[-_KEPT_REVISIONS:])
        if isinstance(pointer, Manifest) and pointer.revision in numbers:
            wanted.add(pointer.revision)
        read: dict[int, Manifest | LastgoodError | None] = {
            n: self.manifest(names.manifest(n)) for n in sorted(wanted)
        }
        manifests = {n: found for n, found in read.items() if found is not None}
        newest = _newest([pointer, *manifests.values()])
        sequences = _numbers(listed, Kind.CHECKPOINT)
        verified, headers = self._checkpoints(sequences, newest)
        gone = {s for s, found in headers.items() if found is None}
        return Evidence(
            session=self.session_record() if names.SESSION in listed else None,
            pointer=pointer,
            numbers=tuple(n for n in numbers if n not in wanted or n in manifests),
            manifests=manifests,
            sequences=tuple(s for s in sequences if s not in gone),
            headers={s: found for s, found in headers.items() if found is not None},
            verified={s: found for s, found in verified.items() if found is not None},
            temporaries=tuple(n for n, p in listed.items() if p.kind is Kind.TEMPORARY),
            log_epoch=max((p.epoch for p in listed.values() if p.kind is Kind.SEGMENT), default=0),
            schemas=self.scope.schemas,
            waived=self.scope.waived,
        )

    def session_record(self) -> SessionRecord | LastgoodError | None:
        """Read ``session.json``."""
        scope = self.scope

        def decode(data: bytes) -> SessionRecord:
            return session.decode(
                data,
                store_id=scope.store_id,
                directory=scope.directory,
                sealer=scope.sealer,
                limits=scope.limits,
                name=names.SESSION,
            )

        context = session.context(scope.store_id, scope.directory)
        return self._judge(names.SESSION, self._whole(session.MAX_BYTES), decode, context)

    def manifest(self, name: str) -> Manifest | LastgoodError | None:
        """Read the manifest of this name."""
        scope = self.scope

        def decode(data: bytes) -> Manifest:
            return manifest.decode(
                data,
                store_id=scope.store_id,
                session=scope.session,
                sealer=scope.sealer,
                limits=scope.limits,
                name=name,
            )

        limit_bytes = scope.limits.record_bytes(scope.limits.manifest_bytes)
        context = manifest.context(scope.store_id, scope.session)
        return self._judge(name, self._whole(limit_bytes), decode, context)

    def checkpoint(
        self, sequence: int, *, name: str | None = None
    ) -> tuple[CheckpointHeader, Entry] | LastgoodError | None:
        """Read a checkpoint whole; its payload goes into ``bodies``."""
        name = names.checkpoint(sequence) if name is None else name
        context = checkpoint.context(self.scope.store_id, self.scope.session)

        def decode(data: bytes) -> tuple[CheckpointHeader, Entry]:
            whole = seal.unseal(
                data, context=context, sealer=self.scope.sealer, limits=self.scope.limits, name=name
            )
            header = self._header(whole, sequence, name)
            body = checkpoint.decode_body(whole.payload, sequence=sequence, name=name)
            self.bodies[sequence] = body
            return header, entry_of(header, body)

        return self._judge(name, self._whole(self._checkpoint_bytes), decode, context)

    def checkpoint_header(
        self, sequence: int, *, name: str | None = None
    ) -> CheckpointHeader | LastgoodError | None:
        """Read a checkpoint's seal and header; its payload is not looked at."""
        name = names.checkpoint(sequence) if name is None else name
        context = checkpoint.context(self.scope.store_id, self.scope.session)

        def decode(data: bytes) -> CheckpointHeader:
            top = seal.unseal_header(
                data, context=context, sealer=self.scope.sealer, limits=self.scope.limits, name=name
            )
            return self._header(top, sequence, name)

        return self._judge(name, self._beginning, decode, context)

    @property
    def lost_names(self) -> bool:
        """Whether a name went between the listing and its reading: somebody is at work."""
        return any(seen == _GONE for _, seen in self.trace)

    def note_gone(self, name: str) -> None:
        """Remember that ``name`` went since it was listed."""
        self.trace.append((name, _GONE))

    @property
    def _checkpoint_bytes(self) -> int:
        return self.scope.limits.record_bytes(self.scope.limits.payload_bytes)

    def _list(self) -> dict[str, names.Parsed]:
        every = sorted(self.storage.list())
        parsed = {name: names.parse(name) for name in every}
        self.trace += ((name, "") for name in every)
        self.foreign = tuple(name for name, found in parsed.items() if found is None)
        return {name: found for name, found in parsed.items() if found is not None}

    def _checkpoints(
        self, sequences: Iterable[int], newest: Manifest | None
    ) -> tuple[
        dict[int, Entry | LastgoodError | None], dict[int, CheckpointHeader | LastgoodError | None]
    ]:
        """Read the current one and what continues it whole, else headers, in that order."""
        verified: dict[int, Entry | LastgoodError | None] = {}
        headers: dict[int, CheckpointHeader | LastgoodError | None] = {}
        if newest is None:
            return verified, headers
        current = newest.current.sequence if newest.current else 0
        previous = newest.previous.sequence if newest.previous else 0
        there = set(sequences)
        if current in there:
            _keep(current, self.checkpoint(current), verified, headers)
        if previous in there:
            headers[previous] = self.checkpoint_header(previous)
        for sequence in sorted(s for s in there if s > current):
            found = headers[sequence] = self.checkpoint_header(sequence)
            if isinstance(found, LastgoodError):
                break  # Selection stops here; a thousand planted names cost no more than one (T8).
            if found is not None and found.epoch >= newest.epoch:
                _keep(sequence, self.checkpoint(sequence), verified, headers)
        return verified, headers

    def _header(self, top: seal.Unsealed, sequence: int, name: str) -> CheckpointHeader:
        return checkpoint.decode_header(
            top,
            store_id=self.scope.store_id,
            session=self.scope.session,
            sequence=sequence,
            name=name,
        )

    def _whole(self, limit_bytes: int) -> Callable[[str], bytes]:
        return lambda name: self.storage.read(name, max_bytes=limit_bytes)

    def _beginning(self, name: str) -> bytes:
        stream = self.storage.stream(name, max_bytes=self._checkpoint_bytes)
        with contextlib.closing(stream) as chunks:
            return next(chunks, b"")

    def _judge(
        self,
        name: str,
        read: Callable[[str], bytes],
        decode: Callable[[bytes], _Record],
        context: seal.Context,
    ) -> _Record | LastgoodError | None:
        """The record, its error, or None for a name that is gone since it was listed."""
        try:
            data = read(name)
        except NotStoredError:
            self.note_gone(name)
            return None
        except LastgoodError as error:
            self.trace.append((name, str(error)))
            return without_frames(error)
        try:
            record = decode(data)
            # A header that verifies holds the hash of the rest: it stands for all bytes.
            self.trace.append((name, hashlib.sha256(data[:HEAD_BYTES]).hexdigest()))
            return record
        except LastgoodError as error:
            self.trace.append((name, hashlib.sha256(data).hexdigest()))
            scope = self.scope
            found = explained(
                error,
                data,
                context=context,
                keyring=scope.keyring,
                store_id=scope.store_id,
                limits=scope.limits,
                name=name,
            )
            return without_frames(found)


def without_frames(error: LastgoodError) -> LastgoodError:
    """Return ``error``, and what caused it, without the frames they were raised in.

    For an error that is kept as a finding: a frame keeps the bytes that were read, and many
    findings would keep everything that somebody has planted (T8).
    """
    found: BaseException | None = error
    while found is not None:
        found.__traceback__ = None
        found = found.__cause__ or found.__context__
    return error


def verify_checkpoint(
    scope: Scope, storage: Storage, sequence: int, *, name: str | None = None
) -> CheckpointHeader:
    """Authenticate a whole checkpoint as a stream, without holding or parsing it (S5, S9).

    Raises:
        DamagedError: It does not verify.
        StorageError: It cannot be read.
    """
    name = names.checkpoint(sequence) if name is None else name
    limits = scope.limits
    record = seal.unseal_stream(
        storage.stream(name, max_bytes=limits.record_bytes(limits.payload_bytes)),
        context=checkpoint.context(scope.store_id, scope.session),
        sealer=scope.sealer,
        limits=limits,
        name=name,
    )
    return checkpoint.decode_header(
        record, store_id=scope.store_id, session=scope.session, sequence=sequence, name=name
    )


def explained(
    error: LastgoodError,
    data: bytes,
    *,
    context: seal.Context,
    keyring: Keyring,
    store_id: str,
    limits: Limits,
    name: str,
) -> LastgoodError:
    """The error that says most of why a record of a session does not verify.

    Args:
        error: What its decoding raised.
        data: The record, or its first two lines.
        context: What it must be.
        keyring: The keys, by one of which ``store.json`` was verified.
        store_id: The caller's.
        limits: The reader's.
        name: The file, for messages.
    """
    if isinstance(error, KeyMismatchError):
        # The store's own record was verified with a key of this ring before any session is
        # read, so an unknown key id here was altered: it is not a wrong key (T6).
        damage = DamagedError("a key id that the store's own record does not have", name=name)
        damage.__cause__ = error
        return damage
    claim = seal.peek_claim(data) if isinstance(error, DamagedError) else None
    if claim is None or not _is_intact(
        data, claim, context=context, keyring=keyring, limits=limits
    ):
        return error
    kind, claimed_store, claimed = claim
    of = f" of session {printable(claimed)}" if claimed else ""
    of += "" if claimed_store == store_id else " of another store"
    return SplicedError(f"intact, but it is a {kind} record{of}", name=name)


def _is_intact(
    data: bytes,
    claim: tuple[str, str, str],
    *,
    context: seal.Context,
    keyring: Keyring,
    limits: Limits,
) -> bool:
    """Whether a record that does not verify in ``context`` does where it claims to be (T5)."""
    kind, store_id, claimed = claim
    try:
        directory = names.directory(names.session_id(claimed)) if claimed else STORE_DIRECTORY
        there = seal.Context(kind, store_id, directory if kind == session.KIND else claimed)
        if there == context:
            return False
        sealer = keyring.sealer(directory, store_id=store_id)
        seal.unseal_header(data, context=there, sealer=sealer, limits=limits, name="")
    except LastgoodError:
        return False
    return True


def entry_of(header: CheckpointHeader, body: Body) -> Entry:
    """What a manifest says of a checkpoint that was read whole."""
    schema_version = body.checkpoint.schema_version
    return Entry(header.sequence, header.digest, schema_version or 0, header.length)


def _keep(
    sequence: int,
    found: tuple[CheckpointHeader, Entry] | LastgoodError | None,
    verified: dict[int, Entry | LastgoodError | None],
    headers: dict[int, CheckpointHeader | LastgoodError | None],
) -> None:
    if found is None or isinstance(found, LastgoodError):
        verified[sequence] = headers[sequence] = found
    else:
        headers[sequence], verified[sequence] = found


def _numbers(listed: dict[str, names.Parsed], kind: Kind) -> list[int]:
    return sorted(parsed.number for parsed in listed.values() if parsed.kind is kind)


def newest_of(evidence: Evidence) -> Manifest | None:
    """The highest revision among those that verify, whatever the verdict is."""
    return _newest([evidence.pointer, *evidence.manifests.values()])


def _newest(found: Iterable[Manifest | LastgoodError | None]) -> Manifest | None:
    sound = [m for m in found if isinstance(m, Manifest)]
    return max(sound, key=lambda m: m.revision, default=None)
