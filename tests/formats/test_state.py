"""State fidelity: what is saved comes back equal and of the same types, or is refused (C9)."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import itertools
import math
import pathlib
import types
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import LastgoodError, StateError
from lastgood.formats import canonical, state
from lastgood.formats.limits import Limits
from tests.support.check import check, check_equal
from tests.support.values import same, values


def encode(value: Any, *, limits: Limits | None = None) -> bytes:
    limits = Limits() if limits is None else limits
    return state.encode_with_state({"before": 1, "state": value, "after": None}, limits=limits)


def stored(value: Any) -> Any:
    """``value`` after a save and a load."""
    return canonical.decode(encode(value))["state"]


# --- what is saved comes back -----------------------------------------------------------------


@given(values())
def test_any_json_value_comes_back_the_same(value: Any) -> None:
    """loads(save(x)) == x, of the same types, keys in the same order (C9-04).

    Five thousand examples more, through a sealed record, are the test of case C9-08.
    """
    check(same(stored(value), value), f"came back as another value: {value!r}")


EDGES: list[Any] = [
    0, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63), 0.0, -0.0, 1.0, 1e15,
    1e16, 1e17, 1e22, 1e308, -1e308, 1.7976931348623157e308, 5e-324, 2.225073858507201e-308,
    2.2250738585072014e-308, 0.1, 1 / 3, 123456789012345680.0, float(2**53), float(2**63),
    True, False, None, "", [], {}, [[]], {"": {}}, "\x00", "\x7f", "\u2028", "\ud7ff\ue000", "😀",
    "\U0010ffff", "\ufeff", "\ufffe", "e\u0301", "é", "1", "null", "\\", '"', "\n\r\t",
]  # fmt: skip


@pytest.mark.parametrize("value", EDGES, ids=ascii)
def test_edge_value_comes_back_the_same(value: Any) -> None:
    """Bounds of 64 bits, signed zero, denormals, odd text (C9-02, C9-03)."""
    for wrapped in (value, [value], {"k": value}, [[[[[value]]]]]):
        check(same(stored(wrapped), wrapped), f"came back as {stored(wrapped)!r}")
    if type(value) is str:
        check(same(stored({value: 1}), {value: 1}), "as a key")


def test_keys_keep_the_callers_order() -> None:
    """Nothing is sorted: what the caller compares as text stays equal."""
    ordered = {"b": 1, "a": 2, "B": 3, "": 4, "aa": 5}
    check_equal(list(stored(ordered)), list(ordered), "order of keys")


def test_bytes_are_a_snapshot() -> None:
    """After the call the caller may go on changing the state (S2)."""
    value = {"paid": [1]}
    data = encode(value)
    value["paid"].append(2)
    check_equal(canonical.decode(data)["state"], {"paid": [1]}, "the state at the call")


# --- what would not come back is refused ---------------------------------------------------------


class Colour(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Word(enum.StrEnum):
    A = "a"


class Text(str):
    __slots__ = ()


class Integer(int):
    pass


class Real(float):
    pass


class Mapping(dict):
    pass


class Row(list):
    pass


@dataclasses.dataclass
class Point:
    x: int = 1


class Pair(NamedTuple):
    a: int
    b: int


class Loud:
    """Raises from whatever is asked of it."""

    def __repr__(self) -> str:
        raise RuntimeError("asked for repr")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("asked for equality")

    def __hash__(self) -> int:
        raise RuntimeError("asked for hash")

    def __len__(self) -> int:
        raise RuntimeError("asked for length")

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("asked for an attribute")


WRONG: dict[str, Any] = {
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "tuple": (1,), "empty tuple": (),
    "named tuple": Pair(1, 2), "set": {1}, "frozenset": frozenset(),
    "bytes": b"a", "bytearray": bytearray(b"a"), "memoryview": memoryview(b"a"),
    "datetime": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), "time": datetime.time(1, 2),
    "date": datetime.date(2026, 1, 1), "timedelta": datetime.timedelta(1),
    "decimal": decimal.Decimal("1.5"),
    "fraction": fractions.Fraction(1, 2), "complex": 1j, "uuid": uuid.UUID(int=1),
    "path": pathlib.PurePosixPath("a"), "enum": Colour.RED, "int enum": Number.ONE,
    "str enum": Word.A, "str subclass": Text("a"), "int subclass": Integer(1),
    "float subclass": Real(1.0), "dict subclass": Mapping(a=1), "list subclass": Row([1]),
    "dataclass": Point(), "class": Point, "object": object(), "loud": Loud(), "function": len,
    "lambda": lambda: 1, "module": math, "generator": (x for x in (1, 2)), "range": range(3),
    "iterator": iter([1]), "dict view": {}.keys(), "defaultdict": collections.defaultdict(list),
    "counter": collections.Counter("a"), "ordered dict": collections.OrderedDict(a=1),
    "deque": collections.deque([1]), "mapping proxy": types.MappingProxyType({}),
    "simple namespace": types.SimpleNamespace(a=1), "ellipsis": ..., "exception": ValueError("x"),
    "fragment": orjson.Fragment(b"1"), "2**64": 2**64, "-2**63-1": -(2**63) - 1, "huge": 10**5_000,
    "lone high": "\ud800", "lone low": "\udcb2", "escaped byte": "a\udc88b",
    "reversed": "\ude00\ud83d",
}  # fmt: skip

KEYS: dict[str, Any] = {
    "int": 1, "bool": True, "none": None, "float": 1.5, "tuple": ("a",), "bytes": b"a",
    "enum": Colour.RED, "str enum": Word.A, "str subclass": Text("a"), "frozenset": frozenset(),
    "lone surrogate": "\ud800", "uuid": uuid.UUID(int=1), "date": datetime.date(2026, 1, 1),
}  # fmt: skip

PLACES: list[tuple[str, Callable[[Any], Any]]] = [
    ("$", lambda x: x),
    ("$[1]", lambda x: [0, x]),
    ("$.a", lambda x: {"a": x}),
    ("$.a[2].b.c[0]", lambda x: {"": 0, "a": [1, [], {"b": {"c": [x, x]}}]}),
    ("$[0][0][0][0][0]", lambda x: [[[[[x]]]]]),
    ("$[3000]", lambda x: [0] * 3_000 + [x]),
    ("$.k2999", lambda x: {f"k{n}": (x if n == 2_999 else [n]) for n in range(3_000)}),
]


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize(("path", "place"), PLACES, ids=[path for path, _ in PLACES])
def test_value_that_json_would_change_is_refused_with_its_path(
    value: Any, path: str, place: Callable[[Any], Any]
) -> None:
    """Never null for NaN, a list for a tuple, a text for an object (C9-03, C9-04).

    Method: each wrong kind at depth 0 to 5, in lists and dicts, behind a chunk's border.
    """
    with pytest.raises(StateError) as caught:
        encode(place(value))
    check_equal(caught.value.path, path, "path of the value")
    check(f" at {path}." in str(caught.value), f"path not in the text: {caught.value}")
    check_equal(caught.value.exit_code, 1, "exit code")


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())
@pytest.mark.parametrize(("path", "place"), PLACES, ids=[path for path, _ in PLACES])
def test_key_that_json_would_change_is_refused_with_its_path(
    key: Any, path: str, place: Callable[[Any], Any]
) -> None:
    """No key is turned into a text, so none can meet another (C9-01)."""
    for value in ({key: 1}, {"1": "b", "x": [], key: "a"}):
        with pytest.raises(StateError) as caught:
            encode(place(value))
        check_equal(caught.value.path, path, "path of the dict that holds it")


@pytest.mark.parametrize(
    "pair",
    [
        {1: "a", "1": "b"},
        {True: "a", "true": "b"},
        {None: "a", "null": "b"},
        {1.5: "a", "1.5": "b"},
    ],
    ids=repr,
)
def test_keys_that_would_collide_are_refused(pair: dict[Any, str]) -> None:
    """A value never vanishes because two keys became one (C9-01)."""
    with pytest.raises(StateError, match="a key of type"):
        encode(pair)


def test_message_names_the_first_wrong_value_and_escapes_its_path() -> None:
    """A hostile key cannot paint the message, and no value is shown (T12)."""
    with pytest.raises(StateError) as caught:
        encode({"a\x1b[2J": [1, (), ()], "later": ()})
    check_equal(caught.value.path, r"$.a\x1b[2J[1]", "path")
    check(str(caught.value).isascii(), f"unescaped: {caught.value}")
    with pytest.raises(StateError) as caught:
        encode({"x" * 10_000: [{"y" * 10_000: "secret-\ud800"}]})
    check(len(caught.value.path) <= 300, "an endless path")
    check("secret" not in str(caught.value), "the value stands in the message")


# --- the fidelity check itself -------------------------------------------------------------------


NEARLY = st.sampled_from([value for name, value in WRONG.items() if name not in {"loud", "huge"}])


@given(values(NEARLY))
def test_what_passes_the_check_comes_back_the_same(value: Any) -> None:
    """Nothing passes that loads differently, and all that would come back passes.

    Method: values that are nearly JSON; the check's verdict against what the serialiser does.
    """
    try:
        data = encode(value)
    except StateError:
        check(not comes_back(value), f"refused, but it would come back: {value!r}")
        return
    check(same(canonical.decode(data)["state"], value), f"passed, but changed: {value!r}")


def comes_back(value: Any) -> bool:
    """Whether ``value`` survives by the letter: plain types, finite, within 64 bits, whole text."""
    if type(value) is dict:
        return all(type(key) is str and comes_back(key) for key in value) and all(
            map(comes_back, value.values())
        )
    if type(value) is list:
        return all(map(comes_back, value))
    if type(value) is float:
        return math.isfinite(value)
    if type(value) is int:
        return -(2**63) <= value < 2**64
    if type(value) is str:
        return not any(0xD800 <= ord(char) < 0xE000 for char in value)
    return value is None or type(value) is bool


def test_one_wrong_value_among_many_is_found_wherever_it_stands() -> None:
    """No place is skipped by looking at chunks. Method: around every border of a chunk."""
    for size, at in itertools.product((2_047, 2_048, 2_049, 4_097), (0, -1, -2, 2_046)):
        items: list[Any] = list(range(size))
        items[at] = math.nan
        shapes: list[Any] = [items, [[x] for x in items], [{"k": x} for x in items]]
        shapes.append(dict(zip(map(str, range(size)), items, strict=True)))
        for shape in shapes:
            with pytest.raises(StateError):
                encode(shape)


@pytest.mark.parametrize("wrong", [math.nan, (), "\ud800", 2**64, {1: 1}], ids=repr)
def test_refusal_is_always_typed(wrong: Any) -> None:
    """The caller sees one kind of error, with the serialiser's as its cause at most (K8)."""
    with pytest.raises(LastgoodError) as caught:
        encode({"deep": [[{"x": [wrong]}]]})
    check_equal(type(caught.value), StateError, "class")
    check_equal(caught.value.__class__.__module__, "lastgood.errors", "module")
