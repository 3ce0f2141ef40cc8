"""``list``, ``sessions`` and ``show``: what is there. Nothing is changed by looking (G8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lastgood.cli import access
from lastgood.cli.answer import Answer, Streamed, Table
from lastgood.cli.command import Command
from lastgood.cli.verbs import events
from lastgood.cli.verdicts import worst
from lastgood.cli.wording import cell, harmless_json
from lastgood.errors import UsageError, printable
from lastgood.formats import canonical, names
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.session import Program
from lastgood.inspection import LogSummary, Report, Row
from lastgood.store import SessionEntry, Store

_LIST = (
    "sequence", "role", "schema", "bytes", "sha-256", "kid", "created", "verified", "label",
    "reason",
)  # fmt: skip
_SESSIONS = ("session", "created", "program", "verified", "directory", "reason")


@dataclass(frozen=True, slots=True)
class Inspected:
    """A session's report, with the notices of its place and keys."""

    report: Report
    notices: tuple[str, ...]


def rows(command: Command) -> Answer:
    """List every checkpoint, also those that do not verify; the exit code is the verdict's.

    Raises:
        UnknownSessionError: There is no such session.
        LastgoodError: The store itself cannot be believed.
    """
    session = access.session_of(command)
    with access.store_of(command) as store:
        inspected = inspect(store, session)
    report = inspected.report
    return Answer(
        document={
            "session": report.session,
            "verdict": report.verdict,
            "assurance": report.assurance,
            "skipped": list(report.skipped),
            "checkpoints": [row_document(row) for row in report.rows],
            "log": log_document(report.log),
        },
        text=(
            Table(_LIST, tuple(map(_row_cells, report.rows))),
            *(() if report.log is None else (f"log: {log_text(report.log)}",)),
        ),
        exit_code=report.exit_code,
        error=report.error,
        remarks=(*report.notices, *extra(command, inspected.notices)),
    )


def sessions(command: Command) -> Answer:
    """List every session, by id; one that does not verify is shown with the reason.

    Raises:
        LastgoodError: The store itself cannot be believed.
    """
    with access.store_of(command) as store:
        entries = sorted(store.sessions(), key=_by_id)
        notices = store.notices
        location = store.location
    error = worst(entry.problem for entry in entries)
    nothing = () if entries else (f"There are no sessions in {printable(location)}",)
    return Answer(
        document={"sessions": [entry_document(entry) for entry in entries]},
        text=(Table(_SESSIONS, tuple(map(_entry_cells, entries))),) if entries else (),
        exit_code=0 if error is None else error.exit_code,
        error=error,
        remarks=(*nothing, *extra(command, notices)),
    )


def show(command: Command) -> Answer | Streamed:
    """Show one checkpoint's metadata, and its state if that was asked for; or the events.

    Raises:
        UnknownSessionError: There is no such session.
        UsageError: That sequence is not stored, or none is yet.
        BusyError: A writer kept moving the session.
        LastgoodError: Something stored cannot be believed.
    """
    if command.events == "yes":
        return events.stream(command)
    session = access.session_of(command)
    with access.store_of(command) as store:
        inspected, row, checkpoint = _look(command, store, session)
    report = inspected.report
    document: dict[str, Any] = {
        "session": report.session,
        "program": _program(report),
        "checkpoint": row_document(row)
        | {
            "schemaVersion": checkpoint.schema_version,
            "sideEffectFingerprints": list(checkpoint.fingerprints),
        },
        "log": log_document(report.log),
    }
    lines = [
        ("session", report.session),
        ("program", " ".join(_program(report).values())),
        *zip(_LIST, _row_cells(row), strict=True),
        *(() if report.log is None else [("log", log_text(report.log))]),
        ("effects", str(len(checkpoint.fingerprints))),
    ]
    text = [f"{name:<10}{value if name in _LIST else cell(value)}" for name, value in lines]
    text += [f"  {fingerprint}" for fingerprint in checkpoint.fingerprints]
    if command.with_state == "yes":
        document["checkpoint"]["state"] = checkpoint.state
        text += ["state", harmless_json(canonical.encode(checkpoint.state)).decode()]
    return Answer(document=document, text=tuple(text), remarks=extra(command, inspected.notices))


def inspect(store: Store, session: str) -> Inspected:
    """Read and verify everything of a session.

    Raises:
        UnknownSessionError: There is none: a misspelt name is not a good session.
        BusyError: A writer kept moving it.
    """
    with store.checkpoints(session, mode="read") as checkpoints:
        report = checkpoints.check()
        if report.verdict == "new" and report.record is None:
            raise access.unknown(session, store)
        return Inspected(report, checkpoints.notices)


