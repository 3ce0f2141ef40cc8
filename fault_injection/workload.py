"""What is put to the test: a job, and the judge of what a fault leaves of it.

A workload says three things, at whatever level it is run: what lies there before (``prepare``),
what is done while faults strike (``run``), and what must be true afterwards (``judge``). Levels
bring the faults and the machine. A workload never looks at how a machine is made.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal, Protocol

from fault_injection.machine import Machine
from fault_injection.world import Told, World

Oracle = Literal[
    "O1", "O2", "O3", "O4", "O5", "O6", "O7", "O8", "O9", "O10", "O11", "O12", "O13", "error"
]
"""Which judgement; ``error`` is an error that no user may see, or none where one must be."""

ORACLES: dict[Oracle, str] = {
    "O1": "what is recovered is not older than what was acknowledged",
    "O2": "what is recovered was asked for",
    "O3": "what is recovered has the very bytes that were saved, and verifies",
    "O4": "recovering again, and going on, never goes back",
    "O5": "a crash of the recovery is recovered as well",
    "O6": "two complete generations are there once two were acknowledged; damage is reported",
    "O7": "every official name is complete",
    "O8": "the log is a valid prefix that holds every acknowledged event",
    "O9": "after a recovery the next save works, no lock is stuck, leftovers are bounded",
    "O10": "nothing is acknowledged after a failed sync, and no inode is synced again after one",
    "O11": "the rule that rescued a state is known",
    "O12": "what is old and authentic and was put back is told from a crash, or is listed",
    "O13": "an effect ran at most once without a decision",
    "error": "every error is one that people can act on",
}


class Violation(Exception):  # noqa: N818 - a finding, not a failure of this code
    """The code under test broke its word.

    Attributes:
        oracle: Which judgement says so.
        expected: What had to be, in words.
        got: What was.

    Raises:
        ValueError: There is no such judgement.
    """

    def __init__(self, oracle: Oracle, *, expected: str, got: str) -> None:
        if oracle not in ORACLES:
            raise ValueError(f"no judgement is called {oracle!r}; there are {', '.join(ORACLES)}")
        super().__init__(f"{oracle}: expected {expected}; got {got}")
        self.oracle = oracle
        self.expected = expected
        self.got = got


class BadWorkloadError(Exception):
    """The workload itself cannot be tested: it is not deterministic, never acknowledges, hangs …

    The message is one line that a person can act on.
    """


@dataclass(frozen=True, slots=True)
class Recovered:
    """A state that was recovered as it must be.

    Attributes:
        rule: Which rule rescued it (O11), a few words.
        shown: What was recovered, for people.
    """

    rule: str
    shown: str


class Workload(Protocol):
    """A job under test."""

    @property
    def name(self) -> str:
        """One word, lower case."""
        ...

    @property
    def unread(self) -> Collection[str]:
        """Names of files whose bytes nobody believes: disks that differ there alone are one."""
        ...

    def prepare(self, machine: Machine, world: World) -> None:
        """Make what lies there before, all of it durable; acts of it are known to the world."""
        ...

    def run(self, machine: Machine, world: World) -> None:
        """Do the job. Typed errors of the code under test may escape; faults brought them about."""
        ...

    def go_on(self, machine: Machine, world: World) -> None:
        """A fresh process recovers, tells the world what it found (``settle``), and acts twice."""
        ...

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        """Recover in fresh processes, and judge the result by what the world was told.

        Args:
            machine: Holds what the fault left; the judge may change it.
            told: What the world knew at that instant.
            depth: ``short`` leaves out what is judged of each state again and again: that a second
                recovery gives the same, and that two further saves work.

        Raises:
            Violation: What was promised does not hold.
        """
        ...
