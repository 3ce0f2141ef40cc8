"""L3: power is lost, and every disk is built that a model of persistence permits (F2 to F5).

A tally each: for every model the job itself; ``nested-…`` a recovery that is struck in its turn
(F10); ``killed-…`` a process that was killed and another that went on before power was lost (F11);
``failed-…`` a call that failed before (F12). ``ci`` tears writes at blocks and takes a sample of
the latter three, unless the job makes a few calls only. ``exhaustive`` tears at sectors, in a
recovery that is struck at blocks, and takes them all, up to thousands of states of each; a tally
says which it was.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from fault_injection.judgement import Depth, judge
from fault_injection.level import Budget, Case, Counterexample, Plan, Tally
from fault_injection.power import case as power_case
from fault_injection.power import passage
from fault_injection.power.case import JOB, passage_of
from fault_injection.power.choices import Extent
from fault_injection.power.loss import Power, State, Verdicts, state_of, walk
from fault_injection.power.minimise import minimise
from fault_injection.power.passage import Moment, Passage
from fault_injection.power.pending import Lost
from fault_injection.power.rules import ALICE, MODELS, WEAK, Model
from fault_injection.power.tearing import Tearing
from fault_injection.power.variants import Kind, Passages, Variant
from fault_injection.recording import check_testable
from fault_injection.state_id import LevelName, StateId
from fault_injection.this_process import processor_s
from fault_injection.workload import Oracle, Recovered, Violation, Workload
from fault_injection.world import Told


@dataclass(frozen=True, slots=True, kw_only=True)
class _Effort:
    """How much is tried of the job, or of what comes behind a crash, a kill or a failure.

    Attributes:
        tearing: How finely writes are torn.
        extent: Which disks of a crash point are tried.
        passages: The most of them; None: all.
        stride: Of the disks one in so many, once what was pending at first is settled.
        enough: States of one tally, after which no further passage is begun; twice as many end
            the one that is under way.
        settles: Whether a passage ends there.
    """

    tearing: Tearing = "block"
    extent: Extent = "few"
    passages: int | None = None
    stride: int = 1
    enough: int = 1_000_000
    settles: bool = False


_STRUCK: Final[tuple[Kind, ...]] = ("nested", "killed", "failed")
_EFFORTS: Final[dict[Budget, dict[Kind, _Effort]]] = {
    "ci": {
        "plain": _Effort(extent="all"),
        "nested": _Effort(passages=8, stride=4, enough=250),
        # What a kill left pending is soon durable, or gone; behind that it is a plain recovery.
        "killed": _Effort(passages=24, settles=True, enough=250),
        "failed": _Effort(passages=48, stride=16, enough=300),
    },
    "exhaustive": {
        "plain": _Effort(tearing="sector", extent="all"),
        "nested": _Effort(extent="all", enough=1500),
        "killed": _Effort(tearing="sector", extent="all", enough=2000),
        "failed": _Effort(tearing="sector", extent="all", enough=2000),
    },
}
_SMALL: Final = _Effort(extent="all", enough=1000)
"""In ``ci``: what comes behind a crash, a kill or a failure of a job of a few calls."""
_MODELS: Final[dict[Budget, tuple[Model, ...]]] = {"ci": (WEAK, ALICE), "exhaustive": MODELS}
"""The models under which what was struck goes on."""


@dataclass(frozen=True, slots=True)
class _Base:
    """A state that was recovered, and whose recovery may be struck."""

    name: str
    rule: str
    state: State


@dataclass(frozen=True, slots=True)
class _Found:
    """A state that was not recovered."""

    variant: Variant
    passage: Passage
    power: Power
    state: State
    violation: Violation

    @property
    def identity(self) -> tuple[str, int, str]:
        """The same for the same disk at the same point."""
        return str(self.variant), self.state.point, self.state.digest


class _Run:
    """One workload at this level.

    Args:
        workload: The job.
        plan: How much to try.
    """

    def __init__(self, workload: Workload, plan: Plan) -> None:
        self._workload = workload
        self._plan = plan
        self._passages = Passages(workload)
        self._efforts = dict(_EFFORTS[plan.budget])
        if plan.budget == "ci" and plan.is_whole(len(self._passages.recording.calls)):
            self._efforts |= dict.fromkeys(_STRUCK, _SMALL)
        self._verdicts = Verdicts(workload)
        self._bases: dict[str, list[_Base]] = {}

    def tallies(self) -> Iterator[Tally]:
        """One for each model and each way of striking before."""
        for model in MODELS:
            yield self.tally(Variant("plain", model))
        for kind in _STRUCK:
            for model in _MODELS[self._plan.budget]:
                yield self.tally(Variant(kind, model))

    def tally(self, variant: Variant) -> Tally:
        """That of one variant; a recovery is struck in states of the job under the same model."""
        begun_s = processor_s()
        tally = Tally(level="L3", workload=self._workload.name, variant=str(variant))
        found = (
            self._plain(variant, tally) if variant.kind == "plain" else self._struck(variant, tally)
        )
        of_jobs = [one for one in tally.violations if one.id.choice == JOB]
        tally.violations = of_jobs + self._shown(found)
        tally.seconds = processor_s() - begun_s
        return tally

    def _plain(self, variant: Variant, tally: Tally) -> list[_Found]:
        """The job, under one model."""
        power = self._power(variant)
        bases, found = self._bases.setdefault(variant.model.name, []), list[_Found]()
        whole = self._passages.plain()
        tried = walk(
            whole, power, self._verdicts, variant=str(variant), tally=tally, seen=set()
        )  # fmt: skip
        for state, verdict in tried:
            if isinstance(verdict, Recovered):
                bases.append(_Base(f"{state.point}+{state.choice}", verdict.rule, state))
                continue
            found.append(_Found(variant, whole, power, state, verdict))
            if self._plan.stop_at_first:
                tally.exhaustive = False
                break
        return found

    def _struck(self, variant: Variant, tally: Tally) -> list[_Found]:
        """What goes on after a crash, a kill or a failure; each of those once."""
        power, seen = self._power(variant), set[tuple[str, Told]]()
        places, found = self._places(variant, power), list[_Found]()
        chosen, enough = self._sample(variant, list(places)), self._efforts[variant.kind].enough
        tally.exhaustive = len(chosen) == len(places)
        for place in chosen:
            if self._plan.stop_at_first and (found or tally.violations):
                tally.exhaustive = False
                break
            if tally.distinct >= enough:
                tally.exhaustive = False
                break
            at = replace(variant, at=place)
            try:
                made = self._passage(at, places[place])
            except Violation as violation:
                tally.book(self._of_job(at), violation)
                continue
            found += self._walked(at, made, power, tally, seen)
        return found

    def _walked(
        self,
        variant: Variant,
        made: Passage,
        power: Power,
        tally: Tally,
        seen: set[tuple[str, Told]],
    ) -> list[_Found]:
        found = []
        effort = self._efforts[variant.kind]
        tried = walk(
            made,
            power,
            self._verdicts,
            variant=str(variant),
            tally=tally,
            seen=seen,
            settles=effort.settles,
            stride=effort.stride,
        )
        for state, verdict in tried:
            if isinstance(verdict, Violation):
                found.append(_Found(variant, made, power, state, verdict))
                if self._plan.stop_at_first:
                    tally.exhaustive = False
                    break
            if tally.distinct >= 2 * effort.enough:
                tally.exhaustive = False
                break
        return found

    # --- which passages ----------------------------------------------------------------------

    def _power(self, variant: Variant) -> Power:
        effort = self._efforts[variant.kind]
        depth: Depth = "whole" if variant.kind == "plain" else "short"
        return Power(variant.model, effort.tearing, effort.extent, depth, self._plan.seed)

    def _places(self, variant: Variant, power: Power) -> dict[str, _Base | None]:
        """Where it may strike, in order; of a recovery, the state that it recovers."""
        if variant.kind == "killed":
            return dict.fromkeys(self._passages.cuts(power))
        if variant.kind == "failed":
            return dict.fromkeys(self._passages.failing())
        if variant.model.name not in self._bases:
            self.tally(Variant("plain", variant.model))
        return {base.name: base for base in self._bases[variant.model.name]}

    def _sample(self, variant: Variant, places: list[str]) -> list[str]:
        """Some of them, by the seed; one of each kind of base before a second of any."""
        # The same under every model: then most of their states are judged only once.
        bits = random.Random(f"{self._plan.seed} {self._workload.name} {variant.kind}")
        drawn = bits.sample(places, len(places))
        if variant.kind == "nested":
            rules = {base.name: base.rule for base in self._bases[variant.model.name]}
            counts, ranks = Counter[str](), dict[str, int]()
            for place in drawn:
                counts[rules[place]] += 1
                ranks[place] = counts[rules[place]]
            drawn.sort(key=ranks.__getitem__)
        return drawn[: self._efforts[variant.kind].passages]

    def _passage(self, variant: Variant, base: _Base | None) -> Passage:
        if base is not None:
            return self._passages.nested(base.state.tree, base.state.told)
        return passage_of(self._passages, variant)

    # --- what is shown -----------------------------------------------------------------------

    def _of_job(self, variant: Variant) -> StateId:
        """The job itself found what was wrong, before power was lost."""
        point = int(variant.at.partition("+")[0])
        return StateId("L3", self._workload.name, str(variant), point, JOB)

    def _shown(self, found: list[_Found]) -> list[Counterexample]:
        """Every violation; the first of each judgement as small as it can be made."""
        first = dict[Oracle, _Found]()
        for one in sorted(found, key=lambda one: len(one.state.lost)):
            first.setdefault(one.violation.oracle, one)
        shown = list[_Found]()
        for one in first.values():
            small = self._smallest(one)
            if all(small.identity != other.identity for other in found):
                found = [other for other in found if other is not one]
            shown.append(small)
        known = {one.identity for one in shown}
        shown += [one for one in found if one.identity not in known]
        return [
            Counterexample(
                one.state.id(self._workload.name, str(one.variant)),
                one.violation.oracle,
                one.violation.expected,
                one.violation.got,
            )
            for one in shown
        ]

    def _smallest(self, found: _Found) -> _Found:
        power, unread = found.power, self._workload.unread

        def judged(moment: Moment, lost: Lost) -> tuple[State, Violation | None]:
            state = state_of(moment, lost, power, unread=unread)
            verdict = self._verdicts.of(state, power.depth)
            return state, verdict if isinstance(verdict, Violation) else None

        points = passage.moments(found.passage, power.cache(found.passage, self._workload))
        state, violation = minimise(found.state, found.violation, moments=points, judged=judged)
        return replace(found, state=state, violation=violation)


class Powerless:
    """Power is lost at every point of a job."""

    name: Final[LevelName] = "L3"

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """A tally for each persistence model, and for each way of striking before.

        Raises:
            BadWorkloadError: The workload cannot be tested.
        """
        check_testable(workload)
        return _Run(workload, plan).tallies()

    def tally(self, workload: Workload, variant: str, plan: Plan) -> Tally:
        """The tally of one variant alone, ``killed-weak`` for example.

        Raises:
            BadWorkloadError: The workload cannot be tested.
            BadStateIdError: There is no such variant.
        """
        check_testable(workload)
        return _Run(workload, plan).tally(Variant.of_tally(variant))

    def case(self, workload: Workload, state: StateId) -> Case:
        """Build one state again.

        Raises:
            BadStateIdError: The workload does not come through such a state (any more).
        """
        return power_case.build(Passages(workload), state)

    def replay(self, case: Case) -> Recovered:
        """Judge that state again.

        Raises:
            Violation: What was promised does not hold.
        """
        variant = Variant.parse(case.id.variant)
        if case.id.choice == JOB:
            passage_of(Passages(case.workload), variant)
        depth: Depth = "whole" if variant.kind == "plain" else "short"
        return judge(case.workload, case.tree, case.told, depth=depth)


LEVEL: Final = Powerless()
"""L3."""
