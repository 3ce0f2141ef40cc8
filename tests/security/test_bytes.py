"""T2, C12-08: every byte of every file flipped, inserted, deleted, and every truncation.

Method: one store of two sessions with three saves each, in memory; each change is made to a
fresh copy, which a reader then loads and checks. The number of changes is printed.
"""

from __future__ import annotations

import pytest

from tests.security import oracles
from tests.support import trees
from tests.support.check import check, check_equal

PATHS = [trees.STORE, *(f"{session}/{name}" for session in trees.SESSIONS for name in trees.FILES)]
FEWER = ("flips", "truncations")


def test_honest_store_has_two_generations_and_two_manifests_and_loads() -> None:
    """I4: the store that is damaged here is a whole one; else no refusal below would say anything.

    Method: the names of both sessions, and what a reader makes of them.
    """
    final = trees.final()
    check_equal(sorted(trees.files(final)), sorted(PATHS), "the files of the store")
    for session in trees.SESSIONS:
        outcome = trees.read(trees.in_memory(final), session)
        check(outcome.loaded is not None and outcome.reported == 0, outcome.says())
        check_equal(oracles.stands(final, "unchanged", session), "same", session)


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_every_changed_byte_is_refused_and_nothing_is_touched(path: str) -> None:
    """G3, G6, T2: no change of one file's bytes is believed, by load or by check.

    Method: two bits of each byte flipped, a byte inserted at and deleted from each place, every
    truncation, everything appended, and what editors and disks do to a whole file. The second
    session has the same files, so that flips and truncations show that it is watched as well.
    """
    kinds = tuple(oracles.CHANGES) if path.startswith(("nightly", "store")) else FEWER
    count = oracles.every_change_of_bytes_is_refused(path, kinds=kinds)
    check(count >= 3 * len(trees.final()[path]), f"only {count} changes")
    print(f"{path}: {count} changes, all refused")


@pytest.mark.slow
def test_every_byte_of_pointer_and_number_changed_alike_is_refused() -> None:
    """G6: the pointer and its number, one inode, are damaged together; that is refused, too.

    Method: bits flipped and truncations in both names at once.
    """
    count = oracles.both_names_of_the_pointer_changed_alike_are_refused(kinds=FEWER)
    check(count >= 3 * 1_000, f"only {count} changes")
    print(f"both names of the pointer: {count} changes, all refused")
