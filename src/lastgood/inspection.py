"""Everything of one session, read and verified, as rows for people and a verdict (G8).

Nothing here changes a byte, takes a lock, or raises what it can report: damage is shown,
not hidden, and every other row is still there.

A verdict on what to load needs the newest checkpoint, and the log from the older generation on.
Here everything is read: every checkpoint with its payload, the whole log, and each record's
place in it. Of two records that contradict each other both are named.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from lastgood.clock import Clock
from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    RollbackDetectedError,
    SplicedError,
    printable,
)
from lastgood.formats import names, segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.limits import MAX_SEQUENCE
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.segment import Walk
from lastgood.formats.session import SessionRecord
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Reading, Scope, newest_of, without_frames
from lastgood.report import ASSURANCE, LogSummary, Report, Role, Row
from lastgood.rules import selection
from lastgood.rules.selection import Evidence
from lastgood.storage.interface import Storage
from lastgood.survey import Attempt, read_whole, until_settled

__all__ = ["ASSURANCE", "LogSummary", "Report", "Role", "Row", "inspect"]

_Found = TypeVar("_Found")

_SHOWN: Final = 5
_TRIMMINGS: Final = 3


def inspect(scope: Scope, storage: Storage, *, clock: Clock) -> Report:
    """Read and verify every record of a session, and all of its log.

    What a writer may be moving, the records and the end of the log, is read by the reader's
    rule; the rest of the log, however long that takes, once afterwards.

    Raises:
        BusyError: A writer kept moving it.
    """
    for _ in range(_TRIMMINGS):
        inspection = until_settled(
            lambda: _Inspection(Reading(scope, storage)).attempt(),
            what=f"session {printable(scope.session)}",
            clock=clock,
        )
        report = inspection.report()
        if report.error is None or not inspection.was_trimmed():
            break
    return report


class _Inspection:
    """One reading of everything, collecting errors where ``selection`` stops at the first."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._errors: list[LastgoodError] = []
        self._sound: list[tuple[Role, CheckpointHeader]] = []
        self._places: list[tuple[str, LogAnchor | None]] = []
        self._known: tuple[str, frozenset[str]] = ("", frozenset())
        self._expects_log = False
        self._log: LogFound | None = None
        self._floor: LogAnchor | None = None
        self._draft = Report(session=reading.scope.session)

    def attempt(self) -> Attempt[_Inspection]:
        """Read what may move, once: the log after the records, so that it is never older (R2)."""
        evidence = self._collect(self._reading.evidence)
        selected = None
        if evidence is not None:
            selected = self._collect(lambda: selection.select(evidence))
        stopping, self._errors = self._errors, []
        newest = newest_of(evidence) if evidence is not None else None
        archived = self._collect(lambda: self._reading.storage.list(names.archived(""))) or ()
        rows = self._rows(evidence, newest, archived)
        if selected is not None and selected.manifest is None:
            self._check_new(archived)
        self._other_manifests(evidence)
        self._collect(self._check_lock)
        besides, self._errors = self._errors, []
        self._floor = newest.floor if newest is not None else None
        self._log = self._recent(evidence, newest) if evidence is not None else None
        # What stops a load comes first; a damaged end of the log does, an old checkpoint does not.
        self._errors = [*stopping, *self._errors, *besides]
        record = evidence.session if evidence is not None else None
        self._draft = Report(
            session=self._reading.scope.session,
            record=record if isinstance(record, SessionRecord) else None,
            selection=selected,
            rows=tuple(rows),
            log=None if self._log is None else _summary(self._log),
            error=self._errors[0] if self._errors else None,
            foreign=(*self._reading.foreign, *(n for n in archived if _is_foreign(_leaf(n)))),
            leftovers=(
                *(selected.leftovers if selected else ()),
                *(n for n in archived if names.is_set_aside(_leaf(n))),
            ),
            notices=(*(selected.notices if selected else ()), *self._archive_gaps()),
        )
        is_named = selected is not None and selected.current is not None
        plain = is_named and self._draft.verdict == "good" and not self._reading.lost_names
        return Attempt(self, plain, self._reading.trace)

    def report(self) -> Report:
        """What was found, and what the rest of the log says to it."""
        log = self._whole()
        return replace(
            self._draft,
            log=None if log is None else _summary(log),
            error=self._errors[0] if self._errors else None,
            findings=_said_once(self._errors),
            leftovers=(*self._draft.leftovers, *(log.leftovers if log else ())),
            notices=(*self._draft.notices, *(log.notices if log else ())),
        )

    def was_trimmed(self) -> bool:
        """Whether the log begins elsewhere than it did: what is missing may have been removed."""
        newest = Reading(self._reading.scope, self._reading.storage).manifest(names.POINTER)
        return isinstance(newest, Manifest) and newest.floor != self._floor

    def _note(self, error: LastgoodError) -> None:
        self._errors.append(without_frames(error))

    def _collect(self, read: Callable[[], _Found]) -> _Found | None:
        try:
            return read()
        except LastgoodError as error:
            self._note(error)
            return None

    def _rows(
        self, evidence: Evidence | None, newest: Manifest | None, archived: Iterable[str]
    ) -> list[Row]:
        """Read every checkpoint in the order of sequences, in which effects only grow (I6)."""
        files = [*self._stored(evidence, newest), *_archived(archived)]
        rows = [
            row for file in sorted(files, key=lambda file: file.sequence) for row in self._row(file)
        ]
        return sorted(rows, key=lambda row: row.role == "archived")

    def _stored(self, evidence: Evidence | None, newest: Manifest | None) -> Iterator[_File]:
        if evidence is None:
            return
        roles = _roles(newest)
        for sequence in sorted({*evidence.sequences, *roles}):
            name = names.checkpoint(sequence)
            above: Role = "published" if sequence in evidence.verified else "leftover"
            role, entry, label = roles.get(sequence, (above, None, ""))
            yield _File(name, sequence, role, entry, label, sequence in evidence.sequences)

    def _row(self, file: _File) -> Iterator[Row]:
        """The row of one file; none if it vanished since it was listed."""
        reading, name, entry = self._reading, file.name, file.entry
        if not file.is_there:
            missing = DamagedError(selection.MISSING, name=name)
            self._note(missing)
            yield _row(file, None, problem=missing.what)
            return
        found = reading.checkpoint(file.sequence, name=name)
        if found is None:
            return
        problem = ""
        header: CheckpointHeader | LastgoodError | None
        if isinstance(found, tuple):
            header = found[0]
            if entry is not None and header.digest != entry.digest:
                found = ForkDetectedError(f"{name} is intact, but not the one that is named")
        if isinstance(found, LastgoodError):
            header = reading.checkpoint_header(file.sequence, name=name)
            # Its beginning says more: an altered key id, or an intact record of another place.
            finding = header if isinstance(header, LastgoodError) else found
            self._note(finding)
            problem = finding.what if isinstance(finding, DamagedError) else finding.happened
        else:
            self._believe(file, found[0])
        reading.bodies.pop(file.sequence, None)  # one payload is held at a time
        yield _row(file, header if isinstance(header, CheckpointHeader) else None, problem=problem)

    def _believe(self, file: _File, header: CheckpointHeader) -> None:
        """Compare a checkpoint that verifies with the one below it, and note its place."""
        self._sound.append((file.role, header))
        if file.role == "leftover":
            return
        body = self._reading.bodies[file.sequence]
        known = frozenset(map(str, body.checkpoint.fingerprints))
        below, lower = self._known
        if lost := len(lower - known):
            what = f"it lacks {lost} side effects that {below} knows"
            self._note(DamagedError(what, name=file.name))
        self._known = file.name, known
        at = body.log
        is_here = at is not None and at.count == file.sequence
        self._places.append((file.name, at if is_here else None))

    def _recent(self, evidence: Evidence, newest: Manifest | None) -> LogFound | None:
        """Find the end of the log, and compare with it what the records say of it (R4)."""
        record = evidence.session
        if isinstance(record, SessionRecord) and record.log is None:
            if evidence.log_epoch:
                what = "log segments lie beside it, and it says that there is no event log"
                self._note(DamagedError(what, name=names.SESSION))
            return None
        if not isinstance(record, SessionRecord) and not evidence.log_epoch:
            return None
        if newest is not None:
            self._places += ((f, m.log) for f, m in _claims(evidence))
        for name, at in self._places:
            if at is None:
                what = "it names no place in the event log"
                self._note(DamagedError(what, name=name))
        self._expects_log = True
        log = LogReading(self._reading.scope, self._reading.storage, self._reading.trace)
        older = None if newest is None else newest.previous or newest.current
        return self._collect(
            lambda: log.find(
                anchors=self._marks().values(),
                since=1 if older is None else older.sequence,
                floor=self._floor,
            )
        )

    def _marks(self) -> dict[int, LogAnchor]:
        """What the records say of the log, one of them for each event."""
        return {at.count: at for _, at in self._places if at is not None}

    def _whole(self) -> LogFound | None:
        """All of the log, which every record is to agree with."""
        if not self._expects_log:
            return None
        scope, storage = self._reading.scope, self._reading.storage
        recent, marks, found = self._log, self._marks(), self._log
        if recent is not None and recent.end.count:
            found = self._collect(
                lambda: read_whole(
                    scope, storage, recent, anchors=marks.values(), floor=self._floor
                )
            )
        places = [(name, at) for name, at in self._places if at is not None]
        if found is not None and all(marks[at.count] == at for _, at in places):
            return found
        # One record too many, or a log that is older: read it alone, and ask each record.
        log = LogReading(scope, storage)
        if found is None:
            found = self._collect(lambda: log.find(floor=self._floor))
        if found is not None:
            self._errors += _contradictions(log, found, places)
        return found

    def _archive_gaps(self) -> Iterator[str]:
        """What was deleted from an archive is missed by those who continue it (T2).

        It is no damage: a prune without an archive, between others, leaves the same.
        """
        if not any(role == "archived" for role, _ in self._sound):
            return
        known = {None, *(header.digest for _, header in self._sound)}
        lineage = [header for role, header in self._sound if role != "leftover"]
        above = sorted(header.sequence for header in lineage if header.previous not in known)
        if above:
            shown = ", ".join(map(str, above[:_SHOWN])) + (" …" if above[_SHOWN:] else "")
            yield (
                f"The archive does not hold the generation before sequence {shown}: it was pruned "
                "without an archive, or deleted"
            )

    def _check_new(self, archived: Iterable[str]) -> None:
        """Nothing comes into an archive before the first manifest, which never goes again."""
        if not all(_is_foreign(_leaf(name)) for name in archived):
            missing = "it is missing beside archived records"
            self._note(DamagedError(missing, name=names.POINTER))

    def _check_lock(self) -> None:
        """What stands in the place of the lock stops every opening (T7); its content is nothing."""
        storage = self._reading.storage
        if names.LOCK in storage.list(names.LOCK):
            with contextlib.closing(storage.stream(names.LOCK, max_bytes=MAX_SEQUENCE)) as chunks:
                next(chunks, b"")

    def _other_manifests(self, evidence: Evidence | None) -> None:
        """Those that a verdict does not need; all that is there is read (T2)."""
        for revision in evidence.numbers if evidence is not None else ():
            if evidence is not None and revision not in evidence.manifests:
                found = self._reading.manifest(names.manifest(revision))
                if isinstance(found, LastgoodError):
                    self._note(found)
                elif found is not None and found.revision != revision:
                    name = names.manifest(revision)
                    self._note(SplicedError("it holds another revision", name=name))


