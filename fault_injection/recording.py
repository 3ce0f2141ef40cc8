"""One run of a job without a crash, call by call, and what the world knew at each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fault_injection.machine import Machine, MemoryMachine
from fault_injection.memory.calls import Call, Hook
from fault_injection.memory.disk import Disk, Tree
from fault_injection.memory.operations import Operation
from fault_injection.workload import BadWorkloadError, Workload
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
    """What lies there before the job, and what the world knows of it."""
    machine = MemoryMachine(seed="before")
    world = World()
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
    """
    base, told = prepared(workload)
    return record_on(base, told, workload.run, hook=hook, seed="run")


def record_on(
    base: Tree, told: Told, work: Work, *, hook: Hook | None = None, seed: str
) -> Recording:
    """Run ``work`` once on a disk that holds ``base``, all of it durable."""
    machine = MemoryMachine(base, seed=seed, hook=hook)
    world = World(told, calls=lambda: len(machine.calls))
    error: LastgoodError | None = None
    try:
        work(machine, world)
    except LastgoodError as raised:
        error = raised
    finally:
        machine.end()
    return Recording(base, machine.calls, world, error)


def check_testable(workload: Workload) -> Recording:
    """Record the job, and return that if it can be tested.

    Raises:
        BadWorkloadError: Two runs make other calls, nothing is acknowledged, or it fails by itself.
    """
    first, second = record(workload), record(workload)
    if first.error is not None:
        raise BadWorkloadError(f"{workload.name} fails without a fault: {first.error}")
    if not first.calls:
        raise BadWorkloadError(
            f"{workload.name} makes no call of a process of its machine: give your store what "
            "machine.process() returns in place of os"
        )
    for one, other in zip(first.calls, second.calls, strict=False):
        if (one.name, one.what, one.operations) != (other.name, other.what, other.operations):
            raise BadWorkloadError(
                f"{workload.name} is not deterministic: call {one.number} was "
                f"{one.name} {one.what}, then {_differing(one, other)}"
            )
    if len(first.calls) != len(second.calls):
        raise BadWorkloadError(
            f"{workload.name} is not deterministic: {len(first.calls)} calls, then "
            f"{len(second.calls)}"
        )
    before = len(first.world.marks[0].told.names("acknowledged"))
    if len(first.world.told.names("acknowledged")) == before:
        raise BadWorkloadError(f"{workload.name} acknowledges nothing, so there is nothing to keep")
    return first


def _differing(one: Call, other: Call) -> str:
    if (one.name, one.what) == (other.name, other.what):
        return "the same call with other bytes"
    return f"{other.name} {other.what}"
