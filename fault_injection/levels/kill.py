"""L2: a real process is struck at its system calls, and a fresh one recovers (F1, F5 to F9).

The job runs on real files, traced; at each of its calls about a file each fault of
``tracing.runs`` strikes once. What the world knows is what came through a pipe until its end. A
state is a disk, as its content alone, and what was told; each one is judged once, in a process
forked for that.

A death leaves what the kernel shows, so nothing is learnt here about what is durable: that is
L3's. What the kernel shows does not depend on the disk below, so a run keeps its files in main
memory where it can. A fault that is no death, a short write or an error, must leave a job that goes
on or ends with a typed error; any other exception, a hang or a process left behind is a violation
of ``error``.

In the budget ``ci`` each fault strikes a sample of the calls, unless they are few: most of it calls
that change what is visible, of errors also calls that flush it. Deaths before such calls are tried
most, because a death after one differs from them in what was told alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from fault_injection.level import Case, Plan, Tally
from fault_injection.memory.calls import Call, CallName
from fault_injection.memory.disk import Tree
from fault_injection.memory.paths import leaf
from fault_injection.state_id import BadStateIdError, LevelName, StateId
from fault_injection.this_process import processor_s
from fault_injection.tracing import driver
from fault_injection.tracing.bench import Bench, Trial
from fault_injection.tracing.runs import (
    KILLS,
    LIMIT_S,
    OF_WRITES,
    Fault,
    Run,
    Strike,
    TracedCall,
)
from fault_injection.tracing.syscalls import SYNCS, changes
from fault_injection.workload import Recovered, Violation, Workload

_NAMES: Final[dict[str, CallName]] = {
    "open": "open", "openat": "open", "openat2": "open", "creat": "open", "close": "close",
    "read": "read", "readv": "read", "pread64": "pread", "write": "write", "writev": "writev",
    "pwrite64": "pwrite", "fsync": "fsync", "fdatasync": "fdatasync", "fstat": "fstat",
    "stat": "stat", "lstat": "stat", "newfstatat": "stat", "statx": "stat", "fchmod": "fchmod",
    "ftruncate": "ftruncate", "link": "link", "linkat": "link", "rename": "rename",
    "renameat": "rename", "renameat2": "rename", "unlink": "unlink", "unlinkat": "unlink",
    "mkdir": "mkdir", "mkdirat": "mkdir", "getdents64": "listdir", "flock": "flock",
}  # fmt: skip
"""Of the kernel's calls those that the seam has, too."""
_CI: Final[dict[Fault, tuple[int, int]]] = {
    "kill-before": (32, 4),
    "kill-after": (16, 4),
    "kill-middle": (24, 0),
    "short-write": (24, 0),
}
_ERRORS_CI: Final = (6, 4)
"""In the budget ``ci``: of calls that change something, and of the others, so many."""


class Kill:
    """The level.

    Args:
        limit_s: What one run, or one judgement, may take before it counts as hanging.
    """

    name: LevelName = "L2"

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self._limit_s = limit_s

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """Strike the job at its calls; a tally a kind of fault.

        Raises:
            NotRunError: Nothing can be traced here.
            BadWorkloadError: The job cannot be tested.
        """
        tracer = driver()
        with Bench(workload, tracer, limit_s=self._limit_s) as bench:
            recorded = bench.recorded().run
            verdicts = _Verdicts(bench)
            for fault in tracer.faults:
                yield _tallied(bench, recorded, verdicts, fault, plan)

    def case(self, workload: Workload, state: StateId) -> Case:
        """Run the job once more into the same fault.

        Raises:
            BadStateIdError: There is no such fault, or no such call at that place.
            NotRunError: Nothing can be traced here.
            BadWorkloadError: The job cannot be tested.
        """
        tracer = driver()
        fault = next((fault for fault in tracer.faults if fault == state.variant), None)
        if fault is None:
            raise BadStateIdError(
                f"{state.variant!r} is no fault of L2 here; there are {', '.join(tracer.faults)}"
            )
        with Bench(workload, tracer, limit_s=self._limit_s) as bench:
            recorded = bench.recorded().run
            call = _named(recorded, state)
            if call not in _struck_by(fault, recorded.calls):
                raise BadStateIdError(f"{fault} does not strike call {state.point}, {call}")
            trial = bench.tried(Strike(call, fault))
        calls = [call_of(call, trial.run) for call in trial.run.calls]
        calls[call.number].injected = fault
        return Case(
            id=state,
            workload=workload,
            title=f"{_TITLES[fault]} call {call.number}: {_shown(call)}",
            tree=_blank(trial.tree, workload.unread),
            told=trial.told,
            calls=calls,
            fates=_fates(trial.run, call, fault),
            marks=trial.marks,
        )

    def replay(self, case: Case) -> Recovered:
        """Strike the job again, and judge the disk of ``case``.

        Raises:
            Violation: What was promised does not hold.
        """
        tracer = driver()
        with Bench(case.workload, tracer, limit_s=self._limit_s) as bench:
            recorded = bench.recorded().run
            fault = next(fault for fault in tracer.faults if fault == case.id.variant)
            bench.struck(Strike(_named(recorded, case.id), fault), recorded)
            return bench.judged(case.tree, case.told)