@dataclass(frozen=True, slots=True)
class _File:
    """A checkpoint's file, and what the newest manifest makes of it."""

    name: str
    sequence: int
    role: Role
    entry: Entry | None = None
    label: str = ""
    is_there: bool = True


def _row(file: _File, known: CheckpointHeader | None, *, problem: str) -> Row:
    return Row(
        name=file.name,
        sequence=file.sequence,
        role=file.role,
        schema_version=file.entry.schema_version if file.entry and file.is_there else None,
        size_bytes=known.size_bytes if known else None,
        sha256=known.sha256 if known else None,
        kid=known.kid if known else None,
        created=known.created if known else None,
        label=file.label,
        problem=problem,
    )


def _archived(listed: Iterable[str]) -> Iterator[_File]:
    for name in listed:
        parsed = names.parse(_leaf(name))
        if parsed is not None and parsed.kind is Kind.CHECKPOINT:
            yield _File(name, parsed.number, "archived")


def _said_once(errors: Iterable[LastgoodError]) -> tuple[str, ...]:
    """The errors as text; of those that tell the same, the first, which knows best what to do."""
    said: dict[str, str] = {}
    for error in errors:
        said.setdefault(error.happened, str(error))
    return tuple(said.values())


def _summary(found: LogFound) -> LogSummary:
    return LogSummary(
        first=found.links[0].before.count + 1 if found.links else found.end.count + 1,
        end=found.end,
        segments=len(found.links),
        size_bytes=found.size_bytes,
        epoch=found.epoch,
        torn=found.torn,
        skipped=found.skipped,
        stray=found.stray,
    )


