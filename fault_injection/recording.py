"""One run of a job without a crash, call by call, and what the world knew at each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from fault_injection.failure import one_line, place
from fault_injection.limit import Overdue, limited
from fault_injection.machine import Machine, MemoryMachine
from fault_injection.memory.calls import Call, Hook
from fault_injection.memory.disk import Disk, Tree
from fault_injection.memory.operations import Operation
from fault_injection.workload import BadWorkloadError, Recovered, Violation, Workload
from fault_injection.world import Told, World
from lastgood.errors import LastgoodError

Work = Callable[[Machine, World], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """What a run did.

    Attributes:
        base: What was on the disk before, all of it durable.
        calls: Every call, of every process, in order.
        world: What was told, and when.
        error: What escaped the job at its end.
    """

    base: Tree
    calls: list[Call]
    world: World
    error: LastgoodError | None = None

    def told_after(self, calls: int) -> Told:
        """What the world knew once ``calls`` calls had returned."""
        return self.world.at(calls)

    def operations(self) -> Iterator[tuple[int, Operation]]:
        """Every operation with the number of its call."""
        for call in self.calls:
            for operation in call.operations:
                yield call.number, operation

    def seen_after(self, calls: int) -> Tree:
        """What processes saw once ``calls`` calls had returned: what a kill leaves."""
        disk = Disk(self.base)
        for call in self.calls[:calls]:
            for operation in call.operations:
                disk.apply(operation)
        return disk.tree()


def prepared(workload: Workload) -> tuple[Tree, Told]:
    """What lies there before the job, and what the world knows of it.

    Raises:
        Overdue: It cannot be made.
    """
    machine = MemoryMachine(seed="before")
    world = World()
    with limited():
        workload.prepare(machine, world)
    machine.end()
    return machine.disk.tree(), world.told


def record(workload: Workload, *, hook: Hook | None = None) -> Recording:
    """Run the job once.

    Args:
        workload: The job.
        hook: Asked before each call; may let it fail.

    Raises:
        Killed: The hook killed the process.
        Overdue: It took too long.
    """
    base, told = prepared(workload)
    return record_on(base, told, workload.run, hook=hook, seed="run")


def record_on(
    base: Tree, told: Told, work: Work, *, hook: Hook | None = None, seed: str
) -> Recording:
    """Run ``work`` once on a disk that holds ``base``, all of it durable.

    Raises:
        Killed: The hook killed the process.
        Overdue: It took too long.
    """
    machine = MemoryMachine(base, seed=seed, hook=hook)
    world = World(told, calls=lambda: len(machine.calls))
    error: LastgoodError | None = None
    try:
        with limited():
            work(machine, world)
    except LastgoodError as raised:
        error = raised
    finally:
        machine.end()
    return Recording(base, machine.calls, world, error)


def check_testable(workload: Workload) -> Recording:
    """Record the job, and return that if it can be tested.

    What is left without a fault is recovered, gone on with and judged, too, for mistakes of the
    workload. That the code under test breaks its word there is no such mistake, and is not told.

    Raises:
        BadWorkloadError: Two runs make other calls, nothing is acknowledged, or it fails or hangs
            by itself.
    """
    with _mistakes(workload, findings=()):
        first, second = record(workload), record(workload)
    if first.error is not None:
        raise BadWorkloadError(f"{workload.name} fails without a fault: {first.error}")
    if not first.calls:
        raise BadWorkloadError(
            f"{workload.name} makes no call of a process of its machine: give your store what "
            "machine.process() returns in place of os"
        )
    _check_same(workload, first.calls, second.calls)
    if not _acknowledged(first):
        raise BadWorkloadError(f"{workload.name} acknowledges nothing, so there is nothing to keep")
    findings = (Violation, LastgoodError, OSError)
    with suppress(*findings), _mistakes(workload, findings=findings):
        _check_judges(workload, first)
    return first


def _check_same(workload: Workload, first: list[Call], second: list[Call]) -> None:
    for one, other in zip(first, second, strict=False):
        if (one.name, one.what, one.operations) != (other.name, other.what, other.operations):
            raise BadWorkloadError(
                f"{workload.name} is not deterministic: call {one.number} was "
                f"{one.name} {one.what}, then {_differing(one, other)}"
            )
    if len(first) != len(second):
        raise BadWorkloadError(
            f"{workload.name} is not deterministic: {len(first)} calls, then {len(second)}"
        )


def _check_judges(workload: Workload, clean: Recording) -> None:
    """Judge what the job left, go on with it, and judge that."""
    left, told = clean.seen_after(len(clean.calls)), clean.world.told
    with limited():
        found: object = workload.judge(MemoryMachine(left, seed="judge"), told, depth="whole")
    if not isinstance(found, Recovered):
        raise BadWorkloadError(
            f"{workload.name}: its judge returns {type(found).__name__}, not Recovered"
        )
    on = record_on(left, told, workload.go_on, seed="on")
    if on.error is not None:
        raise on.error
    if not _acknowledged(on):
        raise BadWorkloadError(
            f"{workload.name}: its go_on acknowledges nothing, so that it shows nothing of a store "
            "that goes on"
        )
    with limited():
        further = MemoryMachine(on.seen_after(len(on.calls)), seed="further")
        workload.judge(further, on.world.told, depth="short")


def _acknowledged(recording: Recording) -> list[str]:
    """Acts that were begun and acknowledged in a recording."""
    before = recording.world.marks[0].told.names()
    return [name for name in recording.world.told.names("acknowledged") if name not in before]


@contextmanager
def _mistakes(workload: Workload, *, findings: tuple[type[Exception], ...]) -> Iterator[None]:
    """What is raised without a fault, but for ``findings``, is the workload's own mistake."""
    passed: tuple[type[Exception], ...] = (BadWorkloadError, *findings)
    try:
        yield
    except passed:
        raise
    except Overdue as error:
        raise BadWorkloadError(f"{workload.name} {error}") from error
    except Exception as error:
        own = sys.modules.get(type(workload).__module__)
        where = place(error, within=getattr(own, "__file__", None))
        raise BadWorkloadError(
            f"{workload.name} fails without a fault, at {where}: {one_line(error)}"
        ) from error


def _differing(one: Call, other: Call) -> str:
    if (one.name, one.what) == (other.name, other.what):
        return "the same call with other bytes"
    return f"{other.name} {other.what}"
