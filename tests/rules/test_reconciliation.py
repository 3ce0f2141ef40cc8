"""Has this effect been done: ``should_replay``."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import FingerprintError
from lastgood.formats.checkpoint import Checkpoint
from lastgood.rules.reconciliation import should_replay
from tests.support.check import check_equal
from tests.support.records import fingerprint

DONE = Checkpoint(1, {}, [fingerprint(1), fingerprint(2)])


@pytest.mark.parametrize(("number", "expected"), [(1, False), (2, False), (3, True), (0, True)])
def test_a_known_effect_is_not_repeated_and_a_new_one_is_done(number: int, expected: bool) -> None:
    """G5: exactly the fingerprints that are stored are known."""
    check_equal(should_replay(DONE, fingerprint(number)), expected, "whether it is to be done")


def test_a_new_session_has_done_nothing() -> None:
    """``load_latest`` gives None for a new session, which can be handed on as it is."""
    check_equal(should_replay(None, fingerprint(1)), True, "whether it is to be done")


MALFORMED = [
    "", " ", "fx:v1:", fingerprint(1)[:-1], fingerprint(1) + "0", fingerprint(1).upper(),
    fingerprint(10).replace("a", "A"), fingerprint(1) + "\n", " " + fingerprint(1),
    fingerprint(1).replace("v1", "v2"), fingerprint(1)[6:], "fx:v1:" + "g" * 64,
    "fx:v1:" + "١" * 64, None, 1, True, b"fx:v1:", [fingerprint(1)], (fingerprint(1),),
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED, ids=repr)
@pytest.mark.parametrize("checkpoint", [DONE, None, Checkpoint(1, {})], ids=["two", "new", "none"])
def test_a_malformed_fingerprint_raises_and_is_never_taken_for_new(
    checkpoint: Checkpoint | None, text: object
) -> None:
    """G5: the answer to nonsense is an error, not a repeat; also where nothing is stored."""
    with pytest.raises(FingerprintError):
        should_replay(checkpoint, text)  # type: ignore[arg-type]


@given(st.lists(st.integers(0, 40), unique=True), st.integers(0, 40))
def test_membership_is_that_of_a_set(stored: list[int], asked: int) -> None:
    """Neither order nor number of the stored ones matters."""
    checkpoint = Checkpoint(1, {}, [fingerprint(number) for number in stored])
    expected = asked not in stored
    check_equal(should_replay(checkpoint, fingerprint(asked)), expected, "whether it is to be done")
