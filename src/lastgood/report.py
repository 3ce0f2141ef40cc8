"""What an inspection says of a session: rows for people, the log's extent, findings, a verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from lastgood.errors import EXIT_GOOD, EXIT_LIMITED, DamagedError, LastgoodError
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.session import SessionRecord
from lastgood.rules.selection import Selection
from lastgood.rules.tail import Torn

Role = Literal["current", "previous", "milestone", "published", "leftover", "archived"]
"""``published``: a crash left it between S4 and S6; the next load chooses it."""

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
class LogSummary:
    """The event log, every line of which was authenticated.

    Attributes:
        first: The first event that is kept; the next one's number in an empty log.
        end: The place of the last one.
        segments: How many pieces it has.
        size_bytes: Of its lines, without reserved bytes.
        epoch: Of the newest piece, 0 without any.
        torn: What a crash left behind the end, or None.
        skipped: Newer pieces without a whole first line.
        stray: Pieces that a fenced owner wrote, or began; never believed.
    """

    first: int
    end: LogAnchor
    segments: int
    size_bytes: int
    epoch: int
    torn: Torn | None
    skipped: tuple[str, ...]
    stray: tuple[str, ...]

    @property
    def events(self) -> int:
        """How many events are kept, lastgood's own included."""
        return self.end.count + 1 - self.first

    @property
    def is_settled(self) -> bool:
        """Whether a crash left nothing in it."""
        return self.torn is None and not self.skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found.

    Attributes:
        session: The session's id.
        record: ``session.json``; None if it is not there or does not verify.
        selection: The verdict on the last good checkpoint; None if there is none to give.
        rows: Every stored checkpoint, ascending; archived ones last.
        log: The event log; None in a session without one, or where it cannot be followed.
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
    log: LogSummary | None = None
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
        if self.log is not None and not self.log.is_settled:
            return "recoverable"
        if self.selection.current is None and (self.log is None or not self.log.end.count):
            return "new"
        return "good" if self.selection.is_settled else "recoverable"

    @property
    def exit_code(self) -> int:
        """Of the command line: the error's, 6 for recoverable, 0 for good and new alone."""
        if self.error is not None:
            return self.error.exit_code
        codes = {"good": EXIT_GOOD, "new": EXIT_GOOD, "recoverable": EXIT_LIMITED}
        return codes.get(self.verdict, DamagedError.exit_code)
