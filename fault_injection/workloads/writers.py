"""Several owners at once, because locks exclude nobody (F13): who is overtaken must learn it.

What an owner asks for after another one took the session is a ``late`` act: it may be refused or
left open, and must be neither acknowledged nor found. So is what it asked for before and has not
written by then (S4). What it has written may come to either end, and an overtaken owner must undo
nothing of what the others did while it was paused.

=====================  ==================================================================
``writers``            the second comes between S1 and S4 of a save, the third between S7 and
                       S9 of a save of the second
``writers-overtaken``  … between the look at the newest revision and the claim (S6), the third
                       between the claim and its confirmation
``writers-opening``    … between two steps of an opening that finishes an interrupted save
``writers-log``        … between an append's look at its ownership and its write, which
                       then lands in a segment that nobody believes any more
=====================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from typing import Final

from fault_injection.machine import Machine
from fault_injection.workloads import checkpoints, shelf
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.workloads.judging import FENCED, Aside
from fault_injection.workloads.sessions import Sessions, begun
from fault_injection.workloads.systems import Watched, doomed, killed, unlocked, watched
from fault_injection.world import World
from lastgood import CheckpointStore
from lastgood.errors import ConflictError, DurabilityUnknownError, FencedError, LastgoodError

_FENCED: Final = (FencedError, ConflictError)
_OVERTAKEN: Final = (*_FENCED, DurabilityUnknownError)
"""An overtaken owner cannot know what the others made of what it published."""


class _Others:
    """What other owners do while one is paused inside a call.

    Their errors are their own, and are raised when the call of the first one is over.

    Args:
        work: What they do.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self._work = work
        self._came = False
        self._error: LastgoodError | None = None

    def __call__(self, *_: object) -> None:
        if self._came:
            return
        self._came = True
        try:
            self._work()
        except LastgoodError as error:
            self._error = error

    def check(self) -> None:
        """They come now at the latest, and what they met is raised.

        Raises:
            LastgoodError: They did not come to their end, so that nobody need be fenced.
        """
        if not self._came:
            self()
        if self._error is not None:
            raise self._error


class _Owners:
    """Owners of checkpoints, one behind the other, until the job is over.

    Args:
        machine: Where.
        world: Is told of their acts.
        stack: Ends them.
    """

    def __init__(self, machine: Machine, world: World, stack: ExitStack) -> None:
        self._machine, self._world, self._stack = machine, world, stack
        self._owners: list[tuple[Watched, CheckpointStore]] = []

    def come(self) -> None:
        """One more takes the session."""
        watch, system = watched(unlocked(self._machine))
        opened = checkpoints.opened(self._machine, system=system)
        self._owners.append((watch, self._stack.enter_context(opened)))

    def save(self, sequence: int) -> None:
        """The newest one saves."""
        checkpoints.save(self._owners[-1][1], self._world, sequence)

    def save_overtaken(self, sequence: int, *calls: str, work: Callable[[], object]) -> None:
        """The newest one saves, while others work before the last of those calls."""
        watch, store = self._owners[-1]
        others = _Others(work)
        watch.at(*calls, action=others)
        with suppress(*_OVERTAKEN):
            checkpoints.save(store, self._world, sequence)
        others.check()

    def save_late(self, sequence: int) -> None:
        """The first one saves, behind the others."""
        with suppress(*_FENCED):
            checkpoints.save(self._owners[0][1], self._world, sequence, kind="late")


def _saves(machine: Machine, world: World) -> None:
    with ExitStack() as stack:
        owners = _Owners(machine, world, stack)

        def second() -> None:
            owners.come()
            world.turn("30", kind="late")
            owners.save_overtaken(40, "rename .manifest", "listdir", work=third)

        def third() -> None:
            owners.come()
            owners.save(50)

        owners.come()
        owners.save_overtaken(30, "open .checkpoint", work=second)
        owners.save_late(60)


def _overtaken(machine: Machine, world: World) -> None:
    with ExitStack() as stack:
        owners = _Owners(machine, world, stack)

        def second() -> None:
            owners.come()
            owners.save(40)

        owners.come()
        owners.save_overtaken(30, "open .manifest", work=second)
        owners.save_overtaken(50, "link .manifest", "listdir", work=owners.come)


class _Interrupted(Checkpoints):
    """What lies there before is what an owner left that died before it moved the pointer."""

    def prepare(self, machine: Machine, world: World) -> None:
        """Save what lies there before, and die in a save more."""
        super().prepare(machine, world)
        doom, system = doomed(machine)
        with killed(doom), checkpoints.opened(machine, system=system) as store:
            doom.kill_at("rename .manifest")
            checkpoints.save(store, world, 30)


def _opening(machine: Machine, world: World) -> None:
    """The second owner comes before the first holds the revision that it moves the pointer to."""
    with ExitStack() as stack:
        owners = _Owners(machine, world, stack)
        watch, system = watched(unlocked(machine))
        saves = _Others(partial(owners.save, 40))

        def come() -> None:
            owners.come()
            watch.at("listdir", action=saves)

        others = _Others(come)
        watch.at("link manifest-", action=others)
        with suppress(LastgoodError):  # whatever it is told, what it leaves is judged
            stack.enter_context(checkpoints.opened(machine, system=system))
        others.check()
        saves.check()


def _appends(machine: Machine, world: World) -> None:
    def work() -> None:
        with shelf.opened(machine, system=unlocked(machine)) as second:
            shelf.append(second, world, "d")
            shelf.save(second, world)

    watch, system = watched(unlocked(machine))
    others = _Others(work)
    with shelf.opened(machine, system=system) as first:
        watch.at("pwrite", action=others)
        with suppress(*_FENCED):
            shelf.append(first, world, "c")
        others.check()
        with suppress(*_FENCED):
            shelf.append(first, world, "e", kind=shelf.LATE)


WORKLOADS: Final = (
    Checkpoints("writers", before=(10,), work=_saves, aside=Aside(FENCED, most=1)),
    Checkpoints("writers-overtaken", before=(10,), work=_overtaken),
    _Interrupted("writers-opening", before=(10,), work=_opening),
    Sessions("writers-log", before=begun, work=_appends),
)
