"""Everything of one session, read and verified, as rows for people and a verdict (G8).

Nothing here changes a byte, takes a lock, or raises what it can report: damage is shown,
not hidden, and every other row is still there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from lastgood.clock import Clock
from lastgood.errors import (
    EXIT_GOOD,
    EXIT_LIMITED,
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    NotStoredError,
    SplicedError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.session import SessionRecord
from lastgood.reading import Reading, Scope, newest_of, verify_checkpoint
from lastgood.rules import selection
from lastgood.rules.selection import Evidence, Selection
from lastgood.storage.interface import Storage
from lastgood.survey import Attempt, until_settled

Role = Literal["current", "previous", "milestone", "published", "leftover", "archived"]
"""``published``: a crash left it between S4 and S6; the next load chooses it."""

_Found = TypeVar("_Found")

_SHOWN: Final = 5

ASSURANCE: Final = "L0"
_SKIPPED: Final = (
    "Rollback of the whole session to an older consistent copy: no witness is configured",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One stored checkpoint.

    Attributes:
        name: Its file.
        sequence: By its name.
        role: What the newest manifest makes of it; ``archived`` lies in the archive.
        schema_version: As the manifest says, None where none names it.
        size_bytes: Of the file, None where it cannot be known.
        sha256: Of its payload, None where its header does not verify.
        kid: The key that sealed it.
        created: When, for people.
        label: A milestone's.
        problem: Why it does not verify; empty if every byte does.
    """

    name: str
    sequence: int
    role: Role
    schema_version: int | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    kid: str | None = None
    created: str | None = None
    label: str = ""
    problem: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether every byte of it was authenticated."""
        return not self.problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found.

    Attributes:
        session: The session's id.
        record: ``session.json``; None if it is not there or does not verify.
        selection: The verdict on the last good checkpoint; None if there is none to give.
        rows: Every stored checkpoint, ascending; archived ones last.
        error: What stops a load, or else the first of what was found besides; None if all that
            is stored can be believed.
        findings: Every finding as text, ``error`` first.
        foreign: Names that are not ours: ignored, never deleted.
        leftovers: Authentic or unpublished files that lineage does not name.
        notices: What a person should know.
        assurance: L0: store and key; higher levels need a witness or a receipt.
        skipped: Checks that were not made.
    """

    session: str
    record: SessionRecord | None = None
    selection: Selection | None = None
    rows: tuple[Row, ...] = ()
    error: LastgoodError | None = None
    findings: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    assurance: str = ASSURANCE
    skipped: tuple[str, ...] = _SKIPPED

    @property
    def verdict(self) -> Literal["good", "new", "recoverable", "stopped"]:
        """``recoverable``: a crash left something that the next writer finishes by itself."""
        if self.error is not None or self.selection is None:
            return "stopped"
        if self.selection.current is None:
            return "new"
        return "good" if self.selection.is_settled else "recoverable"

    @property
    def exit_code(self) -> int:
        """Of the command line: the error's, 6 for recoverable, 0 for good and new alone."""
        if self.error is not None:
            return self.error.exit_code
        codes = {"good": EXIT_GOOD, "new": EXIT_GOOD, "recoverable": EXIT_LIMITED}
        return codes.get(self.verdict, DamagedError.exit_code)


def inspect(scope: Scope, storage: Storage, *, clock: Clock) -> Report:
    """Read and verify every record of a session.

    Raises:
        BusyError: A writer kept moving it.
    """
    return until_settled(
        lambda: _Inspection(Reading(scope, storage)).attempt(),
        what=f"session {printable(scope.session)}",
        clock=clock,
    )


