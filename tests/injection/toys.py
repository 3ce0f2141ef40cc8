"""Small levels and workloads whose every number is known, for what stands around the levels.

``python -m tests.injection.toys`` is the command with these in place of the real ones.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fault_injection.cli import main
from fault_injection.interrupt import interruptible
from fault_injection.level import Case, Counterexample, NotRunError, Plan, Tally
from fault_injection.levels.registry import Registry
from fault_injection.machine import Machine
from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT, Make, Sync, Write
from fault_injection.state_id import BadStateIdError, LevelName, StateId
from fault_injection.workload import BadWorkloadError, Recovered, Violation, Workload
from fault_injection.world import Act, Mark, Told, World

HOSTILE = "\x1b[31m<&\u202e]]>"


@dataclass(frozen=True)
class Toy:
    """A workload that does nothing; its name says what its level does with it."""

    name: str
    unread: Collection[str] = ()

    def prepare(self, machine: Machine, world: World) -> None: ...

    def run(self, machine: Machine, world: World) -> None: ...

    def go_on(self, machine: Machine, world: World) -> None: ...

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        return Recovered("none", "nothing")


@dataclass(frozen=True)
class ToyLevel:
    """Does what the name of the workload says."""

    name: LevelName

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        _behave(workload.name)
        for variant, raw in (("weak", 1200), ("posix", 34)):
            tally = Tally(level=self.name, workload=workload.name, variant=variant, points=7)
            tally.raw, tally.distinct, tally.seconds = raw, raw // 2, 0.25
            tally.exhaustive = variant == "weak"
            if workload.name == "violates" and variant == "weak":
                tally.violations.append(violation(self.name))
            tally.recovered = tally.distinct - len(tally.violations)
            tally.rules = Counter({"newest revision": tally.recovered})
            good = StateId(self.name, workload.name, variant, 2, "c0ffee")
            tally.examples = {"newest revision": good}
            yield tally
        if workload.name == "half":
            raise NotRunError("the rest is not here", remedy="install the rest")

    def case(self, workload: Workload, state: StateId) -> Case:
        if state.choice != "c0ffee":
            raise BadStateIdError(f"{workload.name} does not come through {state}")
        return case(self.name, workload)

    def replay(self, case: Case) -> Recovered:
        if case.workload.name == "violates":
            raise Violation("O1", expected="20", got=f"10 {HOSTILE}")
        return Recovered("newest revision", "checkpoint 20")


def _behave(name: str) -> None:
    if name == "absent":
        raise NotRunError("no such thing here", remedy="install it")
    if name == "unfit":
        raise BadWorkloadError("unfit acknowledges nothing")
    if name == "mistaken":
        raise BadWorkloadError("mine.py:12: NameError: name 'x' is not defined \x1b[31m")
    if name == "raises":
        raise TypeError("a defect\nof two lines")
    if name == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if name == "chatty":
        print("what a job prints")
    if name == "hangs":  # with what may be left behind: files, a process
        folder = Path(tempfile.mkdtemp())
        (folder / "left").write_text("x", encoding="utf-8")
        words = [sys.executable, "-c", "import time; time.sleep(600)"]
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        begun = os.environ.get("TOYS_BEGUN")
        if begun:
            Path(begun).write_text(f"{child.pid} {folder}", encoding="utf-8")
        time.sleep(600)


def violation(level: LevelName = "L3") -> Counterexample:
    """One violation, with what a terminal and XML must not see."""
    state = StateId(level, "violates", "weak", 2, "c0ffee")
    return Counterexample(state, "O1", "20", f"10 {HOSTILE}")


def case(level: LevelName, workload: Workload) -> Case:
    """A small state: a file that was written and lost, and what was known."""
    tree = Tree(
        {
            ROOT: Node(0o755, None, (("a", 2), ("b", 2), (f"z{HOSTILE}", 3))),
            2: Node(0o600, b"hello"),
            3: Node(0o700, None, ()),
        }
    )
    calls = [
        Call(0, 1, "open", "a O_CREAT", "a", 2, creates=True, operations=[Make(2, False, 0o600)]),
        Call(1, 1, "fstat", "a", "a", 2),
        Call(2, 1, "read", "a", "a", 2),
        Call(3, 2, "writev", f"a 5 bytes {HOSTILE}", "a", 2, operations=[Write(2, 0, b"hello")]),
        Call(4, 1, "fsync", "a", "a", 2, operations=[Sync(2)], injected="fails: EIO"),
        Call(5, 1, "stat", "a", "a", 2, error=2),
    ]
    known = Told((Act("10", "save", "acknowledged"),))
    begun = Told((*known.acts, Act("20", "save")))
    over = Told((*known.acts, Act("20", "save", "acknowledged")))
    return Case(
        id=StateId(level, workload.name, "weak", 6, "c0ffee"),
        workload=workload,
        title="power lost after call 6, model weak",
        tree=tree,
        told=over,
        calls=calls,
        fates={0: "persisted", 3: "torn: 3 of 5 bytes"},
        marks=(Mark(0, known), Mark(2, begun), Mark(6, over)),
    )


def ended(pid: int) -> bool:
    """Whether a process that was killed ends; a zombie, until somebody looks, has."""
    until_s = time.monotonic() + 20
    while time.monotonic() < until_s:
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        except (FileNotFoundError, ProcessLookupError):
            return True
        if stat.rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def toys() -> Registry:
    """Two levels, and workloads that behave as they are called; only good ones by default."""
    names = os.environ.get("TOYS", "fine chatty").split()
    return Registry((ToyLevel("L1"), ToyLevel("L3")), tuple(map(Toy, names)))


if __name__ == "__main__":
    sys.exit(interruptible(lambda: main(build=toys)))
