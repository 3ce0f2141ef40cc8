"""Jobs that do not give up: whatever an act raises, the same handle is asked for the next (F12).

After an error whose outcome is unknown a handle must take the session again before it writes, and
go on from what it acknowledged; power that is lost then must not show which of the two failed.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from fault_injection.machine import Machine
from fault_injection.workloads import checkpoints, shelf
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.workloads.sessions import Sessions, begun
from fault_injection.world import World
from lastgood.errors import LastgoodError


def _saves(machine: Machine, world: World) -> None:
    with checkpoints.opened(machine) as store:
        for sequence in (30, 40):
            with suppress(LastgoodError):
                checkpoints.save(store, world, sequence)


def _appends(machine: Machine, world: World) -> None:
    with shelf.opened(machine) as session:
        for item in ("c", "d"):
            with suppress(LastgoodError):
                shelf.append(session, world, item)


WORKLOADS: Final = (
    Checkpoints("insists", before=(10, 20), work=_saves),
    Sessions("insists-log", before=begun, work=_appends),
)
