"""A job on real files, run again and again from the same beginning, and judged in fresh processes.

Everything that is not this process's own business is done in forked ones: the preparation, each
run, each judgement. None of them is left, and nothing on the disk is, when the bench is closed.
"""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from fault_injection.failure import one_line
from fault_injection.machine import RealMachine
from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT
from fault_injection.tracing import children
from fault_injection.tracing.real_tree import read_tree, write_tree
from fault_injection.tracing.runs import KILLS, LIMIT_S, Detail, Driver, Run, Strike
from fault_injection.workload import BadWorkloadError, Recovered, Violation, Workload
from fault_injection.world import Mark, Told, World
from lastgood.errors import LastgoodError

_STOPPED: Final = "stopped "
_VERDICT: Final = "verdict "
_STORE: Final = "disk/state"
_BEGINNING: Final = Tree({ROOT: Node(0o755, None, (("disk", 2),)), 2: Node(0o755, None, ())})


@dataclass(frozen=True, slots=True)
class Trial:
    """One run of the job.

    Attributes:
        run: What it did.
        tree: What is on the disk afterwards.
        told: What the world knows.
        marks: When it learnt what.
        stopped: The typed error that ended the job; empty: none did.
    """

    run: Run
    tree: Tree
    told: Told
    marks: tuple[Mark, ...]
    stopped: str = ""


