"""A model of one session's directory and its writer, in values instead of bytes.

``Writer`` opens, saves and prunes as the protocol says, and can stop after any step, so that
``Writer.disk`` is what a crash there leaves. ``evidence`` reads a disk as the product's reader
does. Whatever a test changes on the disk is therefore judged as a change of files, not of
arguments.
"""

from __future__ import annotations

import hashlib
import itertools
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

from lastgood.errors import DamagedError, LastgoodError, SplicedError
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest, Milestone
from lastgood.formats.seal import Digest
from lastgood.formats.session import SessionRecord
from lastgood.rules.selection import Evidence, Selection, Witness, select
from tests.support.records import CREATED, WRITER, session_record

Step = Literal["publish", "claim", "point", "prune"]
STEPS: Final[tuple[Step, ...]] = ("publish", "claim", "point", "prune")


@dataclass(frozen=True, slots=True)
class Stored:
    """A checkpoint's file; ``damaged`` says that its payload does not verify, its header does."""

    header: CheckpointHeader
    schema_version: int = 1
    damaged: bool = False

    @property
    def entry(self) -> Entry:
        """How a manifest names it."""
        header = self.header
        return Entry(header.sequence, header.digest, self.schema_version, header.length)


File: TypeAlias = SessionRecord | Manifest | Stored | LastgoodError
Disk: TypeAlias = dict[str, File]
Found: TypeAlias = Manifest | CheckpointHeader | Entry | LastgoodError


def digest(*parts: object) -> Digest:
    """A digest that nothing else has."""
    return Digest(hashlib.sha256(repr(parts).encode()).hexdigest())


def stored(
    sequence: int,
    *,
    epoch: int = 1,
    previous: Digest | None = None,
    schema_version: int = 1,
    tag: object = "",
) -> Stored:
    """A checkpoint as a writer of ``epoch`` leaves it."""
    header = CheckpointHeader(
        sequence=sequence,
        epoch=epoch,
        previous=previous,
        created=CREATED,
        writer=WRITER,
        length=181,
        sha256=digest("payload", sequence, tag),
        digest=digest("checkpoint", sequence, epoch, previous, tag),
        kid="0" * 32,
        size_bytes=700,
    )
    return Stored(header, schema_version)


@dataclass
class Writer:
    """A writer, honest and never disturbed.

    Attributes:
        disk: What it has written.
        past: Every record that it ever wrote, oldest first, by name.
        current: What it published last.
        newest: The revision that it made last.
        epoch: Of its last opening.
    """

    tag: str = ""
    disk: Disk = field(default_factory=dict)
    past: dict[str, list[File]] = field(default_factory=dict)
    current: Stored | None = None
    newest: Manifest | None = None
    epoch: int = 0
    milestones: tuple[Milestone, ...] = ()
    _count: itertools.count = field(default_factory=itertools.count)

    def open(self) -> None:
        """R1 to R4: finish what a crash left, then claim."""
        self.disk.setdefault(names.SESSION, session_record())
        self._write(names.SESSION, self.disk[names.SESSION])
        if self.newest is not None:
            self.disk[names.manifest(self.newest.revision)] = self.newest
            self._write(names.POINTER, self.newest)
        self.epoch += 1
        self._advance("point")

    def save(self, sequence: int, *, until: Step = "prune", milestone: str | None = None) -> None:
        """S4 to S9, or up to the step ``until``."""
        previous = None if self.current is None else self.current.header.digest
        self.current = stored(sequence, epoch=self.epoch, previous=previous, tag=self.tag)
        self._write(names.checkpoint(sequence), self.current)
        if until == "publish":
            return
        if milestone is not None:
            self.milestones += (Milestone(self.current.entry, milestone),)
        self._advance(until)
        if until == "prune":
            self.prune()

    def prune(self) -> None:
        """S9."""
        if self.newest is None:
            return
        kept = self.newest.kept_sequences()
        for name in tuple(self.disk):
            parsed = names.parse(name)
            if parsed is None:
                continue
            old = parsed.kind is names.Kind.MANIFEST and parsed.number < self.newest.revision - 1
            if old or (parsed.kind is names.Kind.CHECKPOINT and parsed.number not in kept):
                del self.disk[name]

    def _advance(self, until: Step) -> None:
        base = self.newest
        entry = None if self.current is None else self.current.entry
        moved = base is None or entry != base.current
        self.newest = Manifest(
            epoch=self.epoch,
            revision=1 if base is None else base.revision + 1,
            previous_manifest=None if base is None else base.digest,
            created=CREATED,
            writer=WRITER,
            current=entry,
            previous=None if base is None else (base.current if moved else base.previous),
            milestones=self.milestones,
            digest=digest("manifest", self.tag, next(self._count)),
        )
        self._write(names.manifest(self.newest.revision), self.newest)
        if until != "claim":
            self._write(names.POINTER, self.newest)

    def _write(self, name: str, record: File) -> None:
        self.disk[name] = record
        self.past.setdefault(name, []).append(record)


