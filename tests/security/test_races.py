"""I1, I2, I4, S6: what holds at every instant of a save, and what a paused owner cannot undo.

The functions are in ``races``; planted bugs show that they can fail.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security import races

ALL: list[Callable[[Path], object]] = [
    races.paused_save_undoes_nothing,
    races.paused_opening_undoes_nothing,
    races.two_generations_stand_at_every_instant,
    races.write_that_went_wrong_costs_no_generation,
    races.nothing_is_published_before_its_fsync,
]


@pytest.mark.slow
@pytest.mark.parametrize("holds", ALL, ids=lambda holds: holds.__name__)
def test_what_must_hold_while_a_save_runs_holds(
    fast: Path, holds: Callable[[Path], object]
) -> None:
    """I1, I2, I4, S6, F13: see the function's own first line.

    Method: real saves on a disk, looked at, or paused, before every call of the file system.
    """
    print(f"{holds.__name__}: {holds(fast)}")
