"""Milestones: kept under a label until they are released, whatever is newer (I4)."""

from __future__ import annotations

import pytest

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LimitError,
    SequenceConflictError,
    UsageError,
)
from lastgood.formats import names
from lastgood.formats.limits import Limits
from lastgood.storage.memory import MemoryRoot
from tests.store.world import World, at
from tests.support.check import check, check_equal


def labels(world: World) -> dict[int, str]:
    """Sequence and label of every milestone, as ``check`` shows them."""
    return {row.sequence: row.label for row in world.report().rows if row.label}


def test_a_milestone_is_kept_whatever_is_newer(world: World) -> None:
    """I4: milestones come on top of the two generations, survive reopening, and load."""
    with world.open() as handle:
        handle.save(at(10), milestone="before the audit")
        handle.save(at(20), milestone="naïve ☃")
        for sequence in range(30, 90, 10):
            handle.save(at(sequence))
    with world.open() as again:
        again.save(at(100))
    with world.reader() as reader:
        check_equal([reader.load(n).sequence for n in (10, 20)], [10, 20], "what is loaded")
        rows = {row.sequence: row.role for row in reader.check().rows}
    expected = {10: "milestone", 20: "milestone", 80: "previous", 100: "current"}
    check_equal(rows, expected, "what is stored")
    check_equal(labels(world), {10: "before the audit", 20: "naïve ☃"}, "labels")


def test_a_released_milestone_goes_with_the_same_call(world: World) -> None:
    """prune(release=…): a revision without it, then it is removed; the others stay."""
    with world.open() as handle:
        for sequence in (10, 20, 30, 40):
            handle.save(at(sequence), milestone=f"at {sequence}")
        pruned = handle.prune(release=[10])
        check(names.checkpoint(10) in pruned.removed, f"removed: {pruned}")
        check_equal(set(labels(world)), {20, 30, 40}, "the milestones that stay")
        handle.prune(release=[40, 20])
        check_equal(set(labels(world)), {30}, "the milestones that stay")
        rows = {row.sequence: row.role for row in handle.check().rows}
    check_equal(rows, {30: "previous", 40: "current"}, "a generation stays, milestone or not")


@pytest.mark.parametrize("release", [[20], [10, 20], [99], [10, 0], [True]])
def test_releasing_what_is_no_milestone_changes_nothing(world: World, release: list[int]) -> None:
    """All or nothing: one that is none refuses the whole call."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        handle.save(at(20))
        before = world.files()
        with pytest.raises(UsageError):
            handle.prune(release=release)
        check_equal(world.files(), before, "the directory")


def test_a_label_that_an_interrupted_save_left_out_is_given_by_the_same_call(world: World) -> None:
    """The same save again, with a label: unchanged content, one revision more, the label."""
    with world.open() as handle:
        handle.save(at(10))
        first = handle.save(at(20))
        again = handle.save(at(20), milestone="late")
        check_equal((again.status, again.digest), ("unchanged", first.digest), "the receipt")
        check_equal(again.revision, first.revision + 1, "the revision that has the label")
        check_equal(labels(world), {20: "late"}, "labels")
        before = world.files()
        check_equal(handle.save(at(20), milestone="late").status, "unchanged", "the same again")
        check_equal(handle.save(at(20)).status, "unchanged", "without its label")
        check_equal(world.files(), before, "nothing is written for what is there")
        handle.save(at(10), milestone="the one before")
        handle.save(at(20), milestone="renamed")
        check_equal(labels(world), {10: "the one before", 20: "renamed"}, "labels")


def test_a_label_is_no_way_around_one_content(world: World) -> None:
    """I3: other content under a label is still an alarm, also for a milestone long past."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        for sequence in (20, 30, 40):
            handle.save(at(sequence))
        before = world.files()
        check_equal(handle.save(at(10)).status, "unchanged", "a milestone is a kept sequence")
        with pytest.raises(SequenceConflictError):
            handle.save(at(10, state="other"), milestone="kept")
        check_equal(world.files(), before, "the directory")


def test_too_many_milestones_are_refused_before_anything_is_written(world: World) -> None:
    """Limits: a save with a label is refused at the limit, one without goes on."""
    with world.open(limits=Limits(milestones=2)) as handle:
        handle.save(at(10), milestone="one")
        handle.save(at(20), milestone="two")
        handle.save(at(30))
        before = world.files()
        for sequence in (30, 40):
            with pytest.raises(LimitError) as raised:
                handle.save(at(sequence), milestone="three")
            check("prune(release=" in str(raised.value), str(raised.value))
        check_equal(world.files(), before, "the directory")
        handle.save(at(20), milestone="two, renamed")
        handle.prune(release=[10])
        check_equal(handle.save(at(40), milestone="three").status, "saved", "after a release")
        check_equal(set(labels(world)), {20, 40}, "the milestones")


def test_a_milestone_that_is_gone_is_damage_to_check_and_to_load(world: World) -> None:
    """G3: the newest manifest names it, and no crash takes it; the current one still loads."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        for sequence in (20, 30):
            handle.save(at(sequence))
    world.drop(names.checkpoint(10))
    report = world.report()
    check(isinstance(report.error, DamagedError), f"the finding: {report.error}")
    row = next((row for row in report.rows if row.sequence == 10), None)
    check(row is not None and not row.is_verified and row.role == "milestone", f"its row: {row}")
    with world.reader() as reader:
        with pytest.raises(DamagedError):
            reader.load(10)
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 30, "what is loaded")


def test_another_authentic_record_in_a_milestone_s_place_is_a_fork(world: World) -> None:
    """I2: the manifest names a digest, so a record of the same sequence is not enough."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        for sequence in (20, 30):
            handle.save(at(sequence))
    other = World("memory", MemoryRoot(), world.path, world.outside)
    other.saved(10)
    world.put(names.checkpoint(10), other.files()[names.checkpoint(10)])
    report = world.report()
    check_equal([row.is_verified for row in report.rows], [False, True, True], "rows")
    check_equal(report.exit_code, 3, "the exit code")
    with world.reader() as reader, pytest.raises(ForkDetectedError):
        reader.load(10)


def test_a_damaged_milestone_is_shown_and_does_not_hide_the_others(world: World) -> None:
    """check: every row is printed, the damaged one with its reason."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        for sequence in (20, 30):
            handle.save(at(sequence))
    name = names.checkpoint(10)
    world.put(name, world.files()[name].replace(b'"n":10', b'"n":11'))
    report = world.report()
    check_equal([row.is_verified for row in report.rows], [False, True, True], "rows")
    check_equal(report.exit_code, 2, "the exit code")
    with world.reader() as reader, pytest.raises(DamagedError):
        reader.load(10)