def settled() -> Writer:
    """Opened once, saved at 10, 20 and 30: revisions 3 and 4, checkpoints 20 and 30 remain."""
    writer = Writer()
    writer.open()
    for sequence in (10, 20, 30):
        writer.save(sequence)
    return writer


def evidence(
    disk: Disk,
    *,
    log_epoch: int = 0,
    witness: Witness | None = None,
    schemas: tuple[int, ...] | None = (1,),
) -> Evidence:
    """Read ``disk`` as ``lastgood.reading`` does."""
    numbers = _numbers(disk, names.Kind.MANIFEST)
    sequences = _numbers(disk, names.Kind.CHECKPOINT)
    pointer = disk.get(names.POINTER)
    wanted = set(numbers[-2:])
    if isinstance(pointer, Manifest) and pointer.revision in numbers:
        wanted.add(pointer.revision)
    manifests = {n: _manifest(disk[names.manifest(n)]) for n in wanted}
    sound = [m for m in (pointer, *manifests.values()) if isinstance(m, Manifest)]
    newest = max(sound, key=lambda m: m.revision, default=None)
    headers, verified = _checkpoints(disk, sequences, newest)
    session = disk.get(names.SESSION)
    return Evidence(
        session=session if isinstance(session, SessionRecord | LastgoodError) else None,
        pointer=None if pointer is None else _manifest(pointer),
        numbers=tuple(numbers),
        manifests=manifests,
        sequences=tuple(sequences),
        headers=headers,
        verified=verified,
        temporaries=tuple(filter(names.is_temporary, disk)),
        log_epoch=log_epoch,
        witness=witness,
        schemas=schemas,
    )


def judge(disk: Disk, *, log_epoch: int = 0, witness: Witness | None = None) -> Selection:
    """The verdict on ``disk``."""
    return select(evidence(disk, log_epoch=log_epoch, witness=witness))


def damaged(stored_checkpoint: File) -> Stored:
    """The same checkpoint with a payload that does not verify."""
    if not isinstance(stored_checkpoint, Stored):
        raise TypeError("not a checkpoint")
    return replace(stored_checkpoint, damaged=True)


def _checkpoints(
    disk: Disk, sequences: list[int], newest: Manifest | None
) -> tuple[dict[int, CheckpointHeader | LastgoodError], dict[int, Entry | LastgoodError]]:
    headers: dict[int, CheckpointHeader | LastgoodError] = {}
    verified: dict[int, Entry | LastgoodError] = {}
    if newest is None:
        return headers, verified
    current = newest.current.sequence if newest.current else 0
    previous = newest.previous.sequence if newest.previous else 0
    for sequence in sequences:
        if sequence < current and sequence != previous:
            continue
        header = _header(disk, sequence)
        headers[sequence] = header
        follows = isinstance(header, CheckpointHeader) and header.epoch == newest.epoch
        if sequence == current or (sequence > current and follows):
            verified[sequence] = _whole(disk, sequence)
    return headers, verified


def _header(disk: Disk, sequence: int) -> CheckpointHeader | LastgoodError:
    found = disk[names.checkpoint(sequence)]
    if isinstance(found, LastgoodError):
        return found
    if isinstance(found, Stored) and found.header.sequence == sequence:
        return found.header
    return SplicedError("it is another record", name=names.checkpoint(sequence))


def _whole(disk: Disk, sequence: int) -> Entry | LastgoodError:
    header = _header(disk, sequence)
    if isinstance(header, LastgoodError):
        return header
    found = disk[names.checkpoint(sequence)]
    if isinstance(found, Stored) and not found.damaged:
        return found.entry
    return DamagedError("its payload does not verify", name=names.checkpoint(sequence))


def _manifest(found: File) -> Manifest | LastgoodError:
    if isinstance(found, Manifest | LastgoodError):
        return found
    return DamagedError("it is another kind of record")


def _numbers(disk: Disk, kind: names.Kind) -> list[int]:
    parsed = (names.parse(name) for name in disk)
    return sorted(p.number for p in parsed if p is not None and p.kind is kind)
