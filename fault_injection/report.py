"""What a run found: as a table, as JSON, and as JUnit XML.

The JSON document (``"report": 1``; a field that changes its meaning raises the number):

=============  ===============================================================================
``report``     1
``outcome``    ``recovered``, ``violations``, ``bad workload`` or ``incomplete``
``command``    what repeats it
``budget``     ``ci`` or ``exhaustive``; ``seed``: of what is sampled
``machine``    ``lastgood``, ``python``, ``kernel``, ``architecture``: versions
``rows``       one a level, workload and variant: ``level``, ``workload``, ``variant``,
               ``points``, ``raw``, ``distinct``, ``recovered``, ``exhaustive``, ``seconds``,
               ``rules`` (which rule rescued how many), ``examples`` (the first state that each
               did), ``violations`` (each with ``id``, ``oracle``, ``expected``, ``got``,
               ``replay``)
``totals``     by level: ``workloads`` and the sums of the rows; ``exhaustive``: all of them are;
               ``whole``: how many of ``distinct`` are of rows that are
``not_run``    ``level``, ``workload`` (empty: all), ``ending``, ``reason``, ``remedy``
=============  ===============================================================================
"""

from __future__ import annotations

import os
import platform
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from xml.etree import ElementTree

import lastgood
from fault_injection.level import Counterexample, Plan, Tally
from fault_injection.levels.registry import NOT_BUILT
from fault_injection.runner import Result
from fault_injection.state_id import LEVELS, StateId
from fault_injection.workload import ORACLES
from lastgood.errors import printable

SCHEMA: Final = 1
PROGRAM: Final = "python -m fault_injection"
Outcome = Literal["recovered", "violations", "bad workload", "incomplete"]
EXIT_CODES: Final[dict[Outcome, int]] = {
    "recovered": 0,
    "violations": 2,
    "incomplete": 3,
    "bad workload": 4,
}


def machine_facts() -> dict[str, str]:
    """What a result holds for: versions of what is tested and of what it stands on."""
    system = os.uname()
    return {
        "lastgood": lastgood.__version__,
        "python": platform.python_version(),
        "kernel": f"{system.sysname} {system.release}",
        "architecture": system.machine,
    }