class _Inspection:
    """One reading of everything, collecting errors where ``selection`` stops at the first."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._errors: list[LastgoodError] = []
        self._sound: list[tuple[Role, CheckpointHeader]] = []

    def attempt(self) -> Attempt[Report]:
        """Read everything once."""
        evidence = self._collect(self._reading.evidence)
        selected = None
        if evidence is not None:
            selected = self._collect(lambda: selection.select(evidence))
        newest = newest_of(evidence) if evidence is not None else None
        rows = [*self._stored(evidence, newest)] if evidence is not None else []
        archived = self._collect(lambda: self._reading.storage.list(names.archived(""))) or ()
        rows += self._archived(archived)
        if selected is not None and selected.manifest is None:
            self._check_new(archived)
        self._other_manifests(evidence)
        record = evidence.session if evidence is not None else None
        report = Report(
            session=self._reading.scope.session,
            record=record if isinstance(record, SessionRecord) else None,
            selection=selected,
            rows=tuple(rows),
            error=self._errors[0] if self._errors else None,
            findings=tuple(dict.fromkeys(map(str, self._errors))),
            foreign=(*self._reading.foreign, *(n for n in archived if _is_foreign(_leaf(n)))),
            leftovers=(
                *(selected.leftovers if selected else ()),
                *(n for n in archived if names.is_set_aside(_leaf(n))),
            ),
            notices=(*(selected.notices if selected else ()), *self._archive_gaps()),
        )
        plain = report.verdict == "good" and not self._reading.lost_names
        return Attempt(report, plain, self._reading.trace)

    def _collect(self, read: Callable[[], _Found]) -> _Found | None:
        try:
            return read()
        except LastgoodError as error:
            self._errors.append(error)
            return None

    def _stored(self, evidence: Evidence, newest: Manifest | None) -> Iterator[Row]:
        roles = _roles(newest)
        for sequence in sorted({*evidence.sequences, *roles}):
            name = names.checkpoint(sequence)
            above: Role = "published" if sequence in evidence.verified else "leftover"
            role, entry, label = roles.get(sequence, (above, None, ""))
            if sequence in evidence.sequences:
                yield from self._row(name, sequence, role, entry, label)
                continue
            missing = DamagedError(selection.MISSING, name=name)
            self._errors.append(missing)
            yield Row(name=name, sequence=sequence, role=role, label=label, problem=missing.what)

    def _archived(self, listed: Iterable[str]) -> Iterator[Row]:
        parsed = {name: names.parse(_leaf(name)) for name in listed}
        numbers = {
            p.number: name
            for name, p in parsed.items()
            if p is not None and p.kind is Kind.CHECKPOINT
        }
        for sequence in sorted(numbers):
            yield from self._row(numbers[sequence], sequence, "archived", None, "")

    def _row(
        self, name: str, sequence: int, role: Role, entry: Entry | None, label: str
    ) -> Iterator[Row]:
        """The row of one file; none if it vanished since it was listed."""
        reading, problem = self._reading, ""
        header: CheckpointHeader | LastgoodError | None
        try:
            header = verify_checkpoint(reading.scope, reading.storage, sequence, name=name)
            if entry is not None and header.digest != entry.digest:
                raise ForkDetectedError(f"{name} is intact, but not the one that is named")
        except NotStoredError:
            reading.note_gone(name)
            return
        except LastgoodError as error:
            header = reading.checkpoint_header(sequence, name=name)
            # Its beginning says more: an altered key id, or an intact record of another place.
            finding = header if isinstance(header, LastgoodError) else error
            self._errors.append(finding)
            problem = finding.what if isinstance(finding, DamagedError) else finding.happened
        else:
            reading.trace.append((name, header.digest))
            self._sound.append((role, header))
        known = header if isinstance(header, CheckpointHeader) else None
        yield Row(
            name=name,
            sequence=sequence,
            role=role,
            schema_version=entry.schema_version if entry else None,
            size_bytes=known.size_bytes if known else None,
            sha256=known.sha256 if known else None,
            kid=known.kid if known else None,
            created=known.created if known else None,
            label=label,
            problem=problem,
        )

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
            self._errors.append(DamagedError(missing, name=names.POINTER))

    def _other_manifests(self, evidence: Evidence | None) -> None:
        """Those that a verdict does not need; all that is there is read (T2)."""
        for revision in evidence.numbers if evidence is not None else ():
            if evidence is not None and revision not in evidence.manifests:
                found = self._reading.manifest(names.manifest(revision))
                if isinstance(found, LastgoodError):
                    self._errors.append(found)
                elif found is not None and found.revision != revision:
                    name = names.manifest(revision)
                    self._errors.append(SplicedError("it holds another revision", name=name))


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
