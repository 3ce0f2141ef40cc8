"""Reports of sessions with an event log: all of it is read, and every record's place in it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from lastgood import Limits, Report
from lastgood.errors import DamagedError, ForkDetectedError, RollbackDetectedError
from lastgood.formats import names
from lastgood.log_reading import LogReading
from lastgood.reading import Scope
from lastgood.survey import read_whole
from tests.store.log_worlds import (
    history,
    opened,
    reforged,
    segments,
    spoil,
    torn,
)
from tests.store.world import SESSION, World, at
from tests.support.check import check, check_equal


def named(report: Report, *found: str) -> None:
    """Fail unless each of ``found`` is the start of some finding, whatever its place is."""
    for name in found:
        check(
            any(name in finding for finding in report.findings),
            f"{name} is not named: {report.findings}",
        )


def test_a_report_says_how_long_the_log_is_and_where_it_ends(world: World) -> None:
    """Events, pieces, bytes, epoch and end are those of the files. Method: count the lines."""
    history(world)
    report = world.report()
    check_equal((report.verdict, report.exit_code, report.findings), ("good", 0, ()), "verdict")
    found = report.log
    check(found is not None, "no summary of the log")
    if found is None:
        return
    files = world.files()
    lines = b"".join(files[name].rstrip(b"\0") for name in segments(world))
    number = lines.count(b"\n")
    check_equal((found.events, found.first, found.end.count), (number, 1, number), "events")
    check_equal((found.segments, found.epoch), (3, 3), "pieces")
    check_equal(found.size_bytes, len(lines), "bytes")
    check(found.end.head.encode() in lines.split(b"\n")[-2], "the head at the end")
    check_equal((found.torn, found.skipped, found.stray), (None, (), ()), "what a crash left")


def test_events_without_a_checkpoint_are_good_and_no_new_session(world: World) -> None:
    """R6: such a session starts from its initial state; nothing is missing. Method: never save."""
    with opened(world) as session:
        session.append("x", 1)
    check_equal((world.report().verdict, world.report().exit_code), ("good", 0), "verdict")


def test_sessions_of_checkpoints_have_no_log(world: World) -> None:
    """A log is never made up; a piece of one beside them is reported (T2)."""
    world.saved(10, 20)
    check_equal(world.report().log, None, "the log")
    world.put(names.segment(1, 1), bytes(4096))
    report = world.report()
    check_equal((report.exit_code, report.log), (2, None), "with a planted segment")
    named(report, names.SESSION)


def test_damage_below_every_generation_is_found(world: World) -> None:
    """C1-05: verify reads all of the log, also what no resume needs any more.

    Method: one bit in the first owner's segment; opening the session does not read it.
    """
    history(world)
    spoil(world, segments(world)[0], at=700)
    report = world.report()
    check_equal((report.verdict, report.exit_code), ("stopped", 2), "verdict")
    error = report.error
    check(isinstance(error, DamagedError), f"{error}")
    if isinstance(error, DamagedError):
        check_equal(error.name, segments(world)[0], "the file")
        check(error.line is not None and error.offset is not None, f"line and offset: {error}")
    with opened(world) as session:
        check_equal(session.state["n"][-1], 29, "it resumes")


def test_all_of_a_log_is_read_as_it_was_found_while_a_writer_goes_on(world: World) -> None:
    """G8: however far a writer gets while the old part is read, it is no finding.

    Method: find the end of a log; append to it, close it, let another owner go on and leave an
    empty segment; only then read all of it.
    """
    session = names.session_id(SESSION)
    scope = Scope(
        keyring=world.keys,
        store_id=world.keys.store_id,
        session=session,
        sealer=world.keys.sealer(names.directory(session)),
        limits=Limits(),
    )
    with opened(world) as writer:
        writer.append("x", 0)
    with opened(world) as writer, world.storage() as storage:
        writer.append("x", 1)
        recent = LogReading(scope, storage).find(since=writer.sequence)
        check_equal((recent.end.count, len(recent.links)), (writer.sequence, 1), "its end")
        check_equal(len(read_whole(scope, storage, recent, floor=None).links), 2, "at once")
        writer.append("x", 2)
        check_equal(read_whole(scope, storage, recent, floor=None).end, recent.end, "appended")
        writer.close()
        check_equal(read_whole(scope, storage, recent, floor=None).end, recent.end, "closed")
        with opened(world) as other:
            other.append("x", 3)
        world.put(names.segment(recent.end.count + 1, 9), bytes(65536))
        found = read_whole(scope, storage, recent, floor=None)
        check_equal((found.end, found.skipped, len(found.links)), (recent.end, (), 2), "later")


def test_all_findings_of_a_ruined_session_are_listed(world: World) -> None:
    """C2-09: both checkpoints bad and the log damaged: three findings, then it terminates."""
    _, previous, current = history(world)
    log = segments(world)[0]
    spoil(world, names.checkpoint(previous), at=-20)
    spoil(world, names.checkpoint(current), at=-20)
    spoil(world, log, at=700)
    report = world.report()
    check_equal((report.verdict, report.exit_code), ("stopped", 2), "verdict")
    named(report, names.checkpoint(previous), names.checkpoint(current), log)
    check_equal(len(report.findings), 3, f"findings {report.findings}")


@pytest.mark.parametrize("which", [0, 1, 2])
def test_every_checkpoint_is_bound_to_the_log(which: int, world: World) -> None:
    """R4: a milestone, the previous and the current one each name an event that is there.

    Method: forge one byte of the head in the payload of one, and seal again all that name it.
    """
    name = names.checkpoint(history(world)[which])

    def other_head(payload: dict[str, Any]) -> None:
        payload["log"]["head"] = payload["log"]["head"][::-1]

    reforged(world, name, other_head)
    report = world.report()
    check(isinstance(report.error, ForkDetectedError), f"{report.findings}")
    named(report, f"{name} names another event")
    others = [f for f in report.findings if "names another event" in f and name not in f]
    check_equal(others, [], "records that say the truth")


@pytest.mark.parametrize("behind", [0, 1])
def test_both_newest_manifests_are_bound_to_the_log(behind: int, world: World) -> None:
    """R4: the claim and the save before it name events that are there.

    Method: forge the offset in the newest, and in the one before.
    """
    history(world)
    manifests = [n for n in world.listed(prefix="manifest-") if n.endswith(".json")]
    name = sorted(manifests)[-1 - behind]

    def other_offset(payload: dict[str, Any]) -> None:
        payload["log"]["offset"] += 2  # one more would be a line feed that is gone

    reforged(world, name, other_offset)
    report = world.report()
    check(isinstance(report.error, ForkDetectedError), f"{report.findings}")
    named(report, f"{name} names another event")


@pytest.mark.parametrize("part", ["checkpoint", "manifest"])
def test_a_record_without_a_place_in_the_log_is_damage(part: str, world: World) -> None:
    """G3: no writer of such a session leaves that out. Method: forge a null."""
    first, *_ = history(world)
    manifests = sorted(n for n in world.listed(prefix="manifest-") if n.endswith(".json"))
    name = manifests[-1] if part == "manifest" else names.checkpoint(first)
    reforged(world, name, lambda payload: payload.update(log=None))
    report = world.report()
    check(isinstance(report.error, DamagedError), f"{report.findings}")
    named(report, f"{name}: it names no place in the event log")


def test_a_checkpoint_of_another_event_than_its_own_is_damage(world: World) -> None:
    """A checkpoint at N holds the state after N. Method: forge the anchor of the event before."""
    _, _, current = history(world)
    name = names.checkpoint(current)

    def one_less(payload: dict[str, Any]) -> None:
        payload["log"]["count"] -= 1

    reforged(world, name, one_less)
    named(world.report(), f"{name}: it names no place")


def test_a_log_that_was_put_back_is_a_rollback_and_every_record_says_so(world: World) -> None:
    """G4, C1-09: records that name events behind the log's end are named, each of them.

    Method: keep the records, put back the log as it was before the last owner.
    """
    with opened(world) as session:
        session.append_many([("x", n) for n in range(5)])
        session.save()
    older = {name: world.files()[name] for name in segments(world)}
    with opened(world) as session:
        session.append_many([("x", n) for n in range(5)])
        current = session.save().sequence
    for name in segments(world):
        if name not in older:
            world.drop(name)
    report = world.report()
    check(isinstance(report.error, RollbackDetectedError), f"{report.findings}")
    check_equal(report.exit_code, 3, "exit code")
    named(report, f"{names.checkpoint(current)} names event {current}")
    check_equal(report.log and report.log.end.count, 8, "the end of the log that is there")


def test_a_fork_names_every_record_of_the_other_history(world: World) -> None:
    """G3: two histories of one session are never one. Method: the same session continued twice."""
    with opened(world) as session:
        session.append("x", 0)
        first = session.save().sequence
    kept = world.files()
    with opened(world) as session:
        session.append_many([("x", "a"), ("x", "b")])
        session.save()
    other = {name: data for name, data in world.files().items() if name.startswith("events-")}
    for name in world.files():
        if name not in (names.SESSION, names.POINTER):
            world.drop(name)
    for name, data in kept.items():
        world.put(name, data)
    with opened(world) as session:
        session.append_many([("x", "c"), ("x", "d")])
        current = session.save().sequence
    for name, data in other.items():
        world.put(name, data)
    report = world.report()
    check(isinstance(report.error, ForkDetectedError), f"{report.findings}")
    named(report, f"{names.checkpoint(current)} names another event")
    check(not any(names.checkpoint(first) in f for f in report.findings), f"{report.findings}")


def test_a_torn_tail_is_recoverable_and_is_told(world: World) -> None:
    """G2: what a death in the middle of a write leaves is no damage; exit 6 until it is mended.

    Method: half a line behind the last event; then the next owner, and a good verdict.
    """
    history(world)
    name = torn(world)
    report = world.report()
    check_equal((report.verdict, report.exit_code), ("recoverable", 6), f"{report.findings}")
    check(report.log is not None and report.log.torn is not None, "the torn tail")
    check(any(name in notice for notice in report.notices), f"notices: {report.notices}")
    with opened(world) as session:
        session.append("x", 30)
    check_equal(world.report().exit_code, 0, "after the next owner")


def test_an_empty_segment_is_recoverable_and_is_told(world: World) -> None:
    """G2: a death before the first write of an owner. Method: zeros under the next name."""
    history(world)
    log = world.report().log
    name = names.segment(log.end.count + 1 if log else 0, 3)
    world.put(name, bytes(65536))
    report = world.report()
    check_equal((report.verdict, report.exit_code), ("recoverable", 6), f"{report.findings}")
    check_equal(report.log and report.log.skipped, (name,), "skipped")
    check(any(name in notice for notice in report.notices), f"notices: {report.notices}")


def test_a_segment_that_another_owner_took_over_is_stray(world: World) -> None:
    """It is reported and not believed, and it is no alarm. Method: an older owner's empty one."""
    with opened(world) as session:
        session.append("x", 1)
        end = session.sequence
    with opened(world):
        pass
    name = names.segment(end + 2, 1)
    world.put(name, bytes(65536))
    report = world.report()
    check_equal((report.verdict, report.exit_code), ("good", 0), f"{report.findings}")
    check_equal(report.log and report.log.stray, (name,), "stray")
    check(any(name in notice for notice in report.notices), f"notices: {report.notices}")


