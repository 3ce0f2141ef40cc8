"""A job that trims its log: older segments leave for an archive, and the session goes on.

Every event must be somewhere at every instant: in the kept log, or in the archive. What a crash
leaves below the floor is removed by the next trimming.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from fault_injection.machine import Machine
from fault_injection.workloads import judging, roots, shelf
from fault_injection.workloads.judging import Stored
from fault_injection.workloads.sessions import Sessions
from fault_injection.workloads.systems import Below
from fault_injection.world import World
from lastgood import trimming
from lastgood.trimming import Keep

_ALL: Final = 10**6
_TRIM: Final = "trim"


class Trims(Sessions):
    """A job whose store has an archive beside it."""

    def _at(self, machine: Machine) -> Machine:
        return Below(machine, "store")

    def _look(self, place: Machine) -> Stored:
        return judging.look(place, archive=f"{_archive_of(place)}/{shelf.DIRECTORY}")

    def _go_on(self, place: Machine, world: World) -> None:
        """Go on, and trim again: that finishes what was interrupted."""
        super()._go_on(place, world)
        trim(place, world)


def trim(place: Machine, world: World) -> None:
    """Let go whatever may."""
    name = f"{_TRIM}{len(world.told.of(_TRIM).acts)}"
    with (
        shelf.store(place) as held,
        _kept(place) as keep,
        shelf.asked(world, name, kind=_TRIM),
    ):
        trimming.trim(
            held.place,
            shelf.SESSION,
            owner=shelf.owner(place),
            before=_ALL,
            keep=keep,
            actor="olga",
            reason="the disk is full",
        )


@contextmanager
def _kept(place: Machine) -> Iterator[Keep]:
    with (
        roots.root(place, _archive_of(place)) as archive,
        trimming.archive(archive, shelf.SESSION) as keep,
    ):
        yield keep


def _archive_of(place: Machine) -> str:
    return f"{place.root.rpartition('/')[0]}/archive"


# --- the job ------------------------------------------------------------------------------


def _rounds(place: Machine, world: World) -> None:
    """Two openings, each with a segment and a checkpoint of its own, and a save more."""
    with shelf.opened(place) as session:
        shelf.append(session, world, "a.1", "a.2")
        shelf.save(session, world)
    with shelf.opened(place) as session:
        shelf.append(session, world, "b")
        shelf.save(session, world)
        shelf.append(session, world, "c")
        shelf.save(session, world)


def _trims(place: Machine, world: World) -> None:
    trim(place, world)
    with shelf.opened(place) as session:
        shelf.append(session, world, "d")


WORKLOADS: Final = (Trims("trims", before=_rounds, work=_trims),)
