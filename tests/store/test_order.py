"""Order is numeric, and nothing else: not text, not a listing's, not any clock's (C3, C14-06)."""

from __future__ import annotations

import os
import random
import shutil

import pytest

from lastgood import open_store
from lastgood.clock import Clock
from lastgood.errors import UsageError
from tests.store.doubles import ShuffledRoot, ToldClock, at_noon
from tests.store.world import World, at
from tests.support.check import check, check_equal

PAIRS = [(2, 10), (9, 10), (99, 100), (999_999, 1_000_000), (1, 10**15), (10**15 - 1, 10**15)]


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_the_higher_number_is_newer_whatever_the_text_says(
    world: World, low: int, high: int
) -> None:
    """C3: 10 follows 2, and 1000000 follows 999999, also for a writer that opens anew."""
    with world.open() as handle:
        handle.save(at(low))
        handle.save(at(high))
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, high, "the current sequence")
    with world.open() as again:
        loaded = again.load_latest()
        check_equal(loaded and loaded.sequence, high, "the current sequence after reopening")
        check_equal(again.load(low).sequence, low, "the generation before")
    rows = [(row.sequence, row.role) for row in world.report().rows]
    check_equal(rows, [(low, "previous"), (high, "current")], "rows, in numeric order")


@pytest.mark.parametrize(("low", "high"), PAIRS)
def test_the_lower_number_after_the_higher_is_superseded(world: World, low: int, high: int) -> None:
    """I5: saved in the other order, the lower one never becomes current."""
    with world.open() as handle:
        handle.save(at(high))
        check_equal(handle.save(at(low)).status, "superseded", "the receipt")
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, high, "the current sequence")


@pytest.mark.parametrize("sequence", [10**15 + 1, 10**16, 2**63])
def test_a_sequence_above_the_highest_is_refused(world: World, sequence: int) -> None:
    """The highest is 10^15; nothing follows it."""
    with world.open() as handle:
        handle.save(at(10**15))
        with pytest.raises(UsageError):
            handle.save(at(sequence))


@pytest.mark.parametrize("seed", range(4))
def test_the_order_of_a_listing_changes_nothing(world: World, seed: int) -> None:
    """Every listing comes in another order: saves, loads, prunes and reports stay the same."""
    root = ShuffledRoot(world.root, seed=seed)
    sequences = [9, 10, 99, 100, 999_999, 1_000_000, 10**15]
    for sequence in sequences:
        with world.open(root=root) as handle:
            handle.save(at(sequence), milestone="first" if sequence == 9 else None)
    with world.reader(root=root) as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 10**15, "the current sequence")
        found = {row.sequence: row.role for row in reader.check().rows}
    expected = {9: "milestone", 1_000_000: "previous", 10**15: "current"}
    check_equal(found, expected, "rows")
    check_equal(list(found), sorted(found), "rows are in numeric order")
    with open_store(root, keys=world.keys) as store:
        check_equal(len(list(store.sessions())), 1, "sessions")


CLOCKS = {
    "1970": [at_noon(1970)],
    "2100": [at_noon(2100)],
    "standing": [at_noon(2026)],
    "backwards": [at_noon(2026, day=day) for day in range(31, 0, -1)],
    "jumping": [at_noon(year) for year in (2026, 1970, 2100, 1999, 2050, 1980, 2026)],
}


@pytest.mark.parametrize("name", CLOCKS)
def test_any_clock_is_legal(world: World, name: str) -> None:
    """C3-02, C14-06: nothing is ordered, believed or pruned by the time."""
    clock: Clock = ToldClock([*CLOCKS[name]])
    for opening in range(3):
        with world.open(clock=clock) as handle:
            for sequence in (10 * opening + 1, 10 * opening + 2):
                check_equal(handle.save(at(sequence)).status, "saved", "a save")
                check_equal(handle.save(at(sequence)).status, "unchanged", "the same again")
                loaded = handle.load_latest()
                check_equal(loaded and loaded.sequence, sequence, "the current sequence")
    years = [row.created[:4] for row in world.report().rows if row.created]
    check(set(years) <= {str(time.year) for time in CLOCKS[name]}, f"told times: {years}")


@pytest.mark.parametrize("how", ["reversed", "equal", "random"])
def test_times_of_files_change_nothing(disk: World, how: str) -> None:
    """C3-02: modification times reversed, all equal, at random, also for what prune removes."""
    disk.saved(10, 20)
    chance = random.Random(how)
    paths = sorted(disk.directory().iterdir())
    for number, path in enumerate(paths):
        moment = {"reversed": 10_000 - number, "equal": 0, "random": chance.randrange(10**9)}[how]
        os.utime(path, (moment, moment))
    with disk.open() as handle:
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, 20, "the current sequence")
        handle.save(at(30))
    rows = {row.sequence: row.role for row in disk.report().rows}
    check_equal(rows, {20: "previous", 30: "current"}, "rows")


def test_a_copy_of_the_store_is_the_same_store(disk: World) -> None:
    """A plain copy, in which pointer and number are two files, loads and can be written."""
    disk.saved(10, 20)
    moved = disk.path.with_name("moved")
    disk.root.close()
    shutil.copytree(disk.path, moved)
    shutil.rmtree(disk.path)
    shutil.copytree(moved, disk.path)
    shutil.rmtree(moved)
    with disk.open() as handle:
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, 20, "the current sequence")
        check_equal(handle.save(at(30)).status, "saved", "a save")
