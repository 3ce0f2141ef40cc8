"""L3 says the same in every process, and finds nothing in a job that does all right."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any, Final

import pytest

from fault_injection.level import Plan
from fault_injection.levels.power import LEVEL
from fault_injection.memory.disk import Disk
from fault_injection.memory.operations import ROOT, Entry, Operation, Rename, Sync
from fault_injection.power import case as power_case
from fault_injection.power import passage
from fault_injection.power.cache import Cache
from fault_injection.power.choices import choices
from fault_injection.power.loss import Power, State, read, spelled, state_of
from fault_injection.power.minimise import minimise
from fault_injection.power.passage import Moment
from fault_injection.power.pending import Lost
from fault_injection.power.rules import ALICE, JOURNAL, MODELS, WEAK
from fault_injection.power.variants import Passages, Variant
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.workload import Recovered, Violation
from tests.injection.disks import base, fed, saved
from tests.injection.jobs import FIRST, SAVES, heavy
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = pytest.mark.usefixtures("quiet")

VARIANTS: Final = ("weak", "alice", "posix", "journal", "nested-weak", "killed-weak", "failed-weak")


@heavy
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_store_that_begins_recovers_from_every_loss_of_power(variant: str) -> None:
    """G2: no state breaks a promise, and the sum is right.

    Method: each variant with the job that makes a store; look at the tally.
    """
    tally = LEVEL.tally(FIRST, variant, Plan())
    check_equal([str(one.id) for one in tally.violations], [], "violations")
    check_equal(tally.recovered, tally.distinct, "recovered")
    check(tally.points > 30 and tally.raw >= tally.distinct > 30, f"{tally}")
    check_equal(sum(tally.rules.values()), tally.recovered, "rules")
    check_equal(tally.exhaustive, "-" not in variant, "exhaustive")


SAID: Final = """
from fault_injection.level import Plan
from fault_injection.levels.power import LEVEL
from fault_injection.power.choices import choices
from fault_injection.power.passage import moments
from fault_injection.power.loss import Power, state_of
from fault_injection.power.variants import Passages
from fault_injection.power.rules import ALICE
from tests.injection.jobs import FIRST as job
for variant in ("alice", "killed-weak", "nested-weak", "failed-weak"):
    tally = LEVEL.tally(job, variant, Plan(seed=4))
    print(variant, tally.points, tally.raw, tally.distinct, sorted(tally.rules.items()))
passages = Passages(job)
power = Power(ALICE, "sector", "all", "whole")
for at in passages.cuts(power)[:4]:
    made = passages.killed(at)
    for moment in moments(made, power.cache(made, job)):
        for lost in choices(moment.cache).lost:
            print(at, moment.point, state_of(moment, lost, power, unread=job.unread).choice)
