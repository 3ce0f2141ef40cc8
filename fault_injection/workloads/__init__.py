"""The jobs of lastgood that every level is run with."""

from __future__ import annotations

from typing import Final

from fault_injection.workload import Workload
from fault_injection.workloads import checkpoints, migrations, repairs, sessions, trims, writers

WORKLOADS: Final[tuple[Workload, ...]] = (
    *checkpoints.WORKLOADS,
    *sessions.WORKLOADS,
    *repairs.WORKLOADS,
    *migrations.WORKLOADS,
    *trims.WORKLOADS,
    *writers.WORKLOADS,
)


def find(name: str) -> Workload | None:
    """The workload of that name."""
    return next((workload for workload in WORKLOADS if workload.name == name), None)
