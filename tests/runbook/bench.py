"""Plans that are carried out in this process, by real programs that write into a ledger outside."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import lastgood
from lastgood import CheckpointPolicy, Limits, Session
from lastgood.clock import SystemClock
from lastgood.runbook.judging import Happening
from lastgood.runbook.plan import Plan, parse
from lastgood.runbook.program import PROGRAM, State
from lastgood.runbook.running import Runner
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import KEYS
from tests.crash.seam import Killed

SESSION: Final = "move"
MARK: Final = f"lastgood-test-of-{os.getpid()}"
"""Stands in the arguments of programs that must not be left running."""
NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())
WRITE: Final = "echo $LASTGOOD_STEP >>ledger"
"""What each step does: one line of the ledger is one time that it was done."""
PROBE: Final = 'effect = "probe"\nprobe = ["grep", "-qxs", "@id", "ledger"]\nnot_done_exit = [1, 2]'


def step(name: str, *more: str, script: str = WRITE) -> str:
    """A step in TOML; ``more`` are lines of it."""
    lines = [f"[[step]]\nid = '{name}'\nrun = ['/bin/sh', '-c', '''{script}''']"]
    return "\n".join([*lines, *(line.replace("@id", name) for line in more)]) + "\n"


@dataclass(frozen=True, slots=True)
class Bench:
    """A directory in which a plan lies, with a store beside it."""

    top: Path

    @property
    def root(self) -> Path:
        return self.top / "store"

    @property
    def ledger(self) -> list[str]:
        """What was done."""
        path = self.top / "ledger"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def plan(self, *steps: str) -> Plan:
        return parse("\n".join((f"name = '{SESSION}'", *steps)).encode(), folder=str(self.top))

    @contextmanager
    def session(
        self, filesystem: FileSystem | None = None, policy: CheckpointPolicy = NEVER
    ) -> Iterator[Session[State]]:
        """The session, opened."""
        at = PosixRoot(self.root, filesystem=filesystem)
        found: Session[State] | None = None
        try:
            store = lastgood.open_store(at, keys=KEYS, limits=Limits(lock_wait_s=0.05))
            found = store.session(SESSION, policy=policy, **PROGRAM)
            with found:
                yield found
        finally:
            if found is not None:
                found._storage.close()
            with suppress(Killed, OSError):
                at.close()

    def run(
        self,
        plan: Plan,
        *,
        filesystem: FileSystem | None = None,
        policy: CheckpointPolicy = NEVER,
        told: list[Happening] | None = None,
    ) -> list[Happening]:
        """Carry it out; whatever happens is in ``told``, also where it stops."""
        happened = [] if told is None else told
        with self.session(filesystem, policy) as session:
            for one in self.runner(plan, session).run():
                if one.status != "running":
                    happened.append(one)
        return happened

    def runner(self, plan: Plan, session: Session[State]) -> Runner:
        return Runner(
            plan,
            session,
            store=str(self.root),
            environment=os.environ,
            clock=SystemClock(),
            wait_s=0.2,
        )

    def resolve(self, decide: Callable[[str], Any]) -> int:
        """Decide every open effect as a person would; returns how many there were."""
        with self.session() as session:
            asked = session.open_effects
            for one in asked:
                session.resolve(
                    one.fingerprint, decide(one.key), actor="clerk", reason="the ledger says so"
                )
            return len(asked)

    def by_ledger(self, key: str) -> str:
        """What a person sees who looks into the ledger."""
        return "done" if key in self.ledger else "not done"


def statuses(happened: list[Happening]) -> list[str]:
    """``a done``, ``b skipped``."""
    return [f"{one.step} {one.status}" for one in happened]


def soon(is_true: Callable[[], bool]) -> bool:
    """Whether it becomes true: what was killed takes a moment to be gone."""
    end_s = time.monotonic() + 5
    while not is_true() and time.monotonic() < end_s:
        time.sleep(0.02)
    return is_true()


def left() -> list[str]:
    """Processes that still run and say in their arguments that they are of this test run."""
    words = ["ps", "-A", "-ww", "-o", "pid=,stat=,args="]
    listed = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split("\n")
    return [line for line in listed if MARK in line and " Z" not in line]
