"""The table of selection: rows about the witness (G7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from lastgood.errors import ForkDetectedError, LastgoodError, PolicyError, RollbackDetectedError
from lastgood.formats import names
from lastgood.formats.manifest import Manifest
from lastgood.formats.seal import Digest
from lastgood.rules.selection import Mark, Selection, Witness
from tests.rules.disk import Writer, digest, judge, settled
from tests.support.check import check, check_equal


def mark(writer: Writer) -> Mark:
    """What S8 tells a witness after the writer's newest change."""
    newest = writer.newest
    if newest is None or newest.digest is None:
        raise TypeError("nothing was written")
    current = newest.current
    return Mark(
        newest.revision,
        newest.digest,
        current.sequence if current else 0,
        current.digest if current else None,
    )


def at_revision(writer: Writer, revision: int) -> Digest:
    record = writer.disk[names.manifest(revision)]
    if not isinstance(record, Manifest) or record.digest is None:
        raise TypeError(revision)
    return record.digest


def judged(writer: Writer, remembered: Mark) -> Selection:
    return judge(writer.disk, witness=Witness(remembered))


def test_a_mark_of_the_newest_save_says_nothing() -> None:
    """G7: a store that is what the witness remembers raises no alarm."""
    writer = settled()
    check_equal(judged(writer, mark(writer)).notices, (), "notices")


@pytest.mark.parametrize("more", [1, 2, 5])
@pytest.mark.parametrize("opened", [False, True])
def test_a_store_above_the_mark_raises_no_false_alarm(more: int, opened: bool) -> None:
    """G7: a crash before S8, one save or many, leaves the mark behind the store."""
    writer = settled()
    remembered = mark(writer)
    if opened:
        writer.open()
    for number in range(more):
        writer.save(40 + number)
    found = judged(writer, remembered)
    check_equal(found.current and found.current.sequence, 39 + more, "the current checkpoint")


def test_a_mark_of_a_rolled_forward_checkpoint_s_base_raises_no_alarm() -> None:
    """G7, crash between S4 and S6: the mark names the generation before."""
    writer = settled()
    remembered = mark(writer)
    writer.save(40, until="publish")
    found = judged(writer, remembered)
    check(found.rolled_forward, "the published checkpoint is chosen")


def test_a_mark_of_a_claim_without_checkpoint_is_still_a_new_session() -> None:
    """Row 1: a mark that names no checkpoint and no revision above the newest."""
    writer = Writer()
    writer.open()
    first = mark(writer)
    check_equal(judged(writer, first).current, None, "the checkpoint that is chosen")
    writer.open()
    check_equal(judged(writer, first).current, None, "the checkpoint that is chosen")


@pytest.mark.parametrize("what", ["nothing", "session.json", "older copy", "claim alone"])
def test_a_store_below_its_mark_is_a_rollback(what: str) -> None:
    """Row 10: deleted, emptied or put back, nothing is taken for new."""
    writer = Writer()
    writer.open()
    claim = dict(writer.disk)
    writer.save(10)
    older = dict(writer.disk)
    writer.save(20)
    remembered = mark(writer)
    disk = {
        "nothing": {},
        "session.json": {names.SESSION: writer.disk[names.SESSION]},
        "older copy": older,
        "claim alone": claim,
    }[what]
    with pytest.raises(RollbackDetectedError) as raised:
        judge(disk, witness=Witness(remembered))
    check_equal(type(raised.value), RollbackDetectedError, "the class of the error")


def test_a_manifest_below_the_mark_is_a_rollback_even_if_no_state_is_lost() -> None:
    """Row 10: the revision counts by itself, since claims fence owners."""
    writer = settled()
    older = dict(writer.disk)
    writer.open()
    with pytest.raises(RollbackDetectedError):
        judge(older, witness=Witness(mark(writer)))


FORKS: dict[str, dict[str, object]] = {
    "same revision, another manifest": {"manifest_digest": digest("other")},
    "same sequence, another checkpoint": {"checkpoint_digest": digest("other")},
    "revision before, another manifest": {"revision": 3, "manifest_digest": digest("other")},
    "sequence before, another checkpoint": {
        "revision": 3,
        "sequence": 20,
        "checkpoint_digest": digest("other"),
    },
}


