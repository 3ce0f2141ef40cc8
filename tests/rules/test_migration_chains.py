"""Which chains of migrations are refused when they are registered, and what may be a step."""

from __future__ import annotations

import functools
import gc
import warnings
from typing import Any

import pytest

from lastgood.errors import MigrationError, UsageError
from lastgood.formats.limits import Limits
from lastgood.rules.migration import Migration, Migrations
from tests.support.check import check, check_equal

LIMITS = Limits()


def one_step(step: Migration) -> Migrations:
    return Migrations({1: step}, schema_version=2)


@pytest.mark.parametrize(
    ("steps", "schema_version", "reason"),
    [
        ({1: len}, 1, "1 -> 2 leads above the current schema version 1"),
        ({1: len, 2: len, 3: len}, 3, "3 -> 4 leads above the current schema version 3"),
        ({1: len, 3: len}, 4, "none leads from schema version 2 to 3"),
        ({1: len, 2: len}, 4, "none leads from schema version 3 to 4"),
        ({1: len}, 10**15, "none leads from schema version 2 to 3"),
        ({0: len, 1: len}, 2, "from 1 to 10^15, not 0"),
        ({-1: len}, 2, "not -1"),
        ({True: len}, 2, "not bool"),
        ({1.0: len}, 2, "not float"),
        ({"1": len}, 2, "not str"),
        ({None: len}, 2, "not NoneType"),
        ({10**5000: len}, 2, "more than 20 digits"),
        ([len], 2, "not list"),
        (len, 2, "not builtin_function"),
        ({}, 0, "schema version is an int"),
        ({}, True, "schema version is an int"),
        (None, None, "schema version is an int"),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, str) else "",
)
def test_a_chain_that_is_not_one_is_refused_when_registered(
    steps: Any, schema_version: Any, reason: str
) -> None:
    """C13: a gap is found when the program starts, not when an old state turns up."""
    with pytest.raises(UsageError) as caught:
        Migrations(steps, schema_version=schema_version)
    check(reason in str(caught.value), str(caught.value))


class Asynchronous:
    async def __call__(self, state: Any) -> Any:
        return state


async def asynchronous(state: Any) -> Any:
    return state


async def asynchronous_generator(state: Any) -> Any:
    yield state


def generator(state: Any) -> Any:
    yield state


def no_parameter() -> Any:
    return None


def two_parameters(state: Any, context: Any) -> Any:
    return state


def keyword_only(*, state: Any) -> Any:
    return state


def keyword_needed(state: Any, *, context: Any) -> Any:
    return state


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (None, "not a function, but NoneType"),
        ("lambda", "not a function, but str"),
        (asynchronous, "asynchronous"),
        (asynchronous_generator, "asynchronous"),
        (functools.partial(asynchronous), "asynchronous"),
        (Asynchronous(), "asynchronous"),
        (generator, "generator"),
        (no_parameter, "one positional argument"),
        (two_parameters, "one positional argument"),
        (keyword_only, "one positional argument"),
        (keyword_needed, "one positional argument"),
        (functools.partial(two_parameters, state=1), "one positional argument"),
        (dict, "one positional argument"),  # no signature that could be asked
    ],
)
def test_what_is_no_function_of_one_state_is_refused_when_registered(
    step: Any, reason: str
) -> None:
    """R5: a coroutine would be returned instead of a state, and never run."""
    with pytest.raises(UsageError) as caught:
        one_step(step)
    check(
        "migration 1 -> 2" in str(caught.value) and reason in str(caught.value), str(caught.value)
    )


class Renamer:
    def __call__(self, state: Any) -> Any:
        return {"renamed": state}

    def method(self, state: Any) -> Any:
        return {"renamed": state}

    @staticmethod
    def static(state: Any) -> Any:
        return {"renamed": state}


def context_given(function: Any) -> Any:
    """A decorator that gives a second argument, and says it were the function itself."""

    @functools.wraps(function)
    def wrapper(state: Any) -> Any:
        return function(state, "context")

    return wrapper


@pytest.mark.parametrize(
    "step",
    [
        lambda state: {"renamed": state},
        lambda *states: {"renamed": states[0]},
        lambda state, /, depth=0, **more: {"renamed": state},
        functools.partial(lambda state, key: {key: state}, key="renamed"),
        Renamer(),
        Renamer().method,
        Renamer.static,
        context_given(lambda state, context: {"renamed": state}),
    ],
)
def test_whatever_takes_one_state_may_be_a_step(step: Any) -> None:
    """R5: lambdas, partials, methods, objects and decorated functions."""
    got = one_step(step).apply({"a": 1}, version=1, limits=LIMITS)
    check_equal(got, {"renamed": {"a": 1}}, "the new state")


def test_a_function_that_returns_a_coroutine_is_refused_without_a_warning() -> None:
    """R5: a plain function that hides a coroutine is found when it runs.

    Method: a coroutine that nobody closes warns when it is given back; no warning may be seen.
    """
    chain = one_step(lambda state: asynchronous(state))  # noqa: PLW0108  # hides what it is
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        with pytest.raises(MigrationError) as caught:
            chain.apply({}, version=1, limits=LIMITS)
        told = str(caught.value)
        del caught
        gc.collect()
    check("returned a coroutine" in told, told)
    check_equal([str(one.message) for one in seen], [], "warnings")


def test_the_chain_is_a_copy_of_what_was_registered() -> None:
    """A caller that goes on changing its mapping changes nothing that was checked."""
    steps: dict[int, Migration] = {1: lambda state: {**state, "a": 1}}
    chain = Migrations(steps, schema_version=2)
    steps.clear()
    check_equal(chain.apply({}, version=1, limits=LIMITS), {"a": 1}, "the new state")
    check_equal(chain.readable, range(1, 3), "what can be read")
