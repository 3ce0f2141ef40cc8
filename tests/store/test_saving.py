"""Save and load: what becomes current, what is refused, and what the receipt says (I2–I6)."""

from __future__ import annotations

import pytest

from lastgood.errors import (
    ConflictError,
    FingerprintLossError,
    LimitError,
    SequenceConflictError,
    StateError,
    UsageError,
)
from lastgood.formats import names
from lastgood.formats.limits import Limits
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.values import same


def test_what_was_saved_is_loaded_by_the_writer_by_a_reader_and_after_reopening(
    world: World,
) -> None:
    """I2: state, fingerprints and schema come back as they were, in their order."""
    state = {"b": [1, 2.5, None, True, "é\u2028"], "a": {"": -0.0, "big": 2**64 - 1}}
    given = at(7, 3, 1, 2, state=state)
    with world.open() as handle:
        receipt = handle.save(given)
        loaded = [handle.load_latest(), world.reader().load_latest()]
    with world.open() as again:
        loaded += [again.load_latest(), again.load(7)]
    check(receipt.is_durable, "a save that returned is durable")
    for found in loaded:
        check(found is not None and same(found.state, state), f"the state: {found}")
        check_equal(found and found.fingerprints, given.fingerprints, "the fingerprints")
        check_equal(found and found.schema_version, 1, "the schema version")


def test_a_receipt_names_what_was_stored(world: World) -> None:
    """The receipt is a witness's mark: sequence, digest, revision and the revision's digest."""
    with world.open() as handle:
        first, second = handle.save(at(10)), handle.save(at(20))
    newest = world.report().selection
    check(newest is not None and newest.manifest is not None, "there is a verdict")
    if newest is None or newest.manifest is None or newest.current is None:
        return
    check_equal((first.sequence, second.sequence), (10, 20), "sequences")
    check_equal((first.status, second.status), ("saved", "saved"), "status")
    check_equal(second.digest, newest.current.digest, "the checkpoint's digest")
    check_equal(second.revision, newest.manifest.revision, "the revision")
    check_equal(second.manifest_digest, newest.manifest.digest, "the revision's digest")
    check_equal(second.revision, first.revision + 1, "a save is one revision")
    check_equal((second.session, second.warnings), ("nightly", ()), "session and warnings")


def test_the_same_checkpoint_again_writes_nothing_and_returns_the_receipt(world: World) -> None:
    """I3: the same content again is a no-op, for both generations, also after reopening."""
    with world.open() as handle:
        receipts = {n: handle.save(at(n, 1)) for n in (10, 20)}
        before = world.files()
        again = {n: handle.save(at(n, 1)) for n in (10, 20)}
        check_equal(world.files(), before, "the directory")
    for sequence, receipt in again.items():
        check_equal(receipt.status, "unchanged", "status")
        check_equal(receipt.digest, receipts[sequence].digest, "the digest")
        check(receipt.is_durable, "what is unchanged is durable")
    with world.open() as reopened:
        check_equal(reopened.save(at(20, 1)).status, "unchanged", "status after reopening")


@pytest.mark.parametrize("sequence", [10, 20])
def test_other_content_under_a_kept_sequence_is_an_alarm(world: World, sequence: int) -> None:
    """I3: one sequence, one content; what is stored stays."""
    with world.open() as handle:
        handle.save(at(10))
        handle.save(at(20))
        before = world.files()
        for other in (at(sequence, state={"n": "other"}), at(sequence, 1), at(sequence, state=[])):
            with pytest.raises(SequenceConflictError):
                handle.save(other)
        check_equal(world.files(), before, "the directory")
        check_equal(handle.save(at(30)).status, "saved", "the handle goes on")


@pytest.mark.parametrize("sequence", [1, 9, 11, 19])
def test_a_lower_sequence_never_becomes_current(world: World, sequence: int) -> None:
    """I5: it writes nothing, is told superseded, and is not durable."""
    with world.open() as handle:
        handle.save(at(10, 1))
        newest = handle.save(at(20, 1, 2))
        before = world.files()
        receipt = handle.save(at(sequence, 1))
        check_equal(world.files(), before, "the directory")
        loaded = handle.load_latest()
    check_equal(loaded and loaded.sequence, 20, "the current sequence")
    check_equal((receipt.status, receipt.is_durable), ("superseded", False), "the receipt")
    check_equal((receipt.digest, receipt.revision), (None, newest.revision), "what it names")


