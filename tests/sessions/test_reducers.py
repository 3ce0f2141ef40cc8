"""What a program gives a session: reducers, validators, events and states that cannot be stored.

Method of all: a session whose reducer does what the event's data names; what is refused left
nothing in the log, and what was stored comes out again with a program that is mended.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood import LastgoodError, Limits, Session
from lastgood.errors import LimitError, ReducerError, StateError, UsageError
from tests.sessions import repaired
from tests.support.check import check, check_equal

State = dict[str, Any]
Value = Callable[[], object]

UNSTORABLE: dict[str, Value] = {
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "tuple": lambda: (1, 2),
    "set": lambda: {1},
    "time": lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
    "int key": lambda: {1: "x"},
    "bytes": lambda: b"x",
}


def put(state: State, event: lastgood.Event) -> State:
    """A reducer that is right: it keeps the item, or forgets all of them."""
    if event.type == "forget":
        return {"items": []}
    state["items"].append(event.data)
    return state


def spoiling(state: State, event: lastgood.Event) -> State:
    """A reducer that puts what the event names instead of it."""
    made: Value = UNSTORABLE.get(str(event.data), lambda: event.data)
    state["items"].append(made())
    return state


def opened(root: Path, *, limits: Limits | None = None, **options: Any) -> Session[State]:
    """Open the session."""
    store = lastgood.open_store(root, keys=repaired.KEYS, limits=limits)
    wanted: dict[str, Any] = {
        "reducer": put, "initial": {"items": []}, "policy": repaired.NEVER, **options,
    }  # fmt: skip
    return store.session(repaired.SESSION, **wanted)


def stored(root: Path) -> list[object]:
    """The data of the events that are in the log, in its order."""
    with (
        lastgood.open_store(root, keys=repaired.KEYS) as store,
        store.history(repaired.SESSION) as history,
    ):
        found = [event.data for event in history.events() if not event.is_ours]
        check(history.error is None, f"the log: {history.error}")
        return list(found)


def refusal(session: Session[State], kind: str, data: Any) -> LastgoodError:
    """What an append raises."""
    with pytest.raises(LastgoodError) as caught:
        session.append(kind, data)
    return caught.value


# --- what a reducer returns ---------------------------------------------------------------


def test_reducer_that_forgets_to_return_is_told_so_and_nothing_is_stored(tmp_path: Path) -> None:
    """G1, C8-04: a None where a state was is a forgotten return, not a state.

    Method: a reducer that changes the state in place and returns nothing for one type.
    """

    def forgetful(state: State, event: lastgood.Event) -> State | None:
        state["items"].append(event.data)
        return None if event.type == "forgotten" else state

    with opened(tmp_path / "store", reducer=forgetful) as session:
        session.append("put", "a")
        for _ in range(2):
            error = refusal(session, "forgotten", "b")
            check(isinstance(error, ReducerError), f"{error!r}")
            check("returned None" in error.happened and "forgotten" in error.happened, str(error))
            check("Let it return the state" in error.do, error.do)
            check("not stored" in error.safe, error.safe)
        session.append("put", "c")
        check_equal(session.state, {"items": ["a", "c"]}, "the state")
    check_equal(stored(tmp_path / "store"), ["a", "c"], "the log")


def test_state_of_a_program_may_be_none(tmp_path: Path) -> None:
    """C8-04: who begins with None may stay there; only a state that got lost is refused."""
    with opened(tmp_path / "store", initial=None, reducer=lambda state, _: state) as session:
        session.append("put", "a")
        check_equal(session.state, None, "the state")
    check_equal(stored(tmp_path / "store"), ["a"], "the log")


@pytest.mark.parametrize("name", UNSTORABLE)
def test_first_event_of_a_type_that_leads_to_no_json_is_not_stored(
    tmp_path: Path, name: str
) -> None:
    """G1: what could never be saved is refused with the first event of its type, which is told.

    Method: the reducer puts a value into the state that is no plain JSON data.
    """
    with opened(tmp_path / "store", reducer=spoiling) as session:
        session.append("put", "a")
        before = session.sequence
        for _ in range(2):  # refused once, it is not taken for proved
            error = refusal(session, "odd", name)
            check(isinstance(error, StateError), f"{error!r}")
            check("The event was not stored" in error.safe, str(error))
            check("Mend what the reducer returns" in error.do and "odd" in error.do, str(error))
        check_equal(session.sequence, before, "the sequence")
        session.append("put", "c")
        check_equal(session.state, {"items": ["a", "c"]}, "the state")
    check_equal(stored(tmp_path / "store"), ["a", "c"], "the log")


@pytest.mark.parametrize("name", UNSTORABLE)
def test_stored_events_that_lead_to_no_json_are_kept_for_a_mended_reducer(
    tmp_path: Path, name: str
) -> None:
    """G1, G3: nothing starts from a state that cannot be stored, and every event is there.

    Method: the value comes with the second event of a type that was proved by the first.
    """
    root = tmp_path / "store"
    with opened(root, reducer=spoiling) as session:
        session.append("put", "a")
        session.append("put", name)
        with pytest.raises(StateError):
            session.save()
    with pytest.raises(StateError) as caught:
        opened(root, reducer=spoiling)
    check("Every event is stored, and nothing was started" in caught.value.safe, str(caught.value))
    check("Mend the reducer" in caught.value.do, str(caught.value))
    check_equal(stored(root), ["a", name], "the log")
    with opened(root) as session:
        check_equal(session.state, {"items": ["a", name]}, "the state of the mended reducer")
        session.save()


# --- what is registered -------------------------------------------------------------------


async def _coroutine(state: State, event: lastgood.Event) -> State:
    return put(state, event)


@pytest.mark.parametrize("reducer", [_coroutine, None, "put"], ids=["coroutine", "None", "text"])
def test_reducer_that_is_no_plain_function_is_refused_before_anything_is_made(
    tmp_path: Path, reducer: object
) -> None:
    """G3: a coroutine function would return something else than a state, each time."""
    with pytest.raises(UsageError, match="no coroutine"):
        opened(tmp_path / "store", reducer=reducer)
    check(not (tmp_path / "store").exists(), "a store was made")


def _raising(state: State) -> object:
    raise KeyError(len(state))


@pytest.mark.parametrize("validate", [lambda _: False, _raising], ids=["says no", "raises"])
def test_validator_that_refuses_the_initial_state_is_refused_before_anything_is_made(
    tmp_path: Path, validate: Callable[[State], object]
) -> None:
    """G3: a session that could never begin is told when it is registered."""
    with pytest.raises(UsageError, match="refuses the initial state"):
        opened(tmp_path / "store", validate=validate)
    check(not (tmp_path / "store").exists(), "a store was made")


@pytest.mark.parametrize(
    "given",
    ["put", ("put",), ("put", 1, 2), None, 7, {"put": 1}, b"ab", (1, 2), (None, {})],
    ids=repr,
)
def test_events_that_are_no_pairs_are_refused_whole(tmp_path: Path, given: object) -> None:
    """G1: of a call with something that is no event nothing is stored, wherever it stands."""
    pair = ("put", "b")
    with opened(tmp_path / "store") as session:
        session.append("put", "a")
        before = session.sequence
        for events in ([given], [pair, given], [given, pair]):
            many: Any = events
            with pytest.raises(UsageError):
                session.append_many(many)
        check_equal(session.sequence, before, "the sequence")
        check_equal(session.state, {"items": ["a"]}, "the state")
    check_equal(stored(tmp_path / "store"), ["a"], "the log")


# --- a state that outgrew the limit -------------------------------------------------------

SMALL = Limits(payload_bytes=3_000)


def outgrown(root: Path) -> None:
    """A session whose state is larger than a checkpoint may be; every event was accepted."""
    with opened(root, limits=SMALL) as session:
        for number in range(8):
            session.append("put", f"{number}" * 1_000)
        with pytest.raises(LimitError):
            session.save()


def test_state_that_outgrew_the_limit_is_read_and_shrunk_and_saved_again(tmp_path: Path) -> None:
    """G1: events that were acknowledged are never locked away by the size that they led to.

    Method: a payload limit of 3 kB, a state of 8 kB; opened again, read, shrunk, saved.
    """
    root = tmp_path / "store"
    outgrown(root)
    with opened(root, limits=SMALL) as session:
        session.append("put", "")  # of a type that this ownership has not seen yet
    with opened(root, limits=SMALL) as session:
        check_equal([len(item) for item in session.state["items"]][:8], [1_000] * 8, "the state")
        check_equal(len(session.resumed.state["items"]), 9, "what the opening gave")
        with pytest.raises(LimitError):
            session.save()
        session.append("forget")
        receipt = session.save()
        check_equal(receipt.sequence, session.sequence, "what was saved")
    with opened(root, limits=SMALL) as session:
        check_equal(session.state, {"items": []}, "the state in the end")
        check_equal(session.resumed.checkpoint, receipt.sequence, "the checkpoint")
