"""Round trips over dataclasses that nobody wrote: any declaration, any state of it, any damage.

Method: hypothesis makes a type hint together with the strategy of its values, builds dataclasses
of such fields (frozen, slotted, keyword-only, inherited) and states of them. A copy of the JSON
data is then changed at one place: whatever is read must be written again as the very same data.
"""

from __future__ import annotations

import copy
import dataclasses
import enum
import itertools
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import StateError
from lastgood.typed_state import state_type
from tests.sessions.stored import alike, given_back, stored
from tests.support.check import check
from tests.support.values import FLOATS, INTEGERS, TEXTS, same, values


class Suit(enum.Enum):
    HEARTS = "hearts"
    SPADES = "spades"


class Rank(enum.IntEnum):
    TEN = 10
    ACE = 1


@dataclass(frozen=True)
class Shape:
    """A type hint, its values, and the JSON types that it takes."""

    hint: Any
    values: st.SearchStrategy[Any]
    json: frozenset[type]


def scalar(hint: Any, made: st.SearchStrategy[Any], *json: type) -> Shape:
    return Shape(hint, made, frozenset(json))


SCALARS = [
    scalar(int, INTEGERS, int),
    scalar(str, TEXTS, str),
    scalar(float, FLOATS, float),
    scalar(bool, st.booleans(), bool),
    scalar(None, st.none(), type(None)),
    scalar(Suit, st.sampled_from(Suit), str),
    scalar(Rank, st.sampled_from(Rank), int),
    scalar(Literal["a", "b", 1], st.sampled_from(["a", "b", 1]), str, int),
    scalar(Literal[False], st.just(False), bool),
]
ANYTHING = scalar(Any, values(), dict, list, str, int, float, bool, type(None))


def containers(inner: Shape) -> list[Shape]:
    item: Any = inner.hint
    return [
        scalar(list[item], st.lists(inner.values, max_size=3), list),
        scalar(tuple[item, ...], st.lists(inner.values, max_size=3).map(tuple), list),
        scalar(dict[str, item], st.dictionaries(TEXTS, inner.values, max_size=3), dict),
    ]


def fixed(shapes: list[Shape]) -> Shape:
    hint = tuple.__class_getitem__(tuple(shape.hint for shape in shapes))
    return scalar(hint, st.tuples(*[shape.values for shape in shapes]), list)


def union(shapes: list[Shape]) -> Shape:
    """Of those that JSON tells apart."""
    kept: list[Shape] = []
    for shape in shapes:
        if not any(shape.json & other.json for other in kept):
            kept.append(shape)
    hint = kept[0].hint
    for shape in kept[1:]:
        hint = hint | shape.hint if hint is not None else shape.hint | None
    json = frozenset(itertools.chain.from_iterable(shape.json for shape in kept))
    return Shape(hint, st.one_of([shape.values for shape in kept]), json)


@st.composite
def records(draw: st.DrawFn, inner: st.SearchStrategy[Shape]) -> Shape:
    """A dataclass, which has some of its fields from a base."""
    shapes = draw(st.lists(inner, min_size=1, max_size=4))
    frozen, keyword = draw(st.booleans()), draw(st.booleans())
    slots = draw(st.booleans())
    fields = [(f"f{number}", shape.hint) for number, shape in enumerate(shapes)]
    split = draw(st.integers(0, len(fields)))
    options: dict[str, Any] = {"frozen": frozen, "slots": slots, "kw_only": keyword}
    base = dataclasses.make_dataclass("Base", fields[:split], **options)
    kind = dataclasses.make_dataclass("Record", fields[split:], bases=(base,), **options)
    named = {f"f{number}": shape.values for number, shape in enumerate(shapes)}
    made = st.fixed_dictionaries(named).map(lambda given_values: kind(**given_values))
    return scalar(kind, made, dict)


def shapes(*, free: bool) -> st.SearchStrategy[Shape]:
    leaf = st.sampled_from([*SCALARS, ANYTHING] if free else SCALARS)
    return st.recursive(
        leaf,
        lambda inner: (
            inner.flatmap(lambda shape: st.sampled_from(containers(shape)))
            | st.lists(inner, min_size=1, max_size=3).map(fixed)
            | st.lists(inner, min_size=2, max_size=4).map(union)
            | records(inner)
        ),
        max_leaves=8,
    )


