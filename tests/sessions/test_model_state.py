"""States that are pydantic models: strict JSON mode, and what it would let pass is refused here."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import sys
import uuid
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pydantic
import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
)

from lastgood.errors import ConfigurationError, StateError, UsageError
from lastgood.typed_state import state_type
from tests.sessions.jobs import named
from tests.sessions.stored import given_back, stored, unreadable, unstorable
from tests.support.check import check, check_equal
from tests.support.values import same


class Status(enum.Enum):
    OPEN = "open"


class Price(BaseModel):
    cents: float = 1.0


class Discounted(Price):
    percent: int = 0


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    tricks: list[str] = []


@dataclass
class Point:
    x: int
    y: int = 0


class Shop(BaseModel):
    number: int = Field(default=1, alias="theNumber")
    price: Price = Price()
    either: int | str | None = None
    when: datetime.datetime | None = None
    status: Status = Status.OPEN
    exact: decimal.Decimal = decimal.Decimal("1.10")
    ident: uuid.UUID = uuid.UUID(int=5)
    data: bytes = b""
    pair: tuple[int, str] = (1, "a")
    names: set[str] = set()
    by_number: dict[int, str] = {}
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]] = []
    point: Point | None = None
    free: Any = None
    secret: SecretStr | None = None
    hidden: int = Field(default=1, exclude=True)
    renamed: int = Field(default=2, validation_alias=AliasChoices("x", "y"))
    _note: int = PrivateAttr(default=0)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return self.number * 2


SHOP = state_type(Shop)


def shop(**changes: Any) -> Shop:
    """A shop with values set afterwards, as a program does, which pydantic does not look at."""
    made = Shop()
    for name, value in changes.items():
        setattr(made, name, value)
    return made


STATES = [
    shop(),
    shop(number=-3, price=Price(cents=0.1), either=5, names={"only"}, renamed=7),
    shop(either="5", when=datetime.datetime(2026, 12, 1, 7, tzinfo=datetime.UTC), data=b"abc"),
    shop(pets=[Cat(lives=3), Dog(tricks=["sit"]), Cat()], by_number={1: "a", -2: "b"}),
    shop(point=Point(1, 2), free={"a": [1, 2.5, None, True]}, pair=(2, "b")),
]


@pytest.mark.parametrize("state", STATES, ids=range(len(STATES)))
def test_a_model_comes_back_equal(state: Shop) -> None:
    """C9-04 for models: from_json(load(save(to_json(x)))) is x."""
    got = given_back(SHOP, state)
    check_equal(got, state, "the state")
    check(same(SHOP.to_json(got), SHOP.to_json(state)), f"of other types: {got!r}")


def test_field_names_are_stored_and_neither_aliases_nor_computed_fields() -> None:
    """An alias is for the outside; a computed field would be an unknown one when it is loaded."""
    data = SHOP.to_json(shop())
    expected = [name for name in Shop.model_fields if name != "hidden"]
    check_equal(list(data), expected, "the stored names")
    check("theNumber" not in data and "double" not in data and "Shop" not in str(data), str(data))


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    number: int = 0


class Inside(BaseModel):
    inner: Open = Open()


class Names(RootModel[list[str]]):
    pass


class Sorted(BaseModel):
    names: set[str] = set()

    @field_serializer("names")
    def _sorted(self, names: set[str]) -> list[str]:
        return sorted(names)


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    number: int


class Tree(BaseModel):
    children: list[Tree] = []


@pytest.mark.parametrize(
    "state",
    [
        Open.model_validate({"number": 1, "more": {"a": 1}}),
        Inside.model_validate({"inner": {"more": [1]}}),
        Names(["a", "b"]),
        Sorted(names={"b", "a", "c"}),
        Frozen(number=3),
        Tree(children=[Tree(), Tree(children=[Tree()])]),
    ],
    ids=lambda state: type(state).__name__,
)
def test_models_of_every_make_come_back(state: BaseModel) -> None:
    """Extra fields that a model allows are kept; sets that it sorts itself have an order."""
    check_equal(given_back(state_type(type(state)), state), state, "the state")


# --- to JSON ------------------------------------------------------------------------------


class Other(BaseModel):
    pass


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"number": True}, "$.number"),
    ({"number": 1.0}, "$"),
    ({"price": Discounted(percent=5)}, "$"),
    ({"price": Price(cents=math.nan)}, "$.price.cents"),
    ({"price": Price(cents=math.inf)}, "$.price.cents"),
    ({"price": Price.model_construct(cents=1)}, "$.price.cents"),
    ({"names": {"a", "b"}}, "$.names"),
    ({"secret": SecretStr("s3cret")}, "$.secret"),
    ({"hidden": 2}, "$"),
    ({"_note": 1}, "$"),
    ({"free": (1, 2)}, "$.free"),
    ({"free": {"a": [(1,)]}}, "$.free.a[0]"),
    ({"free": {1: 2}}, "$.free[1]"),
    ({"free": math.nan}, "$.free"),
    ({"free": [Other()]}, "$"),
    ({"free": Status.OPEN}, "$.free"),
    ({"free": datetime.date(2026, 1, 1)}, "$.free"),
    ({"free": {"a": {1, 2}}}, "$.free.a"),
    ({"number": "1"}, "$"),
    ({"price": 1}, "$"),
    ({"price": {"cents": 1.0}}, "$"),
    ({"free": object()}, "$"),
    ({"pair": [1, "a"]}, "$"),
    ({"pair": (True, "a")}, "$.pair[0]"),
]


@pytest.mark.parametrize(("changes", "path"), WRONG)
def test_a_model_that_would_not_come_back_is_not_saved(changes: dict[str, Any], path: str) -> None:
    """C9-04: what pydantic would drop, mask, coerce or reorder is refused before it is written."""
    error = unstorable(SHOP, shop(**changes))
    check_equal(error.path, path, f"the path in: {error}")
    check("s3cret" not in str(error), f"a value in: {error}")
    check(error.__cause__ is None, "pydantic's error quotes values, and is not chained")


@pytest.mark.parametrize("state", [None, {}, Other(), Price(), Discounted(), Shop], ids=named)
def test_what_is_not_exactly_of_the_model_class_is_refused(state: Any) -> None:
    """A subclass would come back as its base."""
    check_equal(unstorable(state_type(Price) if type(state) is Discounted else SHOP, state).path,
                "$", "the path")  # fmt: skip


class Comparing(BaseModel):
    number: int = 0

    def __eq__(self, other: object) -> bool:
        raise ValueError("s3cret")

    __hash__ = None  # type: ignore[assignment]  # as a class that defines only == has it


class Writing(BaseModel):
    number: int = 0

    @field_serializer("number")
    def _write(self, number: int) -> int:
        raise KeyError("s3cret")


class Raising(BaseModel):
    number: int = 0

    @field_validator("number")
    @classmethod
    def _read(cls, number: int) -> int:
        if number > 1:
            raise KeyError("s3cret")
        if number > 0:
            raise ValueError("s3cret")
        return number


class Growing(BaseModel):
    number: int = 0

    def model_post_init(self, _context: Any) -> None:
        self.number += 1


@pytest.mark.parametrize(
    ("state", "path", "reason"),
    [
        (Comparing(), "$", "ValueError when it was compared"),
        (Writing(), "$", "when it was written"),
        (Raising.model_construct(number=1), "$.number", "value_error"),
        (Raising.model_construct(number=2), "$", "KeyError when it was made"),
        (Growing(), "$.number", "another value"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_whose_code_refuses_or_changes_it_is_not_saved(
    state: BaseModel, path: str, reason: str
) -> None:
    """What its own validators, serialisers and hooks do is found at the save, not at the load."""
    error = unstorable(state_type(type(state)), state)
    check_equal(error.path, path, f"the path in: {error}")
    check(reason in str(error) and "s3cret" not in str(error), str(error))


# --- from JSON ----------------------------------------------------------------------------

PLAIN = SHOP.to_json(
    shop(
        pets=[Cat(), Dog()],
        point=Point(1),
        when=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        by_number={1: "a"},
    )
)


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_a_missing_field_is_refused_though_it_has_a_default(name: str) -> None:
    """R5: a field that an older program did not know is a migration's business."""
    data = {key: value for key, value in PLAIN.items() if key != name}
    error = unreadable(SHOP, data)
    check_equal(error.path, f"$.{name}", "the path")
    check("missing" in str(error), str(error))


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({**PLAIN, "more": 1}, "$.more"),
        ({**PLAIN, "theNumber": 1}, "$.theNumber"),
        ({**PLAIN, "double": 2}, "$.double"),
        ({**PLAIN, "price": {"cents": 1.0, "more": 1}}, "$.price.more"),
        ({**PLAIN, "pets": [{"kind": "cat", "lives": 9, "more": None}]}, "$.pets[0].more"),
        ({**PLAIN, "point": {"x": 1, "y": 0, "z": 0}}, "$.point.z"),
    ],
    ids=["field", "alias", "computed", "nested", "in-union", "dataclass"],
)
def test_an_unknown_field_is_refused_though_the_model_would_drop_it(data: Any, path: str) -> None:
    """C13-02: newer data is not read, so that it cannot be lost with the next save."""
    error = unreadable(SHOP, data)
    check_equal(error.path, path, f"the path in: {error}")
    check("unknown" in str(error), str(error))


