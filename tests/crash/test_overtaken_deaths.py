"""One owner is overtaken while it saves over a fenced record, goes on, and dies.

The lock is broken (F13). Whatever the first owner still does before it dies, what the second one
was acknowledged stays, under its name, and is believed without a human.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import pytest

from lastgood.errors import LastgoodError
from tests.crash.scenes import Scenes, check_believable, check_recovers, checkpoint, writer
from tests.crash.seam import Killed, Mortal, once
from tests.crash.test_interleaving import Meanwhile, Second
from tests.support.check import check

# A generator that the dead process leaves behind is closed by the interpreter, in vain.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SCENE: Final = "fenced"
SECOND: Final = Second(above=(10,))
CHANGING: Final = ("link", "rename", "unlink", "fsync")
NEXT_CALLS: Final = 12


def calls_of_a_save(scenes: Scenes) -> list[str]:
    """Every call of a save over the fenced record, undisturbed."""
    with scenes.copy(SCENE) as place:
        mortal = Mortal(locks="broken")
        with writer(place, mortal) as store:
            mortal.begin()
            store.save(checkpoint(40, "first"))
            return list(mortal.made)


def overtaken(scenes: Scenes, pause: int, death: int) -> bool:
    """Pause before call ``pause``, die after call ``death``; returns whether it came to both."""
    done: list[Meanwhile] = []
    with scenes.copy(SCENE) as place:
        mortal = Mortal(when="after", locks="broken")
        store = writer(place, mortal)
        mortal.begin(once(pause, lambda: done.append(SECOND.work(place))))
        mortal.at = death
        with suppress(Killed, LastgoodError):
            store.save(checkpoint(40, "first"))
        with suppress(Killed):
            store.close()
        context = f"paused before call {pause}, dead after call {death}"
        if done:
            check_believable(place, context)
            check_recovers(place, {done[0].acknowledged}, context)
        return bool(done) and mortal.is_dead


def test_an_owner_that_is_overtaken_and_dies_takes_nothing_with_it(scenes: Scenes) -> None:
    """G2, G4: the newer owner's checkpoint stays, wherever the older one was paused and died.

    Method: a save over a fenced writer's record is paused before each of its calls, another owner
    saves that very sequence, and the first dies after each of its next calls that change a name.
    """
    calls = calls_of_a_save(scenes)
    check(any(call.startswith("rename") for call in calls), f"nothing was superseded: {calls}")
    reached = sum(
        overtaken(scenes, pause, death)
        for pause in range(len(calls))
        for death in range(pause + 1, min(pause + NEXT_CALLS, len(calls)))
        if calls[death].split()[0] in CHANGING
    )
    check(reached > len(calls), f"only {reached} pairs of pause and death were reached")
