"""Two owners at once, because locks exclude nobody (F13): the first must learn that it is fenced.

What the first owner asks for after the second took the session is a ``late`` act: it may be
refused or left open, and must be neither acknowledged nor found.

=====================  ==================================================================
``writers``            the second owner takes the session between two saves of the first
``writers-overtaken``  … between S4 and S6 of a save, whose checkpoint it goes on from
``writers-log``        … between an append's look at its ownership and its write, which
                       then lands in a segment that nobody believes any more
=====================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from fault_injection.machine import Machine
from fault_injection.workloads import checkpoints, shelf
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.workloads.sessions import Sessions, begun
from fault_injection.workloads.systems import unlocked, watched
from fault_injection.world import World
from lastgood.errors import ConflictError, FencedError, LastgoodError

_FENCED: Final = (FencedError, ConflictError)


class _Second:
    """What another owner does while the first is paused inside a call.

    Its errors are its own, and are raised when the first owner's call is over.

    Args:
        work: What it does.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._error: LastgoodError | None = None

    def __call__(self, name: str, args: tuple[Any, ...]) -> None:
        try:
            self._work()
        except LastgoodError as error:
            self._error = error

    def check(self) -> None:
        """Raise what it met.

        Raises:
            LastgoodError: It did not come to its end, so that nobody need be fenced.
        """
        if self._error is not None:
            raise self._error


def _saves(machine: Machine, world: World) -> None:
    with checkpoints.opened(machine, system=unlocked(machine)) as first:
        checkpoints.save(first, world, 30)
        with checkpoints.opened(machine, system=unlocked(machine)) as second:
            checkpoints.save(second, world, 40)
            with suppress(*_FENCED):
                checkpoints.save(first, world, 50, kind=shelf.LATE)
            checkpoints.save(second, world, 60)


def _overtaken(machine: Machine, world: World) -> None:
    def work() -> None:
        with checkpoints.opened(machine, system=unlocked(machine)) as second:
            checkpoints.save(second, world, 40)

    watch, system = watched(unlocked(machine))
    meanwhile = _Second(work)
    with checkpoints.opened(machine, system=system) as first:
        watch.at("link .manifest", meanwhile)
        with suppress(*_FENCED):
            checkpoints.save(first, world, 30)
        meanwhile.check()
        with suppress(*_FENCED):
            checkpoints.save(first, world, 50, kind=shelf.LATE)


def _appends(machine: Machine, world: World) -> None:
    def work() -> None:
        with shelf.opened(machine, system=unlocked(machine)) as second:
            shelf.append(second, world, "d")
            shelf.save(second, world)

    watch, system = watched(unlocked(machine))
    meanwhile = _Second(work)
    with shelf.opened(machine, system=system) as first:
        watch.at("pwrite", meanwhile)
        with suppress(*_FENCED):
            shelf.append(first, world, "c")
        meanwhile.check()
        with suppress(*_FENCED):
            shelf.append(first, world, "e", kind=shelf.LATE)


WORKLOADS: Final = (
    Checkpoints("writers", before=(10, 20), work=_saves),
    Checkpoints("writers-overtaken", before=(10, 20), work=_overtaken),
    Sessions("writers-log", before=begun, work=_appends),
)
