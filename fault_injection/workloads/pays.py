"""A job whose effects reach outside: what it did there is counted by the world, not by lastgood.

Each effect has a key and is *manual*: where nobody wrote down that it was done, a person decides,
by the outside count. Its event puts an item that is named after the key.
"""

from __future__ import annotations

from typing import Final

from fault_injection.machine import Machine
from fault_injection.workload import Violation
from fault_injection.workloads import shelf
from fault_injection.workloads.judging import Stored
from fault_injection.workloads.sessions import Sessions
from fault_injection.workloads.shelf import State
from fault_injection.world import Told, World
from lastgood import Effect, Session

RAN: Final = "ran"
_BEFORE: Final = ("old", "left")
_KEYS: Final = (*_BEFORE, "pay1", "pay2")


class Pays(Sessions):
    """A job with effects."""

    def _owned(self, place: Machine, told: Told, stored: Stored) -> tuple[list[str], str]:
        """O1, O2, O13: what was done outside is done or open, what is done was done outside."""
        items, rule = super()._owned(place, told, stored)
        with shelf.opened(place) as session:
            known: set[str] = {*session.fingerprints}
            undecided: set[str] = {one.fingerprint for one in session.open_effects}
            for key in _KEYS:
                _judge(told, key, _effect(session, key).fingerprint, known, undecided)
        return items, rule if not undecided else f"{rule}, a person asked"

    def _go_on(self, place: Machine, world: World) -> None:
        """Decide what is open by the outside count, do what is not done, and go on."""
        with self.recovered(place, world) as session:
            _decide(session, world)
            for key in _KEYS:
                _pay(session, world, key)
        super()._go_on(place, world)
        for key in _KEYS:
            if len(_runs(world.told, key)) != 1:
                raise Violation("O13", expected=f"{key} once", got=f"{_runs(world.told, key)}")


def _judge(told: Told, key: str, mark: str, known: set[str], undecided: set[str]) -> None:
    runs, paid = _runs(told, key), key in told.of(shelf.APPEND).names("acknowledged")
    if len(runs) > 1:
        raise Violation("O13", expected=f"{key} at most once", got=f"{runs}")
    if runs and mark not in known | undecided:
        raise Violation("O13", expected=f"{key}, which ran, done or open", got="it would run again")
    if mark in known and not runs:
        raise Violation("O2", expected=f"{key} to be done, as it never ran", got="it is skipped")
    if paid and mark not in known:
        raise Violation("O1", expected=f"{key} done, as acknowledged", got="it is open")


def _runs(told: Told, key: str) -> list[str]:
    """Each time that it was done outside."""
    return [name for name in told.of(RAN).names() if name.partition("-")[2] == key]


def _effect(session: Session[State], key: str) -> Effect:
    return session.effect("pay", key=key, event=shelf.given)


def _pay(session: Session[State], world: World, key: str) -> None:
    """Do it; if a person said that it is done, let its event be applied."""
    effect = _effect(session, key)
    if effect.fingerprint in session.fingerprints and key not in session.state["items"]:
        with shelf.asked(world, key, kind=shelf.APPEND), effect:
            return
    with effect:
        if effect.should_run:
            _run(world, key)
            with shelf.asked(world, key, kind=shelf.APPEND):
                effect.done(key)


def _run(world: World, key: str) -> None:
    """The change to the outside; no call of lastgood is between its beginning and its end."""
    name = f"{RAN}{len(world.told.of(RAN).acts)}-{key}"
    world.begin(name, kind=RAN)
    world.end(name, "acknowledged")


def _decide(session: Session[State], world: World) -> None:
    """What a person finds out of each open effect."""
    for one in session.open_effects:
        was_done = bool(_runs(world.told, one.key))
        session.resolve(
            one.fingerprint,
            "done" if was_done else "not done",
            result=one.key if was_done else None,
            actor="olga",
            reason="counted outside",
        )


# --- the job ------------------------------------------------------------------------------


class _NobodyKnowsError(Exception):
    """The outside did it, and its answer never came."""


def _before(machine: Machine, world: World) -> None:
    """One that is done, below a checkpoint, and one that is open."""
    with shelf.opened(machine) as session:
        _pay(session, world, "old")
        shelf.save(session, world)
        try:
            with _effect(session, "left"):
                _run(world, "left")
                raise _NobodyKnowsError
        except _NobodyKnowsError:
            pass


def _pays(machine: Machine, world: World) -> None:
    with shelf.opened(machine) as session:
        world.settle(shelf.found(session))
        _pay(session, world, "pay1")
        shelf.save(session, world)
        _decide(session, world)
        _pay(session, world, "left")
        _pay(session, world, "pay2")


WORKLOADS: Final = (Pays("pays", before=_before, work=_pays),)
