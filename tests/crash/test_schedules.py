"""Two owners open and save at once, each paused before one of its calls: every pair of pauses.

The lock is broken (F13). The pauses lie before the calls that change or list names, for no
other call of one owner is seen by the other: the first owner's before all that change a name,
the second's before those that list names, too. First one owner runs to its pause, then the other,
then the first to its end, then the other.
"""

from __future__ import annotations

import itertools
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from lastgood.errors import ConflictError, DurabilityUnknownError
from lastgood.saving import SaveReceipt
from tests.crash.scenes import (
    Believed,
    Outcome,
    Scenes,
    believed,
    check_believable,
    check_recovers,
    checkpoint,
    outcome,
    writer,
)
from tests.crash.seam import Seam
from tests.crash.turns import Turn
from tests.support.check import check, check_equal

CHANGES: Final = ("link", "rename", "unlink", "mkdir")
LOOKS: Final = ("listdir",)


def open_and_save(place: Path, author: str, seam: Seam) -> tuple[Believed, Outcome]:
    """What an owner opened on, and what it was told of its save; the opening may be overtaken."""
    try:
        store = writer(place, seam)
    except (ConflictError, DurabilityUnknownError) as error:
        return (0, ""), error
    with store:
        base = believed(store.load_latest())
        return base, outcome(lambda: store.save(checkpoint(base[0] + 10, author)))


def pauses(scenes: Scenes, scene: str, before: tuple[str, ...]) -> list[int]:
    """The calls named in ``before`` of opening and saving, from the lock on."""
    with scenes.copy(scene) as place:
        seam = Seam(locks="broken")
        open_and_save(place, "first", seam)
    begin = next(number for number, made in enumerate(seam.made) if made.startswith("flock"))
    calls = [made.split()[0] for made in seam.made]
    return [n for n, call in enumerate(calls) if n > begin and call in before]


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", ["claimed", "fenced"])
def test_two_owners_paused_anywhere_never_undo_each_other(scenes: Scenes, scene: str) -> None:
    """S6, R4, G4: what was acknowledged stays, one of both goes on, nothing is damaged.

    Method: every pair of pauses of two owners who each open and save.
    """
    told: Counter[str] = Counter()
    points, others = pauses(scenes, scene, CHANGES), pauses(scenes, scene, CHANGES + LOOKS)
    for first_at, second_at in itertools.product(points, others):
        context = f"{scene}: paused at calls {first_at} and {second_at}"
        with scenes.copy(scene) as place:
            first = Turn(partial(open_and_save, place, "first"), pause_at=first_at)
            second = Turn(partial(open_and_save, place, "second"), pause_at=second_at)
            first.start()
            second.start()
            ends = {"first": first.finish(), "second": second.finish()}
            told.update(_check_ends(place, ends, Scenes.BELIEVED[scene], context))
    print(f"{scene}: {len(points)} x {len(others)} pauses, {dict(told)}")
    check(
        told["SaveReceipt"] >= len(points) * len(others),
        f"{scene}: hardly anything was saved: {told}",
    )


def _check_ends(
    place: Path, ends: dict[str, tuple[Believed, Outcome]], begin: Believed, context: str
) -> list[str]:
    """Judge both owners by what is believed in the end, and go on from there."""
    acknowledged = [begin]
    attempted = [begin]
    for author, (base, came) in ends.items():
        attempted.append((base[0] + 10, author))
        if isinstance(came, SaveReceipt):
            check_equal(came.status, "saved", f"{context}: {author}'s status")
            acknowledged.append((base[0] + 10, author))
        else:
            known = isinstance(came, ConflictError | DurabilityUnknownError)
            check(known, f"{context}: {author} was told {came!r}: {came}")
    numbers = [sequence for sequence, _ in acknowledged]
    check_equal(len(set(numbers)), len(numbers), f"{context}: one sequence acknowledged twice")
    check_believable(place, context)
    may_be = [found for found in attempted if found[0] >= max(numbers)]
    newest = max(acknowledged)
    may_be = [found for found in may_be if found[0] > newest[0] or found == newest]
    check_recovers(place, may_be, context)
    return [type(came).__name__ for _, came in ends.values()]