def test_a_lower_sequence_that_knows_an_effect_more_is_a_conflict(world: World) -> None:
    """I5: dropping it silently would repeat an effect."""
    with world.open() as handle:
        handle.save(at(20, 1))
        before = world.files()
        with pytest.raises(ConflictError) as raised:
            handle.save(at(10, 1, 2))
        check_equal(type(raised.value), ConflictError, "the class")
        check_equal(world.files(), before, "the directory")


@pytest.mark.parametrize("effects", [(), (1,), (2, 3), (1, 3)])
def test_a_save_that_lacks_a_fingerprint_is_refused(world: World, effects: tuple[int, ...]) -> None:
    """I6: the set of fingerprints only grows, also over a reopening."""
    with world.open() as handle:
        handle.save(at(10, 1, 2))
        before = world.files()
        with pytest.raises(FingerprintLossError):
            handle.save(at(20, *effects))
        check_equal(world.files(), before, "the directory")
    with world.open() as reopened:
        with pytest.raises(FingerprintLossError):
            reopened.save(at(20, *effects))
        check_equal(reopened.save(at(20, 3, 2, 1)).status, "saved", "any order, if all are there")


@pytest.mark.parametrize("wait", [0, 1])
def test_two_generations_stay_and_no_more(world: World, wait: int) -> None:
    """I4: after a completed prune exactly the newest two, and the newest two revisions."""
    with world.open() as handle:
        for sequence in range(10, 110, 10):
            handle.save(at(sequence))
            if wait:
                handle.prune()
    kept = ["checkpoint-000090.json", "checkpoint-000100.json", "manifest-000010.json"]
    expected = sorted([*kept, "manifest-000011.json", names.POINTER, names.SESSION])
    check_equal(world.listed(), expected, "what is stored")


def test_the_previous_generation_can_be_loaded_and_an_older_one_not(world: World) -> None:
    """Loading by sequence: what is kept, and nothing else."""
    world.saved(10, 20, 30)
    with world.reader() as reader:
        check_equal([reader.load(n).state for n in (20, 30)], [{"n": 20}, {"n": 30}], "states")
        for sequence in (1, 10, 25, 31, 10**15):
            with pytest.raises(UsageError):
                reader.load(sequence)


@pytest.mark.parametrize(("size", "warned"), [(2_000, False), (6_000, True)])
def test_a_payload_of_more_than_half_the_limit_is_warned_about(
    world: World, size: int, warned: bool
) -> None:
    """Limits: a warning at half, long before a save fails."""
    with world.open(limits=Limits(payload_bytes=10_000)) as handle:
        receipt = handle.save(at(1, state="x" * size))
        check_equal(bool(receipt.warnings), warned, f"warned: {receipt.warnings}")
        before = world.files()
        with pytest.raises(LimitError):
            handle.save(at(2, state="x" * 10_001))
        check_equal(world.files(), before, "the directory after a refused save")


def test_a_state_that_cannot_be_stored_changes_nothing_and_ends_nothing(world: World) -> None:
    """S2: refused with the path of the value, before anything is written."""
    with world.open() as handle:
        handle.save(at(10))
        before = world.files()
        for state in ({"a": [1, {2}]}, {"a": [1, float("nan")]}, {"a": [1, (2,)]}):
            with pytest.raises(StateError) as raised:
                handle.save(at(20, state=state))
            check("a" in raised.value.path and "1" in raised.value.path, raised.value.path)
        check_equal(world.files(), before, "the directory")
        check_equal(handle.save(at(20)).status, "saved", "the handle goes on")


def test_the_caller_may_change_its_objects_as_soon_as_they_are_given(world: World) -> None:
    """S2: the snapshot is bytes; the list of fingerprints is copied when it is given."""
    state = {"items": [1, 2]}
    checkpoint = at(10, 1, state=state)
    effects = list(checkpoint.fingerprints)
    with world.open() as handle:
        handle.save(checkpoint)
        state["items"].append(3)
        effects.clear()
        loaded = handle.load_latest()
        check_equal(loaded and loaded.state, {"items": [1, 2]}, "the state")
        check_equal(loaded and len(loaded.fingerprints), 1, "the number of fingerprints")
        with pytest.raises(SequenceConflictError):
            handle.save(checkpoint)


def test_a_label_or_schema_that_is_none_is_refused_before_anything_is_written(world: World) -> None:
    """S2: arguments are checked first."""
    with world.open() as handle:
        before = world.files()
        for label in ("", "x" * 201, "line\nfeed", "\ud800", 7, b"label"):
            with pytest.raises(UsageError):
                handle.save(at(10), milestone=label)  # type: ignore[arg-type]
        check_equal(world.files(), before, "the directory")