def test_an_unknown_field_is_refused_where_the_model_forbids_it_itself() -> None:
    """Pydantic's own refusal is told in the same words."""
    error = unreadable(state_type(Frozen), {"number": 1, "more": 1})
    check_equal((error.path, "unknown" in str(error)), ("$.more", True), str(error))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"number": "1"}, "$.number"),
        ({"number": 1.0}, "$.number"),
        ({"number": True}, "$.number"),
        ({"number": None}, "$.number"),
        ({"price": None}, "$.price"),
        ({"price": {}}, "$.price.cents"),
        ({"price": {"cents": 1}}, "$.price.cents"),
        ({"price": {"cents": "1"}}, "$.price.cents"),
        ({"either": 1.5}, "$.either"),
        ({"either": []}, "$.either"),
        ({"when": "yesterday"}, "$.when"),
        ({"when": 1}, "$.when"),
        ({"when": "2026-01-01"}, "$.when"),
        ({"status": "lost"}, "$.status"),
        ({"ident": "5"}, "$.ident"),
        ({"pair": [1]}, "$.pair[1]"),
        ({"pair": ["a", 1]}, "$.pair[0]"),
        ({"pets": [{"kind": "cat", "lives": 9}, {"kind": "cow"}]}, "$.pets[1]"),
        ({"pets": [{"kind": "cat", "lives": "9"}]}, "$.pets[0].lives"),
        ({"pets": [{"kind": "cat"}]}, "$.pets[0].lives"),
        ({"point": {"x": 1}}, "$.point.y"),
        ({"by_number": {"a": "b"}}, "$.by_number.a"),
    ],
    ids=named,
)
def test_stored_data_of_another_type_is_refused_with_its_path(
    changes: dict[str, Any], path: str
) -> None:
    """R5: nothing is coerced and nothing gets a default while it is read."""
    error = unreadable(SHOP, {**PLAIN, **changes})
    check_equal(error.path, path, f"the path in: {error}")
    check(error.__cause__ is None, "pydantic's error quotes values, and is not chained")


