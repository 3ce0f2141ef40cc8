"""The table of selection: rows about checkpoints, new sessions and what cannot be read.

Each row is a change of the files that an honest writer left, and its verdict: the checkpoint
that is chosen, or the class of the error. Rows about manifests are in
``test_selection_revisions.py``, those about the witness in ``test_selection_witness.py``.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace

import pytest

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    RollbackDetectedError,
    SplicedError,
    StorageError,
    UnknownFormatError,
    UnknownSchemaError,
)
from lastgood.formats import names
from lastgood.formats.manifest import Manifest
from lastgood.rules.selection import NOTHING, Selection, select
from tests.rules.disk import Disk, Stored, Writer, damaged, digest, evidence, judge, settled, stored
from tests.support.check import check, check_equal
from tests.support.records import session_record

Change = Callable[[Disk], None]

CURRENT = names.checkpoint(30)
PREVIOUS = names.checkpoint(20)


def drop(name: str) -> Change:
    return lambda disk: disk.__delitem__(name)


def put(name: str, record: Stored | LastgoodError) -> Change:
    return lambda disk: disk.__setitem__(name, record)


def spoil(name: str) -> Change:
    """The payload does not verify any more."""
    return lambda disk: disk.__setitem__(name, damaged(disk[name]))


def copy(source: str, target: str) -> Change:
    return lambda disk: disk.__setitem__(target, disk[source])


def following(sequence: int, *, epoch: int = 1) -> Stored:
    """What continues the settled writer's current checkpoint."""
    current = settled().current
    return stored(sequence, epoch=epoch, previous=current.header.digest if current else None)


def chosen(selection: Selection) -> int | None:
    return None if selection.current is None else selection.current.sequence


# --- None: a new session, and only that ---------------------------------------------------


def empty() -> Disk:
    return {}


def begun() -> Disk:
    """Killed after ``session.json`` and before the first claim."""
    return {names.SESSION: session_record()}


def claimed(openings: int) -> Callable[[], Disk]:
    def make() -> Disk:
        writer = Writer()
        for _ in range(openings):
            writer.open()
        return writer.disk

    return make


def claimed_without_pointer() -> Disk:
    writer = Writer()
    writer.open()
    del writer.disk[names.POINTER]
    return writer.disk


def claimed_without_number() -> Disk:
    writer = Writer()
    writer.open()
    del writer.disk[names.manifest(1)]
    return writer.disk


@pytest.mark.parametrize(
    "make",
    [empty, begun, claimed(1), claimed(2), claimed_without_pointer, claimed_without_number],
)
@pytest.mark.parametrize("temporary", [False, True])
def test_nothing_that_names_a_checkpoint_is_a_new_session(
    make: Callable[[], Disk], temporary: bool
) -> None:
    """Row 1: None, with session.json, claims and temporaries or without."""
    disk = make()
    if temporary:
        disk[names.temporary(names.POINTER, bytes(8))] = DamagedError("half a file")
    check_equal(chosen(judge(disk)), None, "the checkpoint that is chosen")


def test_nothing_at_all_is_the_verdict_for_a_missing_directory() -> None:
    """Row 1: a session without a directory and one without a file get the same verdict."""
    check_equal(judge({}), NOTHING, "the verdict")


def test_a_log_of_the_owner_s_epoch_beside_a_claim_is_a_new_session() -> None:
    """Row 1 and "manifest without checkpoint, and a log": nothing is chosen, nothing stops."""
    check_equal(chosen(judge(claimed(1)(), log_epoch=1)), None, "the checkpoint that is chosen")


# --- it -----------------------------------------------------------------------------------


def test_the_newest_revision_s_current_checkpoint_is_it() -> None:
    """Row 2: current and previous as the newest revision names them; nothing to report."""
    writer = settled()
    found = judge(writer.disk)
    newest = writer.newest
    check(newest is not None and found.manifest == newest, "the newest revision decides")
    check_equal(found.current, newest.current if newest else None, "the current checkpoint")
    check_equal(found.previous, newest.previous if newest else None, "the previous generation")
    check(found.is_settled, "nothing is left to finish")
    check_equal((found.leftovers, found.notices), ((), ()), "leftovers and notices")


GOOD_CHANGES: dict[str, tuple[Change, int, tuple[int, ...]]] = {
    "nothing": (lambda _: None, 30, ()),
    "previous payload damaged": (spoil(PREVIOUS), 30, ()),
    "older one not pruned yet": (put(names.checkpoint(10), stored(10)), 30, (10,)),
    "unnamed one between": (put(names.checkpoint(25), stored(25)), 30, (25,)),
    "one newer that continues": (put(names.checkpoint(31), following(31)), 31, ()),
    "one newer, far away": (put(names.checkpoint(10**15), following(10**15)), 10**15, ()),
}


