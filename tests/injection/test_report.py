"""Reports: the sums are right, what is shown is safe to look at, nothing is left out silently."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from fault_injection.level import Plan
from fault_injection.report import Outcome, Report, as_document, as_junit
from fault_injection.runner import Ending, Job, Result, run
from fault_injection.table import WIDTH, as_text
from fault_injection.workload import Violation
from tests.injection.toys import HOSTILE, Toy, ToyLevel, violation
from tests.support.check import check, check_equal

MACHINE = {"lastgood": "1", "python": "3", "kernel": "Linux 6", "architecture": "x"}


def report(*names: str) -> Report:
    jobs = [
        Job(level, Toy(name))
        for level, name in itertools.product((ToyLevel("L1"), ToyLevel("L3")), names)
    ]
    results = tuple(run(jobs, Plan(), workers=1))
    return Report(
        results=results, plan=Plan(), asked=("L1", "L3"), command="again", machine=MACHINE
    )


def with_ending(good: Report, ending: Ending) -> Report:
    results = (*good.results[1:], replace(good.results[0], ending=ending))
    return replace(good, results=results)


def test_table_is_this() -> None:
    """The table shows each level and workload, sums, rules, and what was not run.

    Method: the whole text for two levels and two workloads with known numbers.
    """
    expected = """\
level   workload     points     states   distinct  recovered violations  tried       seconds
--------------------------------------------------------------------------------------------
L1      fine             14      1,234        617        617          0  partly          0.5
L1      violates         14      1,234        617        616          1  partly          0.5
L1      together         28      2,468      1,234      1,233          1  partly          1.0
--------------------------------------------------------------------------------------------
L3      fine             14      1,234        617        617          0  partly          0.5
L3      violates         14      1,234        617        616          1  partly          0.5
L3      together         28      2,468      1,234      1,233          1  partly          1.0
"""
    text = as_text(report("fine", "violates"))
    check(text.startswith(expected), text)
    check_equal(text.count("VIOLATION v1.L"), 2, "violations shown")
    for part in (
        "  O1: what is recovered is not older than what was acknowledged\n  expected  20\n",
        "  again     python -m fault_injection replay v1.L3.violates.weak.2.c0ffee\n",
        "\nL1 rescued by (O11): newest revision 1,233\n",
        "\nL3 rescued by (O11): newest revision 1,233\n",
        "\nL4: not built: ",
        "\nL2: not asked for\nL5: not asked for\n",
        "\n2 violations in 2,468 distinct states: violations\n",
        "\nlastgood 1, Python 3, Linux 6, x; budget ci, seed 0\nagain: again\n",
    ):
        check(part in text, f"{part!r} is not in\n{text}")


def test_variants_are_shown_when_asked_for_and_the_table_stays_readable() -> None:
    """No row is wider than 120 columns, whatever its names. Method: names that are too long."""
    wide = report("w" * 34)
    for variants in (False, True):
        text = as_text(wide, variants=variants)
        check_equal([line for line in text.split("\n") if len(line) > WIDTH], [], "too wide")
        check_equal("…" in text, variants, "cut off")
    text = as_text(report("fine"), variants=True)
    rows = [line.split()[:3] for line in text.split("\n") if line.startswith("L1  ")]
    check_equal(rows[:2], [["L1", "fine", "weak"], ["L1", "fine", "posix"]], "rows")


def test_many_violations_are_counted_and_the_first_of_each_kind_are_shown() -> None:
    """A flood hides neither that it is one nor what else there is.

    Method: fifty violations of one kind before one of another level; then of thirty workloads.
    """
    flood = report("fine", "violates")
    flood.results[0].tallies[0].violations.extend([violation("L1")] * 50)
    text = as_text(flood)
    check_equal(text.count("VIOLATION v1.L1."), 3, "shown of L1")
    check_equal(text.count("VIOLATION v1.L3."), 1, "shown of L3")
    check("and 48 more violations, all of them in --json" in text, text)
    many = report("fine")
    one = violation()
    many.results[0].tallies[0].violations.extend(
        replace(one, id=replace(one.id, workload=f"w{number}")) for number in range(30)
    )
    check_equal(as_text(many).count("VIOLATION"), 20, "shown of thirty")


def test_rules_are_whole_and_the_rare_ones_are_counted_together() -> None:
    """A rule that rescued states is named, or counted. Method: thirty rules of some length."""
    many = report("fine")
    many.results[0].tallies[0].rules.update({f"rule {n:02}, and more of it": n for n in range(30)})
    text = as_text(many)
    check("· rule 29, and more of it 29 ·" in text and "19 more rules 171" in text, text)
    check_equal([line for line in text.split("\n") if len(line) > WIDTH], [], "too wide")
    check("and more\n" not in text and "and more of\n" not in text, "a rule is broken")


def test_good_states_are_named_for_whoever_asks() -> None:
    """An auditor can look at what was recovered, too. Method: both levels, with and without."""
    named = """
A state that each rule rescued; `explain` shows it:
  v1.L1.fine.weak.2.c0ffee  newest revision
  v1.L3.fine.weak.2.c0ffee  newest revision
