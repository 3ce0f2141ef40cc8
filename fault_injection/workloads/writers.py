"""Two owners at once, because locks exclude nobody (F13): the first must learn that it is fenced.

What the first owner asks for after the second took the session is a ``late`` act: it may be
refused or left open, and must be neither acknowledged nor found.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from fault_injection.machine import Machine
from fault_injection.workloads import checkpoints, shelf
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.workloads.sessions import Sessions, begun
from fault_injection.workloads.systems import unlocked
from fault_injection.world import World
from lastgood.errors import ConflictError, FencedError

_FENCED: Final = (FencedError, ConflictError)


def _saves(machine: Machine, world: World) -> None:
    with checkpoints.opened(machine, system=unlocked(machine)) as first:
        checkpoints.save(first, world, 30)
        with checkpoints.opened(machine, system=unlocked(machine)) as second:
            checkpoints.save(second, world, 40)
            with suppress(*_FENCED):
                checkpoints.save(first, world, 50, kind=shelf.LATE)
            checkpoints.save(second, world, 60)


def _appends(machine: Machine, world: World) -> None:
    with shelf.opened(machine, system=unlocked(machine)) as first:
        shelf.append(first, world, "c")
        with shelf.opened(machine, system=unlocked(machine)) as second:
            shelf.append(second, world, "d")
            with suppress(*_FENCED):
                shelf.append(first, world, "e", kind=shelf.LATE)
            shelf.save(second, world)


WORKLOADS: Final = (
    Checkpoints("writers", before=(10, 20), work=_saves),
    Sessions("writers-log", before=begun, work=_appends),
)
