"""L5: every byte and every file of a session is changed, and the session is opened again.

Method. The job runs once. Of the tree that it leaves, and of those of its quiet instants, the
changed trees of ``tampering`` that ``thinning`` chooses are made and read, each once, by a process
of its own; another opens it for writing, but of changes of bytes only one in a few
(``_WHOLE_EACH``). ``judgement`` says what must be true of each. A tally is exhaustive if every
change of its kind was made and read, and every subset of files; owned is, of changes of bytes, a
sample in every budget.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fault_injection.damage.files import leaf
from fault_injection.damage.history import History, history_of
from fault_injection.damage.judgement import judge, touched
from fault_injection.damage.tampering import (
    BYTE_KINDS,
    KINDS,
    Tamperer,
    Tampering,
    TamperKind,
    Thinning,
)
from fault_injection.judgement import Depth
from fault_injection.level import Case, Plan, Tally
from fault_injection.memory.calls import Call
from fault_injection.state_id import BadStateIdError, LevelName, StateId
from fault_injection.this_process import processor_s
from fault_injection.workload import Recovered, Violation, Workload

_DIGITS: Final = 12
_WHOLE_EACH: Final = {"ci": 6, "exhaustive": 16}
"""Of so many changes of bytes, one is owned as well, and checked although it stops a load."""
_CI: Final = Thinning(3, 3, 32)
_SOME: Final = Thinning(16, 16)
_EVERY: Final = Thinning(None, 16)
_SMALL_BYTES: Final = 5120
"""A store of no more bytes is changed at every place in every way."""


def thinning(kind: TamperKind, plan: Plan, history: History) -> Thinning:
    """How much of a kind is tried; ``exhaustive`` flips every byte of files up to 1,600 bytes."""
    few = _CI if plan.budget == "ci" else _SOME
    is_small = Tamperer(history).size_bytes <= _SMALL_BYTES
    if plan.budget == "exhaustive" and (kind == "flip" or is_small):
        few = _EVERY
    return replace(few, seed=f"{plan.seed} {history.workload.name}")


class Damage:
    """Level 5."""

    name: LevelName = "L5"

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """Every kind of change; a tally each.

        Raises:
            NotRunError: It leaves no session.
            BadWorkloadError: The workload cannot be tested.
        """
        history = history_of(workload)
        for kind in KINDS:
            yield self._tally(history, kind, plan)

    def case(self, workload: Workload, state: StateId) -> Case:
        """Build one changed tree again.

        Raises:
            BadStateIdError: There is no such change of this workload's session (any more).
        """
        history = history_of(workload)
        tampering = self._find(history, state)
        calls = history.recording.calls[: tampering.base.calls]
        return Case(
            id=state,
            workload=workload,
            title=f"{touched(tampering)} (kind {tampering.kind}), after call "
            f"{tampering.base.calls}",
            tree=tampering.tree,
            told=tampering.base.told,
            calls=calls,
            fates=_fates(tampering, calls),
            must_stop=_must_stop(tampering, history),
            marks=tuple(history.recording.world.marks),
        )

    def replay(self, case: Case) -> Recovered:
        """Judge that tree again.

        Raises:
            Violation: A promise does not hold.
        """
        history = history_of(case.workload)
        return judge(self._find(history, case.id), history)

    def _find(self, history: History, state: StateId) -> Tampering:
        for kind in KINDS:
            if kind == state.variant:
                for tampering in Tamperer(history).tamperings(kind):
                    if (
                        tampering.point == state.point
                        and _digest(tampering, history) == state.choice
                    ):
                        return tampering
        raise BadStateIdError(f"no change by hand of {state.workload} is named {state}")

    def _tally(self, history: History, kind: TamperKind, plan: Plan) -> Tally:
        began_s = processor_s()
        few = thinning(kind, plan, history)
        tamperer = Tamperer(history)
        tally = Tally(level=self.name, workload=history.workload.name, variant=kind)
        tally.exhaustive = tamperer.is_all(kind, few)
        seen: set[tuple[int, str]] = set()
        points: set[int] = set()
        for tampering in tamperer.tamperings(kind, few):
            points.add(tampering.point)
            tally.raw += 1
            digest = _digest(tampering, history)
            if (tampering.base.number, digest) in seen:
                continue
            seen.add((tampering.base.number, digest))
            is_short = kind in BYTE_KINDS and tally.distinct % _WHOLE_EACH[plan.budget]
            state = StateId("L5", tally.workload, kind, tampering.point, digest)
            tally.book(state, _judged(tampering, history, "short" if is_short else "whole"))
            if plan.stop_at_first and tally.violations:
                tally.exhaustive = False
                break
        tally.points = len(points)
        tally.seconds = processor_s() - began_s
        return tally


def _judged(tampering: Tampering, history: History, depth: Depth) -> Recovered | Violation:
    try:
        return judge(tampering, history, depth=depth)
    except Violation as violation:
        return violation


def _fates(tampering: Tampering, calls: list[Call]) -> dict[int, str]:
    """Of the call that last gave a changed file its name or its bytes: what became of that."""
    fates = {}
    for path, node in sorted(tampering.edits.items()):
        made = [call.number for call in calls if call.path == path and call.changes]
        if made:
            fates[made[-1]] = "GONE by hand" if node is None else f"CHANGED by hand: {leaf(path)}"
    return fates


def _must_stop(tampering: Tampering, history: History) -> bool:
    """Whether nothing but a stop is right: neither the newest state nor an overlap's comes back."""
    verdict = _judged(tampering, history, "whole")
    return isinstance(verdict, Violation) or verdict.rule.startswith("stops")


def _digest(tampering: Tampering, history: History) -> str:
    """The lock's text has the number of this very process in it."""
    return tampering.tree.digest(unread=history.workload.unread)[:_DIGITS]


LEVEL: Final = Damage()
"""This level."""
