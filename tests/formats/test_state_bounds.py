"""Bounds of a state: depth, cycles, sharing, size, other threads (C9, T8, K7)."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from lastgood.errors import LimitError, StateError
from lastgood.formats import canonical, state
from lastgood.formats.limits import Limits
from tests.support.check import check, check_equal
from tests.support.values import same

SMALL = Limits(payload_bytes=100_000)


def encode(value: Any, *, limits: Limits | None = None) -> bytes:
    limits = Limits() if limits is None else limits
    return state.encode_with_state({"state": value}, limits=limits)


def nested(depth: int, leaf: Any, *, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(depth):
        leaf = wrap(leaf)
    return leaf


WRAPS: list[Callable[[Any], Any]] = [lambda x: [x], lambda x: {"a": x}, lambda x: [0, {"a": x}]]


# --- depth --------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", WRAPS[:2], ids=["lists", "dicts"])
@pytest.mark.parametrize("leaf", [1, "x", None], ids=repr)
def test_depth_limit_is_exact(wrap: Callable[[Any], Any], leaf: Any) -> None:
    """200 deep is saved and comes back, 201 is refused; never a RecursionError (T8)."""
    deep = nested(200, leaf, wrap=wrap)
    check_equal(canonical.decode(encode(deep))["state"] == deep, True, "comes back")
    with pytest.raises(LimitError, match="more than 200 deep"):
        encode(wrap(deep))


@pytest.mark.parametrize("depth", [201, 254, 255, 1_024, 100_000])
def test_any_depth_over_the_limit_is_a_limit_error(depth: int) -> None:
    """Depth never crashes the process, however great."""
    value = nested(depth, 1, wrap=WRAPS[0])
    with pytest.raises(LimitError):
        encode(value)
    while value != 1:  # taken apart by hand: a list of lists this deep is freed by recursion
        value = value[0]


def test_smaller_depth_limit_is_exact_too() -> None:
    """The limit is the caller's. Method: 3, at its edge."""
    limits = Limits(depth=3)
    encode([[[1]]], limits=limits)
    encode({"a": [{"b": {}}["b"]]}, limits=limits)
    with pytest.raises(LimitError):
        encode([[[[]]]], limits=limits)


def test_depth_limit_beyond_the_serialisers_own_is_still_a_typed_error() -> None:
    """A limit that was raised too far never lets another exception out."""
    with pytest.raises(StateError):
        encode(nested(400, 1, wrap=WRAPS[0]), limits=Limits(depth=1_000))


# --- cycles and sharing -------------------------------------------------------------------------


def cycles() -> list[Any]:
    one: list[Any] = []
    one.append(one)
    two: dict[str, Any] = {}
    two["a"] = {"b": [two]}
    wide: list[Any] = []
    wide.extend([wide] * 1_000)
    mutual: list[Any] = [{}]
    mutual[0]["up"] = mutual
    return [one, two, wide, mutual, [1, {"x": one}]]


@pytest.mark.parametrize("number", range(5))
def test_cycle_is_refused(number: int) -> None:
    """A state that holds itself ends the save, not the process (C9-08)."""
    with pytest.raises(LimitError, match="holds itself"):
        encode(cycles()[number])


@pytest.mark.parametrize("number", range(5))
def test_wrong_value_in_a_cycle_is_found(number: int) -> None:
    """The search for the path ends, too. Method: a wrong value last in each cycle."""
    value = [cycles()[number], (1,)]
    with pytest.raises(StateError) as caught:
        encode(value)
    check_equal(caught.value.path, "$[1]", "path")


def test_shared_value_is_stored_each_time() -> None:
    """Sharing is not a cycle: it is legal, and comes back as equal values."""
    shared = {"a": [1, 2]}
    value = [shared, shared, {"x": shared}]
    check(same(canonical.decode(encode(value))["state"], value), "came back as another value")


def bomb(levels: int, leaf: Any, *, width: int = 2) -> Any:
    for _ in range(levels):
        leaf = [leaf] * width
    return leaf


@pytest.mark.parametrize("levels", [40, 150, 199])
@pytest.mark.timeout(30)
def test_small_state_that_stands_for_a_huge_one_is_refused(levels: int) -> None:
    """2^199 values end at the payload's limit in bounded time and memory (K7, T8)."""
    tracemalloc.start()
    with pytest.raises(LimitError):
        encode(bomb(levels, 1), limits=SMALL)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(peak < 8 * 2**20, f"{peak} bytes for a bomb")


@pytest.mark.parametrize("build", [lambda x: [x, (1,)], lambda x: {"a": x, "b": (1,)}])
@pytest.mark.timeout(30)
def test_wrong_value_beside_a_bomb_is_found_at_once(build: Callable[[Any], Any]) -> None:
    """The search for the path enters each container once (K7).

    Method: the wrong value stands behind 2^150 others; a search of all of them never ends.
    """
    with pytest.raises(StateError) as caught:
        encode(build(bomb(150, {"k": [1]})))
    check(caught.value.path in {"$[1]", "$.b"}, caught.value.path)


