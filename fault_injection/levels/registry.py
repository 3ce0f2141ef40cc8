"""What can be run: the levels that are built, and the workloads they are run with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fault_injection import workloads
from fault_injection.level import Level
from fault_injection.levels import damage, faults, kill, power
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.workload import Workload

WHAT: Final = {
    "L1": "fails each file-system call in each way, once or for ever",
    "L2": "kills a real process at each system call",
    "L3": "builds every disk that a persistence model permits after a loss of power",
    "L4": "replays recorded device writes into real file systems",
    "L5": "changes every byte and every file",
}
"""Every level of the fault model, and what it does."""

NOT_BUILT: Final = {
    "L4": "real file systems are not built yet; what is known of them is in the models of L3"
}
"""Levels that the fault model names and nobody can run."""


@dataclass(frozen=True, slots=True)
class Registry:
    """What can be run.

    Attributes:
        levels: In the order of their names.
        workloads: In the order in which reports show them.
    """

    levels: tuple[Level, ...]
    workloads: tuple[Workload, ...]

    def level(self, name: str) -> Level | None:
        """The level of that name."""
        return next((level for level in self.levels if level.name == name), None)

    def workload(self, name: str) -> Workload | None:
        """The workload of that name."""
        return next((workload for workload in self.workloads if workload.name == name), None)

    def of(self, state: StateId) -> tuple[Level, Workload]:
        """Who can build a state.

        Raises:
            BadStateIdError: There is no such level or workload here.
        """
        level, workload = self.level(state.level), self.workload(state.workload)
        if level is None:
            raise BadStateIdError(f"the state is of level {state.level}, which is not here")
        if workload is None:
            known = ", ".join(workload.name for workload in self.workloads)
            raise BadStateIdError(
                f"the state is of workload {state.workload}, which is not here; known are {known}"
            )
        return level, workload


def built() -> Registry:
    """Everything of this harness."""
    levels = (faults.LEVEL, kill.LEVEL, power.LEVEL, damage.LEVEL)
    return Registry(levels, workloads.WORKLOADS)


Build = Callable[[], Registry]
