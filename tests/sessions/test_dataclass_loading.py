"""States that are dataclasses, as they are loaded: exactly these fields, of exactly these types."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from lastgood.typed_state import state_type
from tests.sessions.jobs import JOB, Money, Node, Ring, job, named
from tests.sessions.stored import unreadable, unstorable
from tests.support.check import check, check_equal

PLAIN = JOB.to_json(job(money=Money(1), prices={"a": Money(2)}, pair=(1, "p"), tree=Node("t")))


def changed(path: str, value: Any) -> Any:
    """``PLAIN`` with another value at a dotted path; ``KeyError`` deletes it."""
    data = copy.deepcopy(PLAIN)
    *outer, last = path.split(".")
    place = data
    for step in outer:
        place = place[int(step)] if isinstance(place, list) else place[step]
    if value is KeyError:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return data


@pytest.mark.parametrize("name", sorted(PLAIN))
def test_a_missing_field_is_refused_and_gets_no_default(name: str) -> None:
    """R5: every field of Job has a default, and none is used: that is a migration's business."""
    error = unreadable(JOB, changed(name, KeyError))
    check_equal(error.path, f"$.{name}", "the path")
    check("missing" in str(error), str(error))


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("extra", "$.extra"),
        ("KINDS", "$.KINDS"),
        ("money.extra", "$.money.extra"),
        ("prices.a.extra", "$.prices.a.extra"),
        ("tree.extra", "$.tree.extra"),
        ("", "$."),
        ("\x1b[2J", "$.\\x1b[2J"),
    ],
)
def test_an_unknown_field_is_refused_and_never_dropped(path: str, shown: str) -> None:
    """C13-02: newer data is not read, so that it cannot be lost with the next save."""
    error = unreadable(JOB, changed(path, None))
    check_equal(error.path, shown, "the path")
    check("unknown" in str(error), str(error))


@pytest.mark.parametrize(
    ("path", "value", "shown"),
    [
        ("ident", True, "$.ident"), ("ident", 1.0, "$.ident"), ("ident", "1", "$.ident"),
        ("title", 1, "$.title"), ("title", None, "$.title"), ("ratio", 1, "$.ratio"),
        ("ratio", "1.0", "$.ratio"), ("done", 0, "$.done"), ("nothing", "", "$.nothing"),
        ("status", "OPEN", "$.status"), ("status", "lost", "$.status"), ("status", 1, "$.status"),
        ("status", [], "$.status"), ("level", 3, "$.level"), ("level", True, "$.level"),
        ("level", 1.0, "$.level"), ("level", "LOW", "$.level"), ("mode", 1.0, "$.mode"),
        ("mode", False, "$.mode"), ("mode", {}, "$.mode"), ("money", [], "$.money"),
        ("money", 1, "$.money"), ("money.cents", "1", "$.money.cents"), ("tags", {}, "$.tags"),
        ("tags", "ab", "$.tags"), ("tags", ["a", 1], "$.tags[1]"), ("prices", [], "$.prices"),
        ("prices.a", None, "$.prices.a"), ("prices.a.cents", 1.0, "$.prices.a.cents"),
        ("path", "xy", "$.path"), ("path", [1], "$.path[0]"), ("pair", [1], "$.pair"),
        ("pair", [1, "p", None], "$.pair"), ("pair.1", 1, "$.pair[1]"),
        ("either", 1.5, "$.either"), ("either", True, "$.either"), ("either", {}, "$.either"),
        ("either", [1, "a"], "$.either[1]"), ("tree.parent", {}, "$.tree.parent.name"),
        ("tree.children", [None], "$.tree.children[0]"), ("count", None, "$.count"),
    ],
    ids=named,
)  # fmt: skip
def test_stored_data_of_another_type_is_refused_with_its_path(
    path: str, value: Any, shown: str
) -> None:
    """R5: nothing is coerced while it is read."""
    error = unreadable(JOB, changed(path, value))
    check_equal(error.path, shown, f"the path in: {error}")


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("ident", True, "expected int, not bool"),
        ("path", "xy", "expected list, not str"),
        ("either", 1.5, "expected None or int or list or str, not float"),
        ("money", [], "expected None or dict, not list"),
        ("pair", [1], "expected 2 items, not 1"),
        ("status", "lost", "no value of Status"),
        ("nothing", 0, "expected None, not int"),
    ],
)
def test_a_refusal_says_what_was_expected(path: str, value: Any, reason: str) -> None:
    """A message says what happened; the next step is to look at that place."""
    error = unreadable(JOB, changed(path, value))
    check(f"What is stored is no Job: {reason}" in str(error), str(error))


@dataclass
class Counted:
    """Tells how many were made."""

    made: ClassVar[list[Counted]] = []
    number: int = 0

    def __post_init__(self) -> None:
        self.made.append(self)


DATA = [{}, {"number": "1"}, {"number": 1, "more": 2}, [], None]


@pytest.mark.parametrize("data", DATA, ids=named)
def test_nothing_is_made_of_data_that_does_not_fit(data: Any) -> None:
    """Code of the caller's class runs only once its fields are known to be right."""
    Counted.made.clear()
    unreadable(state_type(Counted), data)
    check_equal(Counted.made, [], "what was made")


@pytest.mark.parametrize("data", [None, [], "x", 1, True, [PLAIN], {}], ids=lambda v: named(v)[:8])
def test_stored_data_that_is_no_object_of_the_fields_is_refused(data: Any) -> None:
    """R5: state of plain JSON that a typed program opens, for instance."""
    error = unreadable(JOB, data)
    check("no Job: " in str(error) and error.exit_code == 1, str(error))


def test_a_refusal_shows_no_value_of_the_state() -> None:
    """A message never holds payload bytes."""
    secret = "s3cret"
    for error in (
        unstorable(JOB, job(ident=secret)),
        unstorable(JOB, job(mode=secret)),
        unstorable(JOB, job(either=[secret])),
        unreadable(JOB, changed("status", secret)),
        unreadable(JOB, changed("mode", secret)),
        unreadable(JOB, changed("ident", secret)),
    ):
        check(secret not in str(error), str(error))


def test_data_that_is_nested_too_deep_for_the_interpreter_is_refused() -> None:
    """Neither direction ends in a RecursionError."""
    data: Any = None
    for _ in range(5000):
        data = {"next": data}
    check("too deep" in str(unreadable(state_type(Ring), data)), "the reason")


def test_what_is_handed_out_shares_nothing_with_what_was_loaded() -> None:
    """A state that is changed changes nothing that somebody else holds, nor the reverse."""
    data = JOB.to_json(job(free={"a": [1]}, tags=["x"], prices={"a": Money(1)}))
    state = JOB.from_json(data)
    state.free["a"].append(2)
    state.tags.append("y")
    state.prices.clear()
    check_equal((data["free"], data["tags"]), ({"a": [1]}, ["x"]), "the data")
    check_equal(data["prices"], {"a": {"cents": 1, "currency": "EUR"}}, "the data")
