"""What hangs in memory is ended, and is a finding, or a mistake of the workload, like the rest."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import pytest

from fault_injection import limit
from fault_injection.examples.notes import Job
from fault_injection.level import Plan
from fault_injection.levels import faults, power
from fault_injection.limit import Overdue, limited
from fault_injection.machine import Machine
from fault_injection.recording import check_testable
from fault_injection.workload import BadWorkloadError, Recovered, Violation
from fault_injection.world import Told, World
from tests.support.check import check, check_equal

pytestmark = pytest.mark.normal_only


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here waits a minute."""
    monkeypatch.setattr(limit, "LIMIT_S", 0.3)


def _compute() -> None:
    while True:
        pass


def _sleep() -> None:
    time.sleep(1000)


def _ignore() -> None:
    """Whatever is raised, it goes on; but not twice."""
    with suppress(BaseException):
        _compute()
    _compute()


@pytest.mark.parametrize("hang", [_compute, _sleep, _ignore], ids=lambda hang: hang.__name__)
def test_what_hangs_is_ended_and_says_where(hang: Callable[[], None]) -> None:
    """A job for ever in Python is ended, whatever it handles. Method: three that hang."""
    with (
        pytest.raises(Overdue, match=r"did not end within 0\.2 s|test_limit") as raised,
        limited(0.2),
    ):
        hang()
    check(raised.value.where.startswith("test_limit.py:"), raised.value.where)


def test_whoever_had_set_the_timer_has_it_again() -> None:
    """A limit around another one, or around a test, still holds. Method: one in another."""
    handler, (left_s, _) = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)

    def nested() -> None:
        with limited(0.4):
            for _ in range(3):
                with limited(30.0):
                    time.sleep(0.05)
            with pytest.raises(Overdue, match=r"within 0\.1 s"):
                once()
            _compute()

    def once() -> None:
        with limited(0.1):
            _compute()

    with pytest.raises(Overdue, match=r"within 0\.4 s"):
        nested()
    check(signal.getsignal(signal.SIGALRM) is handler, "another handler is left")
    now_s, _ = signal.getitimer(signal.ITIMER_REAL)
    check(bool(now_s) == bool(left_s) and left_s - 10 < now_s <= left_s, f"{left_s}, then {now_s}")


def test_an_alarm_in_the_last_moment_leaves_nothing_behind() -> None:
    """Neither the handler nor the timer stays. Method: one that is pending where the block ends."""
    before, mask = signal.getsignal(signal.SIGALRM), signal.pthread_sigmask(signal.SIG_BLOCK, [])
    outer_s = signal.getitimer(signal.ITIMER_REAL)[0]
    try:
        with limited(30.0):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
            signal.raise_signal(signal.SIGALRM)
            check(signal.SIGALRM in signal.sigpending(), "an alarm is pending")
        check(signal.SIGALRM not in signal.sigpending(), "it is dropped")
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    check_equal(signal.getsignal(signal.SIGALRM), before, "handler")
    left_s, interval_s = signal.getitimer(signal.ITIMER_REAL)
    check(outer_s - 5 <= left_s <= outer_s and interval_s == 0.0, f"timer: {left_s}")


def test_a_thread_is_limited_by_nobody() -> None:
    """Signals are the main thread's. Method: a thread that takes longer."""
    ended = []

    def work() -> None:
        with limited(0.01):
            time.sleep(0.05)
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    check_equal(ended, [True], "it came to its end")


# --- the levels ---------------------------------------------------------------------------


class HangsInRun(Job):
    """Never ends."""

    def run(self, machine: Machine, world: World) -> None:
        super().run(machine, world)
        _compute()


class HangsAfterAnError(Job):
    """Waits for ever once a call has failed."""

    def run(self, machine: Machine, world: World) -> None:
        super().run(machine, world)
        if len(world.told.names("acknowledged")) < 3:
            _compute()


class HangsBehindACrash(Job):
    """Goes on for ever, but only where it finds less than all."""

    def go_on(self, machine: Machine, world: World) -> None:
        before = world.told
        super().go_on(machine, world)
        if len(before.names("acknowledged")) < 3:
            _compute()


class HangsInJudge(Job):
    """Recovers for ever, but only where it finds less than all."""

    def judge(self, machine: Machine, told: Told, **given: object) -> Recovered:
        if len(told.names("acknowledged")) < 3:
            _compute()
        return super().judge(machine, told, depth="whole")


def test_a_job_that_hangs_by_itself_cannot_be_tested() -> None:
    """Its author is told, with file and line. Method: the example, made so."""
    with pytest.raises(BadWorkloadError) as raised:
        check_testable(HangsInRun())
    check("did not end within 0.3 s, at test_limit.py:" in str(raised.value), str(raised.value))


@pytest.mark.parametrize("workload", [HangsAfterAnError(), HangsInJudge(), HangsBehindACrash()])
def test_a_job_that_hangs_behind_a_fault_is_found_by_l1(workload: Job) -> None:
    """F5 to F9: after an error there is an end. Method: hang after it; replay what was found."""
    level, plan = faults.LEVEL, Plan(stop_at_first=True)
    found = next(found for tally in level.run(workload, plan) for found in tally.violations)
    check_equal((found.oracle, found.expected), ("error", "an end of the job"), "found")
    check("it did not end within 0.3 s, at test_limit.py:" in found.got, found.got)
    with pytest.raises(Violation, match="an end of the job"):
        level.replay(level.case(workload, found.id))


@pytest.mark.parametrize(
    ("workload", "variant"),
    [
        (HangsInJudge(), "weak"),
        (HangsBehindACrash(), "killed-weak"),
        (HangsBehindACrash(), "nested-weak"),
        (HangsAfterAnError(), "failed-weak"),
    ],
)
def test_a_job_that_hangs_behind_a_loss_of_power_is_found_by_l3(
    workload: Job, variant: str
) -> None:
    """F2, F10 to F12: a recovery comes to an end. Method: hang in it; replay what was found."""
    tally = power.LEVEL.tally(workload, variant, Plan(stop_at_first=True))
    found = tally.violations[0]
    check_equal((found.oracle, found.expected), ("error", "an end of the job"), "found")
    with pytest.raises(Violation, match=r"it did not end within 0\.3 s, at test_limit\.py:"):
        power.LEVEL.replay(power.LEVEL.case(workload, found.id))
