"""When a checkpoint is due: the policy, and what it refuses to be."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import UsageError
from lastgood.rules.cadence import NEVER, CheckpointPolicy, is_due
from tests.support.check import check, check_equal

MIB = 1024 * 1024
BY_EVENTS = CheckpointPolicy(events=100, seconds=None, log_bytes=None)
BY_SECONDS = CheckpointPolicy(events=None, seconds=60, log_bytes=None)
BY_PARTS = CheckpointPolicy(events=None, seconds=0.5, log_bytes=None)
BY_BYTES = CheckpointPolicy(events=None, seconds=None, log_bytes=8 * MIB)


def test_the_default_is_what_the_design_says() -> None:
    """Section 10: 100 events, 60 seconds, 8 MiB, after manual and probed effects."""
    policy = CheckpointPolicy()
    check_equal((policy.events, policy.seconds, policy.log_bytes), (100, 60, 8 * MIB), "bounds")
    check_equal(policy.after, ("manual", "probe"), "classes")


@pytest.mark.parametrize(
    ("policy", "events", "seconds", "log_bytes", "expected"),
    [
        (BY_EVENTS, 99, 10**9, 10**12, False),
        (BY_EVENTS, 100, 0, 0, True),
        (BY_EVENTS, 101, 0, 0, True),
        (BY_SECONDS, 10**9, 59.999, 10**12, False),
        (BY_SECONDS, 1, 60, 0, True),
        (BY_SECONDS, 1, 60.001, 0, True),
        (BY_SECONDS, 1, -5, 0, False),
        (BY_PARTS, 1, 0.49, 0, False),
        (BY_PARTS, 1, 0.5, 0, True),
        (BY_BYTES, 10**9, 10**9, 8 * MIB - 1, False),
        (BY_BYTES, 1, 0, 8 * MIB, True),
        (CheckpointPolicy(), 99, 59.9, 8 * MIB - 1, False),
        (CheckpointPolicy(), 100, 59.9, 8 * MIB - 1, True),
        (CheckpointPolicy(), 99, 60, 8 * MIB - 1, True),
        (CheckpointPolicy(), 99, 59.9, 8 * MIB, True),
        (CheckpointPolicy(), 0, 10**9, 10**12, False),
        (CheckpointPolicy(events=1), 1, 0, 0, True),
        (NEVER, 10**15, 10**15, 10**15, False),
    ],
)
def test_whatever_bound_is_reached_first_makes_it_due(
    policy: CheckpointPolicy, events: int, seconds: float, log_bytes: int, expected: bool
) -> None:
    """Each bound alone, at it and just below; None is no bound; nothing new, nothing due."""
    got = is_due(policy, events=events, seconds=seconds, log_bytes=log_bytes)
    check_equal(got, expected, "whether it is due")


BOUNDS = st.none() | st.integers(1, 1000)


@given(
    bounds=st.tuples(BOUNDS, BOUNDS, BOUNDS),
    seen=st.tuples(*[st.integers(0, 1200)] * 3),
    more=st.tuples(*[st.integers(0, 1200)] * 3),
)
def test_what_is_due_stays_due_until_it_is_saved(
    bounds: tuple[Any, Any, Any], seen: tuple[int, int, int], more: tuple[int, int, int]
) -> None:
    """For every policy: due is what reached one bound, and more of anything never undoes it."""
    policy = CheckpointPolicy(events=bounds[0], seconds=bounds[1], log_bytes=bounds[2])
    expected = seen[0] > 0 and any(
        bound is not None and value >= bound for bound, value in zip(bounds, seen, strict=True)
    )
    got = is_due(policy, events=seen[0], seconds=seen[1], log_bytes=seen[2])
    check_equal(got, expected, f"{policy} after {seen}")
    later = [one + other for one, other in zip(seen, more, strict=True)]
    if got:
        still = is_due(policy, events=later[0], seconds=later[1], log_bytes=later[2])
        check(still, f"{policy} after {later}")


@pytest.mark.parametrize("name", ["events", "seconds", "log_bytes"])
@pytest.mark.parametrize(
    "value",
    [0, -1, True, False, "100", math.nan, math.inf, -math.inf, 10**15 + 1, 10**5000, [1], 1j],
    ids=lambda value: repr(value) if type(value) is not int or value < 10**20 else "huge",
)
def test_a_bound_that_is_none_is_refused(name: str, value: Any) -> None:
    """A bound of 0 or True would always be due, NaN never: found when the policy is made."""
    with pytest.raises(UsageError) as caught:
        CheckpointPolicy(**{name: value})
    check(name in str(caught.value) and "10^15" in str(caught.value), str(caught.value))


@pytest.mark.parametrize("name", ["events", "log_bytes"])
@pytest.mark.parametrize("value", [1.0, 0.5, 100.0])
def test_a_count_is_an_int(name: str, value: Any) -> None:
    """Half an event is a mistake; seconds alone may have parts."""
    with pytest.raises(UsageError):
        CheckpointPolicy(**{name: value})
    check_equal(CheckpointPolicy(seconds=value).seconds, value, "seconds")


@pytest.mark.parametrize("name", ["events", "seconds", "log_bytes"])
@pytest.mark.parametrize("value", [1, 10**15, None])
def test_the_ends_of_the_range_are_kept(name: str, value: Any) -> None:
    """1 and 10^15 are bounds, None is none."""
    check_equal(getattr(CheckpointPolicy(**{name: value}), name), value, name)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ((), ()),
        (set(), ()),
        (("probe", "manual"), ("manual", "probe")),
        ({"idempotent", "manual"}, ("manual", "idempotent")),
        (frozenset({"probe"}), ("probe",)),
        (("manual", "manual"), ("manual",)),
        ({"probe": 1}.keys(), ("probe",)),
    ],
)
def test_classes_are_kept_once_and_in_one_order(after: Any, expected: Any) -> None:
    """Two policies that say the same are equal, and a caller's set may change afterwards."""
    policy = CheckpointPolicy(after=after)
    check_equal(policy.after, expected, "the classes")
    check_equal(hash(policy), hash(CheckpointPolicy(after=expected)), "its hash")
    check_equal(policy, CheckpointPolicy(after=expected), "the policy")