@pytest.mark.timeout(30)
def test_wrong_value_within_a_bomb_is_found() -> None:
    """A wrong value that stands in 2^100 places is reported in the first of them."""
    with pytest.raises(StateError) as caught:
        encode(bomb(100, (1,)))
    check_equal(caught.value.path, ("$" + "[0]" * 100)[:300], "path")


@pytest.mark.timeout(30)
@pytest.mark.parametrize("width", [50, 500_000])
def test_long_text_held_many_times_is_refused_before_it_is_encoded(width: int) -> None:
    """A shared text counts each time: 50 MB and 500 GB never become bytes (K7, T8)."""
    text = "x" * 2**20
    tracemalloc.start()
    with pytest.raises(LimitError):
        encode([text] * width)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(peak < 16 * 2**20 + 8 * width + 2**20, f"{peak} bytes: it was encoded first")


# --- memory -------------------------------------------------------------------------------------


SHAPES: dict[str, Callable[[], Any]] = {
    "flat list": lambda: [1] * 2_000_000,
    "flat dict": lambda: {str(n): n for n in range(200_000)},
    "lists in a list": lambda: [[n] for n in range(300_000)],
    "dicts in a list": lambda: [{"k": n} for n in range(200_000)],
    "floats": lambda: [0.5] * 2_000_000,
}


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_memory_of_the_walk_is_bounded(shape: Callable[[], Any]) -> None:
    """Proving fidelity takes the memory of some chunks, whatever the shape (K7)."""
    value = shape()
    tracemalloc.start()
    bounds = Limits()
    faithful = state._is_faithful(
        value, what="state", limit_bytes=bounds.payload_bytes, depth=bounds.depth
    )
    check(faithful, "a legal state was refused")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check(peak < 2**20, f"{peak} bytes for the walk")


@pytest.mark.slow
@pytest.mark.normal_only
def test_memory_of_the_search_for_the_path_is_bounded() -> None:
    """Finding the path of one value among two million flat ones takes little memory (K7)."""
    value: list[Any] = [1] * 2_000_000
    value.append(())
    tracemalloc.start()
    with pytest.raises(StateError) as caught:
        encode(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    check_equal(caught.value.path, "$[2000000]", "path")
    check(peak < 2**20, f"{peak} bytes for the search")


# --- other threads ------------------------------------------------------------------------------


def legal_churn(shared: dict[str, Any], turn: int) -> None:
    """Grow, shrink and replace, but only with JSON."""
    shared[str(turn % 50)] = [turn] * (turn % 7)
    shared.pop(str((turn * 7) % 50), None)
    shared["list"].append(turn)
    del shared["list"][: turn % 3]


def wrong_churn(shared: dict[str, Any], turn: int) -> None:
    """The same, now and then with what JSON has not."""
    legal_churn(shared, turn)
    shared["deep"] = [{"x": (turn,) if turn % 2 else turn}]


@pytest.mark.parametrize("churn", [legal_churn, wrong_churn])
def test_state_changed_by_another_thread_is_a_snapshot_or_refused(
    churn: Callable[[dict[str, Any], int], None],
) -> None:
    """Another thread causes a StateError or a whole snapshot, never another exception (S2).

    Method: a writer churns a dict and a list while 400 saves are tried.
    """
    shared: dict[str, Any] = {"list": list(range(3_000)), "big": [{"k": n} for n in range(500)]}
    stop = threading.Event()

    def write() -> None:
        turn = 0
        while not stop.is_set():
            turn += 1
            churn(shared, turn)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(400):
            try:
                data = encode(shared)
            except StateError:
                continue
            check_equal(canonical.encode(canonical.decode(data)), data, "a whole snapshot")
    finally:
        stop.set()
        writer.join()


def test_dict_that_grows_while_it_is_walked_is_a_state_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A change that Python notices is a StateError, in the walk and in the search (S2).

    Method: the change happens within the walk, at a fixed point, instead of in a thread.
    """
    value: dict[str, Any] = {str(n): n for n in range(5_000)}

    def growing(iterator: Any, size: int) -> Any:
        chunk = list(islice(iterator, size))
        value[f"new{len(value)}"] = 1
        return chunk

    monkeypatch.setattr(state, "islice", growing)
    with pytest.raises(StateError, match="another thread"):
        encode(value)
    monkeypatch.undo()

    def growing_problem(found: Any) -> str:
        value[f"new{len(value)}"] = 1
        return ""

    monkeypatch.setattr(state, "_problem", growing_problem)
    with pytest.raises(StateError, match="another thread"):
        encode({"a": value, "b": ()})


def test_list_that_shrinks_while_it_is_searched_ends_the_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A list that shrinks under the search is no IndexError."""
    value: list[Any] = [*range(100), ()]

    def shrinking(found: Any) -> str:
        del value[5:]
        return ""

    monkeypatch.setattr(state, "_problem", shrinking)
    with pytest.raises(StateError, match="not plain JSON"):
        encode(value)