def row_document(row: Row) -> dict[str, Any]:
    """A checkpoint as a document."""
    return {
        "sequence": row.sequence,
        "name": row.name,
        "role": row.role,
        "schemaVersion": row.schema_version,
        "sizeBytes": row.size_bytes,
        "sha256": row.sha256,
        "kid": row.kid,
        "created": row.created,
        "label": row.label,
        "verified": row.is_verified,
        "problem": row.problem,
    }


def log_document(log: LogSummary | None) -> dict[str, Any] | None:
    """The extent of an event log as a document."""
    if log is None:
        return None
    torn = log.torn
    return {
        "events": log.events,
        "first": log.first,
        "last": log.end.count,
        "head": log.end.head,
        "segments": log.segments,
        "sizeBytes": log.size_bytes,
        "epoch": log.epoch,
        "torn": None
        if torn is None
        else {"name": torn.segment, "offset": torn.offset, "sizeBytes": torn.size_bytes},
        "skipped": list(log.skipped),
        "stray": list(log.stray),
    }


def log_text(log: LogSummary) -> str:
    """The extent of an event log for people."""
    if not log.events:
        return "no events"
    pieces = f"{log.segments} segment{'s' if log.segments != 1 else ''}"
    return f"events {log.first} to {log.end.count}, {log.size_bytes} bytes in {pieces}"


def entry_document(entry: SessionEntry) -> dict[str, Any]:
    """A session as a document."""
    record = entry.record
    return {
        "session": None if record is None else record.session,
        "directory": entry.directory,
        "created": None if record is None else record.created,
        "program": None
        if record is None
        else {"name": record.program.name, "version": record.program.version},
        "log": None if record is None else record.log,
        "verified": record is not None,
        "problem": "" if entry.problem is None else entry.problem.happened,
    }


def extra(command: Command, notices: tuple[str, ...]) -> tuple[str, ...]:
    """Notices of a place and its keys, for who wants them with a verb that only looks."""
    return notices if command.verbose == "yes" else ()


def _look(command: Command, store: Store, session: str) -> tuple[Inspected, Row, Checkpoint]:
    """A checkpoint, with its row and the report that it stands in."""
    inspected = inspect(store, session)
    report = inspected.report
    if report.error is not None:
        raise report.error
    if command.sequence is not None:
        row = _wanted(names.sequence(command.sequence), report)
        return inspected, row, _checkpoint(command, store, report, row)
    # Read again, as one: a writer may have moved on and pruned what was current then.
    newest = store.newest(session)
    if newest is not None:
        return inspected, *newest
    without = UsageError(f"Session {printable(session)} holds no checkpoint yet")
    if report.log is not None:
        without.do = "See its events with: lastgood show SESSION --events"
    raise without


def _wanted(sequence: int, report: Report) -> Row:
    """The row of a checkpoint."""
    for row in report.rows:
        if row.sequence == sequence:
            return row
    raise UsageError(
        f"Sequence {sequence} is not stored", do="See what there is with: lastgood list SESSION"
    )


def _checkpoint(command: Command, store: Store, report: Report, row: Row) -> Checkpoint:
    """The checkpoint of ``row``, whatever its schema version is: it is shown, not used."""
    current = report.selection.current if report.selection else None
    chosen = current is not None and current.sequence == row.sequence
    stated = current.schema_version if current and chosen else row.schema_version
    with store.checkpoints(
        report.session, mode="read", schema_version=stated or command.schema_version
    ) as checkpoints:
        return checkpoints.load(row.sequence)


def _program(report: Report) -> dict[str, str]:
    program = report.record.program if report.record else Program()
    return {"name": program.name, "version": program.version}


def _row_cells(row: Row) -> tuple[str, ...]:
    verified = "yes" if row.is_verified else "no"
    values = (
        row.sequence, row.role, row.schema_version, row.size_bytes, row.sha256, row.kid,
        row.created, verified, row.label, row.problem,
    )  # fmt: skip
    return tuple(map(cell, values))


def _entry_cells(entry: SessionEntry) -> tuple[str, ...]:
    record = entry.record
    sound = "not begun" if entry.problem is None else "no"
    return tuple(
        map(
            cell,
            (
                None if record is None else record.session,
                None if record is None else record.created,
                None if record is None else f"{record.program.name} {record.program.version}",
                sound if record is None else "yes",
                entry.directory,
                "" if entry.problem is None else entry.problem.happened,
            ),
        )
    )


def _by_id(entry: SessionEntry) -> tuple[str, str]:
    return ("" if entry.record is None else entry.record.session, entry.directory)