LEVEL: Final = Kill()
_TITLES: Final[dict[Fault, str]] = {
    "kill-before": "killed before",
    "kill-after": "killed after",
    "kill-middle": "killed in the middle of",
    "short-write": "a short write at",
    "failed-after": "done, and reported as EIO:",
    "EIO": "EIO at",
    "ENOSPC": "ENOSPC at",
    "EINTR": "EINTR at",
}


_FOLDERS: Final = re.compile(r"[^ ]*/")


class _Verdicts:
    """Judges each state once."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._known: dict[tuple[object, ...], Recovered | Violation] = {}

    def of(self, trial: Trial) -> tuple[tuple[object, ...], Recovered | Violation]:
        """The identity of a state, and what is thought of it."""
        digest = trial.tree.digest(unread=self._bench.workload.unread)
        state = (digest, trial.told)
        if state not in self._known:
            try:
                self._known[state] = self._bench.judged(trial.tree, trial.told)
            except Violation as found:
                self._known[state] = found
        return state, self._known[state]


def _tallied(bench: Bench, recorded: Run, verdicts: _Verdicts, fault: Fault, plan: Plan) -> Tally:
    begun = processor_s()
    struck = _struck_by(fault, recorded.calls)
    is_whole = plan.is_whole(len(recorded.calls))
    chosen = struck if is_whole else _sample(struck, fault, plan.seed)
    tally = Tally(
        level="L2",
        workload=bench.workload.name,
        variant=fault,
        points=len(chosen),
        exhaustive=len(chosen) == len(struck),
    )
    seen: set[object] = set()
    for call in chosen:
        state, verdict = _verdict(bench, recorded, verdicts, Strike(call, fault))
        tally.raw += 1
        if state in seen:
            continue
        seen.add(state)
        tally.book(StateId("L2", bench.workload.name, fault, call.number, call.name), verdict)
        if plan.stop_at_first and tally.violations:
            break
    tally.exhaustive = tally.exhaustive and tally.raw == len(chosen)
    tally.seconds = processor_s() - begun
    return tally


def _verdict(
    bench: Bench, recorded: Run, verdicts: _Verdicts, strike: Strike
) -> tuple[object, Recovered | Violation]:
    try:
        trial = bench.struck(strike, recorded)
    except Violation as found:
        return (found.oracle, found.got), found
    return verdicts.of(trial)


# --- which calls --------------------------------------------------------------------------


def _struck_by(fault: Fault, calls: Sequence[TracedCall]) -> list[TracedCall]:
    """The calls that a fault can strike: half of a write needs two bytes."""
    return [call for call in calls if fault not in OF_WRITES or call.size_bytes >= 2]


def _sample(calls: list[TracedCall], fault: Fault, seed: int) -> list[TracedCall]:
    synced = () if fault in KILLS else SYNCS
    changing = [call for call in calls if changes(call) or call.name in synced]
    others = [call for call in calls if call not in changing]
    most = _CI.get(fault, _ERRORS_CI)
    chosen = [*_spread(changing, most[0], seed), *_spread(others, most[1], seed)]
    return sorted(chosen, key=lambda call: call.number)


def _spread(calls: list[TracedCall], most: int, seed: int) -> list[TracedCall]:
    """At most so many, evenly, from a place that the seed decides."""
    if len(calls) <= most:
        return calls
    return [calls[(place * len(calls) // most + seed) % len(calls)] for place in range(most)]


def _named(recorded: Run, state: StateId) -> TracedCall:
    if state.point >= len(recorded.calls):
        raise BadStateIdError(f"{state}: the job makes {len(recorded.calls)} calls")
    call = recorded.calls[state.point]
    if call.name != state.choice:
        raise BadStateIdError(f"{state}: call {state.point} is {call.name}")
    return call


# --- one state ----------------------------------------------------------------------------


def call_of(traced: TracedCall, run: Run) -> Call:
    """A traced call as the seam would have it; what it changed is not known."""
    name = _NAMES.get(traced.name, "other")
    shown = _shown(traced)
    return Call(
        traced.number,
        1,
        name,
        shown if name == "other" else shown.partition(" ")[2],
        traced.path,
        creates=traced.creates,
        error=run.errors.get(traced.number, 0),
    )


def _shown(traced: TracedCall) -> str:
    """A call with the last parts of its paths, as the calls in memory are shown."""
    return _FOLDERS.sub("", str(traced))


def _blank(tree: Tree, unread: Collection[str]) -> Tree:
    """``tree`` without the bytes that nobody believes: they hold a process id, which differs."""
    blank = {inode for path, inode in tree.paths() if leaf(path) in unread}
    return Tree(
        {
            inode: replace(node, data=bytes(len(node.data)))
            if inode in blank and node.data is not None
            else node
            for inode, node in tree.nodes.items()
        }
    )


def _fates(run: Run, struck: TracedCall, fault: Fault) -> dict[int, str]:
    """What became of each call that changes something: a kernel that lives on keeps it all."""
    fates = {
        call.number: "persisted"
        for call in run.calls
        if changes(call) and not run.errors.get(call.number)
    }
    if not changes(struck):
        return fates
    half = f"torn: {struck.size_bytes // 2} of {struck.size_bytes} bytes"
    fates[struck.number] = {
        "kill-before": "LOST", "kill-after": "persisted", "kill-middle": half,
        "short-write": half, "failed-after": "persisted",
    }.get(fault, "LOST")  # fmt: skip
    return fates