@pytest.mark.parametrize("name", FORKS)
def test_another_record_at_the_marked_place_is_a_fork(name: str) -> None:
    """Row 10: same sequence or revision with another digest."""
    writer = settled()
    remembered = mark(writer)
    if "revision" in FORKS[name]:
        remembered = replace(remembered, manifest_digest=at_revision(writer, 3))
    remembered = replace(remembered, **FORKS[name])  # type: ignore[arg-type]
    with pytest.raises(ForkDetectedError):
        judged(writer, remembered)


@pytest.mark.parametrize("sequence", [21, 25, 29])
def test_a_marked_checkpoint_between_two_generations_is_a_fork(sequence: int) -> None:
    """Row 10, "not descended": the current one continues 20 directly, so 25 never was there."""
    writer = settled()
    remembered = replace(
        mark(writer), revision=1, sequence=sequence, checkpoint_digest=digest("other")
    )
    with pytest.raises(ForkDetectedError):
        judged(writer, remembered)


def test_a_marked_checkpoint_before_the_first_one_is_a_fork() -> None:
    """Row 10, "not descended": the first checkpoint continues nothing."""
    writer = Writer()
    writer.open()
    first = mark(writer)
    writer.save(10)
    remembered = replace(first, sequence=5, checkpoint_digest=digest("other"))
    with pytest.raises(ForkDetectedError):
        judged(writer, remembered)


@pytest.mark.parametrize("sequence", [31, 39])
def test_a_marked_checkpoint_between_base_and_rolled_forward_is_a_fork(sequence: int) -> None:
    """Row 10: what is rolled forward to continues 30 directly."""
    writer = settled()
    remembered = replace(mark(writer), sequence=sequence, checkpoint_digest=digest("other"))
    writer.save(40, until="publish")
    with pytest.raises(ForkDetectedError):
        judged(writer, remembered)


def test_a_mark_that_cannot_be_compared_any_more_is_not_held_against_the_store() -> None:
    """Row 10, "where it can be checked": what was pruned leaves nothing to compare."""
    writer = settled()
    remembered = Mark(1, digest("pruned manifest"), 5, digest("pruned checkpoint"))
    check(judged(writer, remembered).current is not None, "the store is believed")


def test_a_marked_milestone_is_compared_as_long_as_it_is_kept() -> None:
    """Row 10: a milestone is in lineage, so its digest is checked."""
    writer = Writer()
    writer.open()
    writer.save(10, milestone="kept")
    remembered = mark(writer)
    for sequence in (20, 30, 40):
        writer.save(sequence)
    check(judged(writer, remembered).current is not None, "the honest mark is believed")
    with pytest.raises(ForkDetectedError):
        judged(writer, replace(remembered, checkpoint_digest=digest("other")))


@pytest.mark.parametrize("without", ["notice", "stop"])
def test_a_store_without_its_mark_is_limited_or_stops(without: Literal["notice", "stop"]) -> None:
    """Row 12: first use again is said; ``require`` makes it a stop."""
    witness = Witness(None, without_mark=without)
    disk = settled().disk
    if without == "stop":
        with pytest.raises(PolicyError):
            judge(disk, witness=witness)
        return
    check_equal(len(judge(disk, witness=witness).notices), 1, "notices")


@pytest.mark.parametrize("without", ["notice", "stop"])
def test_a_new_session_needs_no_mark(without: Literal["notice", "stop"]) -> None:
    """Row 1: an empty store and a witness without a mark are a beginning, under any policy."""
    writer = Writer()
    for disk in ({}, writer.disk):
        found = judge(dict(disk), witness=Witness(None, without_mark=without))
        check_equal((found.current, found.notices), (None, ()), "checkpoint and notices")
        writer.open()


def test_damage_is_told_before_the_witness_is_asked() -> None:
    """A damaged store says what is damaged, also where it is below its mark."""
    writer = settled()
    remembered = mark(writer)
    del writer.disk[names.checkpoint(30)]
    with pytest.raises(LastgoodError) as raised:
        judged(writer, remembered)
    check_equal(raised.value.code, "damaged", "the code")
