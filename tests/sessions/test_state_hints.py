"""What a dataclass may declare, and what is refused when it is registered."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import typing
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, make_dataclass
from typing import Annotated, Any, ClassVar, Final, Generic, Literal, NewType, Optional, TypeVar

import pytest

from lastgood.errors import UsageError
from lastgood.typed_state import state_type
from tests.sessions.jobs import Colour, Level, Money, Node, Status, named
from tests.sessions.stored import given_back, unreadable, unstorable
from tests.support.check import check, check_equal

T = TypeVar("T")
Cents = NewType("Cents", int)
MoreCents = NewType("MoreCents", Cents)
Key = NewType("Key", str)


def with_field(hint: Any) -> type:
    return make_dataclass("Sample", [("value", hint)])


def refused(kind: Any) -> UsageError:
    with pytest.raises(UsageError) as caught:
        state_type(kind)
    return caught.value


ACCEPTED: list[tuple[Any, Any]] = [
    (None, None), (int, 1), (str, "a"), (float, 1.5), (bool, True), (Any, {"a": [1]}),
    (list[int], [1]), (typing.List[int], [1]), (dict[str, int], {"a": 1}),  # noqa: UP006
    (typing.Dict[str, int], {"a": 1}), (tuple[int, ...], (1, 2)), (tuple[int], (1,)),  # noqa: UP006
    (tuple[int, str, None], (1, "a", None)), (Optional[int], None), (int | str, "1"),  # noqa: UP045
    (int | float | str | bool | None, 1.0), (list[int] | dict[str, int] | None, [1]),
    (tuple[int, ...] | Money, Money(1)), (Literal["a", 1] | float, 1), (Status | None, Status.PAID),
    (Status | Level, Level.LOW), (Literal[True] | int, True), (Any | None, [1]),
    (list[dict[str, tuple[Money | None, ...]]], [{"a": (Money(1), None)}]),
    (Annotated[int, "cents"], 1), (list[Annotated[int, "cents"]], [1]), (Cents, 1),
    (MoreCents, 1), (dict[Key, Cents], {"a": 1}), (Node, Node("a", Node("b"))), ("Money", Money(1)),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "value"), ACCEPTED, ids=named)
def test_what_comes_back_as_it_was_may_be_declared(hint: Any, value: Any) -> None:
    """The list in lastgood.typed_state.hints, one of each, through a save and a load."""
    kind = with_field(hint)
    kind.__module__ = __name__
    state = kind(value)
    check_equal(given_back(state_type(kind), state), state, "the state")


class Flag(enum.IntFlag):
    A = 1
    B = 2


class Mixed(enum.Enum):
    A = 1.5
    B = "b"


class Truth(enum.Enum):
    YES = True


class Empty(enum.Enum):
    pass


@dataclass
class Box(Generic[T]):
    value: T


class Undecorated(Money):
    """Derived from a dataclass without being one: its own attribute would be lost."""

    more: int = 0


REFUSED: list[tuple[Any, str]] = [
    (set[int], "$.value"), (frozenset[int], "$.value"), (Sequence[int], "$.value"),
    (Mapping[str, int], "$.value"), (collections.deque[int], "$.value"), (object, "$.value"),
    (bytes, "$.value"), (complex, "$.value"), (datetime.datetime, "$.value"),
    (decimal.Decimal, "$.value"), (type, "$.value"), (T, "$.value"), (Box, "$.value.value"),
    (Box[int], "$.value"), (type[int], "$.value"), (typing.Callable[[], int], "$.value"),
    (list, "$.value"), (dict, "$.value"), (tuple, "$.value"), (typing.List, "$.value"),  # noqa: UP006
    (typing.Tuple, "$.value"), (tuple[()], "$.value"), (Mixed, "$.value"), (Truth, "$.value"),  # noqa: UP006
    (Flag, "$.value"), (Empty, "$.value"), (Literal[b"a"], "$.value"),
    (Literal[Status.OPEN], "$.value"), (dict[int, str], "$.value"), (dict[Any, str], "$.value"),
    (dict[Colour, str], "$.value"), (str | Status, "$.value"), (int | Level, "$.value"),
    (Literal["a"] | str, "$.value"), (Money | dict[str, int], "$.value"), (Money | Node, "$.value"),
    (list[int] | tuple[int, ...], "$.value"), (list[int] | list[str] | None, "$.value"),
    (list[set[int]], "$.value[*]"), (dict[str, bytes], "$.value.*"), (set[int] | None, "$.value"),
    (tuple[int, set[int]], "$.value[1]"), (tuple[bytes, ...], "$.value[*]"),
    (Undecorated, "$.value"), (int | set[int], "$.value"),
    (list[dict[str, tuple[int, list[bytes]]]], "$.value[*].*[1][*]"), (..., "$.value"),
    (tuple[int, *tuple[str, ...]], "$.value[1]"), ("Nowhere", "$"),
    (InitVar[int], "$"), ("typing.Self", "$.value"), (Final[int], "$.value"),
]  # fmt: skip


@pytest.mark.parametrize(("hint", "path"), REFUSED, ids=named)
def test_what_would_come_back_as_something_else_is_refused_when_registered(
    hint: Any, path: str
) -> None:
    """A program learns when it starts, not at its first save, and which field it is."""
    kind = with_field(hint)
    kind.__module__ = __name__
    told = str(refused(kind))
    check("The state's type Sample cannot be used" in told, told)
    check(f", at {path}. " in told, f"{path} in: {told}")


@dataclass
class Inner:
    good: int
    bad: set[int]


@dataclass
class Outer:
    inners: dict[str, list[Inner]]


def test_a_field_deep_inside_is_named_by_its_whole_path() -> None:
    """Nested dataclasses are walked when the outermost one is registered."""
    told = str(refused(Outer))
    check("$.inners.*[*].bad" in told and "set[int]" in told, told)


@dataclass
class Private:
    __secret: int = 0


@dataclass
class _Under:
    __secret: int = 0


@pytest.mark.parametrize(
    ("kind", "name"), [(Private, "_Private__secret"), (_Under, "_Under__secret")]
)
def test_a_field_whose_stored_name_would_hold_a_class_name_is_refused(
    kind: type, name: str
) -> None:
    """Section 4: no class names in stored bytes; Python puts one into ``__private`` names."""
    check(f"$.{name}" in str(refused(kind)), str(refused(kind)))


@dataclass
class NeedsMore:
    value: int
    extra: InitVar[int]

    def __post_init__(self, extra: int) -> None:
        self.value += extra


@dataclass(init=False)
class OwnInit:
    value: int

    def __init__(self, other: int) -> None:
        self.value = other


@pytest.mark.parametrize("kind", [NeedsMore, OwnInit, Undecorated])
def test_a_class_that_cannot_be_made_from_its_fields_is_refused(kind: type) -> None:
    """What is not kept cannot be given back to the class."""
    refused(kind)


@dataclass
class Optioned:
    KINDS: ClassVar[set[int]] = {1}
    value: int = 0
    extra: InitVar[set[int] | None] = None


@dataclass(kw_only=True, order=True, unsafe_hash=True)
class Keyword:
    value: int
    more: list[int] = field(default_factory=list, compare=False, repr=False)


@dataclass(init=False)
class FittingInit:
    value: int

    def __init__(self, value: int, unused: int = 0) -> None:
        self.value = value


@pytest.mark.parametrize("state", [Optioned(3), Keyword(value=3, more=[1]), FittingInit(3)])
def test_what_is_no_field_does_not_matter(state: Any) -> None:
    """Class variables and init-only values that have a default are not looked at."""
    got = given_back(state_type(type(state)), state)
    check_equal(vars(got), vars(state), "the fields")


def test_a_class_of_a_function_may_hold_itself() -> None:
    """Its name is in no module, and still it resolves."""

    @dataclass
    class Local:
        inner: Local | None = None

    state = Local(Local())
    check_equal(given_back(state_type(Local), state), state, "the state")


def test_a_class_within_a_class_is_found() -> None:
    """Names of a class body resolve as Python resolves them."""
    check_equal(given_back(state_type(Nest), Nest(Nest.Egg(1))), Nest(Nest.Egg(1)), "the state")


@dataclass
class Nest:
    @dataclass
    class Egg:
        weight: int

    egg: Egg


@pytest.mark.parametrize(
    ("value", "is_legal"), [(1, True), (False, True), (True, False), (0, False)]
)
def test_a_literal_takes_its_values_and_not_what_equals_them(value: Any, is_legal: bool) -> None:
    """1 is not True, and False is not 0, though Python finds them equal."""
    kind = with_field(Literal[1, False])
    if is_legal:
        check(given_back(state_type(kind), kind(value)).value is value, "the value")
    else:
        check_equal(unstorable(state_type(kind), kind(value)).path, "$.value", "the path")
        check_equal(unreadable(state_type(kind), {"value": value}).path, "$.value", "the path")


def test_a_refused_hint_cannot_repaint_a_terminal() -> None:
    """T12: the text of a hint is escaped, as all text from outside."""
    hint = type("Ev\x1b[2Jil", (), {})
    told = str(refused(make_dataclass("Sample", [("value", hint)])))
    check("\x1b" not in told and "Ev\\x1b[2Jil" in told, told)
    told = str(refused(make_dataclass("Sam\x1b[2Jple", [("value", Literal["\x1b[2J", 1.5])])))
    check("\x1b" not in told and "Sam\\x1b" in told, told)
