"""The one rule: every state a crash can leave is recovered, every other stops; overlaps by name."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest

from fault_injection.damage import one_rule, overlaps
from fault_injection.damage.belief import Belief
from fault_injection.damage.files import kind_of
from fault_injection.damage.history import history_of
from fault_injection.damage.one_rule import Comparison, compare
from fault_injection.damage.overlaps import OVERLAPS, Found, Overlap
from fault_injection.damage.tampering import Tamperer, Tampering, TamperKind
from fault_injection.levels.damage import judge
from fault_injection.memory.disk import Node
from fault_injection.workload import Workload
from fault_injection.workloads import WORKLOADS, find
from lastgood.errors import DamagedError
from lastgood.formats.names import Kind
from lastgood.rules import selection
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

NAMES: Final = [workload.name for workload in WORKLOADS]
README: Final = REPOSITORY / "fault_injection" / "README.md"
SECTION: Final = "## Where a crash and a change by hand look the same"


def workload(name: str) -> Workload:
    found = find(name)
    if found is None:
        raise AssertionError(f"there is no workload {name}")
    return found


@functools.cache
def compared(name: str) -> Comparison:
    return compare(workload(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_disk_in_both_sets_needs_one_answer_or_is_listed(name: str) -> None:
    """G2, G3, O12: no disk must be both recovered and refused, but for the listed overlaps.

    Method: every disk that two persistence models permit at any point of the job and of what lay
    there before it, against every change by hand of whole files and a sample of those of bytes.
    """
    found = compared(name)
    check(not found.violations, f"{name}: {found.violations[:3]}")
    check(found.is_exhaustive, f"{name}: the crashes are a sample")
    check(found.crashes > 100 and found.changes > 1000, f"{name}: few: {found}")
    check(found.common > 0, f"{name}: the sets have nothing in common, not even the unchanged")
    print(
        f"{name}: {found.crashes} disks of crashes, {found.changes} changes, {found.common} in "
        f"both, {found.agreed} of one answer, {dict(found.overlaps)}"
    )


@pytest.mark.slow
@pytest.mark.normal_only
def test_every_overlap_is_met() -> None:
    """A listed overlap that nothing falls into is a hole in the list, or in the generator.

    Method: the sum over all workloads; what only another run leaves is met by L5 in the job with
    two owners of a log.
    """
    met = sum((compared(name).overlaps for name in NAMES), Counter[str]())
    for overlap in OVERLAPS:
        check_equal(bool(met[overlap.name]), overlap.is_of_this_run, f"{overlap.name}: {met}")
    history = history_of(workload("writers-log"))
    rules = {judge(one, history).rule for one in Tamperer(history).tamperings("rolled-back")}
    others = {f"overlap: {one.name}" for one in OVERLAPS if not one.is_of_this_run}
    check(others <= rules, f"never met: {others - rules}")


@pytest.mark.slow
@pytest.mark.normal_only
def test_without_old_copies_only_what_the_design_lists_is_in_both() -> None:
    """Design 1: for changes without old copies the sets are disjoint but for three overlaps.

    With a log a fourth gives the same state: its checkpoint is gone, and replay is longer.
    """
    listed = {"everything-deleted", "newest-claim-deleted", "log-end", "older-records"}
    for name in ("reopens", "new-session", "resumes-published"):
        history = history_of(workload(name))
        rules = {judge(one, history).rule for one in Tamperer(history).tamperings("delete")}
        met = {rule.removeprefix("overlap: ") for rule in rules if rule.startswith("overlap")}
        check(met <= listed, f"{name}: {met - listed}")


def test_overlaps_are_listed_by_name_in_the_readme() -> None:
    """What people read of the overlaps is what the code knows of them, word for word."""
    text = README.read_text(encoding="utf-8")
    check(SECTION in text, f"no section {SECTION!r}")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", section, flags=re.MULTILINE)
    check_equal(rows, [(one.name, one.what, one.decides) for one in OVERLAPS], "the table")
    named = re.findall(r"`([a-z-]+)`[^|]*another run", section)
    others = [one.name for one in OVERLAPS if not one.is_of_this_run]
    check(set(others) <= set(named), f"of another run: {others}, the text names {named}")


# --- it is alive --------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [one for one in OVERLAPS if one.is_of_this_run],
                         ids=lambda one: one.name)  # fmt: skip
def test_an_overlap_that_is_not_listed_is_a_violation(gone: Overlap) -> None:
    """A state in both sets that nothing claims is a defect of the design.

    Method: each overlap left out of the list, with a job that comes to it.
    """
    name = next(name for name in NAMES if compared(name).overlaps[gone.name])
    fewer = tuple(one for one in OVERLAPS if one is not gone)
    with mock.patch.object(overlaps, "OVERLAPS", fewer):
        found = compare(workload(name))
    check_equal(len(found.violations), compared(name).overlaps[gone.name], "violations")
    check(all("no overlap" in one for one in found.violations), f"{found.violations[:2]}")


def test_a_state_of_two_overlaps_is_a_violation() -> None:
    """Overlaps are disjoint: what decides must be one thing.

    Method: one overlap listed a second time.
    """
    with mock.patch.object(overlaps, "OVERLAPS", (*OVERLAPS, OVERLAPS[0])):
        found = compare(workload("first"))
    check_equal(len(found.violations), compared("first").overlaps[OVERLAPS[0].name], "violations")


def test_a_crash_that_stops_is_a_violation() -> None:
    """The other half of the rule: strictness that refuses what a crash leaves is found.

    Method: a missing pointer, which F3 leaves and anybody can delete, stops.
    """
    right = selection._newest_revision

    def wrong(evidence: Any) -> Any:
        if evidence.pointer is None:
            raise DamagedError("it is missing", name="manifest.json")
        return right(evidence)

    with mock.patch.object(selection, "_newest_revision", wrong):
        found = compare(workload("reopens"))
    check(found.violations, "nothing is found")
    check(all("stops" in one for one in found.violations), f"{found.violations[:2]}")


def test_the_crashes_hold_what_a_kill_leaves_at_every_call() -> None:
    """The first set is no less than F1: what is seen after each call is among it.

    Method: every moment of a run, by its digest.
    """
    job = workload("reopens")
    history = history_of(job)
    left, _ = one_rule.left_by_crashes(job)
    for moment in history.past.moments:
        digest = moment.tree.digest(unread=job.unread)
        check(digest in left, f"what a kill leaves after call {moment.calls}")


def fallen_back(found: Found) -> list[str]:
    """The overlaps that claim a tree of which the newest checkpoint is passed over."""
    older = replace(found.newest, sequence=found.newest.sequence - 1, base="older")
    return [overlap.name for overlap in overlaps.claiming(replace(found, belief=older))]


@pytest.mark.parametrize("kind", ["flip", "foreign-key", "kind"])
def test_no_overlap_excuses_a_silent_fall_back(kind: TamperKind) -> None:
    """O12: where a record is wrong, an older belief is a violation, also beside a whole log.

    Method: what a store that falls back would believe, of each changed manifest and checkpoint;
    the same belief where they are gone is `older-records`.
    """
    history = history_of(workload("appends"))
    subject = history.subjects[0]
    tried = 0
    for tampering in Tamperer(history).tamperings(kind):
        found = Found(tampering, history, subject, tampering.base.honest[subject].belief)
        if kind == "flip" and tried > 200:
            break
        if any(kind_of(path) in (Kind.CHECKPOINT, Kind.MANIFEST) for path in tampering.edits):
            tried += 1
            check_equal(fallen_back(found), [], tampering.what)
    check(tried > 3, f"{tried} changes")


def test_a_directory_in_a_records_place_is_not_nothing() -> None:
    """O12: a session of which only a directory with a checkpoint's name is left is not new.

    Method: every record but one is gone, and that one is a directory.
    """
    history = history_of(workload("first"))
    subject = history.subjects[0]
    base = history.instants[-1]
    here = [path for path in base.files if path.startswith(f"{subject.store}/{subject.directory}/")]
    edits: dict[str, Node | None] = dict.fromkeys(here)
    kept = next(path for path in here if kind_of(path) is Kind.CHECKPOINT)
    for node, claimed in ((None, ["everything-deleted"]), (Node(0o700), [])):
        edits[kept] = node
        change = Tampering(kind="kind", point=0, base=base, edits=edits, what="all gone")
        found = Found(change, history, subject, Belief())
        names = [overlap.name for overlap in overlaps.claiming(found)]
        check_equal(names, claimed, f"{node}")