@pytest.mark.parametrize(
    "after",
    ["manual", ["manual"], None, True, 1, ("maual",), {"MANUAL"}, (None,), (b"probe",), ("",)],
    ids=repr,
)
def test_what_is_no_set_of_classes_is_refused(after: Any) -> None:
    """A misspelt class would silently never be followed by a checkpoint."""
    with pytest.raises(UsageError):
        CheckpointPolicy(after=after)


@pytest.mark.parametrize("effect_class", ["manual", "probe", "idempotent"])
@pytest.mark.parametrize("after", [(), ("manual",), ("probe", "idempotent"), ("manual", "probe")])
def test_a_checkpoint_follows_exactly_the_classes_that_are_named(
    after: Any, effect_class: Any
) -> None:
    """Section 10: after critical effects, and the caller says which those are."""
    got = CheckpointPolicy(after=after).is_after(effect_class)
    check_equal(got, effect_class in after, f"{effect_class} after {after}")


@pytest.mark.parametrize("effect_class", ["maual", "", None, True, "manual\n"], ids=repr)
def test_an_unknown_class_is_refused_and_never_taken_for_no(effect_class: Any) -> None:
    """A misspelt class is a mistake of the caller, told at once."""
    for policy in (NEVER, CheckpointPolicy()):
        with pytest.raises(UsageError):
            policy.is_after(effect_class)


def test_a_policy_cannot_be_changed() -> None:
    """What was checked is what is asked later."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        NEVER.events = 1  # type: ignore[misc]
