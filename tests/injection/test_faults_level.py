"""L1 finds what a job does wrong when a call fails, and nothing in a job that does all right."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from typing import Final

import pytest

from fault_injection.faults import strikes
from fault_injection.faults.strikes import FAULTS
from fault_injection.level import Counterexample, Plan, Tally
from fault_injection.levels.faults import LEVEL
from fault_injection.memory.calls import WRITES
from fault_injection.recording import record
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.workload import Oracle, Violation, Workload
from lastgood.errors import LastgoodError, StorageError
from lastgood.storage import publish
from tests.injection.jobs import FIRST, SAVES, heavy, job
from tests.injection.layers import (
    CloseIgnored,
    FdatasyncSwallowed,
    FsyncRetried,
    FsyncSwallowed,
    LastSyncForgotten,
    Leaking,
    LockedAtOnce,
    ShortAppendIgnored,
    ShortWriteIgnored,
    ToldAsBusy,
    ToldAsDamage,
    ToldAsFenced,
    ToldAsLocked,
    TriedForEver,
    Untyped,
)
from tests.injection.planted import Layer, Planted
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = pytest.mark.usefixtures("quiet")

APPENDS: Final = job("appends")


def struck(workload: Workload, plan: Plan | None = None) -> list[Tally]:
    """Every tally."""
    return list(LEVEL.run(workload, plan or Plan()))


def first_found(workload: Workload, expected: set[Oracle]) -> Counterexample:
    """The first violation of these oracles; behind it nothing is tried."""
    for tally in LEVEL.run(workload, Plan(stop_at_first=True)):
        for found in tally.violations:
            if found.oracle in expected:
                return found
    raise AssertionError("nothing was found")


def test_a_job_that_does_all_right_is_found_to() -> None:
    """G2, F5 to F9: whatever fails in a first save, nothing that was promised is broken.

    Method: the sample that every change waits for; each tally adds up.
    """
    tallies = struck(FIRST)
    check_equal([t.violations for t in tallies if t.violations], [], "violations")
    check_equal(tallies[0].variant, "clean", "the first tally")
    for tally in tallies:
        check_equal(tally.recovered, tally.distinct, f"{tally.variant}: recovered")
        check_equal(sum(tally.rules.values()), tally.recovered, f"{tally.variant}: rules")
        check(tally.points == tally.raw >= tally.distinct, f"{tally.variant}: points")
    check_equal([t.variant for t in tallies[1:]], [str(fault) for fault in FAULTS], "variants")


@heavy
def test_everything_is_tried_when_everything_is_asked_for() -> None:
    """L1, exhaustive: every call × every fault that can strike it.

    Method: count them.
    """
    calls = record(FIRST).calls
    for tally in struck(FIRST, Plan(budget="exhaustive"))[1:]:
        fault = next(fault for fault in FAULTS if str(fault) == tally.variant)
        expected = sum(fault.strikes(call) for call in calls)
        check_equal(tally.points, expected, f"{tally.variant}: points")
        check(tally.exhaustive and not tally.violations, f"{tally.variant}: {tally.violations}")


# --- planted bugs -------------------------------------------------------------------------


@heavy
@pytest.mark.parametrize(
    ("workload", "layer", "expected"),
    [
        (FIRST, FsyncRetried, {"O10"}),
        (FIRST, FsyncSwallowed, {"O10"}),
        (APPENDS, FdatasyncSwallowed, {"O10"}),
        (FIRST, CloseIgnored, {"O10"}),
        (FIRST, ShortWriteIgnored, {"error"}),
        (APPENDS, ShortAppendIgnored, {"O1", "O8"}),
        (FIRST, LastSyncForgotten, {"O10"}),
        (FIRST, Untyped, {"error"}),
        (FIRST, ToldAsDamage, {"error"}),
        (FIRST, ToldAsFenced, {"error"}),
        (FIRST, TriedForEver, {"error"}),
        (FIRST, Leaking, {"O9"}),
    ],
    ids=lambda value: getattr(value, "__name__", getattr(value, "name", "oracles")),
)
def test_a_planted_bug_is_found(
    workload: Workload, layer: type[Layer], expected: set[Oracle]
) -> None:
    """L1 is alive: each thing that a job may do wrong about an error is found by its judgement.

    Method: put a layer with the defect between job and system; run the sample to the first
    violation of each variant; replay one.
    """
    planted = Planted(workload, layer)
    found = first_found(planted, expected)
    with pytest.raises(Violation) as raised:
        LEVEL.replay(LEVEL.case(planted, found.id))
    check_equal(raised.value.oracle, found.oracle, "judged again")
    check_equal(raised.value.got, found.got, "judged again")


@pytest.mark.parametrize(
    ("workload", "layer", "variant", "call", "is_right"),
    [
        ("first", ToldAsLocked, "EIO-ever", "flock lock", False),
        ("first", LockedAtOnce, "EINTR-once", "flock lock", False),
        ("first", ToldAsBusy, "EIO-once", "link checkpoint", False),
        ("trims", ToldAsBusy, "EIO-once", "link events", False),  # its archive is another process's
        ("repairs-rebuild", ToldAsBusy, "EIO-once", "link checkpoint-000014", False),  # one reads
        ("first", Layer, "EIO-ever", "flock lock", True),
        ("first", Layer, "EINTR-once", "flock lock", True),
        ("first", Layer, "EINTR-ever", "flock lock", True),  # nobody can tell it from a held lock
        ("writers", ToldAsBusy, "EIO-once", "link checkpoint-000050", True),
    ],
)
def test_an_owner_that_there_is_not_is_told_of_by_nobody(
    workload: str, layer: type[Layer], variant: str, call: str, is_right: bool
) -> None:
    """An error of the machine is not told as somebody else's doing, where nobody else is at work.

    Method: fail locks and links of the only owner, with and without a layer that lies; and a link
    of one of several.
    """
    planted = Planted(job(workload), layer)
    name, _, path = call.partition(" ")
    called = [c for c in record(planted).calls if c.name == name]
    point = next(c.number for c in called if c.path.rpartition("/")[2].startswith(path))
    case = LEVEL.case(planted, StateId("L1", workload, variant, point, name))
    if is_right:
        LEVEL.replay(case)
        return
    with pytest.raises(Violation, match="an error of the machine"):
        LEVEL.replay(case)


@heavy
def test_a_refusal_that_took_effect_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: who says that nothing happened must be right; the judge knows it from what was told.

    Method: a link whose error is not resolved by a look.
    """

    def resolved(name: str, error: OSError, **_: object) -> LastgoodError:
        return StorageError(f"Publishing {name}", errno=error.errno or 0)

    monkeypatch.setattr(publish, "_resolved", resolved)
    found = first_found(SAVES, {"O2"})
    check_equal((found.id.variant, found.id.choice), ("after-once", "link"), "found by")