@pytest.mark.parametrize("name", GOOD_CHANGES)
def test_what_a_crash_or_a_prune_leaves_is_recovered(name: str) -> None:
    """Rows 2, 3 and 11: leftovers are reported, a published successor is rolled forward to."""
    change, expected, leftovers = GOOD_CHANGES[name]
    disk = settled().disk
    change(disk)
    found = judge(disk)
    check_equal(chosen(found), expected, "the checkpoint that is chosen")
    check_equal(found.rolled_forward, expected != 30, "whether it was rolled forward")
    check_equal(found.leftovers, tuple(map(names.checkpoint, leftovers)), "leftovers")


def test_rolling_forward_makes_the_current_checkpoint_the_previous_generation() -> None:
    """Row 3: the generations after it are the successor and what it continues."""
    writer = settled()
    writer.save(40, until="publish")
    found = judge(writer.disk)
    check_equal(chosen(found), 40, "the current checkpoint")
    check_equal(found.previous, writer.newest and writer.newest.current, "the generation before")
    check(not found.is_settled, "the next owner still has to claim it")


def test_a_first_checkpoint_is_rolled_forward_to_from_a_claim_without_one() -> None:
    """Row 3, at the beginning: ``previous`` null continues a revision that names none."""
    writer = Writer()
    writer.open()
    writer.save(1, until="publish")
    check_equal(chosen(judge(writer.disk)), 1, "the checkpoint that is chosen")


def test_a_rolled_back_manifest_with_its_successor_there_loses_nothing() -> None:
    """Row 3: an older consistent set of manifests rolls forward to what was acknowledged."""
    writer = settled()
    before = dict(writer.disk)
    writer.save(40)
    before[names.checkpoint(40)] = writer.disk[names.checkpoint(40)]
    check_equal(chosen(judge(before)), 40, "the checkpoint that is chosen")


# --- a fenced writer's leftovers ----------------------------------------------------------


def twice_opened() -> Writer:
    writer = settled()
    writer.open()
    writer.prune()
    return writer


@pytest.mark.parametrize("count", [1, 2, 5])
def test_newer_checkpoints_of_an_older_epoch_are_ignored_and_reported(count: int) -> None:
    """Row 4: whatever a fenced writer publishes is never believed, however much it is."""
    disk = twice_opened().disk
    fenced = [names.checkpoint(40 + number) for number in range(count)]
    for number, name in enumerate(fenced):
        disk[name] = following(40 + number, epoch=1)
    found = judge(disk)
    check_equal(chosen(found), 30, "the checkpoint that is chosen")
    check_equal(found.leftovers, tuple(fenced), "leftovers")


def test_a_fenced_leftover_does_not_hide_the_owner_s_own_successor() -> None:
    """Rows 3 and 4 together: of two newer ones the owner's is rolled forward to."""
    writer = twice_opened()
    writer.disk[names.checkpoint(40)] = following(40, epoch=1)
    writer.save(50, until="publish")
    found = judge(writer.disk)
    check_equal(chosen(found), 50, "the checkpoint that is chosen")
    check_equal(found.leftovers, (names.checkpoint(40),), "leftovers")


# --- stop ---------------------------------------------------------------------------------

