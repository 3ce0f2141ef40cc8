"""Sessions with damage that no crash leaves, and the repairs that a person decides on.

Until a repair is acknowledged the session may stop with ``DamagedError``, which is right; then
the repair is run again, and comes to its end. From then on it recovers as any other.

===================  ====================================================================
``repairs-rebuild``  the current checkpoint is damaged; a rebuild from the log is approved,
                     and the next opening with the program makes it
``repairs-pointer``  the newest revision is damaged; the one before it goes on, and finds the
                     checkpoint that the damaged one named
===================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final, Literal

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Violation
from fault_injection.workloads import judging, shelf
from fault_injection.workloads.judging import DAMAGED, Aside, Stored
from fault_injection.workloads.sessions import Sessions, Work
from fault_injection.workloads.shelf import State
from fault_injection.workloads.systems import contents, overwrite
from fault_injection.world import Told, World
from lastgood import Session, mending
from lastgood.errors import DamagedError, LastgoodError
from lastgood.formats import names
from lastgood.formats.names import Kind
from lastgood.mending import Decision
from lastgood.store import Store

MARK: Final = b"DAMAGED"
"""What damaged bytes are; wherever they are kept, they are found by it."""
_DECISION: Final = Decision(actor="olga", reason="the disk of shelf 3 failed")
_REBUILT: Final = f"{shelf.REBUILD}-c"

Repair = Callable[[Store, Machine], object]


class Repairs(Sessions):
    """A job that repairs a damaged session and goes on with it.

    Args:
        name: One word.
        damages: Of which kind the newest record is damaged; of a checkpoint, the opening behind
            the repair makes a new one.
        repair: What is decided.
    """

    def __init__(self, name: str, *, damages: Kind, repair: Repair) -> None:
        self._repair = repair
        self._rebuilds = damages is Kind.CHECKPOINT
        aside = Aside(DAMAGED, most=1 if self._rebuilds else 2)  # a revision has two names
        super().__init__(name, before=_damaged(damages), work=self._repairs, aside=aside)

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        """As of every session, once what stops is repaired, by a person if that is owed yet."""
        found = super().judge(machine, told, depth=depth)
        if not any(MARK in data for files in _files(machine) for data in files.values()):
            raise Violation("O6", expected="damaged bytes that are kept", got="they are gone")
        return found

    def _read(self, place: Machine, world: World) -> tuple[Stored, str]:
        """Bring what was decided to its end, or decide it again."""
        how, before = "", world.told.of(shelf.REPAIR).acts
        stored = judging.look(place)
        if judging.stops(stored) and self._may_stop(world.told):
            error = stored.report.error if stored.report else None
            if not self._is_planted(place, error):
                raise Violation("O1", expected="a stop at what was damaged", got=f"{error}")
            with self.recovered(place, world):
                is_again = len(world.told.of(shelf.REPAIR).acts) > len(before)
            how = "stopped, repaired again, " if is_again else "rebuilt as approved, "
            stored = judging.look(place)
        if judging.is_set_aside(stored):
            judging.judge_current(stored, world.told)  # who goes on makes one that is newer
            self._go_on(place, world)
            how, stored = "damaged one set aside later, ", judging.look(place)
        return stored, how

    @contextmanager
    def recovered(self, place: Machine, world: World) -> Iterator[Session[State]]:
        """As of every session; what stops is repaired first, if nobody was told that it is."""
        if self._rebuilds and _REBUILT not in world.told.names():
            world.begin(_REBUILT, kind=shelf.REBUILD)
        with ExitStack() as stack:
            try:
                session = stack.enter_context(shelf.opened(place))
            except DamagedError as error:
                is_done = world.told.of(shelf.REPAIR).names("acknowledged")
                if is_done or not self._is_planted(place, error):
                    raise
                self._decide(place, world)
                session = stack.enter_context(shelf.opened(place))
            made = shelf.checkpoints(world.told).names("open")
            found = [*shelf.found(session), *world.told.of(shelf.REPAIR).names()]
            world.settle([*found, *(_newest(place) if made else ())])
            yield session

    def _is_planted(self, place: Machine, error: LastgoodError | None) -> bool:
        """Whether what stops is what was damaged, or the gap that its repair leaves half done.

        While the damaged pointer is set aside, it is the revisions below the kept ones that are
        missed.
        """
        name = getattr(error, "name", "")
        folder, archive = _files(place)
        aside = [kept for kept, data in archive.items() if MARK in data]
        if name in folder:
            return MARK in folder[name]
        lost = name if not _is_below(name, folder) else names.POINTER
        return any(kept.endswith(f"-{lost}") for kept in aside)

    def _may_stop(self, told: Told) -> bool:
        """Whether a reader may still be stopped: the repair, or what it approved, is not done."""
        kind = shelf.REBUILD if self._rebuilds else shelf.REPAIR
        return not told.of(kind).names("acknowledged")

    def _repairs(self, machine: Machine, world: World) -> None:
        self._decide(machine, world)
        with self.recovered(machine, world) as session:
            shelf.append(session, world, "d")
            shelf.save(session, world)

    def _decide(self, machine: Machine, world: World) -> None:
        name = f"decided{len(world.told.of(shelf.REPAIR).acts)}"
        with shelf.store(machine) as held, shelf.asked(world, name, kind=shelf.REPAIR):
            self._repair(held, machine)


def _newest(machine: Machine) -> list[str]:
    """The acts that may have made the current checkpoint; an opening may have made it itself."""
    with shelf.store(machine) as held:
        newest = held.newest(shelf.SESSION)
    state: Any = {"items": []} if newest is None else newest[1].state
    items = state["items"]
    return [shelf.named(items, kind=kind) for kind in (shelf.SAVE, shelf.REBUILD) if items]


def _is_below(name: str, there: Collection[str]) -> bool:
    """Whether it is a revision below all that are there."""
    parsed = names.parse(name)
    if parsed is None or parsed.kind is not Kind.MANIFEST:
        return False
    kept = [found.number for n in there if (found := names.parse(n)) and found.kind is parsed.kind]
    return bool(kept) and parsed.number < min(kept)


def _files(machine: Machine) -> list[dict[str, bytes]]:
    """What lies in the session's directory, and in its archive."""
    folder = f"{machine.root}/{shelf.DIRECTORY}"
    return [contents(machine, path) for path in (folder, f"{folder}/archive")]


