"""A disk that a fault left, recovered in memory and judged, whatever comes of it."""

from __future__ import annotations

from typing import Literal

from fault_injection.failure import one_line
from fault_injection.limit import Overdue, limited
from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Tree
from fault_injection.workload import Recovered, Violation, Workload
from fault_injection.world import Told

Depth = Literal["whole", "short"]


def judge(
    workload: Workload, tree: Tree, told: Told, *, depth: Depth, seed: str = "judge"
) -> Recovered:
    """Recover ``tree``, and judge that.

    Raises:
        Violation: What was promised does not hold, or the recovery has no end.
    """
    machine = MemoryMachine(tree, seed=seed)
    try:
        with limited():
            return workload.judge(machine, told, depth=depth)
    except (Exception, Overdue) as error:
        raise violation_of(error) from error
    finally:
        machine.end()


def violation_of(error: Exception | Overdue) -> Violation:
    """What is broken where a recovery, or who goes on, ends in ``error``."""
    if isinstance(error, Violation):
        return error
    if isinstance(error, Overdue):
        return Violation("error", expected="an end of the job", got=f"it {error}")
    return Violation(
        "error",
        expected="a recovery that goes on, or an error that people can act on",
        got=one_line(error),
    )