"""
    good = report("fine", "chatty")
    check(named in as_text(good, examples=True), as_text(good, examples=True))
    check("c0ffee" not in as_text(good), "named without being asked for")
    row = as_document(good)["rows"][3]
    check_equal(row["examples"], {"newest revision": "v1.L1.chatty.posix.2.c0ffee"}, "document")


@pytest.mark.parametrize("made", [as_text, as_junit])
def test_what_came_from_a_disk_is_escaped(made: object) -> None:
    """No stored byte reaches a terminal or breaks XML (T12). Method: a hostile text in each."""
    hostile = report("violates")
    bad = replace(hostile.results[0], ending="died", reason=HOSTILE, remedy=HOSTILE)
    text = made(replace(hostile, results=(*hostile.results, bad)))  # type: ignore[operator]
    check(all(c == "\n" or c.isprintable() for c in text), "not escaped")
    check(r"\x1b[31m" in text, text)


def test_document_holds_every_number_and_its_sums() -> None:
    """A program needs nothing but the document. Method: as JSON and back; sums of the rows."""
    document = json.loads(json.dumps(as_document(report("fine", "violates", "absent"))))
    check_equal(document["report"], 1, "version")
    check_equal(len(document["rows"]), 8, "rows")
    for level, totals in document["totals"].items():
        rows = [row for row in document["rows"] if row["level"] == level]
        for name in ("points", "raw", "distinct", "recovered"):
            check_equal(totals[name], sum(row[name] for row in rows), f"{level} {name}")
        check_equal(totals["violations"], sum(len(r["violations"]) for r in rows), "violations")
        whole = sum(row["distinct"] for row in rows if row["exhaustive"])
        found = [totals[name] for name in ("workloads", "exhaustive", "whole")]
        check_equal(found, [2, False, whole], level)
    (told,) = document["rows"][2]["violations"]
    check_equal((told["id"], told["oracle"]), (str(violation("L1").id), "O1"), "violation")
    not_run = [(absence["level"], absence["ending"]) for absence in document["not_run"]]
    expected = [("L4", "not built"), ("L2", "not asked for"), ("L5", "not asked for")]
    check_equal(not_run, [*expected, ("L1", "not run"), ("L3", "not run")], "not run")


def test_junit_has_a_case_for_each_variant_with_its_replay_command() -> None:
    """A server shows each variant, and how to repeat what failed. Method: read the XML back."""
    names = ("fine", "violates", "absent", "raises")
    top = ElementTree.fromstring(as_junit(report(*names)))  # noqa: S314 - it is our own
    suites = {suite.get("name"): suite for suite in top}
    check_equal(list(suites), ["L1", "L3"], "suites")
    for suite in suites.values():
        counts = [suite.get(name) for name in ("tests", "failures", "errors", "skipped")]
        check_equal(counts, ["6", "1", "1", "1"], "counts")
    (failure,) = suites["L3"].iter("failure")
    text = failure.text or ""
    for part in ("O1: what is", "expected: 20", "replay v1.L3.violates.weak.2.c0ffee"):
        check(part in text, text)


def test_mistake_in_a_workload_is_told_to_people_and_programs_alike() -> None:
    """Nobody takes somebody's NameError for a finding. Method: all three forms of such a run."""
    mistaken = report("fine", "mistaken")
    text = "mine.py:12: NameError: name 'x' is not defined"
    check(f"\nL1 mistaken: bad workload: {text}" in as_text(mistaken), as_text(mistaken))
    document = as_document(mistaken)
    check_equal(document["outcome"], "bad workload", "outcome")
    told = {one["workload"]: one for one in document["not_run"] if one["level"] == "L3"}["mistaken"]
    check_equal((told["ending"], told["reason"][:46]), ("bad workload", text), "document")
    top = ElementTree.fromstring(as_junit(mistaken))  # noqa: S314 - it is our own
    errors = [error.get("message", "") for error in top.iter("error")]
    check_equal([error[:60] for error in errors], [f"bad workload: {text}"] * 2, "JUnit")


@pytest.mark.parametrize(
    ("ending", "outcome"),
    [
        ("done", "recovered"),
        ("not run", "incomplete"),
        ("died", "incomplete"),
        ("stopped", "incomplete"),
        ("bad workload", "bad workload"),
    ],
)
def test_one_job_that_did_not_end_well_is_no_success(ending: Ending, outcome: Outcome) -> None:
    """Only a run in which everything was run may say so. Method: each ending among good ones."""
    good = report("fine")
    check_equal(with_ending(good, ending).outcome, outcome, "outcome")
    bad = report("violates")
    check_equal(with_ending(bad, ending).outcome, "violations", "a violation is never hidden")


def test_run_that_tried_nothing_is_no_success() -> None:
    """0 violations in 0 states prove nothing. Method: no results, and results without states."""
    empty = replace(report("fine"), results=())
    check_equal(empty.outcome, "incomplete", "no results")
    nothing = replace(empty, results=(Result(level="L1", workload="fine"),))
    check_equal(nothing.outcome, "incomplete", "no states")
    check(as_text(nothing).startswith("L4: not built"), "a table of nothing")


def test_judgement_that_there_is_not_is_refused_where_it_is_made() -> None:
    """Whoever mistypes one is told there, not behind all the work. Method: a small letter."""
    with pytest.raises(ValueError, match="no judgement is called 'o1'; there are O1, O2, O3"):
        Violation("o1", expected="20", got="10")  # type: ignore[arg-type]
