"""L1: every call of a job fails in every way, and what the job did about it is judged.

Each run is struck once, in one of the ways of ``strikes``. Judged of it: how the job ended (an
error that people can act on, no descriptor left, O10), what it left on the disk, and what becomes
of that when a fresh process recovers and goes on. No power is lost here, and nobody is killed.

The exhaustive budget strikes every call in every way, and so does ``ci`` where those are few. A
sample strikes every call that changes something with EIO, with EIO although it took effect, and, if
it is a write, short; at the others, and in the other ways, which take turns, it strikes as many as
a number of calls allows, chosen by the seed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fault_injection.faults import strikes
from fault_injection.faults.strikes import FAULTS, Ended, Fault
from fault_injection.judgement import judge
from fault_injection.level import Case, Plan, Tally
from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Tree
from fault_injection.recording import Recording, check_testable, prepared
from fault_injection.state_id import BadStateIdError, LevelName, StateId
from fault_injection.this_process import processor_s
from fault_injection.workload import Recovered, Violation, Workload
from fault_injection.world import Told

_CLEAN: Final = "clean"
_IN_EVERY_SAMPLE: Final = ("EIO-once", "after-once", "short-once")
_ALWAYS: Final = tuple(fault for fault in FAULTS if str(fault) in _IN_EVERY_SAMPLE)
_CALLS_IN_CI: Final = 300_000
"""Of all struck runs of one job together; some seconds."""
_FEW_POINTS: Final = 2_000
"""Of all faults together: so many are struck in every budget."""


_State = tuple[str, Told, str]
"""A disk, what the world knew, and which promise was broken."""


@dataclass(slots=True)
class _Bench:
    """One workload, what it begins with, and what was judged already."""

    workload: Workload
    base: Tree
    told: Told
    clean: Recording
    verdicts: dict[tuple[str, Told], Recovered | Violation] = field(default_factory=dict)

    def run(self, fault: Fault | None, point: int) -> Ended:
        """The job, struck at call number ``point``."""
        hook = None if fault is None else fault.hook(point, self.clean.calls[point].name)
        return strikes.run(
            self.workload.run,
            self.base,
            self.told,
            seed="run",
            hook=hook,
            usual=len(self.clean.calls),
        )

    def tried(self, fault: Fault | None, point: int) -> tuple[_State, Recovered | Violation]:
        """The state that one strike leads to, and what is thought of it and of the run."""
        ended = self.run(fault, point)
        disk, told = self.key(ended), ended.recording.world.told
        try:
            ended.check(unread=self.workload.unread)
            return (disk, told, ""), self.judge(ended)
        except Violation as found:
            return (disk, told, f"{found.oracle} {found.expected}"), found

    def judge(self, ended: Ended) -> Recovered:
        """What it left, once for each disk and each knowledge of the world."""
        told = ended.recording.world.told
        key = (self.key(ended), told)
        if key not in self.verdicts:
            try:
                self.verdicts[key] = _judge(self.workload, ended.tree, told, self.clean)
            except Violation as violation:
                self.verdicts[key] = violation
        verdict = self.verdicts[key]
        if isinstance(verdict, Violation):
            raise verdict
        return verdict

    def key(self, ended: Ended) -> str:
        """Identity of what is on the disk."""
        return ended.tree.digest(unread=self.workload.unread)


class Faults:
    """Level 1."""

    name: LevelName = "L1"

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """Strike the job; the first tally is of the run that nothing strikes.

        If that breaks a promise, it is the last: every other would say the same again.

        Raises:
            BadWorkloadError: The workload cannot be tested.
        """
        bench = _bench(workload)
        clean = _tally(bench, None, [len(bench.clean.calls)], plan, exhaustive=True)
        clean.exhaustive = not clean.violations
        yield clean
        if clean.violations:
            return
        for fault, points in self.points(bench.clean.calls, plan).items():
            all_points = [call.number for call in bench.clean.calls if fault.strikes(call)]
            yield _tally(bench, fault, points, plan, exhaustive=points == all_points)

    def points(self, calls: Sequence[Call], plan: Plan) -> dict[Fault, list[int]]:
        """Which of the calls of a job are struck, by fault."""
        chosen = [(fault, call) for call in calls for fault in FAULTS if fault.strikes(call)]
        if plan.budget == "ci" and len(chosen) > _FEW_POINTS:
            chosen = list(_sampled(calls, plan.seed))
        points: dict[Fault, list[int]] = {fault: [] for fault in FAULTS}
        for fault, call in chosen:
            points[fault].append(call.number)
        return {fault: sorted(struck) for fault, struck in points.items()}

    def case(self, workload: Workload, state: StateId) -> Case:
        """Run the job again, struck as ``state`` says."""
        bench = _bench(workload)
        fault = _fault(bench, state)
        ended = bench.run(fault, state.point)
        calls = ended.recording.calls
        return Case(
            id=state,
            workload=workload,
            title=_title(fault, calls, state.point),
            tree=ended.tree,
            told=ended.recording.world.told,
            calls=calls,
            fates={
                call.number: call.injected or "persisted"
                for call in calls
                if call.injected or call.operations
            },
            marks=tuple(ended.recording.world.marks),
        )

    def replay(self, case: Case) -> Recovered:
        """Run it once more, and judge the run and what it left."""
        bench = _bench(case.workload)
        ended = bench.run(_fault(bench, case.id), case.id.point)
        ended.check(unread=case.workload.unread)
        return bench.judge(ended)


LEVEL = Faults()


def _bench(workload: Workload) -> _Bench:
    clean = check_testable(workload)
    return _Bench(workload, *prepared(workload), clean)


def _fault(bench: _Bench, state: StateId) -> Fault | None:
    """What ``state`` names, if the workload comes through it.

    Raises:
        BadStateIdError: It does not.
    """
    calls = bench.clean.calls
    if state.variant == _CLEAN and (state.point, state.choice) == (len(calls), "end"):
        return None
    for fault in FAULTS:
        if str(fault) != state.variant:
            continue
        if state.point < len(calls):
            call = calls[state.point]
            if call.name == state.choice and fault.strikes(call):
                return fault
    raise BadStateIdError(f"{state} does not come about: the job makes no such call any more")


def _sampled(calls: Sequence[Call], seed: int) -> Iterator[tuple[Fault, Call]]:
    """What every change can wait for: all changing calls, and of the others what time allows."""
    changes = [call for call in calls if call.changes]
    always = [(fault, call) for call in changes for fault in _ALWAYS if fault.strikes(call)]
    perhaps = [(_ALWAYS[0], call) for call in calls if not call.changes]
    for call in calls:
        turn = [fault for fault in FAULTS if fault not in _ALWAYS and fault.strikes(call)]
        perhaps.append((turn[(7 * call.number + seed) % len(turn)], call))

    def order(chosen: tuple[Fault, Call]) -> bytes:
        fault, call = chosen
        return hashlib.blake2b(f"{seed} {fault} {call.number}".encode(), digest_size=8).digest()

    yield from always
    yield from sorted(perhaps, key=order)[: max(0, _CALLS_IN_CI // len(calls) - len(always))]


def _tally(
    bench: _Bench, fault: Fault | None, points: Sequence[int], plan: Plan, *, exhaustive: bool
) -> Tally:
    began = processor_s()
    variant = _CLEAN if fault is None else str(fault)
    tally = Tally(
        level="L1", workload=bench.workload.name, variant=variant, exhaustive=exhaustive
    )  # fmt: skip
    seen: set[_State] = set()
    for point in points:
        tally.points += 1
        tally.raw += 1
        state, verdict = bench.tried(fault, point)
        if state in seen:
            continue
        seen.add(state)
        choice = "end" if fault is None else bench.clean.calls[point].name
        tally.book(StateId("L1", bench.workload.name, variant, point, choice), verdict)
        if plan.stop_at_first and tally.violations:
            tally.exhaustive = False
            break
    tally.seconds = processor_s() - began
    return tally


def _judge(workload: Workload, tree: Tree, told: Told, clean: Recording) -> Recovered:
    """The disk as a job left it; then a fresh process goes on with it, and that is judged again.

    Raises:
        Violation: Something that was promised does not hold.
    """
    recovered = judge(workload, tree, told, depth="whole")
    ended = strikes.run(workload.go_on, tree, told, seed="on", hook=None, usual=len(clean.calls))
    if ended.recording.error is not None:
        raise Violation("O9", expected="a fresh process goes on", got=f"{ended.recording.error}")
    ended.check(unread=workload.unread)
    judge(workload, ended.tree, ended.recording.world.told, depth="short", seed="further")
    return recovered


def _title(fault: Fault | None, calls: Sequence[Call], point: int) -> str:
    if fault is None:
        return "nothing strikes"
    lasting = {"once": "once", "ever": "and at every later one", "disk": "and all later changes"}
    call = calls[point]
    return f"{fault.kind} at call {point} ({call.name} {call.what}), {lasting[fault.lasting]}"
