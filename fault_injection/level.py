"""What every level has in common: how much to try, one state, and the tally of a run.

A level brings one kind of fault to any workload. ``run`` tries it and yields tallies; ``case``
builds one state again from its name, for ``replay`` and ``explain``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Tree
from fault_injection.state_id import LevelName, StateId
from fault_injection.workload import Oracle, Recovered, Violation, Workload
from fault_injection.world import Mark, Told

Budget = Literal["ci", "exhaustive"]
FEW_CALLS: Final = 48
"""A job of no more calls is tried whole in every budget: that takes seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much to try.

    Attributes:
        budget: ``ci``: what every change can wait for; ``exhaustive``: all there is.
        seed: Decides what is sampled where not all is tried.
        stop_at_first: End a tally at its first violation, as planted bugs ask.
    """

    budget: Budget = "ci"
    seed: int = 0
    stop_at_first: bool = False

    def is_whole(self, calls: int) -> bool:
        """Whether all of a job of so many calls is tried."""
        return self.budget == "exhaustive" or calls <= FEW_CALLS


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A state that broke a promise, as small as it could be made.

    Attributes:
        id: Its name.
        oracle: Which judgement failed.
        expected: What had to be.
        got: What was.
    """

    id: StateId
    oracle: Oracle
    expected: str
    got: str


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one level found with one workload and one variant.

    Attributes:
        level: The level.
        workload: Name of the workload.
        variant: Persistence model, kind of fault, or kind of damage.
        points: Crash points, calls or files that were struck.
        raw: States that were built, the same one as often as it came.
        distinct: States that differ in the disk or in what the world knew.
        recovered: Of those, the ones that were recovered, or stopped, as they must.
        violations: The others.
        exhaustive: Whether every state was tried, or a sample.
        seconds: Of this process.
        rules: Which rule rescued how many (O11).
        examples: Of each rule the first state that it rescued.
    """

    level: LevelName
    workload: str
    variant: str
    points: int = 0
    raw: int = 0
    distinct: int = 0
    recovered: int = 0
    violations: list[Counterexample] = field(default_factory=list)
    exhaustive: bool = True
    seconds: float = 0.0
    rules: Counter[str] = field(default_factory=Counter)
    examples: dict[str, StateId] = field(default_factory=dict)

    def book(self, state: StateId | Callable[[], StateId], verdict: Recovered | Violation) -> None:
        """Count one distinct state.

        Args:
            state: Its name, by which ``Level.case`` builds it again; or what makes that, called
                only where the name is kept.
            verdict: What became of it.
        """
        self.distinct += 1
        if isinstance(verdict, Violation):
            name = state() if callable(state) else state
            self.violations.append(
                Counterexample(name, verdict.oracle, verdict.expected, verdict.got)
            )
            return
        self.recovered += 1
        self.rules[verdict.rule] += 1
        if verdict.rule not in self.examples:
            self.examples[verdict.rule] = state() if callable(state) else state


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One state, built again.

    Attributes:
        id: Its name.
        workload: The job.
        title: What struck, in a few words: ``power lost after call 81, model weak``.
        tree: What is on the disk; of L2, what the model of a kill leaves.
        told: What the world knew.
        calls: The calls up to there.
        fates: Of a call, by its number, what became of what it changed: ``persisted``, ``LOST``,
            or ``torn: …``; calls that changed nothing are not in it.
        must_stop: Whether it must be refused, not recovered (L5).
        marks: When the world learnt what, counted in ``calls``; without them an explanation says
            it at the end alone.
    """

    id: StateId
    workload: Workload
    title: str
    tree: Tree
    told: Told
    calls: list[Call]
    fates: Mapping[int, str]
    must_stop: bool = False
    marks: tuple[Mark, ...] = ()


class NotRunError(Exception):
    """This level cannot be run here.

    Attributes:
        reason: Why, in a few words.
        remedy: What would let it run.
    """

    def __init__(self, reason: str, *, remedy: str) -> None:
        super().__init__(f"{reason}; remedy: {remedy}")
        self.reason = reason
        self.remedy = remedy


class Level(Protocol):
    """One kind of fault."""

    @property
    def name(self) -> LevelName:
        """``L1`` …"""
        ...

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """Try it with one workload; a tally a variant.

        Raises:
            NotRunError: Not possible on this machine.
            BadWorkloadError: The workload cannot be tested.
        """
        ...

    def case(self, workload: Workload, state: StateId) -> Case:
        """Build one state again.

        Raises:
            BadStateIdError: The workload does not come through such a state (any more).
        """
        ...

    def replay(self, case: Case) -> Recovered:
        """Judge that state again.

        Raises:
            Violation: What was promised does not hold.
        """
        ...
