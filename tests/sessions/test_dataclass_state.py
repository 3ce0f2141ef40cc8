"""States that are dataclasses: what is saved comes back, and what would not is refused."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import pytest

from lastgood.errors import StateError
from lastgood.typed_state import state_type
from tests.sessions.jobs import JOB, Base, Colour, Job, Level, Money, Node, Ring, Status, job, named
from tests.sessions.stored import alike, given_back, stored, unstorable
from tests.support.check import check, check_equal

STATES = [
    job(),
    job(ident=3, title="é\x00😀", ratio=-0.0, done=True, status=Status.PAID, level=Level.HIGH),
    job(ident=2**64 - 1, ratio=5e-324, money=Money(-1, ""), tags=["a", "a"], count=0),
    job(ident=-(2**63), prices={"b": Money(1), "a": Money(2)}, path=("x", "y"), pair=(-1, "p")),
    *[job(mode=mode) for mode in ("a", 1, True, None)],
    *[job(either=either) for either in (1, "1", [1], [], None, "")],
    *[job(free=free) for free in (None, 1, "x", [1, [2.5, None]], {"k": {"z": [], "a": True}})],
    job(tree=Node("c", Node("p"), (Node("d", None, (Node("e"),)), Node("f")))),
]


@pytest.mark.parametrize("state", STATES, ids=range(len(STATES)))
def test_a_state_comes_back_equal_and_of_the_same_types(state: Job) -> None:
    """C9-04 for typed states: from_json(load(save(to_json(x)))) is x, throughout."""
    got = given_back(JOB, state)
    check(alike(got, state), f"{state!r}\ncame back as\n{got!r}")


def test_what_is_stored_is_field_names_and_values_and_no_class_name() -> None:
    """Section 4: a class may be renamed and moved; stored bytes name none."""
    data = JOB.to_json(job(money=Money(5), pair=(1, "p"), tree=Node("n")))
    check_equal(
        data,
        {
            "ident": 0, "title": "", "ratio": 0.5, "done": False, "nothing": None,
            "status": "open", "level": 1, "colour": "red", "mode": "a",
            "money": {"cents": 5, "currency": "EUR"}, "tags": [], "prices": {}, "path": [],
            "pair": [1, "p"], "either": None, "free": None,
            "tree": {"name": "n", "parent": None, "children": []}, "count": 7,
        },
        "the JSON data",
    )  # fmt: skip
    check(type(data["colour"]) is str and type(data["level"]) is int, "enums by their plain values")


@dataclass
class Renamed:
    cents: int
    currency: str


def test_a_class_of_another_name_reads_what_was_stored() -> None:
    """Section 4: fields alone decide, in any order of keys."""
    got = state_type(Renamed).from_json({"currency": "USD", "cents": 3})
    check_equal(got, Renamed(3, "USD"), "the state")


# --- to JSON: a value of another type is refused --------------------------------------------


class Text(str):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class MoreMoney(Money):
    more: int = 0


WRONG_VALUES: list[tuple[dict[str, Any], str]] = [
    ({"ident": True}, "$.ident"),
    ({"ident": 1.0}, "$.ident"),
    ({"ident": "1"}, "$.ident"),
    ({"ident": None}, "$.ident"),
    ({"ident": Level.LOW}, "$.ident"),
    ({"title": 1}, "$.title"),
    ({"title": Text("a")}, "$.title"),
    ({"title": Colour.RED}, "$.title"),
    ({"title": b"a"}, "$.title"),
    ({"ratio": 1}, "$.ratio"),
    ({"ratio": "0.5"}, "$.ratio"),
    ({"done": 1}, "$.done"),
    ({"done": None}, "$.done"),
    ({"nothing": 0}, "$.nothing"),
    ({"nothing": False}, "$.nothing"),
    ({"status": "open"}, "$.status"),
    ({"status": Colour.RED}, "$.status"),
    ({"level": 1}, "$.level"),
    ({"colour": "red"}, "$.colour"),
    ({"mode": 1.0}, "$.mode"),
    ({"mode": False}, "$.mode"),
    ({"mode": 0}, "$.mode"),
    ({"mode": []}, "$.mode"),
    ({"mode": "b"}, "$.mode"),
    ({"money": {"cents": 1, "currency": ""}}, "$.money"),
    ({"money": MoreMoney(1)}, "$.money"),
    ({"money": Money(1.0)}, "$.money.cents"),  # type: ignore[arg-type]
    ({"tags": ("a",)}, "$.tags"),
    ({"tags": {"a"}}, "$.tags"),
    ({"tags": "ab"}, "$.tags"),
    ({"tags": ["a", "b", 3]}, "$.tags[2]"),
    ({"prices": OrderedDict()}, "$.prices"),
    ({"prices": []}, "$.prices"),
    ({"prices": {1: Money(1)}}, "$.prices"),
    ({"prices": {"a": Money(1), "b": None}}, "$.prices.b"),
    ({"prices": {"a": MoreMoney(1)}}, "$.prices.a"),
    ({"prices": {"a": Money(1, None)}}, "$.prices.a.currency"),  # type: ignore[arg-type]
    ({"path": ["x"]}, "$.path"),
    ({"path": ("x", 1)}, "$.path[1]"),
    ({"pair": [0, ""]}, "$.pair"),
    ({"pair": (0,)}, "$.pair"),
    ({"pair": (0, "", 1)}, "$.pair"),
    ({"pair": ("", 0)}, "$.pair[0]"),
    ({"either": 1.5}, "$.either"),
    ({"either": True}, "$.either"),
    ({"either": (1,)}, "$.either"),
    ({"either": [1, "1"]}, "$.either[1]"),
    ({"tree": Node("a", Node("b", None, (Node("c"), Node(4))))}, "$.tree.parent.children[1].name"),  # type: ignore[arg-type]
    ({"count": "7"}, "$.count"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "path"), WRONG_VALUES, ids=lambda value: named(value)[:40])
def test_a_value_of_another_type_is_refused_with_its_path(
    changes: dict[str, Any], path: str
) -> None:
    """C9: a value that would come back as another is refused before anything is written."""
    error = unstorable(JOB, job(**changes))
    check_equal(error.path, path, f"the path in: {error}")
    check(str(error).count(f" at {path}.") == 1, f"the path in the text: {error}")


def test_a_refusal_says_every_type_that_was_expected() -> None:
    """A message says what happened: all members of a union, not one of them."""
    told = str(unstorable(JOB, job(either=1.5)))
    check("expected None or int or list or str, not float" in told, told)


@pytest.mark.parametrize("state", [None, {}, {"ident": 1}, Base(1), Job, object()], ids=named)
def test_what_is_not_of_the_type_itself_is_refused(state: Any) -> None:
    """C9: also the base class, and the class instead of an instance."""
    check_equal(unstorable(JOB, state).path, "$", "the path")


FREE: list[Any] = [
    (1,), [1, (2,)], {1: 2}, {"a": {1}}, [math.nan], {"k": [math.inf]}, [2**64], ["\ud800"],
    [Text("a")], [Money(1)], [Status.OPEN], [Level.LOW], OrderedDict(a=1), b"x",
]  # fmt: skip


@pytest.mark.parametrize("free", FREE, ids=named)
def test_what_is_declared_as_anything_is_still_plain_json(free: Any) -> None:
    """C9-04: ``Any`` is JSON data, never what a serialiser would make of it.

    Method: the conversion and the save that follows; one of them must refuse it.
    """
    with pytest.raises(StateError) as caught:
        stored(JOB.to_json(job(free=free)))
    check(caught.value.path.startswith("$.free"), str(caught.value))


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf])
def test_a_float_that_json_lacks_is_refused(ratio: float) -> None:
    """C9-04: NaN would come back as null. Method: the conversion and the save that follows."""
    with pytest.raises(StateError) as caught:
        stored(JOB.to_json(job(ratio=ratio)))
    check_equal(caught.value.path, "$.ratio", "the path")


def test_a_field_that_was_deleted_is_refused() -> None:
    """A state that lacks a field would come back with its default."""
    state = job()
    del state.tags
    error = unstorable(JOB, state)
    check_equal(error.path, "$.tags", "the path")
    check(isinstance(error.__cause__, AttributeError), "the cause")


@pytest.mark.parametrize("length", [1, 3])
def test_a_state_that_holds_itself_is_refused(length: int) -> None:
    """A ring has no JSON; it is a refusal, not a crash of the interpreter."""
    first = last = Ring()
    for _ in range(length - 1):
        last.next = Ring()
        last = last.next
    last.next = first
    check("holds itself" in str(unstorable(state_type(Ring), first)), "the reason")


def test_a_state_as_deep_as_the_limits_allow_comes_back() -> None:
    """Limits.depth is 200: what a save takes, the conversion takes, in both directions."""
    ring = None
    for _ in range(199):
        ring = Ring(ring)
    check(alike(given_back(state_type(Ring), ring), ring), "the same 199 deep")
    tree = Node("leaf")
    for _ in range(99):
        tree = Node("n", None, (tree, Node("m")))
    check(alike(given_back(state_type(Node), tree), tree), "the same 199 deep, by tuples")
