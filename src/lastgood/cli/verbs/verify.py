"""``verify``: everything that is stored is read, and a verdict given. Nothing is changed (G8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lastgood.cli import access
from lastgood.cli.answer import Answer, problem
from lastgood.cli.command import Command
from lastgood.cli.verbs.inspect import inspect, log_document, log_text, row_document
from lastgood.cli.verdicts import worst, worst_code
from lastgood.cli.wording import AFTER_VERIFY_DO, cell, fill, harmless, named
from lastgood.errors import (
    EXIT_GOOD,
    EXIT_LIMITED,
    DamagedError,
    LastgoodError,
    UnknownSessionError,
    printable,
)
from lastgood.formats import names
from lastgood.inspection import ASSURANCE, Report
from lastgood.store import Store

_NAMED = 3
"""How many foreign files and leftovers are named without ``-v``."""


def verify(command: Command) -> Answer:
    """Verify the store's record, and one session or all; the exit code is the verdict's.

    A check of a required level that cannot be made never gives 0.

    Raises:
        UnknownSessionError: There is no such session, or none at all.
        LastgoodError: The store itself cannot be believed.
    """
    session = None if command.session is None else access.session_of(command)
    with access.store_of(command) as store:
        if session is not None:
            inspected = inspect(store, session)
            reports = {names.directory(session): inspected.report}
            return _answer(command, reports, remarks=inspected.notices)
        reports = dict(_reports(store))
        if not reports:
            # A misspelt or lost place is not a good one, and who asks is often a program.
            raise UnknownSessionError(
                f"There are no sessions in {printable(store.location)}",
                do="Name the store's directory with --root or in LASTGOOD_ROOT",
            )
        return _answer(command, reports, remarks=store.notices)


def _answer(command: Command, reports: dict[str, Report], *, remarks: tuple[str, ...]) -> Answer:
    for report in reports.values():
        if report.error is not None:
            fill(report.error, verb=command.verb, session=report.session, place=command.place)
    code = worst_code(report.exit_code for report in reports.values())
    text = ["store        verified"]
    for directory, report in reports.items():
        text += ["", *_lines(directory, report, command)]
    if command.require != ASSURANCE:
        code = EXIT_LIMITED if code == EXIT_GOOD else code
        text += ["", f"level {command.require} was required: not checked, it needs a witness"]
    return Answer(
        document={
            "store": "verified",
            "required": command.require,
            "sessions": [report_document(*found, command) for found in reports.items()],
        },
        text=tuple(text),
        exit_code=code,
        error=worst(report.error for report in reports.values()),
        remarks=remarks,
    )


def _reports(store: Store) -> Iterator[tuple[str, Report]]:
    """Directory and report of each session, by directory; what was never begun holds nothing."""
    for entry in sorted(store.sessions(), key=lambda entry: entry.directory):
        if entry.problem is not None:
            yield entry.directory, _stopped("", entry.problem)
        elif entry.record is not None:
            yield entry.directory, _report(entry.record.session, store)


def _report(session: str, store: Store) -> Report:
    """As ``inspect``; what keeps a session from being read is its report's finding."""
    try:
        return inspect(store, session).report
    except LastgoodError as error:
        return _stopped(session, error)


def _stopped(session: str, error: LastgoodError) -> Report:
    return Report(session=session, error=error, findings=(str(error),))


def report_document(directory: str, report: Report, command: Command) -> dict[str, Any]:
    """A report as a document; ``session`` is null where its record does not verify."""
    current = report.selection.current if report.selection else None
    return {
        "session": report.session or None,
        "directory": directory,
        "verdict": report.verdict,
        "exitCode": report.exit_code,
        "sequence": None if current is None else current.sequence,
        "assurance": report.assurance,
        "skipped": list(report.skipped),
        "error": problem(report.error),
        "findings": _findings(report, command),
        "notices": list(report.notices),
        "checkpoints": [row_document(row) for row in report.rows],
        "log": log_document(report.log),
        "leftovers": [cell(name) for name in report.leftovers],
        "foreign": [cell(name) for name in report.foreign],
    }


def _lines(directory: str, report: Report, command: Command) -> Iterator[str]:
    """A report for people."""
    sound = sum(row.is_verified for row in report.rows)
    yield f"session      {cell(report.session)}"
    if not report.session:
        yield f"directory    {directory}"
    yield f"verdict      {_verdict(report)}"
    yield f"last good    {_last_good(report)}"
    if report.log is not None:
        yield f"log          {log_text(report.log)}"
    yield f"checkpoints  {sound} of {len(report.rows)} verified"
    yield f"assurance    {report.assurance}"
    for skipped in report.skipped:
        yield f"not checked  {cell(skipped)}"
    for finding in _findings(report, command):
        yield f"finding      {harmless(finding)}"
    for notice in report.notices:
        yield f"notice       {cell(notice)}"
    yield from _files("leftover", report.leftovers, command)
    yield from _files("foreign", report.foreign, command)


def _findings(report: Report, command: Command) -> list[str]:
    said = (
        finding.replace(DamagedError.default_do, AFTER_VERIFY_DO) for finding in report.findings
    )
    return [named(finding, session=report.session, place=command.place) for finding in said]


def _verdict(report: Report) -> str:
    meaning = {
        "good": "good",
        "new": "new: no checkpoint yet",
        "recoverable": "recoverable: the next save or opening finishes what was interrupted",
        "stopped": "stopped: something stored cannot be believed",
    }
    return meaning[report.verdict]


def _last_good(report: Report) -> str:
    current = report.selection.current if report.selection else None
    if current is not None:
        return f"sequence {current.sequence}"
    return "the initial state" if report.verdict in ("good", "recoverable") else "none"


def _files(what: str, found: tuple[str, ...], command: Command) -> Iterator[str]:
    shown = found if command.verbose == "yes" else found[:_NAMED]
    for name in shown:
        yield f"{what:<11}  {cell(name)}"
    if len(found) > len(shown):
        yield f"{what:<11}  and {len(found) - len(shown)} more; see them with -v"
