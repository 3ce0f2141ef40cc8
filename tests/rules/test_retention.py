"""What a prune may remove (S9, I4)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import UsageError
from lastgood.formats.manifest import Manifest
from lastgood.rules.retention import Retention, prunable_revisions, prunable_sequences
from tests.rules.disk import Writer, settled
from tests.support.check import check, check_equal


def newest(writer: Writer) -> Manifest:
    if writer.newest is None:
        raise TypeError("nothing was written")
    return writer.newest


def with_milestones(*sequences: int) -> Manifest:
    """Saved at 10, 20 … 60, of which some are milestones."""
    writer = Writer()
    writer.open()
    for sequence in range(10, 70, 10):
        writer.save(sequence, milestone="kept" if sequence in sequences else None)
    return newest(writer)


def test_older_generations_go_and_two_stay() -> None:
    """I4: what the newest manifest names stays; the rest below the current one goes."""
    found = prunable_sequences(newest(settled()), [10, 20, 30])
    check_equal(found, (10,), "what may go")


@pytest.mark.parametrize("milestones", [(), (10,), (10, 30), (10, 20, 30, 40, 50, 60)])
def test_milestones_stay(milestones: tuple[int, ...]) -> None:
    """I4: a milestone is never pruned, whatever is newer."""
    found = prunable_sequences(with_milestones(*milestones), range(10, 70, 10))
    gone = {10, 20, 30, 40} - set(milestones)
    check_equal(found, tuple(sorted(gone, reverse=True)), "what may go, newest first")


@pytest.mark.parametrize("planted", [31, 999_999_999, 10**15])
def test_planted_names_above_push_nothing_out(planted: int) -> None:
    """I4: nothing above the current one is removed, and it counts for nothing."""
    found = prunable_sequences(newest(settled()), [10, 20, 30, planted, planted + 1])
    check_equal(found, (10,), "what may go")


def test_planted_names_between_go_and_the_generations_stay() -> None:
    """I4: lineage decides, so an unnamed checkpoint between two generations is no generation."""
    found = prunable_sequences(newest(settled()), [1, 19, 20, 21, 29, 30])
    check_equal(found, (29, 21, 19, 1), "what may go, newest first")


def test_nothing_goes_before_there_is_a_checkpoint() -> None:
    """A claim without checkpoint names none, so that it can judge none."""
    writer = Writer()
    writer.open()
    check_equal(prunable_sequences(newest(writer), [1, 2, 3]), (), "what may go")


def test_the_newest_two_revisions_stay() -> None:
    """S9: the revision before the newest is evidence, and stays; planted ones above, too."""
    found = prunable_revisions(newest(settled()), [5, 4, 3, 2, 1, 10**15])
    check_equal(found, (1, 2), "what may go")


@given(
    listed=st.sets(st.integers(1, 80)),
    milestones=st.sets(st.sampled_from(range(10, 70, 10))),
    order=st.randoms(use_true_random=False),
)
def test_a_prune_never_removes_what_the_newest_manifest_names(
    listed: set[int], milestones: set[int], order: object
) -> None:
    """I4, for every directory: order of the listing does not matter, what is named stays."""
    manifest = with_milestones(*milestones)
    shuffled = list(listed)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    found = prunable_sequences(manifest, shuffled)
    check_equal(found, prunable_sequences(manifest, sorted(listed)), "the same in any order")
    check({50, 60} | milestones == manifest.kept_sequences(), "two generations and milestones")
    check(not set(found) & manifest.kept_sequences(), "nothing that is named may go")
    check(all(sequence < 60 for sequence in found), "nothing above the current one may go")
    check_equal(set(found), {s for s in listed if s < 60} - {50} - milestones, "all else may")


@pytest.mark.parametrize("archive", ["", "some", "ALL", None, True])
def test_an_unknown_retention_is_refused(archive: str) -> None:
    """A typing error must not turn ``all`` into nothing."""
    with pytest.raises(UsageError):
        Retention(archive=archive)  # type: ignore[arg-type]
