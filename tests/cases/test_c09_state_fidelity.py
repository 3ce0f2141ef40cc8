"""C9: state fidelity, through a sealed checkpoint and back.

The exhaustive tables are in ``tests/formats/test_state.py``; here each public case is repeated
along the whole path that needs no storage: fidelity, seal, bytes, unseal, decode.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from typing import Any

import pytest
from hypothesis import given, settings

from lastgood.errors import DamagedError, StateError
from lastgood.formats import checkpoint
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.values import same, values


def through_a_checkpoint(state: Any) -> Any:
    """``state`` as it comes back from the bytes of a sealed checkpoint."""
    payload = checkpoint.encode_payload(
        checkpoint.Checkpoint(110, state), schema_version=1, limits=Limits()
    )
    data = b"".join(records.checkpoint_record(payload=payload))
    _, body = records.read("checkpoint", data)
    return body.checkpoint.state


class Key(enum.Enum):
    A = "a"


class Text(str):
    """A str of another type."""

    __slots__ = ()


class Real(float):
    """What ``numpy.float64`` is: a float of another type."""


@dataclasses.dataclass
class Model:
    paid: int = 1


@pytest.mark.parametrize(
    ("key", "twin"),
    [
        (1, "1"), (True, "true"), (None, "null"), (1.5, "1.5"), (("a",), "a"), (Key.A, "a"),
        (Text("a"), "b"),
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("order", ["key first", "twin first"])
def test_c9_01_key_that_is_no_str_is_refused_and_never_meets_its_twin(
    key: Any, twin: str, order: str
) -> None:
    """C9-01: no key becomes a text, so no value vanishes; the path names the dict."""
    pairs = [(key, "one"), (twin, "two")]
    state = {"table": [dict(pairs if order == "key first" else pairs[::-1])]}
    with pytest.raises(StateError) as caught:
        through_a_checkpoint(state)
    check_equal(caught.value.path, "$.table[0]", "path")


@pytest.mark.parametrize("text", ["\udcb2", "a\udc88b", "\ud800b"], ids=ascii)
def test_c9_02_half_a_surrogate_pair_is_refused_with_its_path(text: str) -> None:
    """C9-02: what would brick a later reader is refused, as value and as key."""
    for state in ({"out": [text]}, {"out": [{text: 1}]}):
        with pytest.raises(StateError) as caught:
            through_a_checkpoint(state)
        check_equal(caught.value.path, "$.out[0]", "path")
        str(caught.value).encode()  # the message itself can be printed anywhere


@pytest.mark.parametrize(
    "text", ["😀", "\U00010000", "\U0010ffff", "\ud7ff\ue000", "a\ufffd"], ids=ascii
)
def test_c9_02_whole_characters_beyond_the_first_plane_come_back(text: str) -> None:
    """C9-02: valid astral characters always round-trip, as value and as key."""
    check(same(through_a_checkpoint({text: [text]}), {text: [text]}), "another text")


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, Real("nan"), Real(1.5)], ids=repr
)
@pytest.mark.parametrize("depth", [0, 5])
def test_c9_03_number_that_json_lacks_is_refused(number: float, depth: int) -> None:
    """C9-03: never null. Method: at depth 0 and 5, and as a subclass."""
    state: Any = number
    for _ in range(depth):
        state = {"x": [state]} if depth % 2 else [state]
    with pytest.raises(StateError):
        through_a_checkpoint(state)


@pytest.mark.parametrize(
    "token", ["NaN", "Infinity", "-Infinity", "nan", "1e999", "-1e999", "1E400"]
)
def test_c9_03_stored_token_that_json_lacks_is_damage(token: str) -> None:
    """C9-03: a file that holds such a token is damage, though it was sealed with our key."""
    payload = records.PAYLOAD.replace(b"8.5", token.encode(), 1)
    check(payload != records.PAYLOAD, "nothing was changed")
    line = records.header_line(payload, kind="checkpoint")
    with pytest.raises(DamagedError):
        records.read("checkpoint", records.forge(line, payload, kind="checkpoint"))


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), decimal.Decimal("1.50"), b"bytes",
        {1, 2}, (1, 2), Model(), Key.A, pathlib.PurePosixPath("/a"), uuid.UUID(int=7),
        collections.defaultdict(list, a=[1]), collections.Counter("aab"), range(3), Text("a"),
        Real(1.0), Model, object(),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_c9_04_value_that_would_come_back_as_another_type_is_refused(value: Any) -> None:
    """C9-04: no defaultdict becomes a dict, no object None: refused with its path."""
    with pytest.raises(StateError) as caught:
        through_a_checkpoint({"agent": {"memory": [None, value]}})
    check_equal(caught.value.path, "$.agent.memory[1]", "path")


@given(values())
def test_c9_08_everything_accepted_can_be_loaded(state: Any) -> None:
    """C9-08: what a save accepts, a load gives back, of the same types."""
    check(same(through_a_checkpoint(state), state), f"came back as another value: {state!r}")


@pytest.mark.slow
@settings(max_examples=5_000)
@given(values())
def test_c9_08_everything_accepted_of_thousands_can_be_loaded(state: Any) -> None:
    """C9-08: the same, 5,000 times."""
    check(same(through_a_checkpoint(state), state), f"came back as another value: {state!r}")
