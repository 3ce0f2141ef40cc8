"""Log anchors: a place in the log, the empty one, or none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import LastgoodError
from lastgood.formats import anchor, names
from tests.support.check import check, check_equal
from tests.support.records import LOG_ANCHOR

NUMBERS = st.integers(1, 10**15)
HEADS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(0, 10**15), HEADS)
def test_anchor_that_is_encoded_is_decoded(
    count: int, first: int, epoch: int, offset: int, head: str
) -> None:
    """decode(encode(x)) == x for every place in a log."""
    place = anchor.LogAnchor(count, names.segment(first, epoch), offset, head)
    check_equal(anchor.decode(anchor.encode(place), name="t"), place, "anchor")


@pytest.mark.parametrize("place", [None, anchor.EMPTY])
def test_no_log_and_empty_log_are_two_things(place: anchor.LogAnchor | None) -> None:
    """A session without a log never reads like one whose log is empty (G3)."""
    check_equal(anchor.decode(anchor.encode(place), name="t"), place, "anchor")
    check_equal(anchor.encode(place) is None, place is None, "null")


def test_anchor_has_the_documented_form() -> None:
    """Known answers, written by hand."""
    zeros = {"count": 0, "segment": "", "offset": 0, "head": "0" * 64}
    check_equal(anchor.encode(anchor.EMPTY), zeros, "before the first event")
    expected = {
        "count": 110, "segment": "events-000001-0001.jsonl", "offset": 51234, "head": "c5" * 32,
    }  # fmt: skip
    check_equal(anchor.encode(LOG_ANCHOR), expected, "an anchor")
    check_equal(list(expected), list(anchor.encode(LOG_ANCHOR)), "order of its fields")


@pytest.mark.parametrize(
    "change",
    [
        {"count": 0}, {"segment": ""}, {"segment": "events-1-1.jsonl"}, {"segment": "lock"},
        {"segment": "checkpoint-000110.json"}, {"segment": "../events-000001-0001.jsonl"},
        {"segment": "events-000001-0001.jsonl\n"}, {"segment": "events-000001-0001.jsonl" * 3},
        {"count": 0, "segment": ""}, {"count": 0, "segment": "", "offset": 0},
        {"count": 0, "offset": 0, "head": "0" * 64}, {"count": True}, {"count": -1},
        {"count": 10**15 + 1}, {"offset": -1}, {"offset": 1.0}, {"head": "C5" * 32},
        {"head": "c5" * 31}, {"head": None}, {"segment": None}, {"extra": 1},
    ],
    ids=repr,
)  # fmt: skip
def test_anchor_that_names_no_place_is_refused(change: dict[str, Any]) -> None:
    """An empty log with a segment, a place in no log, a wrong type: exit 2 or 4 (T4)."""
    with pytest.raises(LastgoodError) as caught:
        anchor.decode(anchor.encode(LOG_ANCHOR) | change, name="t")
    check(caught.value.exit_code in {2, 4}, f"exit {caught.value.exit_code}")


@pytest.mark.parametrize("value", [0, False, "", [], {}, "null", [0, "", 0, "0" * 64]], ids=repr)
def test_what_is_no_object_is_no_anchor(value: Any) -> None:
    """Only null stands for no log."""
    with pytest.raises(LastgoodError):
        anchor.decode(value, name="t")