# --- the jobs -----------------------------------------------------------------------------


def _damaged(kind: Kind) -> Work:
    """Two checkpoints, one item more, and the newest record of a kind damaged."""

    def before(machine: Machine, world: World) -> None:
        with shelf.opened(machine) as session:
            shelf.append(session, world, "a.1", "a.2")
            shelf.save(session, world)
            shelf.append(session, world, "b")
            shelf.save(session, world)
            shelf.append(session, world, "c")
        folder = f"{machine.root}/{shelf.DIRECTORY}"
        files = contents(machine, folder)
        numbers = [(p.number, n) for n in files if (p := names.parse(n)) and p.kind is kind]
        name = max(numbers)[1]
        overwrite(machine, f"{folder}/{name}", MARK, offset=len(files[name]) // 2)

    return before


def _approve(held: Store, machine: Machine) -> None:
    mending.approve_rebuild(
        held.place, shelf.SESSION, owner=shelf.owner(machine), decision=_DECISION
    )


def _rebuild_pointer(held: Store, machine: Machine) -> None:
    mending.rebuild_pointer(
        held.place, shelf.SESSION, owner=shelf.owner(machine), decision=_DECISION
    )


WORKLOADS: Final = (
    Repairs("repairs-rebuild", damages=Kind.CHECKPOINT, repair=_approve),
    Repairs("repairs-pointer", damages=Kind.MANIFEST, repair=_rebuild_pointer),
)
