"""The judge of a session with a log: what a stranger reads of it, and what must be true of that.

The log is read twice: by the reader under test, and line by line from the files, chained back by
``prev`` from the end that the reader names, so that the reader decides on nothing but that end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

from fault_injection.machine import Machine
from fault_injection.workload import Oracle, Violation
from fault_injection.workloads import shelf
from fault_injection.workloads.systems import contents
from fault_injection.world import Told
from lastgood.errors import NotStoredError
from lastgood.formats import names
from lastgood.formats.event import APPLIED, DONE
from lastgood.formats.names import Kind
from lastgood.inspection import inspect
from lastgood.reading import Reading
from lastgood.report import Report

_LINE: Final = re.compile(rb"[^\0\n]+")
_WITHIN: Final = (DONE, APPLIED)
_SEGMENT: Final = re.compile(r"events-")
_KEPT: Final = ("current", "previous", "milestone", "published")


@dataclass(frozen=True, slots=True)
class Aside:
    """What a job may leave in the archive, because it may neither stay nor be deleted.

    Attributes:
        begins: How the names begin.
        most: How many there may be: as many as there were such records.
    """

    begins: str = ""
    most: int = 0

    def beyond(self, report: Report) -> list[str]:
        """The leftovers that may not be."""
        left = sorted(report.leftovers)
        aside = [name for name in left if self.begins and name.startswith(self.begins)]
        return [name for name in left if name not in aside[: self.most]]


NOTHING: Final = Aside()
FENCED: Final = "archive/fenced-"
DAMAGED: Final = "archive/damaged-"
"""Records of an owner that was fenced (F13), and damaged ones."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored checkpoint, as it was read.

    Attributes:
        schema: Of its state.
        state: The state.
        known: Side effects that it knows.
    """

    schema: int
    state: Any
    known: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stored:
    """What a stranger reads; nothing of it is changed.

    Attributes:
        report: What ``verify`` says; None where no directory is.
        events: The log's events, chained back from its end: sequence, type, data.
        checkpoints: Those that verify and lineage names, by sequence.
        files: Every file of the session's directory, by name.
        beside: Temporaries in the store's root, which nobody owns and nobody sweeps.
    """

    report: Report | None
    events: tuple[Mapping[str, Any], ...]
    checkpoints: Mapping[int, Kept]
    files: Mapping[str, bytes]
    beside: tuple[str, ...] = ()

    def items(self, *, until: int | None = None) -> list[str]:
        """The items that the log puts, up to event ``until``."""
        return [item for at, item in self.puts() if until is None or at <= until]

    def puts(self) -> list[tuple[int, str]]:
        """Each item that the log puts, with the number of the line that does."""
        found = [(event["seq"], _of_program(event)) for event in self.events]
        return [(at, put["data"]["item"]) for at, put in found if put["type"] == shelf.PUT]

    @property
    def effects(self) -> set[str]:
        """Fingerprints of the effects that the log says are done."""
        done = (event for event in self.events if event["type"] == DONE)
        return {event["data"]["fingerprint"] for event in done}


def look(machine: Machine, *, archive: str | None = None) -> Stored:
    """Read all that lies there, as a stranger.

    Args:
        machine: Holds it.
        archive: Where segments that left the log are; then every event must be there or here.

    Raises:
        Violation: O8: the end of the log does not chain back to its beginning.
        LastgoodError: The store itself cannot be believed.
    """
    files = contents(machine, f"{machine.root}/{shelf.DIRECTORY}")
    beside = tuple(filter(names.is_temporary, contents(machine, machine.root)))
    kept = {} if archive is None else contents(machine, archive)
    with shelf.store(machine) as held:
        place = held.place
        scope = place.scope(shelf.SESSION, schemas=None)
        try:
            storage = place.root.session(scope.directory, access="read")
        except NotStoredError:
            return Stored(None, (), {}, {}, beside)
        with closing(storage):
            report = inspect(scope, storage, clock=machine.clock)
            reading = Reading(scope, storage)
            for row in report.rows:
                if row.role in _KEPT:
                    reading.checkpoint(row.sequence)
    states = {
        sequence: Kept(version, body.checkpoint.state, body.checkpoint.known)
        for sequence, body in reading.bodies.items()
        if (version := body.checkpoint.schema_version)
    }
    segments = [data for name, data in (*kept.items(), *files.items()) if _SEGMENT.match(name)]
    first = 1 if archive is not None or report.log is None else report.log.first
    return Stored(report, _chained(report, segments, first=first), states, files, beside)


def _chained(
    report: Report, segments: Iterable[bytes], *, first: int
) -> tuple[Mapping[str, Any], ...]:
    """The events from ``first`` to the end that the report names."""
    if report.log is None:
        return ()
    lines: dict[str, Mapping[str, Any]] = {}
    for data in segments:
        for text in _LINE.findall(data):
            with suppress(ValueError, KeyError, TypeError):  # a torn line, or a part of one
                line = json.loads(text)
                lines[line["mac"]] = line["e"]
    head, behind = report.log.end.head, []
    for sequence in range(report.log.end.count, first - 1, -1):
        event = lines.get(head)
        if event is None or event["seq"] != sequence:
            raise Violation(
                "O8", expected=f"event {sequence} with MAC {head[:12]}", got=f"{event}"[:200]
            )
        behind.append(event)
        head = event["prev"]
    return tuple(reversed(behind))


def _of_program(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """An event as the program sees it: that of an effect stands within the line that says so."""
    inner = event["data"]["event"] if event["type"] in _WITHIN else None
    return event if inner is None else {**event, **inner}


# --- judgements ---------------------------------------------------------------------------


def stops(stored: Stored) -> bool:
    """Whether a reader, or anybody who opens it without a repair, is stopped."""
    return stored.report is not None and stored.report.error is not None


def is_set_aside(stored: Stored) -> bool:
    """Whether all that is wrong is a damaged checkpoint which lineage does not name any more.

    It stops nobody; the next prune moves it to the archive (S9, whose work need not be durable).
    """
    report = stored.report
    if report is None or report.selection is None:
        return False
    bad = {row.name for row in report.rows if not row.is_verified and row.role == "leftover"}
    return getattr(report.error, "name", "") in bad and len(report.findings) == len(bad)


def judge_items(items: Sequence[str], told: Told, *, oracle: Oracle) -> None:
    """O1 or O8, O2: all that was acknowledged, nothing that was not asked for, in order."""
    appends = told.of(shelf.APPEND)
    if missing := appends.missing(items):
        raise Violation(oracle, expected=f"{missing} among the items", got=f"{list(items)}")
    if unasked := appends.unasked(items):
        raise Violation("O2", expected=f"no {unasked} in {appends.names()}", got=f"{list(items)}")
    if wrong := shelf.half(items, appends.names("acknowledged", "open")):
        raise Violation("O8", expected=f"what came before {wrong}, too", got=f"{list(items)}")


def judge_stored(stored: Stored, told: Told) -> None:
    """O1, O2, O3, O6, O7, O8, of what a stranger reads."""
    report = stored.report
    judge_late(told)
    if report is None:
        judge_items([], told, oracle="O8")
        judge_current(stored, told)
        return
    stopping = getattr(report.error, "name", "")
    if any(row.role == "previous" and row.name == stopping for row in report.rows):
        raise Violation("O6", expected="a previous generation", got=f"{report.error}")
    if report.selection is None or (report.log is None and report.error is not None):
        raise Violation("O1", expected="a session that opens", got=f"{report.error}")
    judge_items(stored.items(), told, oracle="O8")
    if report.error is not None:
        raise Violation("O7", expected="records that verify", got=f"{report.error}")
    kept = {entry.sequence for entry in report.selection.kept()}
    if len(shelf.checkpoints(told).names("acknowledged")) > 1 and len(kept) < 2:
        raise Violation("O6", expected="two generations", got=f"{sorted(kept)}")
    _judge_checkpoints(stored, kept, told)
    judge_current(stored, told)


def _judge_checkpoints(stored: Stored, kept: set[int], told: Told) -> None:
    """O3, O6: each generation is there, and holds the very state that a replay gives."""
    saves = told.of(shelf.SAVE)
    most = {shelf.fingerprint(name) for name in saves.names()}
    for sequence in sorted(kept):
        if sequence not in stored.checkpoints:
            raise Violation("O6", expected=f"checkpoint {sequence}", got="none that verifies")
        held = stored.checkpoints[sequence]
        at = [number for number, _ in stored.puts() if number <= sequence]
        wanted = shelf.state_of(stored.items(until=sequence), at, schema=held.schema)
        if held.state != wanted:
            raise Violation(
                "O3", expected=f"checkpoint {sequence} with {wanted}", got=f"{held.state}"
            )
        if not held.known <= most | stored.effects:
            raise Violation("O2", expected=f"side effects of {saves.names()}", got="others")


def judge_current(stored: Stored, told: Told) -> None:
    """O1, O2: the checkpoint that a load begins from is the last that was acknowledged, or newer.

    Raises:
        Violation: It is older, or nobody asked for it.
    """
    selection = stored.report.selection if stored.report else None
    current = selection.current if selection else None
    items = stored.items(until=current.sequence) if current else []
    saves = shelf.checkpoints(told)
    allowed = [name and name.partition("-")[2] for name in saves.may_be_newest()]
    last = items[-1] if items else None
    if last not in allowed:
        known = [name.partition("-")[2] for name in saves.names("acknowledged")]
        oracle: Oracle = "O1" if last is None or last in known else "O2"
        raise Violation(oracle, expected=f"a checkpoint at one of {allowed}", got=f"{last}")


def judge_late(told: Told) -> None:
    """O2: what an owner asks for after another took the session is not acknowledged (F13)."""
    late = told.of(shelf.LATE).names("acknowledged")
    if late:
        raise Violation("O2", expected="a fenced owner that is told so", got=f"{late} acknowledged")


def judge_known(known: Sequence[str], told: Told) -> None:
    """O1, O2: the side effects of every acknowledged save are known, and no others."""
    saves = told.of(shelf.SAVE)
    lost = [s for s in saves.names("acknowledged") if shelf.fingerprint(s) not in known]
    if lost:
        raise Violation("O1", expected=f"the side effects of {lost}", got="they are unknown")
    if not set(known) <= {shelf.fingerprint(name) for name in saves.names()}:
        raise Violation("O2", expected=f"side effects of {saves.names()}", got="others")


def judge_end(stored: Stored, before: Stored, items: Sequence[str], *, aside: Aside) -> None:
    """O9: after a recovery and two more saves nothing of the crash is left but what is kept."""
    report = stored.report
    if report is None or report.verdict != "good" or report.findings:
        raise Violation("O9", expected="a good session", got=f"{report and report.findings}")
    if stored.items() != list(items):
        raise Violation("O9", expected=f"{list(items)}", got=f"{stored.items()}")
    kinds = [parsed.kind for parsed in map(names.parse, stored.files) if parsed is not None]
    left = aside.beyond(report)
    left += [name for name in stored.files if names.is_temporary(name)]
    left += [name for name in stored.beside if name not in before.beside]
    if left or kinds.count(Kind.CHECKPOINT) > 2 or kinds.count(Kind.MANIFEST) > 2:
        raise Violation("O9", expected="no leftovers", got=f"{left or sorted(stored.files)}")
    if report.log is None or report.log.torn is not None:
        raise Violation("O9", expected="nothing torn at the end", got=f"{report.log}")
    if _unbelieved(stored) > _unbelieved(before) + (_is_torn(before)):
        raise Violation(
            "O9", expected="no more segments that nobody believes", got=f"{report.notices}"
        )


def _unbelieved(stored: Stored) -> int:
    log = stored.report.log if stored.report else None
    return 0 if log is None else len(log.skipped) + len(log.stray)


def _is_torn(stored: Stored) -> bool:
    log = stored.report.log if stored.report else None
    return log is not None and log.torn is not None


def rule_of(stored: Stored, *, migrated: bool = False) -> str:
    """O11: which rules rescue what lies there.

    Args:
        stored: What a stranger reads.
        migrated: Whether its state was brought to another schema.
    """
    report = stored.report
    if report is None or report.selection is None or report.log is None:
        return "new session"
    selection, log = report.selection, report.log
    rules = {
        "rolled forward": selection.rolled_forward,
        "number linked": selection.number_missing,
        "pointer moved up": selection.pointer_behind > 0,
        "torn tail": log.torn is not None,
        "segment skipped": bool(log.skipped),
        "stray segment": bool(log.stray),
        "trimming interrupted": any(name.startswith("events-") for name in report.leftovers),
        "migrated": migrated,
        "nothing yet": selection.current is None,
    }
    is_behind = any("behind its valid length" in notice for notice in report.notices)
    usual = "bytes behind the end passed over" if is_behind else "newest revision"
    return ", ".join(rule for rule, holds in rules.items() if holds) or usual
