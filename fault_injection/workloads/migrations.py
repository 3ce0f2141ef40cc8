"""A job whose program has come to a new schema: its first opening migrates, its first save says so.

Whoever recovers is the new program, at every instant: before that save the state is of schema 1
and is migrated again, after it of schema 2.
"""

from __future__ import annotations

from typing import Final

from fault_injection.machine import Machine
from fault_injection.workloads import shelf
from fault_injection.workloads.sessions import Sessions, begun
from fault_injection.world import World


def _migrates(machine: Machine, world: World) -> None:
    with shelf.opened(machine, schema=2) as session:
        shelf.append(session, world, "c")
        shelf.save(session, world)
        shelf.append(session, world, "d")


WORKLOADS: Final = (Sessions("migrates", before=begun, work=_migrates, schema=2),)
