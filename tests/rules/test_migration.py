"""Migrations (R5): one pure step after the other, run twice, proved plain, told by number alone."""

from __future__ import annotations

import copy
import itertools
import random
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import (
    LimitError,
    MigrationError,
    StateError,
    UnknownSchemaError,
    UsageError,
)
from lastgood.formats.limits import Limits
from lastgood.rules.migration import Migration, Migrations
from tests.support.check import check, check_equal
from tests.support.values import same, values

LIMITS = Limits()
NAME = "checkpoint-000110.json"
SECRET = "s3cret-of-the-state"


def one_step(step: Migration) -> Migrations:
    return Migrations({1: step}, schema_version=2)


def refused(step: Migration, state: Any, limits: Limits = LIMITS) -> MigrationError:
    """What ``step`` is told; never anything of the state or of an error's text."""
    with pytest.raises(MigrationError) as caught:
        one_step(step).apply(state, version=1, limits=limits, name=NAME)
    error = caught.value
    check_equal(error.exit_code, 4, "the exit code")
    check("1 -> 2" in error.happened and NAME in error.happened, f"step and file: {error}")
    check(SECRET not in str(error), f"content of the state in: {error}")
    return error


def add(key: str, value: Any) -> Migration:
    return lambda state: {**state, key: value}


def note(version: int) -> Migration:
    return lambda state: [*state, version]


# --- the chain ----------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_each_older_schema_goes_through_every_step_above_it_in_order(version: int) -> None:
    """R5: a state of version n is changed by n -> n + 1 and each one after it, once."""
    chain = Migrations({3: note(3), 1: note(1), 2: note(2)}, schema_version=4)
    got = chain.apply([], version=version, limits=LIMITS)
    check_equal(got, list(range(version, 4)), f"the steps that a state of {version} went through")


def test_the_current_schema_needs_no_step_and_is_handed_through() -> None:
    """R5: nothing runs and nothing is copied where nothing is to be done."""
    state = {"a": [1]}
    ran: list[Any] = []
    got = one_step(ran.append).apply(state, version=2, limits=LIMITS)
    check(got is state and not ran, "the state itself, without a step")


@pytest.mark.parametrize(
    ("steps", "schema_version", "oldest"),
    [
        (None, 1, 1),
        ({}, 1, 1),
        ({}, 7, 7),
        (None, 10**15, 10**15),
        ({6: len}, 7, 6),
        ({4: len, 5: len, 6: len}, 7, 4),
        ({10**15 - 1: len}, 10**15, 10**15 - 1),
    ],
)
def test_what_can_be_read_is_from_the_oldest_step_to_the_current_schema(
    steps: dict[int, Migration] | None, schema_version: int, oldest: int
) -> None:
    """C13: selection is told exactly the schemas that a chain leads from, and the current one."""
    chain = Migrations(steps, schema_version=schema_version)
    check_equal(chain.oldest, oldest, "the oldest")
    check_equal(chain.readable, range(oldest, schema_version + 1), "what can be read")


@pytest.mark.parametrize("version", [5, 6, 10**15])
def test_a_newer_schema_stops_and_says_which_version_is_needed(version: int) -> None:
    """C13-01: never read as if it were older, no step runs; exit 4."""
    ran: list[Any] = []
    chain = Migrations({3: ran.append}, schema_version=4)
    with pytest.raises(UnknownSchemaError) as caught:
        chain.apply({}, version=version, limits=LIMITS, name=NAME)
    error = caught.value
    for part in (NAME, f"schema version {version}", "is 4", f"knows schema {version}"):
        check(part in str(error), f"{part} in: {error}")
    check_equal((error.exit_code, ran), (4, []), "exit code, and what ran")


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_schema_without_a_chain_stops_and_says_what_is_missing(version: int) -> None:
    """R5: what no step leads from is not guessed; no step runs; exit 4."""
    ran: list[Any] = []
    chain = Migrations({3: ran.append}, schema_version=4)
    with pytest.raises(UnknownSchemaError) as caught:
        chain.apply({}, version=version, limits=LIMITS)
    error = caught.value
    for part in ("The state", f"schema version {version}", "is 3", f"from {version} to 3"):
        check(part in str(error), f"{part} in: {error}")
    check_equal((error.exit_code, ran), (4, []), "exit code, and what ran")


@pytest.mark.parametrize("version", [0, -1, True, 1.0, "1", None, 10**15 + 1], ids=repr)
def test_a_version_that_is_none_is_refused(version: Any) -> None:
    """No state has schema True, or 1.0: never taken for 1."""
    with pytest.raises(UsageError):
        one_step(lambda state: state).apply({}, version=version, limits=LIMITS)


# --- what a step may do -------------------------------------------------------------------