@pytest.mark.parametrize("sentence", ["happened", "safe", "do"])
def test_an_error_without_a_sentence_is_found(
    monkeypatch: pytest.MonkeyPatch, sentence: str
) -> None:
    """Every error says what happened, what is safe, and what to do.

    Method: take one of the three away.
    """
    right = LastgoodError.__init__

    def init(self: LastgoodError, happened: str, **given: str | None) -> None:
        right(self, happened, **given)
        setattr(self, sentence, " ")

    monkeypatch.setattr(LastgoodError, "__init__", init)
    found = first_found(FIRST, {"error"})
    check(sentence in found.expected, found.expected)


@pytest.mark.parametrize(
    ("method", "error", "expected"),
    [
        ("go_on", StorageError("Going on"), "O9"),
        ("go_on", Violation("O8", expected="this", got="that"), "O8"),
        ("judge", StorageError("Reading"), "error"),
        ("judge", OSError(errno.EIO, "read"), "error"),
        ("judge", Violation("O3", expected="this", got="that"), "O3"),
    ],
    ids=str,
)
def test_a_recovery_that_fails_is_found(method: str, error: Exception, expected: Oracle) -> None:
    """O9, G2: a fresh process recovers and goes on; what fails without a fault is told once.

    Method: let it raise; the run without any fault shows it already, and nothing is struck then.
    """

    def fails(*_: object, **__: object) -> None:
        raise error

    planted = Planted(FIRST, Layer)
    setattr(planted, method, fails)
    (clean,) = LEVEL.run(planted, Plan())
    check_equal((clean.variant, clean.exhaustive), ("clean", False), "the only tally")
    check_equal([found.oracle for found in clean.violations], [expected], "found by")


# --- one state ----------------------------------------------------------------------------


