"""Runs levels with workloads, each pair a job in a process of its own.

A job that dies, hangs or cannot be run takes no other with it: it is a result like the rest. The
order of the results is that of the jobs, whoever was ready first. Whatever ends a run, its
processes and what they left in temporary directories are gone when it returns or raises.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Literal

from fault_injection.calls import Killed
from fault_injection.levels import Level, NotRunError, Plan, Tally
from fault_injection.state_id import LevelName
from fault_injection.workload import BadWorkloadError, Workload

Ending = Literal["done", "not run", "bad workload", "died", "stopped"]
"""``died``: also whoever exceeded the limit; ``stopped``: after the first violation, as asked."""

LIMITS_S: Final = {"ci": 600.0, "exhaustive": 3600.0}
"""What one job may take, by budget: it ends one that hangs, not one on a busy machine."""

_LONGEST_FIRST: Final[tuple[LevelName, ...]] = ("L3", "L2", "L5", "L1")
_GRACE_S: Final = 3.0
_TICK_S: Final = 0.5
_FORK: Final = get_context("fork")  # jobs hold code, which a process begun anew would not have
_ENDS: Final = (signal.SIGINT, signal.SIGTERM)


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
        workers: How many at a time; 1: in this process, which then has no limit.
        limit_s: What a job may take; None: what its budget permits.
        fail_fast: Stop at the first result with a violation.
        say: Is given each result as it comes.

    Raises:
        KeyboardInterrupt: A signal handler raised it; no process is left.
    """
    order = sorted(range(len(jobs)), key=lambda at: _LONGEST_FIRST.index(jobs[at].level.name))
    found: dict[int, Result] = {}
    with _folder() as folder:
        crew = _Crew(jobs, plan, folder, limit_s or LIMITS_S[plan.budget])
        try:
            done = _here(jobs, order, plan, folder) if workers == 1 else crew.work(order, workers)
            for at, result in done:
                found[at] = result
                say(result)
                if fail_fast and result.violations:
                    break
        finally:
            crew.end()
    return [
        found.get(at) or _result(job, ending="stopped", reason="another job found a violation")
        for at, job in enumerate(jobs)
    ]


def _here(
    jobs: Sequence[Job], order: list[int], plan: Plan, folder: Path
) -> Iterator[tuple[int, Result]]:
    for at in order:
        with temporary_files(folder):
            result = tried(jobs[at], plan)
        yield at, result


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
    except (Exception, Killed) as error:  # noqa: BLE001 - it must not hide the other results
        ending, reason = "died", told(error)
    return Result(
        level=job.level.name,
        workload=job.workload.name,
        tallies=tuple(tallies),
        ending=ending,
        reason=reason,
        remedy=remedy,
        seconds=time.monotonic() - begun,
    )


def told(error: BaseException) -> str:
    """An error in one line: its type, its text, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}{where}: {text}"


@contextlib.contextmanager
def temporary_files(folder: Path) -> Iterator[None]:
    """Let whatever this process and its children put into temporary files land in ``folder``."""
    before, there = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        os.environ.pop("TMPDIR")
        if there is not None:
            os.environ["TMPDIR"] = there


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="fault_injection."))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _result(job: Job, *, ending: Ending, reason: str, seconds: float = 0.0) -> Result:
    return Result(
        level=job.level.name,
        workload=job.workload.name,
        ending=ending,
        reason=reason,
        seconds=seconds,
    )


# --- processes ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """A process that does one job, and leads a group of whatever it starts."""

    at: int
    process: BaseProcess
    pipe: connection.Connection
    begun: float = field(default_factory=time.monotonic)

    def signal_all(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, number)

    def end(self) -> None:
        """Kill what is left of it, and of what it started."""
        self.signal_all(signal.SIGKILL)
        self.process.join()
        self.process.close()
        self.pipe.close()


class _Crew:
    """The processes of one run."""

    def __init__(self, jobs: Sequence[Job], plan: Plan, folder: Path, limit_s: float) -> None:
        self._jobs = jobs
        self._plan = plan
        self._folder = folder
        self._limit_s = limit_s
        self._at_work: list[_Worker] = []

    def work(self, order: list[int], workers: int) -> Iterator[tuple[int, Result]]:
        """Do the jobs in that order; yields each job's number with its result."""
        waiting = list(order)
        while waiting or self._at_work:
            while waiting and len(self._at_work) < workers:
                self._begin(waiting.pop(0))
            connection.wait([worker.pipe for worker in self._at_work], timeout=_TICK_S)
            for worker in list(self._at_work):
                result = self._look(worker)
                if result is not None:
                    worker.end()
                    self._at_work.remove(worker)
                    yield worker.at, result

    def end(self) -> None:
        """End whoever is still at work: asked first, so that they can clean up, then killed."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # once is enough
        try:
            for worker in self._at_work:
                if worker.process.is_alive():
                    os.kill(worker.process.pid or 0, signal.SIGTERM)
            until = time.monotonic() + _GRACE_S
            for worker in self._at_work:
                connection.wait([worker.process.sentinel], max(0.0, until - time.monotonic()))
                worker.end()
            self._at_work.clear()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def _begin(self, at: int) -> None:
        job = self._jobs[at]
        mine, theirs = _FORK.Pipe(duplex=False)
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        process = _FORK.Process(target=_be_worker, args=(job, self._plan, folder, theirs))
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)  # no signal between two owners
        try:
            process.start()
            with contextlib.suppress(OSError):  # it does so, too; whoever is first
                os.setpgid(process.pid or 0, process.pid or 0)
            self._at_work.append(_Worker(at, process, mine))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def _look(self, worker: _Worker) -> Result | None:
        job, passed_s = self._jobs[worker.at], time.monotonic() - worker.begun
        is_over = not worker.process.is_alive()  # first: what it said before, is in the pipe
        if worker.pipe.poll():
            found = _received(worker.pipe)
            if found is not None:
                return found
            worker.process.join(timeout=_GRACE_S)  # the pipe is broken off; so will it be
            is_over = True
        if is_over:
            reason = f"its process ended with exit code {worker.process.exitcode}"
        elif passed_s > self._limit_s:
            reason = f"it took longer than {self._limit_s:g} s"
        else:
            return None
        return _result(job, ending="died", reason=reason, seconds=passed_s)


def _received(pipe: connection.Connection) -> Result | None:
    try:
        found = pipe.recv()
    except (EOFError, OSError):
        return None
    return found if isinstance(found, Result) else None


def _be_worker(job: Job, plan: Plan, folder: Path, pipe: connection.Connection) -> None:
    """What a worker does; a signal that asks it to end lets the level clean up, and is no news."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    try:
        signal.signal(signal.SIGINT, _raise_interrupt)
        signal.signal(signal.SIGTERM, _raise_interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        os.dup2(2, 1)  # what a job prints is no part of the report
        with temporary_files(folder):
            pipe.send(tried(job, plan))
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    except BaseException as error:  # noqa: BLE001 - the one line that is left of it
        print(f"{job.level.name} {job.workload.name}: {told(error)}", file=sys.stderr)
        os._exit(1)


def _raise_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