"""


@heavy
def test_every_name_is_the_same_in_every_process() -> None:
    """The same seed gives the same states with the same names, whatever a process hashes by.

    Method: two processes with other hash seeds print tallies and every name of some passages.
    """
    said = []
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", SAID], cwd=REPOSITORY, capture_output=True, text=True,
            check=True, timeout=300, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
        )  # fmt: skip
        said.append(ran.stdout)
    check_equal(said[0] == said[1], True, "the same output")
    check(len(said[0].splitlines()) > 300, f"{len(said[0])} characters were said")


def test_a_name_leads_to_the_disk_that_it_was_given_for() -> None:
    """A state is built again from its name alone, with what became of every call.

    Method: some states of every model at every seventh point; build each again, compare.
    """
    for model in MODELS:
        passages, power = Passages(FIRST), Power(model, "block", "all", "whole")
        made = passages.plain()
        for moment in passage.moments(made, power.cache(made, FIRST)):
            if moment.point % 7:
                continue
            for lost in choices(moment.cache).lost[:4]:
                state = state_of(moment, lost, power, unread=FIRST.unread)
                short = state.choice.partition("+")[0]
                for choice in (short, state.choice):
                    name = StateId("L3", "first", model.name, moment.point, choice)
                    case = LEVEL.case(FIRST, StateId.parse(str(name)))
                    check_equal(case.tree.digest(unread=FIRST.unread), state.digest, str(name))
                    check_equal(case.told, state.told, "told")
                    changing = [call.number for call in case.calls if _changes(call.operations)]
                    check_equal(list(case.fates), changing, "calls with a fate")
                    check(len(case.calls) - moment.point in (0, 1), "calls up to there")


def _changes(operations: list[Operation]) -> bool:
    return any(type(one).__name__ not in ("Sync", "SyncFailed") for one in operations)


@heavy
def test_a_replay_of_what_is_right_recovers() -> None:
    """A name is replayed by the same judge.

    Method: replay nothing-lost states of a kill, a failure and a recovery that is struck.
    """
    passages = Passages(FIRST)
    cuts = passages.cuts(Power(WEAK, "block", "few", "short"))
    halved = next(cut for cut in reversed(cuts) if cut.endswith("+half"))
    failing = passages.failing()[len(passages.failing()) // 2]
    for at in (f"killed-weak@{cuts[9]}", f"killed-alice@{halved}", f"failed-weak@{failing}"):
        variant = Variant.parse(at)
        made = power_case.passage_of(passages, variant)
        power = Power(variant.model, "block", "few", "short")
        moments = passage.moments(made, power.cache(made, FIRST))
        points = [(one.point, state_of(one, (), power, unread=FIRST.unread)) for one in moments]
        point, state = points[-1]
        check(point >= made.first and point > 60, f"{at} ends at {point}")
        case = LEVEL.case(FIRST, StateId("L3", "first", at, point, state.choice))
        check_equal(isinstance(LEVEL.replay(case), Recovered), True, at)
        check_equal(case.marks[-1].told, case.told, f"{at}: what the world learnt last")


def test_a_killed_process_leaves_its_inodes_to_nobody() -> None:
    """F11: files of the second process have numbers that none of the first ever had.

    Method: kill after each changing call; no inode is made twice, and the disk that processes see
    at the end is what the operations make of the base.
    """
    passages = Passages(FIRST)
    for at in passages.cuts(Power(WEAK, "block", "few", "short"))[::5]:
        made = passages.killed(at)
        disk, numbers = Disk(made.base), list[int]()
        for call in made.calls:
            for operation in call.operations:
                disk.apply(operation)
                if type(operation).__name__ == "Make":
                    numbers.append(operation.inode)  # type: ignore[union-attr]
        check_equal(len(set(numbers)), len(numbers), f"{at}: inodes")
        begun, second = made.parts[1]
        seen = second.seen_after(len(second.calls)).digest()
        check_equal(disk.tree().digest(), seen, f"{at}: what is seen at the end")
        check_equal([call.number for call in made.calls], list(range(len(made.calls))), "numbers")
        check(begun == made.first, "where the second process begins")


BAD: Final = {
    "v1.L3.first.ext4.3.0123456789ab": "no way to lose power",
    "v1.L3.first.killed-ext4@3.3.0123456789ab": "no way to lose power",
    "v1.L3.first.burnt-weak@3.3.0123456789ab": "no way to lose power",
    "v1.L3.first.killed-weak.3.0123456789ab": "where it strikes",
    "v1.L3.first.weak@3.3.0123456789ab": "says too much",
    "v1.L3.first.weak.7.0123456789ab": "no crash point",
    "v1.L3.first.weak.99999.0123456789ab": "no crash point",
    "v1.L3.first.weak.15.0123456789ab": "leaves no disk",
    "v1.L3.first.weak.15.ab": "names no disk",
    "v1.L3.first.weak.15.0123456789ab+block_x": "names no disk",
    "v1.L3.first.weak.15.0123456789ab+byte_1-0": "names no disk",
    "v1.L3.first.weak.15.0123456789ab+block_900-0": "leaves no disk",
    "v1.L3.first.killed-weak@99999.3.0123456789ab": "there is no call",
    "v1.L3.first.killed-weak@x.3.0123456789ab": "there is no call",
    "v1.L3.first.killed-weak@2+half.3.0123456789ab": "no write",
    "v1.L3.first.failed-weak@99999.3.0123456789ab": "there is no call",
    "v1.L3.first.nested-weak@x+0123456789ab.3.0123456789ab": "names no state",
    "v1.L3.first.nested-weak@15+0123456789ab.3.0123456789ab": "leaves no disk",
    "v1.L3.first.weak.99999.job": "calls, not",
}


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_none_is_refused_in_one_line(name: str) -> None:
    """Whoever types a state's name wrong is told what is wrong with it.

    Method: names of no model, place, crash point, disk.
    """
    with pytest.raises(BadStateIdError) as refused:
        LEVEL.case(FIRST, StateId.parse(name))
    check(BAD[name] in str(refused.value), str(refused.value))
    check("\n" not in str(refused.value), "one line")


def test_what_is_lost_is_spelled_and_read_back() -> None:
    """A sampled state's name says what is lost in it.

    Method: both ways, with nothing lost and with two changes.
    """
    for lost in ((), ((3, 0), (12, 7))):
        check_equal(read(spelled(lost, "sector")), (lost, "sector"), "read back")


# --- small counterexamples ----------------------------------------------------------------


def _moments(operations: list[Operation], model: Any = WEAK) -> list[Moment]:
    """A crash point behind each of the operations; every one with a cache of its own."""
    from fault_injection.world import Told

    on = base(a=b"a", b=b"b")
    return [
        Moment(count, fed(model, operations[:count], on=on), Told())
        for count in range(1, len(operations) + 1)
    ]


def _smallest(
    moments: list[Moment], lost: Lost, breaks: Any, *, budget: int = 200
) -> tuple[State, int]:
    tried = 0

    def judged(moment: Moment, lost: Lost) -> tuple[State, Violation | None]:
        nonlocal tried
        tried += 1
        power = Power(moment.cache.model, "block", "all", "short")
        oracle = breaks(moment.cache, lost)
        state = state_of(moment, lost, power, unread=())
        return state, Violation(oracle, expected="x", got="y") if oracle else None

    state, violation = judged(moments[-1], lost)
    if violation is None:
        raise ValueError("the state that is to be made smaller breaks nothing")
    small, _ = minimise(state, violation, moments=moments, judged=judged, budget=budget)
    return small, tried


NAMED: Final[list[Operation]] = [Entry(ROOT, name, 2) for name in ("c", "d", "e", "f", "g")]


def test_a_counterexample_loses_only_what_it_must() -> None:
    """Everything that need not be lost is given back.

    Method: a state breaks if two of five names are lost; begin with all five.
    """

    def breaks(cache: Cache, lost: Lost) -> str:
        return "O1" if {1, 3} <= {number for number, _ in lost} else ""

    small, tried = _smallest(_moments(NAMED), tuple((one, 0) for one in range(5)), breaks)
    check_equal((small.lost, small.point), (((1, 0), (3, 0)), 4), "the smallest, and where")
    check(tried < 60, f"{tried} judgements")


def test_a_counterexample_is_shown_at_its_earliest_crash_point() -> None:
    """The first point at which the same loss breaks the same promise.

    Method: one name is enough; another oracle fails before that.
    """

    def breaks(cache: Cache, lost: Lost) -> str:
        numbers = {number for number, _ in lost}
        return "O1" if 2 in numbers else "O2" if 0 in numbers else ""

    small, _ = _smallest(_moments(NAMED), tuple((one, 0) for one in range(5)), breaks)
    check_equal((small.lost, small.point), (((2, 0),), 3), "the smallest, and where")


def test_a_counterexample_under_a_journal_keeps_its_order() -> None:
    """No state is shown that the model forbids.

    Method: the loss of the third of five names breaks; those behind it are lost with it.
    """

    def breaks(cache: Cache, lost: Lost) -> str:
        return "O1" if 2 in {number for number, _ in lost} else ""

    moments = _moments(NAMED, JOURNAL)[-1:]
    small, _ = _smallest(moments, tuple((one, 0) for one in range(5)), breaks)
    check_equal(small.lost, ((2, 0), (3, 0), (4, 0)), "the third and those behind it")


def test_making_small_is_bounded_and_never_ends_with_less_than_it_had() -> None:
    """A budget of no judgements leaves the state as it is.

    Method: budgets of zero and three.
    """

    def breaks(cache: Cache, lost: Lost) -> str:
        return "O1" if {0, 1, 4} <= {number for number, _ in lost} else ""

    everything: Lost = tuple((one, 0) for one in range(5))
    small, tried = _smallest(_moments(NAMED), everything, breaks, budget=0)
    check_equal((small.lost, tried), (everything, 1), "without a budget")
    small, tried = _smallest(_moments(NAMED), everything, breaks, budget=3)
    check_equal(tried, 4, "judgements with a budget of three")
    check({(0, 0), (1, 0), (4, 0)} <= set(small.lost), "still breaks")


def test_a_call_with_several_changes_says_what_became_of_each() -> None:
    """An explanation tells a rename of which one half came through from one that was lost.

    Method: the fates of a rename under weak and alice, with none, some and all of it lost.
    """
    operations = [*saved(4, "t", b"x"), Sync(ROOT), Rename(ROOT, "t", ROOT, "a", 4)]
    told = {}
    for model in (WEAK, ALICE):
        cache = fed(model, operations, on=base(a=b"a"))
        numbers = [one.number for one in cache.open]
        for kept in range(len(numbers) + 1):
            parts = cache.fates(tuple((one, 0) for one in numbers[kept:]))[5]
            told[model.name, kept] = power_case.fate_of(parts)
    wanted = {
        ("weak", 0): "LOST",
        ("weak", 1): "torn: a set, t not removed",
        ("weak", 2): "persisted",
        ("alice", 0): "LOST",
        ("alice", 1): "torn: a removed, a not set, t not removed",
        ("alice", 2): "torn: a removed, a set, t not removed",
        ("alice", 3): "persisted",
    }
    check_equal(told, wanted, "fates")


@heavy
def test_another_seed_tries_other_passages_and_the_same_one_the_same() -> None:
    """What is sampled is the seed's choice alone.

    Method: three tallies of kills behind which only one passage is tried.
    """
    said = []
    for seed in (1, 1, 2):
        tally = LEVEL.tally(SAVES, "failed-weak", Plan(seed=seed))
        said.append(replace(tally, seconds=0.0))
    check_equal(said[0], said[1], "the same seed")
    check(said[0] != said[2], "another seed tried the very same")