@dataclass(slots=True)
class Sums:
    """Several tallies, added.

    Attributes:
        level: Of all of them.
        workload: Of all of them, or what stands for many.
        variant: As workload.
        points: Each counted once a variant.
        raw: States that were built.
        distinct: Those that differ.
        recovered: Those of them that were judged right.
        violations: The others.
        whole: How many of ``distinct`` are of variants whose every state was tried.
        is_exhaustive: Whether all variants are such.
        seconds: Of processors.
        workloads: How many there are.
    """

    level: str
    workload: str
    variant: str
    points: int = 0
    raw: int = 0
    distinct: int = 0
    recovered: int = 0
    violations: int = 0
    whole: int = 0
    is_exhaustive: bool = True
    seconds: float = 0.0
    workloads: set[str] = field(default_factory=set)

    def add(self, tally: Tally) -> None:
        """Count one more."""
        self.points += tally.points
        self.raw += tally.raw
        self.distinct += tally.distinct
        self.recovered += tally.recovered
        self.violations += len(tally.violations)
        self.whole += tally.distinct if tally.exhaustive else 0
        self.is_exhaustive &= tally.exhaustive
        self.seconds += tally.seconds
        self.workloads.add(tally.workload)

    @property
    def tried(self) -> str:
        """Whether every state was tried, none of the variants' whole, or some of them."""
        if self.is_exhaustive:
            return "exhaustive"
        return "partly" if self.whole else "sampled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A whole run.

    Attributes:
        results: Of every job, in order.
        plan: How much was tried.
        asked: Levels that were asked for.
        command: What repeats it.
        machine: ``machine_facts``.
        require_all: A level that could not be run is a failure, not only incomplete.
        workloads_from: Where the workloads come from, if they are none of lastgood's.
    """

    results: tuple[Result, ...]
    plan: Plan
    asked: tuple[str, ...]
    command: str
    machine: dict[str, str] = field(default_factory=machine_facts)
    require_all: bool = False
    workloads_from: str = ""

    def one_state(self, verb: str, found: Counterexample) -> str:
        """The command that shows a state (``explain``), or judges it again (``replay``)."""
        own = ["--from", self.workloads_from] if self.workloads_from else []
        return shlex.join([*PROGRAM.split(), verb, *own, str(found.id)])

    @property
    def tallies(self) -> list[Tally]:
        """All that was tried."""
        return [tally for result in self.results for tally in result.tallies]

    @property
    def violations(self) -> list[Counterexample]:
        """All states that broke a promise."""
        return [found for tally in self.tallies for found in tally.violations]

    @property
    def outcome(self) -> Outcome:
        """What it comes to; the worst decides."""
        endings = {result.ending for result in self.results}
        if self.violations:
            return "violations"
        if "bad workload" in endings:
            return "bad workload"
        tried = sum(tally.distinct for tally in self.tallies)
        if endings != {"done"} or not tried or NOT_BUILT.keys() & set(self.asked):
            return "incomplete"
        return "recovered"

    def totals(self) -> dict[str, Sums]:
        """Sums by level."""
        return {sums.level: sums for sums in summed(self.tallies, by=("level",))}

    def rules(self) -> dict[str, Counter[str]]:
        """O11, by level: which rule rescued how many."""
        rules: dict[str, Counter[str]] = {}
        for tally in self.tallies:
            rules.setdefault(tally.level, Counter()).update(tally.rules)
        return {level: counts for level, counts in rules.items() if counts}

    def examples(self) -> list[tuple[str, StateId]]:
        """Of each level, a state that each rule rescued, and the rule."""
        found: dict[tuple[str, str], StateId] = {}
        for tally in self.tallies:
            for rule, state in tally.examples.items():
                found.setdefault((tally.level, rule), state)
        return [(rule, state) for (_, rule), state in sorted(found.items())]

    def not_run(self) -> Iterator[dict[str, str]]:
        """What the fault model holds and was not run: nothing is left out silently."""
        for level, reason in NOT_BUILT.items():
            yield _absence(level, ending="not built", reason=reason)
        for level in LEVELS:
            if level not in self.asked:
                yield _absence(level, ending="not asked for")
        for result in self.results:
            if result.ending != "done":
                yield _absence(
                    result.level,
                    workload=result.workload,
                    ending=result.ending,
                    reason=result.reason,
                    remedy=result.remedy,
                )


def summed(tallies: Iterable[Tally], *, by: tuple[str, ...]) -> list[Sums]:
    """Tallies added up by some of ``level``, ``workload`` and ``variant``, as they first come."""
    found: dict[tuple[str, str, str], Sums] = {}
    for tally in tallies:
        workload = tally.workload if "workload" in by else "all"
        variant = tally.variant if "variant" in by else "all"
        row = (tally.level, workload, variant)
        found.setdefault(row, Sums(*row)).add(tally)
    return list(found.values())


def _absence(
    level: str, *, ending: str, workload: str = "", reason: str = "", remedy: str = ""
) -> dict[str, str]:
    return {
        "level": level,
        "workload": workload,
        "ending": ending,
        "reason": reason,
        "remedy": remedy,
    }


# --- JSON -----------------------------------------------------------------------------------


def as_document(report: Report) -> dict[str, Any]:
    """The JSON document, see above."""
    return {
        "report": SCHEMA,
        "outcome": report.outcome,
        "command": report.command,
        "budget": report.plan.budget,
        "seed": report.plan.seed,
        "machine": report.machine,
        "rows": [_row(report, tally) for tally in report.tallies],
        "totals": {level: _totals(sums) for level, sums in report.totals().items()},
        "not_run": list(report.not_run()),
    }


def _row(report: Report, tally: Tally) -> dict[str, Any]:
    return {
        "level": tally.level,
        "workload": tally.workload,
        "variant": tally.variant,
        "points": tally.points,
        "raw": tally.raw,
        "distinct": tally.distinct,
        "recovered": tally.recovered,
        "exhaustive": tally.exhaustive,
        "seconds": round(tally.seconds, 3),
        "rules": dict(sorted(tally.rules.items())),
        "examples": {rule: str(state) for rule, state in sorted(tally.examples.items())},
        "violations": [
            {
                "id": str(found.id),
                "oracle": found.oracle,
                "expected": found.expected,
                "got": found.got,
                "replay": report.one_state("replay", found),
            }
            for found in tally.violations
        ],
    }


def _totals(sums: Sums) -> dict[str, Any]:
    return {
        "workloads": len(sums.workloads),
        "points": sums.points,
        "raw": sums.raw,
        "distinct": sums.distinct,
        "recovered": sums.recovered,
        "violations": sums.violations,
        "exhaustive": sums.is_exhaustive,
        "whole": sums.whole,
        "seconds": round(sums.seconds, 3),
    }


# --- JUnit ----------------------------------------------------------------------------------


def as_junit(report: Report) -> str:
    """One test case a level, workload and variant; what was not run is skipped, or failed."""
    top = ElementTree.Element("testsuites", name="fault_injection")
    suites: dict[str, ElementTree.Element] = {}
    for result in report.results:
        suite = suites.get(result.level)
        if suite is None:
            suite = suites[result.level] = ElementTree.SubElement(
                top, "testsuite", name=result.level
            )
        for tally in result.tallies:
            case = _case(suite, result, tally.variant, tally.seconds)
            for found in tally.violations:
                _say(case, "failure", f"{found.oracle}: {found.id}", _violation_text(report, found))
        if result.ending != "done":
            case = _case(suite, result, "all", result.seconds)
            is_skip = result.ending == "stopped" or (
                result.ending == "not run" and not report.require_all
            )
            text = f"{result.reason}; remedy: {result.remedy}" if result.remedy else result.reason
            _say(case, "skipped" if is_skip else "error", f"{result.ending}: {text}", text)
    for suite in top:
        _count(suite)
    ElementTree.indent(top)
    return ElementTree.tostring(top, encoding="unicode", xml_declaration=True) + "\n"


def _case(
    suite: ElementTree.Element, result: Result, name: str, seconds: float
) -> ElementTree.Element:
    return ElementTree.SubElement(
        suite,
        "testcase",
        classname=f"fault_injection.{result.level}.{result.workload}",
        name=name,
        time=f"{seconds:.3f}",
    )


def _say(case: ElementTree.Element, tag: str, message: str, text: str) -> None:
    """Escaped also where XML knows no escape: control characters."""
    found = ElementTree.SubElement(case, tag, message=printable(message, limit_chars=500))
    lines = (printable(line, limit_chars=2000) for line in text.split("\n"))
    found.text = "\n".join(lines)


def _count(suite: ElementTree.Element) -> None:
    suite.set("tests", str(len(suite)))
    for tag, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(tag) is not None for case in suite)))


def _violation_text(report: Report, found: Counterexample) -> str:
    return (
        f"{found.oracle}: {ORACLES[found.oracle]}\nexpected: {found.expected}\n"
        f"got: {found.got}\n{report.one_state('replay', found)}"
    )
