"""After a trimming a rebuild starts from a generation; with none left it stops, and says why."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood import mending
from lastgood.errors import DamagedError, LastgoodError
from lastgood.mending import Decision
from tests.crash.scenes import DIRECTORY, SESSION
from tests.crash.sessions import Told, opened
from tests.sessions.trimmed import OWNER, check_goes_on, generations, make, place_of, tree, trim
from tests.support.check import check, check_equal

ALL = 10**9


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Told]:
    """A session, and what the world knows of it."""
    root = tmp_path / "state"
    return root, make(root)


def test_after_a_trim_a_rebuild_starts_from_the_other_generation(made: tuple[Path, Told]) -> None:
    """G2: the older generation and the kept log give the state, when the current one is damaged.

    Method: damage the current checkpoint, approve a rebuild, open.
    """
    root, told = made
    trim(root, ALL)
    _spoil(root, generations(root)[1])
    _approve(root)
    with opened(root) as session:
        check_equal(session.state["items"], told.acknowledged, "the state")
    check_goes_on(root, told, "rebuilt")


def test_after_a_trim_two_bad_generations_stop_and_say_why(made: tuple[Path, Told]) -> None:
    """G3: a log that begins later than event 1 is never taken for all of it.

    Method: damage both generations; open, approve a rebuild, and open again.
    """
    root, _ = made
    gone = trim(root, ALL)
    check(gone.first_kept > 1, f"{gone}")
    for sequence in generations(root):
        _spoil(root, sequence)
    with pytest.raises(DamagedError, match="checkpoint"):
        opened(root)
    before = tree(root)
    with pytest.raises(LastgoodError, match="begins at event") as caught:
        _approve(root)
    check_equal(caught.value.exit_code, 2, f"{caught.value}")
    check_equal(tree(root), before, "every file")


def test_an_approval_from_before_the_second_damage_starts_nothing(made: tuple[Path, Told]) -> None:
    """G3: what was approved while the older generation was good stops when it is not any more.

    Method: approve with one bad generation, then damage the other, and open twice.
    """
    root, _ = made
    trim(root, ALL)
    older, current = generations(root)
    _spoil(root, current)
    _approve(root)
    _spoil(root, older)
    before = tree(root)
    for _ in range(2):
        with pytest.raises(DamagedError, match="begins at event"):
            opened(root)
    check_equal(tree(root).keys(), before.keys(), "the files")


def test_a_milestone_below_the_floor_is_no_beginning(tmp_path: Path) -> None:
    """G3: between a milestone and a later beginning of the log events are missing.

    Method: a milestone, a trimming above it, both generations damaged, a rebuild approved.
    """
    root, told = tmp_path / "state", Told()
    for number in range(4):
        with opened(root) as session:
            told.append(session, f"{number}a", f"{number}b")
            told.save(session, milestone="first" if number == 0 else None)
            told.append(session, f"{number}c")
    trim(root, ALL)
    milestone, older, current = generations(root)
    check(milestone < older, "a milestone is kept")
    with opened(root) as session:
        check_equal(session.state["items"], told.acknowledged, "with sound generations")
    _spoil(root, current)
    _spoil(root, older)
    with pytest.raises(LastgoodError, match="begins at event"):
        _approve(root)


def _spoil(root: Path, sequence: int) -> None:
    path = root / DIRECTORY / f"checkpoint-{sequence:06d}.json"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)


def _approve(root: Path) -> None:
    with place_of(root) as place:
        decision = Decision(actor="olga", reason="a bad sector")
        mending.approve_rebuild(place, SESSION, owner=OWNER, decision=decision)
