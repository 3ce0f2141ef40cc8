"""A process dies at every call of opening, saving and pruning, and again in every recovery.

Deaths happen within this process (``Mortal``), so that each takes milliseconds and all are
tried: before a call takes effect, after it did, and in the middle of a write (F1). What they
leave is recovered by fresh handles. States that look the same are recovered once.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lastgood.checkpoints import CheckpointStore
from tests.crash.scenes import (
    Believed,
    Scenes,
    believed,
    check_recovers,
    checkpoint,
    clone,
    looks_of,
    writer,
)
from tests.crash.seam import WRITES, Killed, Mortal, When
from tests.support.check import check, check_equal

# A generator that the dead process leaves behind is closed by the interpreter, in vain.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

Step = Callable[[CheckpointStore], object]


def save_next(store: CheckpointStore) -> object:
    """The save that these tests die in."""
    return store.save(checkpoint(believed(store.load_latest())[0] + 10, "dying"))


def save_milestone(store: CheckpointStore) -> object:
    """The same, to be kept for good."""
    return store.save(checkpoint(believed(store.load_latest())[0] + 10, "dying"), milestone="kept")


@dataclass(frozen=True, slots=True)
class Work:
    """What is being done when the process dies: opening, or a step after it.

    Attributes:
        scene: Where it begins.
        step: None: the opening itself.
    """

    scene: str
    step: Step | None = None

    def run(self, place: Path, mortal: Mortal) -> bool:
        """Do it; whether it was acknowledged before death."""
        if self.step is None:
            with suppress(Killed):
                writer(place, mortal).close()
                return True
            return False
        at, mortal.at = mortal.at, None
        store = writer(place, mortal)
        mortal.begin()
        mortal.at = at
        acknowledged = False
        with suppress(Killed):
            self.step(store)
            acknowledged = True
        with suppress(Killed):
            store.close()
        return acknowledged

    def deaths(self, place: Path) -> list[tuple[int, When]]:
        """Every way to die in it."""
        mortal = Mortal()
        self.run(place, mortal)
        ways: list[tuple[int, When]] = []
        for number, made in enumerate(mortal.made):
            ways += [(number, "before"), (number, "after")]
            ways += [(number, "middle")] if made.split()[0] in WRITES else []
        return ways

    def may_be(self, acknowledged: bool) -> list[Believed]:
        """What may be believed after it: old or new; acknowledged, only the new."""
        old = Scenes.BELIEVED[self.scene]
        new = (old[0] + 10, "dying")
        if self.step is None:
            return [old]
        return [new] if acknowledged else [old, new]


WORKS: Final = {
    "first opening": Work("absent"),
    "opening": Work("three"),
    "opening after a death before S4": Work("temporary"),
    "opening after a death between S4 and S6": Work("published"),
    "opening after a death between S6 and S7": Work("claimed"),
    "first save": Work("new", save_next),
    "third save": Work("two", save_next),
    "save that prunes": Work("three", save_next),
    "save of a milestone": Work("three", save_milestone),
    "save over a fenced writer's": Work("fenced", save_next),
}


def remains(scenes: Scenes, work: Work, name: str) -> Iterator[tuple[Path, list[Believed], str]]:
    """What each death in ``work`` leaves, where it differs from what another one left."""
    with scenes.copy(work.scene) as place:
        deaths = work.deaths(place)
    seen: set[tuple[str, bool]] = set()
    for at, when in deaths:
        with scenes.copy(work.scene) as place:
            mortal = Mortal(at, when)
            acknowledged = work.run(place, mortal)
            check(mortal.is_dead, f"{name}: nobody died at call {at}")
            looks = (looks_of(place), acknowledged)
            if looks not in seen:
                seen.add(looks)
                yield place, work.may_be(acknowledged), f"{name}: died {when} call {at}"


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", WORKS)
def test_a_death_anywhere_leaves_the_old_or_the_new(scenes: Scenes, name: str) -> None:
    """G1, G2, G4: never neither, never less than acknowledged, and the next save works.

    Method: die at every call, then recover twice and save twice by fresh handles.
    """
    states = 0
    for place, may_be, context in remains(scenes, WORKS[name], name):
        check_recovers(place, may_be, context)
        states += 1
    print(f"{name}: {states} states")
    check(states >= 2, f"{name}: {states} states")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.crash
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["first opening", "save that prunes"])
def test_a_death_in_any_recovery_changes_nothing(scenes: Scenes, name: str) -> None:
    """G2, F10: recovery that dies at any call is recovered, to the same checkpoint.

    Method: for every state that a death leaves, die at every call of its recovery.
    """
    states = itertools.count()
    for place, may_be, context in remains(scenes, WORKS[name], name):
        seen: set[str] = set()
        recovery = Work("three")
        copied = place.with_name(f"{place.name}-again")
        for at, when in _deaths_of_recovery(recovery, place, copied):
            with _cloned(place, copied):
                mortal = Mortal(at, when)
                recovery.run(copied, mortal)
                looks = looks_of(copied)
                if looks not in seen:
                    seen.add(looks)
                    next(states)
                    check_recovers(copied, may_be, f"{context}, then {when} call {at} of recovery")
    count = next(states)
    print(f"{name}: {count} states after a second death")
    check(count >= 10, f"{name}: {count} states")


@contextmanager
def _cloned(place: Path, copied: Path) -> Iterator[None]:
    if place.exists():
        clone(place, copied)
    try:
        yield
    finally:
        shutil.rmtree(copied, ignore_errors=True)


def _deaths_of_recovery(recovery: Work, place: Path, copied: Path) -> list[tuple[int, When]]:
    with _cloned(place, copied):
        return recovery.deaths(copied)


def test_the_dying_file_system_is_alive_until_then(scenes: Scenes) -> None:
    """The harness itself: a death nobody reaches changes nothing, one at the link leaves a name.

    Method: the controls of the tests above.
    """
    work = Work("one", save_next)
    with scenes.copy("one") as place:
        check(work.run(place, Mortal(10_000)), "it died although nothing killed it")
        check_equal(check_recovers(place, [(20, "dying")], "alive"), (20, "dying"), "alive")
    with scenes.copy("one") as place:
        check(not work.run(place, Mortal("link", "before")), "it was acknowledged")
        check_equal(check_recovers(place, [(10, "owner")], "dead"), (10, "owner"), "before")
    with scenes.copy("one") as place:
        check(not work.run(place, Mortal("link", "after")), "it was acknowledged")
        check_equal(check_recovers(place, [(20, "dying")], "dead"), (20, "dying"), "after")
