"""Jobs that keep a session with a log: they append, save, roll into new segments, and resume."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Final, Literal

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Violation
from fault_injection.workloads import judging, shelf
from fault_injection.workloads.judging import NOTHING, Aside, Stored
from fault_injection.workloads.shelf import State
from fault_injection.workloads.systems import Below, doomed, killed
from fault_injection.world import Told, World
from lastgood import Session
from lastgood.errors import BusyError, LastgoodError, LockedError
from lastgood.formats import names

Work = Callable[[Machine, World], None]


class Sessions:
    """A job that opens a session, appends and saves.

    Args:
        name: One word.
        before: Makes what lies there before; None: nothing does, not even the root's parent.
        work: What is done.
        schema: Of the program that recovers.
        aside: What may be left in the archive.
    """

    unread: Collection[str] = (names.LOCK,)

    def __init__(
        self,
        name: str,
        *,
        before: Work | None,
        work: Work,
        schema: int = 1,
        aside: Aside = NOTHING,
    ) -> None:
        self.name = name
        self._aside = aside
        self._before = before
        self._work = work
        self._schema = schema

    def prepare(self, machine: Machine, world: World) -> None:
        """Make what lies there before."""
        if self._before is not None:
            self._before(self._at(machine), world)

    def run(self, machine: Machine, world: World) -> None:
        """Do the job."""
        self._work(self._at(machine), world)

    def go_on(self, machine: Machine, world: World) -> None:
        """Recover, put one more item, and save."""
        self._go_on(self._at(machine), world)

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        """What a stranger reads is what may be; then it is owned, and work goes on."""
        place, world = self._at(machine), World(told)
        try:
            stored, how = self._read(place, world)
            judging.judge_stored(stored, world.told)
            items, rule = self._owned(place, world.told, stored)
            if depth == "whole":
                self._judge_going_on(place, world.told, items, stored)
        except (LockedError, BusyError) as error:
            raise Violation("O9", expected="no lock that is stuck", got=f"{error}") from error
        except LastgoodError as error:
            raise Violation(
                "O1", expected="a session that opens", got=f"{type(error).__name__}: {error}"
            ) from error
        return Recovered(f"{how}{rule}", f"items {' '.join(items) or 'none'}")

    @contextmanager
    def recovered(self, place: Machine, world: World) -> Iterator[Session[State]]:
        """The session, opened for writing, and the world told what it found."""
        with shelf.opened(place, schema=self._schema) as session:
            world.settle(shelf.found(session))
            yield session

    def _go_on(self, place: Machine, world: World) -> None:
        with self.recovered(place, world) as session:
            shelf.append(session, world, f"more{len(world.told.acts)}")
            shelf.save(session, world)

    def _owned(self, place: Machine, told: Told, stored: Stored) -> tuple[list[str], str]:
        """O1, O2, O4: who opens it for writing is given what a stranger reads."""
        with shelf.opened(place, schema=self._schema) as session:
            items: list[str] = session.state["items"]
            judging.judge_items(items, told, oracle="O1")
            if items != stored.items():
                raise Violation("O4", expected=f"{stored.items()}, as read", got=f"{items}")
            known = [text for text in session.fingerprints if text not in stored.effects]
            judging.judge_known(known, told)
            migrated = session.resumed.migrated_from is not None
        return items, judging.rule_of(stored, migrated=migrated)

    def _judge_going_on(self, place: Machine, told: Told, items: list[str], before: Stored) -> None:
        """O4, O9: the second recovery and the third lose nothing, and two further saves work."""
        world = World(told)
        self._go_on(place, world)
        put = world.told.of(shelf.APPEND).names("acknowledged")
        more = [item for item in put if item not in items]
        with shelf.opened(place, schema=self._schema, determinism="check") as session:
            if (got := session.state["items"]) != [*items, *more]:
                raise Violation("O4", expected=f"{[*items, *more]} again", got=f"{got}")
            shelf.append(session, world, "last")
            shelf.save(session, world)
        stored = self._look(place)
        judging.judge_stored(stored, world.told)
        judging.judge_end(stored, before, [*items, *more, "last"], aside=self._aside)

    def _read(self, place: Machine, world: World) -> tuple[Stored, str]:
        """What a stranger reads, and what a person had to do before that, for ``rule``."""
        return self._look(place), ""

    def _look(self, place: Machine) -> Stored:
        return judging.look(place)

    def _at(self, machine: Machine) -> Machine:
        return machine if self._before is not None else Below(machine, "jobs/shelf")


# --- the jobs -----------------------------------------------------------------------------


def begun(machine: Machine, world: World) -> None:
    """Two items, a checkpoint, one more item, closed."""
    with shelf.opened(machine) as session:
        shelf.append(session, world, "a.1", "a.2")
        shelf.save(session, world)
        shelf.append(session, world, "b")


def _new(machine: Machine, world: World) -> None:
    with shelf.opened(machine) as session:
        shelf.append(session, world, "a")
        shelf.append(session, world, "b.1", "b.2")
        shelf.save(session, world)


def _appends(machine: Machine, world: World) -> None:
    """The first segment is full in the middle of ``d``."""
    with shelf.opened(machine) as session:
        shelf.append(session, world, "big")
        shelf.append(session, world, "d.1", "d.2", "d.3")
        shelf.save(session, world)
        shelf.append(session, world, "e")
        shelf.save(session, world)


def _dies(at: str, act: str) -> Work:
    """What lies there is what an owner left that died in an append, or in a save."""

    def before(machine: Machine, world: World) -> None:
        begun(machine, world)
        doom, system = doomed(machine)
        with killed(doom), shelf.opened(machine, system=system) as session:
            shelf.append(session, world, "c")
            doom.kill_at(at)
            if act == shelf.SAVE:
                shelf.save(session, world)
            else:
                shelf.append(session, world, act)

    return before


def _resumes(machine: Machine, world: World) -> None:
    with shelf.opened(machine) as session:
        world.settle(shelf.found(session))
        shelf.append(session, world, "e")
        shelf.save(session, world)
        shelf.append(session, world, "f")


WORKLOADS: Final = (
    Sessions("new-session", before=None, work=_new),
    Sessions("appends", before=begun, work=_appends),
    Sessions("resumes", before=_dies("pwrite", "d"), work=_resumes),
    Sessions("resumes-published", before=_dies("open .manifest", shelf.SAVE), work=_resumes),
)
