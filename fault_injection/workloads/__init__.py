"""The jobs of lastgood that every level is run with.

=====================  ===================================================================
``first``              the first save in a root that is missing, and its parent, too
``saves``              five saves by one owner, with what each prunes
``reopens``            an owner for each of two saves
``new-session``        a session with a log begins in a store that is missing
``appends``            events one by one and together; a batch that two segments share; saves
``resumes``            behind an owner that died within an append: a torn tail
``resumes-published``  behind an owner that died between S4 and S6 of a save
``repairs-rebuild``    the current checkpoint is damaged, and rebuilt from the log
``repairs-pointer``    the newest revision is damaged, and the one before it goes on
``migrates``           a program of a newer schema goes on with a session
``trims``              older segments of the log leave for an archive
``pays``               effects, done and left open, decided by a person, saves between them
``insists``            two saves by one handle, whatever the one before came to
``insists-log``        two appends by one handle, whatever the one before came to
``writers``            owners of checkpoints alone, whose locks exclude nobody
``writers-overtaken``  they come within S6 of each other's saves
``writers-opening``    one of them comes within the other's opening
``writers-log``        one of them comes between an append's look and its write
=====================  ===================================================================
"""

from __future__ import annotations

from typing import Final

from fault_injection.workload import Workload
from fault_injection.workloads import (
    checkpoints,
    insisting,
    migrations,
    pays,
    repairs,
    sessions,
    trims,
    writers,
)

WORKLOADS: Final[tuple[Workload, ...]] = (
    *checkpoints.WORKLOADS,
    *sessions.WORKLOADS,
    *repairs.WORKLOADS,
    *migrations.WORKLOADS,
    *trims.WORKLOADS,
    *pays.WORKLOADS,
    *insisting.WORKLOADS,
    *writers.WORKLOADS,
)


def find(name: str) -> Workload | None:
    """The workload of that name."""
    return next((workload for workload in WORKLOADS if workload.name == name), None)