def test_a_case_shows_what_struck_and_what_became_of_each_call() -> None:
    """Who is shown a state sees the fault, the calls before and after it, and who knew what.

    Method: fail the first link.
    """
    calls = record(SAVES).calls
    point = next(call.number for call in calls if call.name == "link")
    case = LEVEL.case(SAVES, StateId("L1", "saves", "EIO-once", point, "link"))
    check_equal(case.fates[point], "fails: EIO", "the struck call")
    others = {fate for number, fate in case.fates.items() if number != point}
    check_equal(others, {"persisted"}, "the others")
    check("EIO" in case.title and str(point) in case.title, case.title)
    check_equal(case.told, case.marks[-1].told, "what was told")
    check("newest" in LEVEL.replay(case).rule, "it is recovered")


@pytest.mark.parametrize(
    ("variant", "point", "choice"),
    [
        ("EIO-once", 99_999, "link"),
        ("EIO-once", 0, "unlink"),
        ("EIO-twice", 0, "stat"),
        ("short-once", 0, "stat"),
        ("short-disk", 0, "stat"),
        ("EIO-disk", 0, "stat"),
        ("clean", 0, "end"),
    ],
)
def test_a_state_that_does_not_come_about_is_refused(variant: str, point: int, choice: str) -> None:
    """Nobody is shown another state than the one that was asked for.

    Method: calls that are not there, or are others, and faults that cannot strike them.
    """
    with pytest.raises(BadStateIdError):
        LEVEL.case(SAVES, StateId("L1", "saves", variant, point, choice))


# --- what is tried ------------------------------------------------------------------------

_SHOW: Final = """
from fault_injection.level import Plan
from fault_injection.levels.faults import LEVEL
from tests.injection.jobs import FIRST
from tests.injection.layers import CloseIgnored
from tests.injection.planted import Planted
for tally in LEVEL.run(Planted(FIRST, CloseIgnored), Plan(seed=5)):
    print(tally.variant, tally.points, tally.distinct, *(str(v.id) for v in tally.violations))
"""


@heavy
def test_the_same_seed_tries_the_same_in_every_process() -> None:
    """A seed repeats a run, whatever a process's own hashes are.

    Method: two processes with different hash seeds, and what they found.
    """
    said = []
    for hashes in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hashes}
        ran = subprocess.run(
            [sys.executable, "-B", "-c", _SHOW], cwd=REPOSITORY, env=environment,
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        check_equal(ran.returncode, 0, ran.stderr[-500:])
        said.append(ran.stdout)
    check_equal(said[0], said[1], "what was tried")
    check("v1.L1.first." in said[0], "nothing was found")


@pytest.mark.parametrize("seed", [0, 1])
def test_a_sample_strikes_every_change(seed: int) -> None:
    """L1, ci: every call that changes something fails, and fails after it took effect.

    Method: look at what is struck in a long job and in a short one; other seeds, other samples.
    """
    for workload in (FIRST, SAVES, job("repairs-pointer")):
        calls = record(workload).calls
        struck = LEVEL.points(calls, Plan(seed=seed))
        changing = [call.number for call in calls if call.changes]
        for fault in FAULTS[:2]:
            check(set(changing) <= set(struck[fault]), f"{workload.name}: {fault}")
        writes = [call.number for call in calls if call.name in WRITES]
        short = next(fault for fault in FAULTS if str(fault) == "short-once")
        check_equal(struck[short], writes, f"{workload.name}: writes that are cut short")
        others = [fault for fault in FAULTS[2:] if struck[fault]]
        check(len(others) > 10, f"{workload.name}: {others}")
        runs = sum(map(len, struck.values()))
        check(runs * len(calls) < 400_000, f"{workload.name}: {runs} runs of {len(calls)} calls")
        check(struck != LEVEL.points(calls, Plan(seed=seed + 1)), "another seed tries the same")


def test_a_run_that_makes_no_progress_is_ended() -> None:
    """A job that hangs is a violation, not a hang of the harness.

    Method: a job that looks at its root for ever once a call has failed.
    """

    def work(machine, world) -> None:  # type: ignore[no-untyped-def]
        while True:
            machine.process().realpath("/")
            with suppress(OSError):
                machine.process().stat("/")

    recording = record(FIRST)
    ended = strikes.run(work, recording.base, recording.world.told, seed="run", hook=None, usual=10)
    check("no end" in ended.stuck, "it ended")
    with pytest.raises(Violation, match="no end"):
        ended.check(unread=())