def _claims(evidence: Evidence) -> Iterator[tuple[str, Manifest]]:
    """The manifests that a verdict read, by name; the pointer is one of them under two names."""
    numbered = sorted(evidence.manifests.items())
    sound = {names.manifest(n): m for n, m in numbered if isinstance(m, Manifest)}
    if isinstance(evidence.pointer, Manifest) and evidence.pointer not in sound.values():
        sound[names.POINTER] = evidence.pointer
    yield from sound.items()


def _contradictions(
    log: LogReading, found: LogFound, places: Iterable[tuple[str, LogAnchor]]
) -> Iterator[LastgoodError]:
    """What each record says of a log that verifies by itself, and that is not so."""
    wanted = {at.count for _, at in places}
    here = {link.before.count: link.before for link in found.links}
    for link in found.links:
        data = log.storage.read(link.name, max_bytes=segment.max_bytes(log.scope.limits))
        begin = segment.begin_of(link.name, link.before)
        walk = Walk(data, begin=begin, keys=log.keys, until=link.until)
        for line in walk:
            if line.event.sequence in wanted:
                here[walk.end.count] = walk.end
    for name, at in places:
        if at.count > found.end.count:
            what = f"{name} names event {at.count}, and the log ends at event {found.end.count}"
            yield RollbackDetectedError(what)
        elif here.get(at.count, at) != at:
            yield ForkDetectedError(f"{name} names another event {at.count} than the log holds")


def _roles(newest: Manifest | None) -> dict[int, tuple[Role, Entry, str]]:
    if newest is None:
        return {}
    labels = {m.entry.sequence: m.label for m in newest.milestones}
    roles: dict[int, tuple[Role, Entry, str]] = {
        m.entry.sequence: ("milestone", m.entry, m.label) for m in newest.milestones
    }
    generations: tuple[tuple[Role, Entry | None], ...] = (
        ("previous", newest.previous),
        ("current", newest.current),
    )
    for role, entry in generations:
        if entry is not None:
            roles[entry.sequence] = (role, entry, labels.get(entry.sequence, ""))
    return roles


def _is_foreign(leaf: str) -> bool:
    parsed = names.parse(leaf)
    return not names.is_set_aside(leaf) and (parsed is None or parsed.kind is not Kind.CHECKPOINT)


def _leaf(name: str) -> str:
    return name.removeprefix(names.archived(""))
