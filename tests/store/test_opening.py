"""Opening a session: what was interrupted is finished, then a revision is claimed (R1, R3, R4)."""

from __future__ import annotations

import pytest

from lastgood import Limits
from lastgood.errors import PolicyError
from lastgood.formats import names
from lastgood.formats import session as session_format
from lastgood.inspection import Report
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.records import sealer, session_record


def crashed(world: World, *removed: str, pointer: str | None = None) -> None:
    """A save of 30 on 20, as if killed: names that were not made yet are gone again."""
    world.saved(10, 20)
    before = world.files()
    world.saved(30)
    after = world.files()
    for name in set(after) - set(before):
        if name in removed:
            world.drop(name)
    with world.storage(access="write") as directory:
        for name, data in before.items():
            if name not in after:
                directory.create(name, [data])
    if pointer is not None:
        world.put(names.POINTER, world.files()[pointer])
    world.damaged = False  # a crash is no damage: the fixture verifies the whole store


# Revisions of ``crashed``: 1 claim, 2 and 3 saves of 10 and 20, 4 claim, 5 save of 30.
CLAIM, SAVE = names.manifest(4), names.manifest(5)


def published(world: World) -> None:
    """Killed between S4 and S6."""
    crashed(world, SAVE, pointer=CLAIM)


def claimed(world: World) -> None:
    """Killed between S6 and S7."""
    crashed(world, pointer=CLAIM)


def pointed(world: World) -> None:
    """Power lost after S7, before the number's entry was on the disk."""
    crashed(world, SAVE)


def without_pointer(world: World) -> None:
    """Power lost in the rename of S7, which is three changes of a directory."""
    crashed(world)
    world.drop(names.POINTER)
    world.damaged = False


STATES = {
    "published": published,
    "claimed": claimed,
    "pointed": pointed,
    "without pointer": without_pointer,
}


def role_of(report: Report, sequence: int) -> str:
    return next(row.role for row in report.rows if row.sequence == sequence)


@pytest.mark.parametrize("name", STATES)
def test_a_reader_believes_the_newest_and_says_that_something_is_left(
    world: World, name: str
) -> None:
    """R3: roll-forward and unfinished claims are read without being finished; exit 6."""
    STATES[name](world)
    before = world.files()
    with world.reader() as reader:
        loaded = reader.load_latest()
        report = reader.check()
    check_equal(loaded and loaded.sequence, 30, "what is loaded")
    check_equal((report.verdict, report.exit_code), ("recoverable", 6), "verdict and exit code")
    expected = "published" if name == "published" else "current"
    check_equal(role_of(report, 30), expected, "the role of the newest")
    check_equal(world.files(), before, "the directory")


@pytest.mark.parametrize("name", STATES)
def test_the_next_owner_finishes_it_and_claims(world: World, name: str) -> None:
    """R4: number, pointer and roll-forward are completed; the same save again is unchanged."""
    STATES[name](world)
    with world.open() as handle:
        report = handle.check()
        check_equal((report.verdict, report.findings), ("good", ()), "the report")
        check_equal(role_of(report, 30), "current", "the role of the newest")
        check_equal(role_of(report, 20), "previous", "the role of the one before")
        check_equal(handle.save(at(30)).status, "unchanged", "the interrupted save again")
        check_equal(handle.save(at(40)).status, "saved", "the next save")
    kept = [row.sequence for row in world.report().rows]
    check_equal(kept, [30, 40], "what is stored")


@pytest.mark.parametrize("name", STATES)
def test_finishing_twice_is_finishing_once(world: World, name: str) -> None:
    """R4 is idempotent: openings after it only claim."""
    STATES[name](world)
    for opening in range(3):
        with world.open() as handle:
            loaded = handle.load_latest()
            check_equal(loaded and loaded.sequence, 30, f"opening {opening}")
    check_equal(world.report().verdict, "good", "the verdict")


def test_an_opening_is_one_revision_with_the_same_checkpoints(world: World) -> None:
    """R4: the claim names what was chosen, with an epoch of its own, and moves nothing."""
    world.saved(10, 20)
    before = world.report().selection
    world.open().close()
    after = world.report().selection
    if not (before and after and before.manifest and after.manifest):
        raise AssertionError("both have a verdict")
    check_equal(after.manifest.revision, before.manifest.revision + 1, "the revision")
    check_equal(after.manifest.epoch, before.manifest.epoch + 1, "the epoch")
    check_equal(after.manifest.previous_manifest, before.manifest.digest, "what it continues")
    check_equal((after.current, after.previous), (before.current, before.previous), "generations")


def test_a_session_with_an_event_log_is_not_opened_as_checkpoints_only(world: World) -> None:
    """Mixing is refused: checkpoints alone would leave the log behind (PolicyError, exit 9)."""
    world.saved(1, session="other")
    record = session_format.encode(session_record(), sealer=sealer())
    with world.storage(access="write") as directory:
        directory.create(names.SESSION, record)
    before = world.files()
    with pytest.raises(PolicyError) as raised:
        world.open()
    check_equal(raised.value.exit_code, 9, "the exit code")
    check_equal(world.files(), before, "the directory")
    with world.reader() as reader:
        check_equal(reader.load_latest(), None, "a new session can be looked at")


def test_opening_for_ever_without_saving_keeps_the_directory_small(world: World) -> None:
    """K7: a job that restarts without end before its save never fills its session's directory.

    Method: open and close 300 times under a limit of 120 entries, with checkpoints and without.
    """
    limits = Limits(directory_entries=120)
    most = 0
    for number in range(300):
        with world.open(limits=limits) as handle:
            if number == 150:
                handle.save(at(10))
        most = max(most, len(world.listed()))
    check(most < 80, f"up to {most} names")
    report = world.report()
    check_equal((report.verdict, report.findings), ("good", ()), "the verdict")
    with world.reader() as reader:
        loaded = reader.load_latest()
    check_equal(loaded and loaded.sequence, 10, "what is loaded")
