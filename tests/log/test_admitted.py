"""What nobody can tell from a crash without a memory outside the store: the unattested end.

Events above the newest anchor of a checkpoint or a claim may be cut by whole lines, zeroed, lose a
byte to a NUL, or go with their segment; each of these is a disk that a loss of power leaves. Were
one of them found some day, the list of admitted gaps would have to change with it. The next
checkpoint or opening attests them, and from then on each of the same changes stops.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import Session
from lastgood.formats import names
from tests.log import world
from tests.log.world import changed, content, goes_on, grown, lines, path, refused, ten
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

Damage = Callable[[Tree], Tree]


def cut_to(count: int) -> Damage:
    """Whole lines taken away, as if they had never been written."""
    return lambda tree: world.with_lines(tree, lines(tree)[:count])


def zeroed_from(count: int) -> Damage:
    """Zeros from the middle of line ``count`` on."""

    def damage(tree: Tree) -> Tree:
        kept = len(b"".join(lines(tree)[: count - 1])) + 60
        return changed(tree, content(tree)[:kept] + bytes(len(content(tree)) - kept))

    return damage


def nul_in(number: int) -> Damage:
    """One byte of line ``number`` set to NUL."""

    def damage(tree: Tree) -> Tree:
        data = bytearray(content(tree))
        data[len(b"".join(lines(tree)[: number - 1])) + 200] = 0
        return changed(tree, bytes(data))

    return damage


ADMITTED: dict[str, tuple[Damage, int]] = {
    "the last event cut": (cut_to(9), 9),
    "both events cut": (cut_to(8), 8),
    "the last event zeroed": (zeroed_from(10), 9),
    "both events zeroed": (zeroed_from(9), 8),
    "a byte of the last event": (nul_in(10), 9),
}


@pytest.mark.parametrize("case", ADMITTED.values(), ids=list(ADMITTED))
def test_events_above_every_anchor_may_vanish_and_no_others(
    case: tuple[Damage, int], tmp_path: Path
) -> None:
    """Admitted: acknowledged events 9 and 10 of the current epoch go unseen, or as a torn tail.

    Method: the change above anchor 8 is gone on from. Beside a checkpoint at event 10, and beside
    the claim of the next opening, the very same change stops.
    """
    damage, end = case
    tree = ten()
    went = goes_on(damage(tree), tmp_path / "store")
    check_equal((went.end, went.seen), (end, list(range(3, end + 1))), "what is left")

    def saved(session: Session[Any]) -> None:
        world.appended(*range(3, 11))(session)
        session.save()

    for what, attesting in (
        ("a checkpoint", grown(saved)),
        ("a claim", grown(lambda session: None, onto=tree)),
    ):
        error = refused(damage(attesting), tmp_path / "attested")
        check(error.exit_code in (2, 3), f"{what}: {error}")


def test_segment_above_every_anchor_may_vanish(tmp_path: Path) -> None:
    """Admitted: an owner's segment deleted, or all zeros, before anything attests it.

    Method: the second owner appended event 13 and died without a checkpoint; its claim attests
    event 10. With a third opening's claim the same stops.
    """
    name = names.segment(11, 2)
    tree = grown(world.appended(13), onto=ten())
    gone = {n: data for n, data in tree.items() if n != path(name)}
    zeros = changed(tree, bytes(65536), name)
    for what, state in (("deleted", gone), ("zeroed", zeros)):
        went = goes_on(state, tmp_path / what)
        check_equal((went.end, 13 in went.seen), (10, False), what)
    attesting = grown(lambda session: None, onto=tree)
    gone = {n: data for n, data in attesting.items() if n != path(name)}
    for state in (gone, changed(attesting, bytes(65536), name)):
        check_equal(refused(state, tmp_path / "attested").exit_code, 2, "beside a third claim")


@pytest.mark.parametrize("count", range(8))
def test_whole_lines_cut_below_an_anchor_stop(count: int, tmp_path: Path) -> None:
    """A cut at or below an anchor is a roll-back: stop. Method: each number of lines that is left.

    The report has it, too, and nothing was touched.
    """
    state = cut_to(count)(ten())
    error = refused(state, tmp_path / "store")
    check_equal(error.exit_code, 3, str(error))
    check("event 8 was acknowledged" in str(error), str(error))
    place = trees.plant(state, tmp_path / "reported")
    check_equal(trees.read(place).reported, 3, "verifying")


def test_cut_above_an_anchor_is_said_by_nobody(tmp_path: Path) -> None:
    """Admitted, and told as such: verifying a log that lost its unattested end finds nothing.

    Method: whole lines above anchor 8 are gone; the verdict is that of the whole log.
    """
    tree = ten()
    for count in (8, 9):
        place = trees.plant(cut_to(count)(tree), tmp_path / str(count))
        whole = trees.plant(tree, tmp_path / f"whole {count}")
        check_equal(trees.read(place).reported, trees.read(whole).reported, f"{count} lines")