def wreck(state: Any) -> Any:
    """Empty everything that can be reached."""
    if isinstance(state, dict | list):
        for inner in list(state.values() if isinstance(state, dict) else state):
            wreck(inner)
        state.clear()
    return {"new": True}


@given(values())
def test_a_step_cannot_change_the_given_state(state: Any) -> None:
    """R5: the loaded state is as it was, whatever a step does to what it gets."""
    before = copy.deepcopy(state)
    got = one_step(wreck).apply(state, version=1, limits=LIMITS)
    check(same(state, before), f"changed from {before!r} to {state!r}")
    check_equal(got, {"new": True}, "the new state")


@given(values())
def test_a_step_gets_the_state_as_it_is_and_what_it_returns_is_kept(state: Any) -> None:
    """R5: equal and of the same types, with keys in their order, in and out."""
    got = one_step(lambda given_state: [given_state, given_state]).apply(
        state, version=1, limits=LIMITS
    )
    check(same(got, [state, state]), f"{state!r} became {got!r}")


def test_a_step_that_keeps_what_it_saw_cannot_spoil_the_result() -> None:
    """R5: the result shares nothing with what any step holds, nor with the old state."""
    kept: list[Any] = []

    def keep(state: Any) -> Any:
        result = {"inner": state}
        kept.extend((state, result))
        return result

    state = {"a": [1]}
    got = Migrations({1: keep, 2: keep}, schema_version=3).apply(state, version=1, limits=LIMITS)
    check_equal(len(kept), 8, "two steps of two runs kept two things each")
    for held in (*kept, state):
        wreck(held)
    check_equal(got, {"inner": {"inner": {"a": [1]}}}, "the result")


PURE: dict[str, Migration] = {
    "wrap": lambda state: {"state": state},
    "twice": lambda state: [state, state],
    "count": lambda state: [state, len(repr(state))],
    "same": lambda state: state,
    "forget": lambda state: type(state).__name__,
}


@given(values(), st.lists(st.sampled_from(sorted(PURE)), min_size=1, max_size=6), st.data())
def test_a_chain_is_its_steps_one_after_the_other(
    state: Any, names: list[str], data: st.DataObject
) -> None:
    """R5: applying a chain from version n is applying its steps n, n + 1, … by hand."""
    steps = {number: PURE[name] for number, name in enumerate(names, start=1)}
    version = data.draw(st.integers(1, len(names)))
    expected = copy.deepcopy(state)
    for number in range(version, len(names) + 1):
        expected = PURE[names[number - 1]](expected)
    chain = Migrations(steps, schema_version=len(names) + 1)
    got = chain.apply(state, version=version, limits=LIMITS)
    check(same(got, expected), f"{got!r} instead of {expected!r}")


# --- what a step must not do --------------------------------------------------------------


def raising(error: BaseException) -> Migration:
    def step(state: Any) -> Any:
        raise error

    return step


@pytest.mark.parametrize(
    "error",
    [
        KeyError(SECRET),
        ValueError(SECRET),
        StopIteration(SECRET),
        RecursionError(SECRET),
        MemoryError(SECRET),
        StateError(SECRET),
        UnknownSchemaError(SECRET),
        ExceptionGroup(SECRET, [ValueError(SECRET)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_step_that_raises_stops_and_only_its_type_is_told(error: Exception) -> None:
    """R5: a field that cannot be computed stops; the error is chained, its text is not repeated."""
    told = refused(raising(error), {"key": SECRET})
    check(f"raised {type(error).__name__}" in told.happened, f"the type in: {told}")
    check(told.__cause__ is error, "the step's own error is the cause")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()], ids=repr)
def test_an_interruption_passes_through_a_step(error: BaseException) -> None:
    """Exit 130: Ctrl-C in a long migration is not a failed migration."""
    with pytest.raises(type(error)) as caught:
        one_step(raising(error)).apply({}, version=1, limits=LIMITS)
    check(caught.value is error, "the very interruption")


class Text(str):
    """A subclass would come back as its base."""

    __slots__ = ()


UNSTORABLE: list[tuple[Any, str, str]] = [
    ({"a": [1, (2,)]}, "$.a[1]", "tuple"),
    ({"a": {1}}, "$.a", "set"),
    ([float("nan")], "$[0]", "nan"),
    ([[float("-inf")]], "$[0][0]", "-inf"),
    ({"a": 2**64}, "$.a", "beyond 64 bits"),
    ({"a": -(2**63) - 1}, "$.a", "beyond 64 bits"),
    ({"a": {1: 2}}, "$.a", "a key of type int"),
    ("\ud800", "$", "surrogate"),
    (b"bytes", "$", "bytes"),
    (OrderedDict(a=1), "$", "OrderedDict"),
    ([Text("a")], "$[0]", "Text"),
    ({"a": object()}, "$.a", "object"),
    (iter([1]), "$", "list_iterator"),
]


@pytest.mark.parametrize(("result", "path", "reason"), UNSTORABLE, ids=lambda value: str(value)[:9])
def test_a_result_that_cannot_be_stored_is_refused_with_its_path(
    result: Any, path: str, reason: str
) -> None:
    """C9: what a save would refuse is found at the step that made it, with the JSON path."""
    told = refused(lambda state: result, {})
    check(told.happened.endswith(f" at {path}") and reason in told.happened, str(told))
    check(isinstance(told.__cause__, StateError), "the cause is the refusal of the state")


def holding_itself(state: Any) -> Any:
    state["me"] = state
    return state


def nested(state: Any) -> Any:
    for _ in range(51):
        state = [state]
    return state


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (lambda state: "x" * 1001, "more than 1000 bytes"),
        (lambda state: [0] * 1001, "more than 1000 bytes"),
        (holding_itself, "more than 50 deep"),
        (nested, "more than 50 deep"),
    ],
)
def test_a_result_over_the_limits_is_refused(step: Migration, reason: str) -> None:
    """A step cannot make a state that no save would take; what holds itself ends at the depth."""
    told = refused(step, {}, Limits(payload_bytes=1000, depth=50))
    check(reason in told.happened and isinstance(told.__cause__, LimitError), str(told))


