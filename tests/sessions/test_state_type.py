"""Which conversion a type gets, and what is no type of a state."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from lastgood.errors import UsageError
from lastgood.typed_state import state_type
from tests.sessions.jobs import Money, named
from tests.sessions.stored import given_back, unreadable
from tests.support.check import check, check_equal


class Pair(NamedTuple):
    a: int


class Typed(TypedDict):
    a: int


class Plain:
    pass


@pytest.mark.parametrize("state", [None, {"a": [1]}, [], "x", 1.5, (1, 2), object()], ids=named)
def test_plain_json_is_handed_through(state: Any) -> None:
    """Without a type nothing is converted and nothing is looked at: the save proves it."""
    conversion = state_type(None)
    check(conversion.to_json(state) is state, "to JSON: the very object")
    check(conversion.from_json(state) is state, "from JSON: the very object")


@pytest.mark.parametrize(
    "kind",
    [int, dict, list, object, Plain, Pair, Typed, list[int], Money(1), "Money", 3, Any, type, ()],
    ids=named,
)
def test_what_is_no_type_of_a_state_is_refused_when_registered(kind: Any) -> None:
    """None, a dataclass, a pydantic model class; nothing is guessed for anything else."""
    with pytest.raises(UsageError) as caught:
        state_type(kind)
    check("a dataclass, a pydantic model class or None" in str(caught.value), str(caught.value))


@pydantic_dataclass
class Checked:
    number: int
    text: str = ""


def test_a_pydantic_dataclass_is_a_dataclass() -> None:
    """Its own coercion is not used: what it would accept and change is refused."""
    conversion = state_type(Checked)
    check_equal(given_back(conversion, Checked(1, "a")), Checked(1, "a"), "the state")
    check_equal(unreadable(conversion, {"number": "1", "text": ""}).path, "$.number", "the path")


class Model(BaseModel):
    money: Money


@dataclass
class Holding:
    model: Model


def test_a_model_within_a_dataclass_is_refused() -> None:
    """One state is of one kind; the path says where the other begins."""
    with pytest.raises(UsageError, match=r"Model does not come back.*\$\.model"):
        state_type(Holding)


def test_a_dataclass_state_does_without_pydantic() -> None:
    """An extra that is not needed is not loaded. Method: a new interpreter, asked afterwards."""
    program = (
        "import sys, dataclasses, lastgood.typed_state as t\n"
        "kind = dataclasses.make_dataclass('K', [('a', int)])\n"
        "t.state_type(kind).to_json(kind(1)); t.state_type(None)\n"
        "print('pydantic' in sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    check_equal(ran.stdout, "False\n", "whether pydantic was loaded")
