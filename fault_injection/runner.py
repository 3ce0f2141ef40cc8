"""Runs levels with workloads, each pair a job in a process of its own.

A job that dies, hangs or cannot be run takes no other with it: it is a result like the rest. The
order of the results is that of the jobs, whoever was ready first. Whatever ends a run, its
processes and what they left in temporary directories are gone when it returns or raises.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

from fault_injection.failure import one_line, place
from fault_injection.level import Level, NotRunError, Plan, Tally
from fault_injection.limit import Overdue
from fault_injection.memory.calls import Killed
from fault_injection.pool import ended, in_memory, temporary_files, temporary_folder
from fault_injection.state_id import LevelName
from fault_injection.workload import BadWorkloadError, Workload

Ending = Literal["done", "not run", "bad workload", "died", "stopped"]
"""``died``: also whoever exceeded the limit; ``stopped``: after the first violation, as asked."""

LIMITS_S: Final = {"ci": 1200.0, "exhaustive": 7200.0}
"""What one job may take, by budget: it ends one that hangs, not one on a busy machine."""

_LONGEST_FIRST: Final[tuple[LevelName, ...]] = ("L3", "L2", "L5", "L1")


@dataclass(frozen=True, slots=True)
class Job:
    """One level with one workload."""

    level: Level
    workload: Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a job.

    Attributes:
        level: Of the job.
        workload: Its name.
        tallies: What was tried; of a job that did not end well, up to there.
        ending: How it ended.
        reason: Why it was not done, in one line.
        remedy: What would let it run, of ``not run``.
        seconds: From its begin to its end.
    """

    level: LevelName
    workload: str
    tallies: tuple[Tally, ...] = ()
    ending: Ending = "done"
    reason: str = ""
    remedy: str = ""
    seconds: float = 0.0

    @property
    def violations(self) -> int:
        """How many states broke a promise."""
        return sum(len(tally.violations) for tally in self.tallies)


def run(
    jobs: Sequence[Job],
    plan: Plan,
    *,
    workers: int,
    limit_s: float | None = None,
    fail_fast: bool = False,
    say: Callable[[Result], object] = lambda result: None,
) -> list[Result]:
    """Run every job.

    Args:
        jobs: In the order of the results.
        plan: How much to try.
        workers: How many at a time, without their output; 1: in this process, without a limit.
        limit_s: What a job may take; None: what its budget permits.
        fail_fast: Stop at the first result with a violation.
        say: Is given each result as it comes.

    Raises:
        KeyboardInterrupt: A signal handler raised it; no process is left.
    """
    order = sorted(range(len(jobs)), key=lambda at: _LONGEST_FIRST.index(jobs[at].level.name))
    found: dict[int, Result] = {}
    with contextlib.closing(_results(jobs, order, plan, workers, limit_s)) as results:
        for at, result in results:
            found[at] = result
            say(result)
            if fail_fast and result.violations:
                break
    return [
        found.get(at) or _result(job, ending="stopped", reason="another job found a violation")
        for at, job in enumerate(jobs)
    ]


def _results(
    jobs: Sequence[Job], order: list[int], plan: Plan, workers: int, limit_s: float | None
) -> Generator[tuple[int, Result], None, None]:
    tasks = [partial(tried, jobs[at], plan) for at in order]
    within = in_memory()  # L2 sees what the kernel shows, which is the same above any disk
    if workers == 1:
        for at, task in zip(order, tasks, strict=True):
            with temporary_folder(within) as folder, temporary_files(folder):
                result = task()
            yield at, result
        return
    with contextlib.closing(
        ended(tasks, workers=workers, limit_s=limit_s or LIMITS_S[plan.budget], within=within)
    ) as done:
        for number, end in done:
            job = jobs[order[number]]
            yield order[number], end.value or _result(job, ending="died", reason=end.failure)


def tried(job: Job, plan: Plan) -> Result:
    """Run one job in this process; an error of it is a result."""
    tallies: list[Tally] = []
    begun = time.monotonic()
    ending: Ending = "done"
    reason = remedy = ""
    try:
        for tally in job.level.run(job.workload, plan):
            tallies.append(tally)
    except NotRunError as error:
        ending, reason, remedy = "not run", error.reason, error.remedy
    except BadWorkloadError as error:
        ending, reason = "bad workload", str(error)
    except (Exception, Killed, Overdue) as error:  # noqa: BLE001 - it must not hide the other results
        ending, reason = "died", f"{place(error)}: {one_line(error)}"
    return Result(
        level=job.level.name,
        workload=job.workload.name,
        tallies=tuple(tallies),
        ending=ending,
        reason=reason,
        remedy=remedy,
        seconds=time.monotonic() - begun,
    )


def _result(job: Job, *, ending: Ending, reason: str) -> Result:
    return Result(level=job.level.name, workload=job.workload.name, ending=ending, reason=reason)