class Bench:
    """Where one workload is run; a context manager.

    Args:
        workload: The job.
        driver: Runs and strikes it.
        limit_s: What one run, or one judgement, may take.

    Raises:
        BadWorkloadError: What lies there before cannot be made.
    """

    def __init__(self, workload: Workload, driver: Driver, *, limit_s: float = LIMIT_S) -> None:
        self.workload = workload
        self._driver = driver
        self._limit_s = limit_s
        self._place = Path(tempfile.mkdtemp(prefix="lastgood-L2-")).resolve()  # 0700
        self._runs = 0
        try:
            self._base, self._told = self._prepared()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove everything that was made."""
        shutil.rmtree(self._place, ignore_errors=True)

    def recorded(self) -> Trial:
        """Run the job twice without a fault, judge it, and return that if it can be tested.

        Raises:
            BadWorkloadError: It, or its judge, fails, hangs or leaves processes; or it makes other
                calls the second time, or acknowledges nothing.
        """
        first, second = self.tried(None), self.tried(None)
        for trial in (first, second):
            self._check_ended(trial.run, "")
            if trial.stopped:
                raise self._bad(f"fails without a fault: {trial.stopped}")
        if first.run.calls != second.run.calls:
            raise self._bad(f"is not deterministic: {_difference(first.run, second.run)}")
        if not first.run.calls:
            raise self._bad("makes no call about a file of its root, so there is nothing to strike")
        before = self._told.names("acknowledged")
        if len(first.told.names("acknowledged")) == len(before):
            raise self._bad("acknowledges nothing, so there is nothing to keep")
        with self._folder(second.tree) as top:
            judged = children.run(self._judging(top, second.told), limit_s=self._limit_s)
        self._check_ended(judged, "its judge ")
        return second

    def struck(self, strike: Strike, recorded: Run) -> Trial:
        """Run the job with one fault.

        Raises:
            Violation: It did not survive the fault as it must: an error that is not typed, a hang,
                processes that are left behind.
            BadWorkloadError: It did not come to that call.
        """
        trial = self.tried(strike, detail="struck")
        if not trial.run.struck:
            trial = self._parted(strike, recorded)
        run, point = trial.run, strike.call.number
        if strike.fault in KILLS:
            if run.signal != signal.SIGKILL:
                raise self._bad(f"was not killed at call {point}, {strike.call}: {_ending(run)}")
            return trial
        if run.hung or run.left or run.escaped or run.signal or run.status:
            raise Violation(
                "error",
                expected="a job that goes on, or ends with an error that people can act on",
                got=_ending(run),
            )
        return trial

    def _parted(self, strike: Strike, recorded: Run) -> Trial:
        """Once more, seen call by call: where a run that was not struck is another one."""
        trial, calls = self.tried(strike), strike.call.number + 1
        if not trial.run.struck or trial.run.calls[:calls] != recorded.calls[:calls]:
            raise self._bad(f"is not deterministic: {_difference(recorded, trial.run, calls)}")
        return trial

    def judged(self, tree: Tree, told: Told) -> Recovered:
        """Judge a disk in a fresh process.

        Raises:
            Violation: What was promised does not hold.
        """
        with self._folder(tree) as top:
            run = children.run(self._judging(top, told), limit_s=self._limit_s)
        verdicts = [line.text for line in run.said if line.text.startswith(_VERDICT)]
        if not verdicts:
            raise Violation("error", expected="a recovery that ends", got=_ending(run))
        verdict = json.loads(verdicts[-1].removeprefix(_VERDICT))
        if "oracle" in verdict:
            raise Violation(verdict["oracle"], expected=verdict["expected"], got=verdict["got"])
        return Recovered(verdict["rule"], verdict["shown"])

    def _prepared(self) -> tuple[Tree, Told]:
        world = World()
        with self._folder(_BEGINNING) as top:
            machine = RealMachine(str(top / _STORE), seed="before")
            run = children.run(
                lambda fd: self.workload.prepare(machine, World(say=_saying(fd))),
                limit_s=self._limit_s,
            )
            self._check_ended(run, "its preparation ")
            self._hear(world, run)
            return read_tree(top), world.told

    def tried(self, strike: Strike | None, *, detail: Detail = "all") -> Trial:
        """Run the job once, whatever comes of it."""
        with self._folder(self._base) as top:
            run = self._driver.run(
                self._job(top), top=str(top), strike=strike, detail=detail, limit_s=self._limit_s
            )
            calls = 0
            world = World(self._told, calls=lambda: calls)
            stopped = ""
            for line in run.said:
                calls = line.calls
                if line.text.startswith(_STOPPED):
                    stopped = line.text.removeprefix(_STOPPED)
                else:
                    self._hear_line(world, line.text)
            return Trial(run, read_tree(top), world.told, tuple(world.marks), stopped)

    def _job(self, top: Path) -> Callable[[int], None]:
        machine = RealMachine(str(top / _STORE), seed="run")

        def job(fd: int) -> None:
            try:
                self.workload.run(machine, World(self._told, say=_saying(fd)))
            except LastgoodError as error:
                children.say(fd, _STOPPED + one_line(error))

        return job

    def _judging(self, top: Path, told: Told) -> Callable[[int], None]:
        machine = RealMachine(str(top / _STORE), seed="judge")

        def judge(fd: int) -> None:
            try:
                recovered = self.workload.judge(machine, told, depth="whole")
                verdict: dict[str, Any] = {"rule": recovered.rule, "shown": recovered.shown}
            except Violation as found:
                verdict = {"oracle": found.oracle, "expected": found.expected, "got": found.got}
            except (LastgoodError, OSError) as error:  # of the store; any other is of the judge
                expected = "a recovery, or an error that people can act on"
                verdict = {"oracle": "error", "expected": expected, "got": one_line(error)}
            children.say(fd, _VERDICT + json.dumps(verdict))

        return judge

    def _hear(self, world: World, run: Run) -> None:
        for line in run.said:
            self._hear_line(world, line.text)

    def _hear_line(self, world: World, text: str) -> None:
        try:
            world.hear(text)
        except ValueError as error:
            raise self._bad(f"said what nobody understands: {error}") from error

    def _check_ended(self, run: Run, what: str) -> None:
        if run.hung:
            raise self._bad(f"{what}hangs: it did not end within {self._limit_s:g} s")
        if run.left:
            raise self._bad(f"{what}leaves processes behind: {', '.join(run.left)}")
        if run.escaped or run.signal or run.status:
            raise self._bad(f"{what}fails without a fault: {_ending(run)}")

    def _bad(self, text: str) -> BadWorkloadError:
        return BadWorkloadError(f"{self.workload.name} {text}")

    def _folder(self, tree: Tree) -> _Folder:
        self._runs += 1
        return _Folder(self._place / str(self._runs), tree)


class _Folder:
    """A directory with the content of a tree, for the length of a block."""

    def __init__(self, top: Path, tree: Tree) -> None:
        self._top = top
        self._tree = tree

    def __enter__(self) -> Path:
        write_tree(self._tree, self._top)
        return self._top

    def __exit__(self, *reason: object) -> None:
        shutil.rmtree(self._top)


def _saying(fd: int) -> Callable[[str], object]:
    return lambda line: children.say(fd, line)


def _ending(run: Run) -> str:
    """How a run ended, for people."""
    if run.hung:
        return "it hangs"
    if run.left:
        return f"it left {len(run.left)} process{'es' if len(run.left) > 1 else ''}"
    if run.escaped:
        return run.escaped
    if run.signal:
        return f"it died of {signal.Signals(run.signal).name}"
    return f"it ended with status {run.status}" if run.status else "it came to its end"


def _difference(first: Run, second: Run, calls: int | None = None) -> str:
    """Where two runs part, in one line."""
    one, other = first.calls[:calls], second.calls[:calls]
    for a, b in zip(one, other, strict=False):
        if a != b:
            return f"call {a.number} was {a}, then {b}"
    if len(one) != len(other):
        return f"{len(one)} calls, then {len(other)}"
    return "the same calls, and the fault did not strike"
