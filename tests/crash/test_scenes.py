"""The sessions that these tests begin with are what they are said to be, and all recover."""

from __future__ import annotations

import pytest

from tests.crash.scenes import Scenes, check_recovers, latest
from tests.support.check import check_equal


@pytest.mark.parametrize("scene", Scenes.BELIEVED)
def test_every_scene_is_what_it_says_and_recovers(scenes: Scenes, scene: str) -> None:
    """G2: a session that was left at any step of a save goes on without a human.

    Method: load it, recover it twice, save twice, and compare with the table of scenes.
    """
    expected = Scenes.BELIEVED[scene]
    with scenes.copy(scene) as place:
        check_equal(latest(place), expected, scene)
    with scenes.copy(scene) as place:
        check_equal(check_recovers(place, [expected], scene), expected, scene)