STOPS: dict[str, tuple[Change, type[LastgoodError]]] = {
    "newer epoch": (put(names.checkpoint(40), following(40, epoch=2)), RollbackDetectedError),
    "two newer": (
        lambda disk: disk.update(
            {names.checkpoint(40): following(40), names.checkpoint(50): following(50)}
        ),
        RollbackDetectedError,
    ),
    "newer that does not verify": (
        put(names.checkpoint(40), DamagedError("forged")), DamagedError,
    ),
    "newer with a damaged payload": (
        put(names.checkpoint(40), damaged(following(40))), DamagedError,
    ),
    "newer that continues another": (
        put(names.checkpoint(40), stored(40, previous=digest("elsewhere"))), ForkDetectedError,
    ),
    "newer that continues nothing": (put(names.checkpoint(40), stored(40)), ForkDetectedError),
    "newer is a copy of the current": (copy(CURRENT, names.checkpoint(999_999_999)), SplicedError),
    "newer of an unknown format": (
        put(names.checkpoint(40), UnknownFormatError("format 2")), UnknownFormatError,
    ),
    "current missing": (drop(CURRENT), DamagedError),
    "current header damaged": (put(CURRENT, DamagedError("flipped")), DamagedError),
    "current payload damaged": (spoil(CURRENT), DamagedError),
    "current name is not content": (copy(PREVIOUS, CURRENT), SplicedError),
    "current another of that name": (put(CURRENT, stored(30, tag="other")), ForkDetectedError),
    "current of unknown format": (put(CURRENT, UnknownFormatError("format 2")), UnknownFormatError),
    "previous missing": (drop(PREVIOUS), DamagedError),
    "previous header damaged": (put(PREVIOUS, DamagedError("flipped")), DamagedError),
    "previous name is not content": (copy(CURRENT, PREVIOUS), SplicedError),
    "previous another of that name": (put(PREVIOUS, stored(20, tag="other")), ForkDetectedError),
    "session record missing": (drop(names.SESSION), DamagedError),
    "session record damaged": (put(names.SESSION, DamagedError("flipped")), DamagedError),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
def test_what_no_crash_leaves_stops(name: str) -> None:
    """Rows 5 to 7 and 9: a typed error, and never the checkpoint before."""
    change, error = STOPS[name]
    disk = settled().disk
    change(disk)
    with pytest.raises(LastgoodError) as raised:
        judge(disk)
    check_equal(type(raised.value), error, "the class of the error")


WITHOUT_MANIFEST: dict[str, tuple[Disk, int]] = {
    "a checkpoint": ({names.SESSION: session_record(), names.checkpoint(1): stored(1)}, 0),
    "a damaged checkpoint": (
        {names.SESSION: session_record(), names.checkpoint(1): DamagedError("zeros")}, 0,
    ),
    "a log": ({names.SESSION: session_record()}, 1),
    "a checkpoint without session.json": ({names.checkpoint(1): stored(1)}, 0),
    "a log without session.json": ({}, 1),
    "a damaged session.json alone": ({names.SESSION: DamagedError("zeros")}, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_MANIFEST)
def test_records_without_any_manifest_stop(name: str) -> None:
    """Row 9: what was believed once is never taken for a new session."""
    disk, log_epoch = WITHOUT_MANIFEST[name]
    with pytest.raises(DamagedError):
        judge(disk, log_epoch=log_epoch)


@pytest.mark.parametrize(("log_epoch", "stops"), [(0, False), (1, False), (2, True), (9, True)])
def test_a_log_of_a_newer_epoch_than_the_manifests_is_a_rollback(
    log_epoch: int, stops: bool
) -> None:
    """Row 5: the log remembers an owner that the manifests do not."""
    disk = settled().disk
    if not stops:
        check_equal(chosen(judge(disk, log_epoch=log_epoch)), 30, "the checkpoint")
        return
    with pytest.raises(RollbackDetectedError):
        judge(disk, log_epoch=log_epoch)


@pytest.mark.parametrize(
    ("schemas", "stops"),
    [((1,), False), ((1, 2), False), (None, False), ((2,), True), ((2, 3), True)],
)
def test_an_unknown_schema_of_what_is_chosen_stops(
    schemas: tuple[int, ...] | None, stops: bool
) -> None:
    """Row 7: an unknown schema is never believed, and never answered by an older checkpoint."""
    found = evidence(settled().disk, schemas=schemas)
    if not stops:
        check_equal(chosen(select(found)), 30, "the checkpoint that is chosen")
        return
    with pytest.raises(UnknownSchemaError):
        select(found)


def test_an_unknown_schema_of_a_rolled_forward_checkpoint_stops() -> None:
    """Row 7: the schema that counts is that of what would be handed out."""
    disk = settled().disk
    disk[names.checkpoint(40)] = replace(following(40), schema_version=2)
    with pytest.raises(UnknownSchemaError):
        judge(disk)


@pytest.mark.parametrize(
    "name",
    [
        names.SESSION, names.POINTER, names.manifest(3), names.manifest(4), PREVIOUS, CURRENT,
        names.checkpoint(40),
    ],
)  # fmt: skip
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ESTALE])
def test_what_cannot_be_read_is_that_error_and_never_not_there(name: str, number: int) -> None:
    """Last row: the system's refusal comes out as it is, wherever it happens."""
    disk = settled().disk
    disk[name] = StorageError(f"Reading {name}", errno=number)
    with pytest.raises(StorageError) as raised:
        judge(disk)
    check_equal(raised.value.errno, number, "the system's number")


def test_a_manifest_that_lost_its_checkpoints_is_not_a_new_session() -> None:
    """Row 7 before row 1: all checkpoints deleted is damage, however empty it looks."""
    disk = settled().disk
    for name in (CURRENT, PREVIOUS):
        del disk[name]
    with pytest.raises(DamagedError):
        judge(disk)


def test_what_is_kept_are_generations_and_milestones() -> None:
    """Retention stands on it: current, previous, and every milestone of the newest revision."""
    writer = Writer()
    writer.open()
    writer.save(10, milestone="before the audit")
    for sequence in (20, 30):
        writer.save(sequence)
    kept = [entry.sequence for entry in judge(writer.disk).kept()]
    check_equal(sorted(kept), [10, 20, 30], "the sequences that are kept")
    pointer = writer.disk[names.POINTER]
    check(isinstance(pointer, Manifest) and 10 in pointer.kept_sequences(), "10 is a milestone")