def other_effect(payload: dict[str, Any]) -> None:
    """Put another side effect in the place of the first."""
    payload["sideEffectFingerprints"][0] = "fx:v1:" + "f" * 64


@pytest.mark.parametrize("which", [0, 1, 2])
def test_side_effects_that_a_later_checkpoint_forgot_are_found(which: int, world: World) -> None:
    """I6: along the generations fingerprints only grow.

    Method: forge another one into a milestone, the previous or the current checkpoint.
    """
    saved = history(world)
    check_equal(world.report().findings, (), "as it was saved")
    reforged(world, names.checkpoint(saved[which]), other_effect)
    report = world.report()
    check_equal(report.exit_code, 2, f"exit code of {report.findings}")
    for below, above in pairwise(saved):
        known = which in (saved.index(below), saved.index(above))
        said = f"{names.checkpoint(above)}: it lacks 1 side effects that {names.checkpoint(below)}"
        check_equal(any(said in finding for finding in report.findings), known, said)


def test_checkpoints_alone_keep_their_effects_too(world: World) -> None:
    """I6 holds in sessions without a log. Method: forge another one."""
    with world.open() as handle:
        handle.save(at(10, 1))
        handle.save(at(20, 1, 2))
    check_equal(world.report().findings, (), "as it was saved")
    reforged(world, names.checkpoint(20), other_effect)
    named(world.report(), f"Damaged: {names.checkpoint(20)}: it lacks 1 side effects")


def test_a_damaged_record_of_the_session_hides_no_damage_of_the_log(world: World) -> None:
    """Every finding is reported: whether there is a log is seen from its files then."""
    history(world)
    world.put(names.SESSION, b"")
    spoil(world, segments(world)[1], at=700)
    named(world.report(), names.SESSION, segments(world)[1])
