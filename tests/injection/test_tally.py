"""A tally books each state once, and names a state for every rule that rescued one."""

from __future__ import annotations

from unittest import mock

import pytest

from fault_injection.damage.tampering import BYTE_KINDS
from fault_injection.examples.notes import NOTES
from fault_injection.level import Level, Plan, Tally
from fault_injection.levels import damage, faults, kill, power
from fault_injection.state_id import StateId
from fault_injection.tracing.runs import OF_WRITES
from fault_injection.workload import Recovered, Violation
from tests.injection.jobs import FIRST
from tests.injection.small_jobs import Small
from tests.support.check import check, check_equal

STATES = [StateId("L1", "toy", "EIO-once", point, "link") for point in range(4)]


def test_a_state_is_booked_as_recovered_or_as_a_violation() -> None:
    """Distinct states are those that were recovered and those that were not.

    Method: book three good ones of two rules and a bad one, one by a name that is made late.
    """
    tally = Tally(level="L1", workload="toy", variant="EIO-once")
    tally.book(STATES[0], Recovered("newest", "1"))
    tally.book(lambda: STATES[1], Recovered("rolled forward", "2"))
    tally.book(STATES[2], Recovered("newest", "3"))
    tally.book(STATES[3], Violation("O1", expected="2", got="1"))
    check_equal((tally.distinct, tally.recovered), (4, 3), "distinct and recovered")
    check_equal(dict(tally.rules), {"newest": 2, "rolled forward": 1}, "rules")
    check_equal(tally.examples, {"newest": STATES[0], "rolled forward": STATES[1]}, "examples")
    (found,) = tally.violations
    check_equal(
        (found.id, found.oracle, found.expected, found.got),
        (STATES[3], "O1", "2", "1"),
        "violation",
    )


def test_a_name_that_is_not_needed_is_not_made() -> None:
    """Naming a state may cost something. Method: a second state of a rule, whose name raises."""

    def name() -> StateId:
        raise AssertionError("it was named")

    tally = Tally(level="L1", workload="toy", variant="EIO-once")
    tally.book(STATES[0], Recovered("newest", "1"))
    tally.book(name, Recovered("newest", "2"))
    check_equal(tally.distinct, 2, "distinct")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("level", [faults.LEVEL, power.LEVEL], ids=lambda level: level.name)
def test_a_good_state_can_be_looked_at_by_its_name(level: Level) -> None:
    """O11: for each rule there is a state, which is built again and is rescued by that rule.

    Method: replay every example of a level in memory; L3 at its hardest, of passages.
    """
    rules = set[str]()
    for tally in level.run(FIRST, Plan()):
        check_equal(set(tally.examples), set(tally.rules), f"{tally.variant}: rules")
        for rule, state in tally.examples.items():
            case = level.case(FIRST, StateId.parse(str(state)))
            check_equal(level.replay(case).rule, rule, str(state))
            rules.add(rule)
    check(len(rules) > 2, f"{rules}")


@pytest.mark.parametrize("level", [faults.LEVEL, power.LEVEL], ids=lambda level: level.name)
def test_all_of_a_small_job_is_tried_in_every_change(level: Level) -> None:
    """Who tests a store of a few calls need not wait for another budget to hear *exhaustive*.

    Method: the example at each level; all that the other budget tries is tried.
    """
    whole = {tally.variant: tally for tally in level.run(NOTES, Plan(budget="exhaustive"))}
    for tally in level.run(NOTES, Plan()):
        check(tally.exhaustive, f"{tally.variant} is a sample")
        check_equal(tally.distinct, whole[tally.variant].distinct, f"{tally.variant}: states")


@pytest.mark.needs_ptrace
@pytest.mark.slow
@pytest.mark.normal_only
def test_all_of_a_small_job_is_tried_in_every_change_by_real_processes() -> None:
    """The same of L2. Method: a job of fifteen calls."""
    for tally in kill.LEVEL.run(Small("right"), Plan()):
        points = 3 if tally.variant in OF_WRITES else 15
        check_equal((tally.exhaustive, tally.points), (True, points), tally.variant)


@pytest.mark.needs_ptrace
@pytest.mark.slow
@pytest.mark.normal_only
def test_a_good_state_of_a_real_process_can_be_looked_at_by_its_name() -> None:
    """The same of L2. Method: a job of a few calls."""
    job = Small("right")
    for tally in kill.LEVEL.run(job, Plan(stop_at_first=True)):
        for rule, state in tally.examples.items():
            check_equal(kill.LEVEL.replay(kill.LEVEL.case(job, state)).rule, rule, str(state))
        check_equal(set(tally.examples), {"read"}, tally.variant)


def test_of_changed_trees_one_in_so_many_is_opened_for_writing() -> None:
    """The share that L5 states is one of the trees that are judged, whatever is made twice.

    Method: a job with duplicates among its changes; how deeply each tree is judged, by kind.
    """
    depths: list[str] = []

    def judged(*_: object, depth: str) -> Recovered:
        depths.append(depth)
        return Recovered("some rule", "")

    count = 0
    with mock.patch.object(damage, "judge", judged):
        for tally in damage.LEVEL.run(FIRST, Plan()):
            if tally.variant in BYTE_KINDS:
                whole = [at % 6 == 0 for at in range(tally.distinct)]
                check_equal([depth == "whole" for depth in depths], whole, tally.variant)
                count += tally.raw - tally.distinct
            depths.clear()
    check(count > 0, "nothing is made twice")