def test_a_state_that_is_not_json_itself_is_refused_before_any_step() -> None:
    """What is given is proved like what is returned; that is no fault of a migration."""
    ran: list[Any] = []
    with pytest.raises(StateError) as caught:
        one_step(ran.append).apply({"a": (1,)}, version=1, limits=LIMITS)
    check_equal((caught.value.path, ran), ("$.a", []), "path, and what ran")
    with pytest.raises(LimitError):
        one_step(ran.append).apply("x" * 2000, version=1, limits=Limits(payload_bytes=1000))
    check_equal(ran, [], "what ran")


def change_and_forget(state: Any) -> Any:
    state["b"] = 2


def delete_and_forget(state: Any) -> Any:
    state.clear()


@pytest.mark.parametrize("step", [change_and_forget, delete_and_forget, lambda state: None])
def test_a_step_that_forgets_to_return_is_refused(step: Migration) -> None:
    """R5: None would be a legal state, and everything would be lost."""
    told = refused(step, {"a": SECRET})
    check("returned None" in told.happened and "return the new state" in told.do, str(told))


def test_a_state_that_was_none_may_stay_none() -> None:
    """None is JSON; only what turns something into it is a mistake."""
    got = one_step(lambda state: state).apply(None, version=1, limits=LIMITS)
    check_equal(got, None, "the new state")


def counting() -> Migration:
    numbers = itertools.count()
    return lambda state: next(numbers)


def remembering() -> Migration:
    """Returns one list that it keeps; in the end both results are the same object."""
    seen: list[Any] = []

    def step(state: Any) -> Any:
        seen.append(1)
        return seen

    return step


def failing_later() -> Migration:
    runs = itertools.count()

    def step(state: Any) -> Any:
        return 1 // (1 - next(runs))

    return step


def swapping() -> Migration:
    """Equal as dicts, but not as bytes."""
    runs = itertools.count()
    return lambda state: {"a": 1, "b": 2} if next(runs) % 2 else {"b": 2, "a": 1}


def retyping() -> Migration:
    """Equal in Python: 1, True."""
    runs = itertools.count()
    return lambda state: [1] if next(runs) % 2 else [True]


@pytest.mark.parametrize(
    "make",
    [
        counting,
        remembering,
        swapping,
        retyping,
        lambda: lambda state: random.SystemRandom().getrandbits(60),
    ],
    ids=["counter", "memory", "order", "types", "chance"],
)
def test_a_step_that_is_not_repeatable_is_refused(make: Any) -> None:
    """R5: a migrated state that is lost before the next save must come out the same again."""
    told = refused(make(), {})
    check("not repeatable" in told.happened, str(told))


def test_a_step_whose_second_run_raises_is_refused() -> None:
    """R5: the second run is a run like the first."""
    told = refused(failing_later(), {})
    check("raised ZeroDivisionError" in told.happened, str(told))


def test_a_step_that_fails_is_named_in_a_longer_chain() -> None:
    """R5: the operator learns which step of which file it was; later ones do not run."""
    ran: list[Any] = []

    def last(state: Any) -> Any:
        ran.append(state)
        return state

    chain = Migrations({1: add("a", 1), 2: raising(KeyError(SECRET)), 3: last}, schema_version=4)
    with pytest.raises(MigrationError) as caught:
        chain.apply({}, version=1, limits=LIMITS, name="evil\x1b[2J.json")
    check("The migration 2 -> 3 of evil\\x1b[2J.json" in str(caught.value), str(caught.value))
    check_equal(ran, [], "later steps that ran")
