"""A reader is suspended before each of its calls while a writer saves and prunes.

Readers take no lock, so this can happen at any time: they must come to the right answer, by
reading again where something moved, and never to an alarm.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.checkpoints import CheckpointStore
from tests.crash.scenes import Believed, Scenes, believed, checkpoint, reader, writer
from tests.crash.seam import Seam, once
from tests.support.check import check


def loaded(store: CheckpointStore) -> Believed:
    """Load the newest."""
    return believed(store.load_latest())


def verified(store: CheckpointStore) -> Believed:
    """List and verify; the current one."""
    report = store.verify()
    current = report.selection.current if report.selection else None
    return (current.sequence, "owner") if current else (0, "")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(300)
@pytest.mark.parametrize("saves", [1, 2, 3])
@pytest.mark.parametrize("read", [loaded, verified])
@pytest.mark.parametrize("scene", ["new", "three", "published"])
def test_a_reader_paused_anywhere_never_alarms_and_never_falls(
    scenes: Scenes, scene: str, read: Callable[[CheckpointStore], Believed], saves: int
) -> None:
    """G4, G8: what a reader has seen once, or what is current, is never followed by less.

    Method: one reader loads; another is suspended before each call while a writer saves.
    """
    at = 0
    paused = True
    while paused:
        context = f"{scene}, {read.__name__}, {saves} saves at call {at}"
        with scenes.copy(scene) as place:
            with reader(place) as store:
                seen = loaded(store)

            def save(place: Path = place, first: int = seen[0]) -> None:
                with writer(place) as store:
                    for number in range(1, saves + 1):
                        store.save(checkpoint(first + 10 * number))

            seam = Seam()
            with reader(place, seam) as store:
                hook = once(at, save)
                seam.begin(hook)
                found = read(store)
            newest = (seen[0] + 10 * saves, "owner")
            paused = len(seam.made) > at
            if paused:
                check(seen <= found <= newest, f"{context}: {found} was read after {seen}")
        at += 1
    check(at > 20, f"a reading of {at} calls")