@st.composite
def states(draw: st.DrawFn, *, free: bool) -> Any:
    """A state of a dataclass that was made for it."""
    return draw(draw(records(shapes(free=free))).values)


@pytest.mark.slow
@settings(max_examples=200)
@given(states(free=True))
def test_any_state_of_any_dataclass_comes_back(state: Any) -> None:
    """C9-04: from_json(load(save(to_json(x)))) is x, of the same types throughout."""
    conversion = state_type(type(state))
    before = copy.deepcopy(state)
    got = given_back(conversion, state)
    check(alike(got, state), f"{state!r}\ncame back as\n{got!r}")
    check(alike(state, before), f"the live state {before!r}\nbecame\n{state!r}")


OTHERS: list[Any] = [
    None, True, False, 0, 1, 10, -1, 1.0, 0.5, "", "a", "hearts", [], {}, [1], {"f0": 1},
]  # fmt: skip


def damaged(data: Any, draw: st.DataObject) -> Any:
    """``data`` with one value, key or item changed, somewhere."""
    data = copy.deepcopy(data)
    places = list(containers_of(data))
    place = draw.draw(st.sampled_from(places), label="container")
    steps = list(place) if isinstance(place, dict) else list(range(len(place)))
    kind = draw.draw(st.sampled_from(["replace", "remove", "add"]), label="change")
    other = copy.deepcopy(draw.draw(st.sampled_from(OTHERS), label="value"))
    if kind == "add" or not steps:
        if isinstance(place, dict):
            place[draw.draw(st.sampled_from(["f0", "f9", "", "x"]), label="key")] = other
        else:
            place.append(other)
        return data
    step = draw.draw(st.sampled_from(steps), label="step")
    if kind == "remove":
        del place[step]
    else:
        place[step] = other
    return data


def containers_of(data: Any) -> Any:
    if isinstance(data, dict | list):
        yield data
        for inner in data.values() if isinstance(data, dict) else data:
            yield from containers_of(inner)


def alike_json(one: Any, other: Any) -> bool:
    """As ``same``, with the keys of objects in any order."""
    if type(one) is dict and type(other) is dict:
        return set(one) == set(other) and all(alike_json(one[key], other[key]) for key in one)
    if type(one) is list and type(other) is list:
        return len(one) == len(other) and all(map(alike_json, one, other))
    return same(one, other)


@pytest.mark.slow
@settings(max_examples=300)
@given(states(free=True), st.data())
def test_whatever_is_read_is_all_of_what_was_stored(state: Any, draw: st.DataObject) -> None:
    """C13-02: stored data is either refused, with a path, or read without loss or coercion.

    Method: change one place of the data; what is read must be written again as exactly that data.
    """
    conversion = state_type(type(state))
    data = damaged(stored(conversion.to_json(state)), draw)
    try:
        got = conversion.from_json(data)
    except StateError as error:
        check(error.path.startswith("$"), str(error))
        return
    again = conversion.to_json(got)
    check(alike_json(again, data), f"{data!r}\nwas read, and written again as\n{again!r}")


@pytest.mark.slow
@settings(max_examples=150)
@given(states(free=False), st.data())
def test_a_value_of_a_foreign_type_anywhere_is_refused(state: Any, draw: st.DataObject) -> None:
    """C9: no place of a typed state takes a value that it was not declared for, in or out.

    Method: put an object that no declaration allows at one place, of the JSON data and of a field.
    """
    conversion = state_type(type(state))
    data = stored(conversion.to_json(state))
    place = draw.draw(st.sampled_from(list(containers_of(data))), label="container")
    steps = list(place) if isinstance(place, dict) else list(range(len(place)))
    if steps:
        place[draw.draw(st.sampled_from(steps), label="step")] = object()
        check(refuses(conversion.from_json, data), f"read: {data!r}")
    name = draw.draw(st.sampled_from(dataclasses.fields(state)), label="field").name
    object.__setattr__(state, name, object())
    check(refuses(conversion.to_json, state), f"written: {state!r}")


def refuses(convert: Any, value: Any) -> bool:
    try:
        convert(value)
    except StateError:
        return True
    return False
