"""States that are dataclasses with code of their own: what it refuses or changes is not saved."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import InitVar, dataclass, field
from typing import Any

import pytest

from lastgood.typed_state import state_type
from tests.sessions.jobs import Node
from tests.sessions.stored import alike, given_back, unreadable, unstorable
from tests.support.check import check, check_equal


@dataclass
class Positive:
    number: int

    def __post_init__(self) -> None:
        if self.number < 0:
            raise ValueError(f"s3cret {self.number}")


@dataclass
class Holder:
    items: list[Positive] = field(default_factory=list)


HOLDER = state_type(Holder)


def test_a_class_that_refuses_what_was_stored_is_told_with_its_path() -> None:
    """The class's own error is chained, its text is not repeated."""
    error = unreadable(HOLDER, {"items": [{"number": 1}, {"number": -1}]})
    check_equal(error.path, "$.items[1]", "the path")
    check("Positive raised ValueError" in str(error) and "s3cret" not in str(error), str(error))
    check(isinstance(error.__cause__, ValueError), f"the cause: {error.__cause__!r}")


def test_a_state_that_its_class_would_refuse_is_not_saved() -> None:
    """G2: a state that was changed into what its class refuses could not be loaded again."""
    state = Holder([Positive(1)])
    state.items[0].number = -1
    error = unstorable(HOLDER, state)
    check_equal(error.path, "$.items[0]", "the path")
    check(isinstance(error.__cause__, ValueError), f"the cause: {error.__cause__!r}")


@dataclass
class Counting:
    """Every class here changes itself when it is made, so that no load would be a save's."""

    number: int = 0

    def __post_init__(self) -> None:
        self.number += 1


@dataclass
class Appending:
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.log.append("made")


@dataclass
class AppendingToAnything:
    log: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.log, list):
            self.log.append("made")


@dataclass
class Retyping:
    number: float = 0.5

    def __post_init__(self) -> None:
        self.number = int(self.number)


@pytest.mark.parametrize(
    ("state", "path"),
    [
        (Counting(3), "$.number"),
        (Appending(["x"]), "$.log"),
        (AppendingToAnything([]), "$.log"),
        (Retyping(), "$.number"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_class_that_would_change_what_was_stored_is_not_saved(state: Any, path: str) -> None:
    """C9-04: a load gives what was saved; and the proof does not change the live state."""
    before = copy.deepcopy(state.__dict__)
    error = unstorable(state_type(type(state)), state)
    check_equal(error.path, path, f"the path in: {error}")
    check_equal(state.__dict__, before, "the live state")


@dataclass
class Tidy:
    """Changes itself, but no more once it is tidy."""

    words: list[str]
    hidden: InitVar[int] = 3
    total: int = field(init=False)

    def __post_init__(self, hidden: int) -> None:
        self.words = sorted(self.words)
        self.total = len(self.words) * hidden


def test_a_class_that_settles_what_it_is_given_comes_back() -> None:
    """A derived field is stored and set as it was, also one made from what is not kept."""
    conversion = state_type(Tidy)
    state = Tidy(["b", "a"], hidden=5)
    check_equal(conversion.to_json(state), {"words": ["a", "b"], "total": 10}, "the JSON data")
    check(alike(given_back(conversion, state), state), "the state comes back")
    state.words.append("A")
    check_equal(unstorable(conversion, state).path, "$.words[0]", "the path of what is untidy")


@dataclass(frozen=True, slots=True)
class Late:
    given: int
    derived: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "derived", self.given * 2)


def test_a_derived_field_of_a_frozen_class_is_given_back_as_it_was_stored() -> None:
    """What was saved is what comes back, also where the class would derive another value today."""
    conversion = state_type(Late)
    check(alike(given_back(conversion, Late(4)), Late(4)), "the state comes back")
    check_equal(conversion.from_json({"given": 1, "derived": 9}).derived, 9, "as it was stored")
    check_equal(unreadable(conversion, {"given": 1}).path, "$.derived", "no value is derived")


def test_replacing_a_field_by_hand_is_a_state_of_its_own() -> None:
    """``dataclasses.replace`` and friends make ordinary states."""
    state = dataclasses.replace(Node("a"), parent=Node("b"))
    check(alike(given_back(state_type(Node), state), state), "the state comes back")
