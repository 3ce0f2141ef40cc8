"""``archive="all"``: every generation is kept, and costs nothing to those who load (I4)."""

from __future__ import annotations

import pytest

from lastgood import Retention
from lastgood.errors import DamagedError, UsageError
from lastgood.formats import names
from lastgood.storage.memory import MemoryRoot
from tests.store.doubles import ShuffledRoot
from tests.store.world import World, at
from tests.support.check import check, check_equal

ALL = Retention(archive="all")
ARCHIVE = names.archived("")


def archived(world: World) -> list[int]:
    """The sequences in the archive."""
    parsed = [names.parse(n.removeprefix(ARCHIVE)) for n in world.listed(prefix=ARCHIVE)]
    return sorted(found.number for found in parsed if found is not None)


def test_every_older_generation_moves_to_the_archive_and_loads(world: World) -> None:
    """Retention: two generations in place, all others in the archive, each whole."""
    with world.open(retention=ALL) as handle:
        for sequence in range(1, 11):
            handle.save(at(sequence), milestone="kept" if sequence == 3 else None)
        check_equal([handle.load(n).state["n"] for n in range(1, 11)], [*range(1, 11)], "states")
    check_equal(archived(world), [1, 2, 4, 5, 6, 7, 8], "the archive")
    rows = [(row.sequence, row.role) for row in world.report().rows]
    expected = [(3, "milestone"), (9, "previous"), (10, "current")]
    expected += [(number, "archived") for number in archived(world)]
    check_equal(rows, expected, "rows")
    with world.reader() as reader:
        check_equal([reader.load(n).sequence for n in (1, 8)], [1, 8], "what a reader loads")
        for sequence in (11, 100):
            with pytest.raises(UsageError):
                reader.load(sequence)


@pytest.mark.slow
def test_thousands_of_generations_cost_a_load_nothing(world: World) -> None:
    """A load lists one small directory and never the archive, however large that is."""
    count = 2_000
    with world.open(retention=ALL) as handle:
        for sequence in range(1, count + 1):
            handle.save(at(sequence))
    check_equal(len(archived(world)), count - 2, "the archive")
    check(len(world.listed()) < 10, "the session's own directory stays small")
    root = ShuffledRoot(world.root, seed=1)
    with world.reader(root=root) as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, count, "the current sequence")
        some = [1, 99, count - 2, count - 1]
        check_equal([reader.load(n).sequence for n in some], some, "what is loaded by number")
        check(root.listed and not any(p.startswith(ARCHIVE) for p in root.listed), "listings")
        report = reader.check()
    check_equal((len(report.rows), report.verdict), (count, "good"), "check reads every one")


def test_a_fenced_writer_s_leftover_does_not_enter_the_archive(world: World) -> None:
    """Only what lineage holds was a generation; a leftover below is removed."""
    with world.open(retention=ALL) as handle:
        for sequence in (10, 20, 30):
            handle.save(at(sequence))
    other = World(world.engine, MemoryRoot(), world.path, world.outside)
    with other.open() as fork:
        for sequence in (10, 25):
            fork.save(at(sequence, state="a fork"))
        leftover = other.files()[names.checkpoint(25)]
    with world.storage(access="write") as directory:
        directory.create(names.checkpoint(25), [leftover])
    check(names.checkpoint(25) in world.report().leftovers, "it is reported")
    with world.open(retention=ALL) as handle:
        handle.save(at(40))
    check_equal(archived(world), [10, 20], "the archive")
    check(names.checkpoint(25) not in world.listed(), "the leftover is gone")


def test_changing_the_retention_keeps_what_was_archived(world: World) -> None:
    """A handle without archive removes what gets older from now on, never the archive."""
    with world.open(retention=ALL) as handle:
        for sequence in (1, 2, 3, 4):
            handle.save(at(sequence))
    with world.open() as handle:
        for sequence in (5, 6):
            handle.save(at(sequence))
    check_equal(archived(world), [1, 2], "the archive")
    with world.open(retention=ALL) as handle:
        for sequence in (7, 8):
            handle.save(at(sequence))
    check_equal(archived(world), [1, 2, 5, 6], "the archive")


def test_nothing_is_pruned_while_the_previous_generation_is_bad(disk: World) -> None:
    """I4, S9: what is about to go may be the last good one; the save itself is good."""
    with disk.open() as handle:
        handle.save(at(10))
        handle.save(at(20))
        path = disk.directory() / names.checkpoint(20)
        path.write_bytes(path.read_bytes().replace(b'"n":20', b'"n":21'))
        disk.damaged = True
        receipt = handle.save(at(30))
        check_equal((receipt.status, len(receipt.warnings)), ("saved", 1), "the receipt")
        check(names.checkpoint(10) in disk.listed(), "the one before the bad one stays")
        check(bool(handle.prune().warnings), "a prune by hand says so, too")
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, 30, "the current one is not concerned")
    report = disk.report()
    problems = {row.sequence: bool(row.problem) for row in report.rows}
    check_equal(problems, {10: False, 20: True, 30: False}, "rows")
    check_equal(report.exit_code, 2, "the exit code")


def test_a_damaged_archived_generation_is_shown_and_not_loaded(disk: World) -> None:
    """check reads the archive, too; the current one still loads."""
    with disk.open(retention=ALL) as handle:
        for sequence in (1, 2, 3, 4):
            handle.save(at(sequence))
    path = disk.directory() / names.archived(names.checkpoint(1))
    path.write_bytes(path.read_bytes()[:-1])
    disk.damaged = True
    report = disk.report()
    problems = {row.sequence: row.is_verified for row in report.rows}
    check_equal(problems, {3: True, 4: True, 1: False, 2: True}, "rows")
    with disk.reader() as reader:
        with pytest.raises(DamagedError):
            reader.load(1)
        check_equal(reader.load(2).sequence, 2, "another one")
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 4, "the current one")


def test_a_generation_that_is_gone_from_the_archive_is_missed(world: World) -> None:
    """T2: whoever continues a deleted generation says so; it is a notice, for a prune may do it.

    Method: a whole archive, one without its third, one without its oldest, and no archive.
    """
    world.saved(*range(1, 8), retention=ALL)
    check_equal(world.report().notices, (), "of a whole archive")
    world.drop(names.archived(names.checkpoint(3)))
    world.drop(names.archived(names.checkpoint(1)))
    report = world.report()
    (notice,) = report.notices
    check("before sequence 2, 4:" in notice, notice)
    check_equal((report.verdict, report.findings), ("good", ()), "the verdict")
    world.saved(1, 2, 3, 4, session="pruned")
    check_equal(world.report("pruned").notices, (), "where nothing was ever archived")