@pytest.mark.parametrize("data", [None, [], 1, "x", {}, (1,), {"a": {1}}], ids=named)
def test_stored_data_that_is_no_object_of_the_fields_is_refused(data: Any) -> None:
    """R5: state of plain JSON that a typed program opens; also what was never JSON."""
    check("no Shop: " in str(unreadable(SHOP, data)), "the type that was asked for")


def test_another_spelling_of_the_same_date_is_read() -> None:
    """A state outlives an upgrade of the library that spells its dates."""
    got = SHOP.from_json({**PLAIN, "when": "2026-01-01T00:00:00+00:00"})
    check_equal(got, SHOP.from_json(PLAIN), "the state")


def test_a_model_in_the_order_of_other_fields_is_read() -> None:
    """The order of fields in a class may change; keys are found by name."""
    got = SHOP.from_json(dict(reversed(PLAIN.items())))
    check_equal(got, SHOP.from_json(PLAIN), "the state")


# --- registration -------------------------------------------------------------------------


def test_without_pydantic_the_error_names_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An extra that is missing is a configuration error of one line. Method: hide the module."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    with pytest.raises(ConfigurationError) as caught:
        state_type(Price)
    told = str(caught.value)
    check("pip install 'lastgood[pydantic]'" in told and "\n" not in told, told)


@pytest.mark.parametrize(
    ("version", "is_old"),
    [("2.10.6", True), ("1.10.2", True), ("2.11.0", False), ("3.0.0b1", False)],
)
def test_a_pydantic_that_is_too_old_is_told_from_one_that_is_not(
    version: str, is_old: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What decides by field name came with 2.11; an older one would store aliases."""
    monkeypatch.setattr(pydantic, "VERSION", version)
    if not is_old:
        state_type(Price)
        return
    with pytest.raises(ConfigurationError) as caught:
        state_type(Price)
    check(version in str(caught.value) and "pip install" in str(caught.value), str(caught.value))


def test_a_model_that_names_what_is_not_there_is_refused() -> None:
    """Found when it is registered, not at the first save."""

    class Unfinished(BaseModel):
        other: Nowhere  # type: ignore[name-defined]  # noqa: F821  # the mistake

    with pytest.raises(UsageError, match="Unfinished names a type that cannot be resolved"):
        state_type(Unfinished)


def test_a_class_that_only_looks_like_a_model_is_refused() -> None:
    """An attribute does not make a model."""

    class Pretender:
        __pydantic_core_schema__ = None

    with pytest.raises(UsageError, match="Pretender is no pydantic model class"):
        state_type(Pretender)


def test_the_save_that_follows_proves_the_rest() -> None:
    """Integers of 64 bits and whole characters are the save's to prove, for models too."""
    for free in ([2**64], {"\ud800": 1}):
        with pytest.raises(StateError):
            stored(SHOP.to_json(shop(free=free)))
