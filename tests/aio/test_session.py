"""The awaited session: the guarantees of the synchronous one, for many tasks in one loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lastgood import Checkpoint, CheckpointPolicy, Event, aio
from lastgood.errors import LimitError, ReducerError, StateError, UsageError
from tests.aio.world import KEYS, SESSION, Gate, disk, note, run, seen, session_of, turns, until
from tests.support.check import check, check_equal

FINGERPRINT = "fx:v1:" + "a" * 64


@asynccontextmanager
async def opened(place: Path, gate: Gate | None = None, **more: Any) -> AsyncIterator:
    """A session of its own store."""
    where = place if gate is None else disk(place, gate)
    async with (
        aio.open_store(where, keys=KEYS) as store,
        session_of(store, **more) as session,
    ):
        yield session


def test_what_was_awaited_is_there_after_reopening(tmp_path: Path) -> None:
    """G1, G2: an append that returned is in the log, a save that returned is where replay begins.

    Method: one of each call; then the same names, opened again, and the synchronous ones.
    """

    async def main() -> int:
        async with opened(tmp_path / "s") as session:
            check_equal(session.resumed.is_new, True, "new")
            first: int = await session.append("x", {"n": 1})
            numbers = await session.append_many([("x", 2), ("x", 3)])
            check_equal(numbers, (first + 1, first + 2), "numbers")
            check_equal(await session.append_many([]), (), "nothing")
            check(await session.should_replay(FINGERPRINT), "it is still to be done")
            receipt = await session.save(fingerprints=[FINGERPRINT])
            check_equal((receipt.status, receipt.sequence), ("saved", first + 3), "the save")
            check_equal(await session.fingerprints(), (FINGERPRINT,), "done")
            check(not await session.should_replay(FINGERPRINT), "it is done")
            last = await session.append("x", 4)
            check_equal((session.sequence, session.id, session.notices), (last, SESSION, ()), "it")
            token = session.fencing_token
        async with opened(tmp_path / "s") as again:
            check_equal((again.resumed.checkpoint, again.resumed.replayed), (first + 3, 1), "it")
            check(again.fencing_token > token, "a higher fencing token")
            check_equal((await again.state())["seen"][-1], [last, 4], "the state")
        return first

    n = run(main())
    expected = [[n, {"n": 1}], [n + 1, 2], [n + 2, 3], [n + 4, 4]]
    check_equal(seen(tmp_path / "s"), expected, "events")


def test_many_tasks_that_append_share_flushes(tmp_path: Path) -> None:
    """Group commit: 64 tasks cost at least 4 times fewer fdatasyncs than appends.

    Method: count fdatasyncs at the seam; 64 tasks of 10 appends, each waiting for its own.
    """
    gate = Gate()

    async def main() -> int:
        async with opened(tmp_path / "s", gate) as session:

            async def several(task: int) -> None:
                for number in range(10):
                    await session.append("x", [task, number])

            before = gate.flushes.count("fdatasync")
            async with asyncio.TaskGroup() as group:
                for task in range(64):
                    group.create_task(several(task))
            return gate.flushes.count("fdatasync") - before

    flushes = run(main())
    check(0 < flushes * 4 <= 640, f"{flushes} fdatasyncs for 640 appends")
    found = [data for _, data in seen(tmp_path / "s")]
    check_equal(sorted(found), [[task, n] for task in range(64) for n in range(10)], "every event")


def test_acknowledgements_come_in_the_order_of_the_log_which_is_that_of_the_calls(
    tmp_path: Path,
) -> None:
    """Numbers rise in the order of the calls, and tasks go on in the order of their numbers.

    Method: 50 tasks, begun in order while the disk is held, note when they are acknowledged.
    """
    gate = Gate()

    async def main() -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        async with opened(tmp_path / "s", gate) as session:

            async def one(task: int) -> None:
                if task % 3:
                    told.append((task, await session.append("x", task)))
                else:
                    told.append((task, (await session.append_many([("x", task)] * 2))[0]))

            gate.shut()
            tasks = [asyncio.create_task(one(task)) for task in range(50)]
            await until(lambda: gate.is_reached, "the first write")
            await turns()
            check_equal(told, [], "acknowledged while the disk was held")
            gate.release()
            await asyncio.gather(*tasks)
        return told

    told = run(main())
    check_equal([task for task, _ in told], list(range(50)), "order of acknowledgement")
    check_equal(told, sorted(told, key=lambda one: one[1]), "order of numbers")
    stored = [data for _, data in seen(tmp_path / "s")]
    expected = [task for task in range(50) for _ in range(1 if task % 3 else 2)]
    check_equal(stored, expected, "the log")


def test_what_is_asked_for_between_two_appends_happens_between_them(tmp_path: Path) -> None:
    """A save or a look at the state holds what was asked for before it, and nothing later.

    Method: append, save, append, state, append, all asked for while the disk is held.
    """
    gate = Gate()

    async def main() -> None:
        async with opened(tmp_path / "s", gate) as session:
            gate.shut()
            made = [
                asyncio.create_task(call)
                for call in (
                    session.append("x", 0),
                    session.append("x", 1),
                    session.save(),
                    session.append("x", 2),
                    session.state(),
                    session.append("x", 3),
                )
            ]
            await until(lambda: gate.is_reached, "the first write")
            gate.release()
            _, second, receipt, third, state, _ = await asyncio.gather(*made)
            check_equal(receipt.sequence, second, "what the save holds")
            check_equal([one[0] for one in state["seen"]][-1], third, "what the state holds")

    run(main())


def test_refused_event_among_others_is_refused_alone(tmp_path: Path) -> None:
    """An event that may not be stored stands in nobody else's way, and its error is its own.

    Method: good and bad calls in one group, while the disk is held; a reducer that changes the
    state before it raises, a validator, data that is no JSON, a type that is ours, a large event.
    """
    gate = Gate()
    bad = object()

    async def main() -> None:
        def valid(state: dict) -> bool:
            return all(one[1] != "invalid" for one in state["seen"])

        async with opened(tmp_path / "s", gate, validate=valid) as session:
            gate.shut()
            calls = [
                session.append("x", 0),
                session.append("x", 1),
                session.append("refused"),
                session.append_many([("x", 2), ("refused", None)]),
                session.append("x", 3),
                session.append("x", "invalid"),
                session.append("x", bad),
                session.append("lastgood.closed"),
                session.append("x", "x" * (4 << 20)),
                session.append("x", 4),
            ]
            tasks = [asyncio.create_task(call) for call in calls]
            await until(lambda: gate.is_reached, "the first write")
            await turns()
            gate.release()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            kinds = [type(one) for one in done]
            expected = [int, int, ReducerError, ReducerError, int, StateError, StateError]
            check_equal(kinds, [*expected, UsageError, LimitError, int], "outcomes")

    run(main())
    check_equal([data for _, data in seen(tmp_path / "s")], [0, 1, 3, 4], "events")


def test_data_that_is_changed_after_the_call_is_stored_as_it_was(tmp_path: Path) -> None:
    """Another task may change what was given: event data, a checkpoint's state, a list of names.

    Method: change each while the disk is held, before the thread has come to it.
    """
    gate = Gate()

    async def main() -> None:
        async with opened(tmp_path / "s", gate) as session:
            given: dict = {"n": [1]}
            events: list[tuple[str, dict]] = [("x", {"n": [2]})]
            names = [FINGERPRINT]
            gate.shut()
            tasks = [
                asyncio.create_task(call)
                for call in (
                    session.append("x", 0),
                    session.append("x", given),
                    session.append_many(events),
                    session.save(fingerprints=names),
                )
            ]
            await until(lambda: gate.is_reached, "the first write")
            given["n"].append("changed")
            events[0][1]["n"].append("changed")
            names.append("changed")
            gate.release()
            await asyncio.gather(*tasks)
        async with aio.CheckpointStore(disk(tmp_path / "c", gate), "c", keys=KEYS) as store:
            state: dict = {"n": [1]}
            gate.shut()
            first = asyncio.create_task(store.load_latest())
            saving = asyncio.create_task(store.save(Checkpoint(1, state)))
            await until(lambda: gate.is_reached, "the save")
            await turns()
            state["n"].append("changed")
            gate.release()
            await asyncio.gather(first, saving)
            loaded = await store.load_latest()
            check(loaded is not None and loaded.state == {"n": [1]}, f"what was saved: {loaded}")

    run(main())
    check_equal([data for _, data in seen(tmp_path / "s")][1:], [{"n": [1]}, {"n": [2]}], "events")


def test_functions_of_the_program_run_in_one_thread_that_is_not_the_loop_s(tmp_path: Path) -> None:
    """Reducers run in one thread at a time: always the same one, of replay, too.

    Method: note the thread in reducer, validator and on_resume, over 20 tasks and a reopening.
    """
    for opening in range(2):
        at: set[int] = set()

        def noting(state: dict, event: Event, at: set[int] = at) -> dict:
            at.add(threading.get_ident())
            return note(state, event)

        def looking(_: object, at: set[int] = at) -> None:
            at.add(threading.get_ident())

        more = {"reducer": noting, "validate": looking, "on_resume": looking}

        async def main(more: dict[str, Any] = more) -> None:
            async with opened(tmp_path / "s", **more) as session:
                await asyncio.gather(*(session.append("x", n) for n in range(20)))

        run(main())
        check_equal(len(at), 1, f"threads at opening {opening}")
        check(threading.get_ident() not in at, "the loop's own thread")


def test_each_reducer_call_sees_the_context_of_its_own_task_and_leaves_none(
    tmp_path: Path,
) -> None:
    """contextvars flow in as a copy, for each call of a group its own; nothing flows out.

    Method: a variable set by each task before it appends, read and set by the reducer.
    """
    who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")
    pairs: list[tuple[object, str]] = []

    def reading(state: dict, event: Event) -> dict:
        pairs.append((event.data, who.get()))
        who.set("the reducer")
        return note(state, event)

    async def main() -> None:
        async with opened(tmp_path / "s", reducer=reading) as session:

            async def one(task: int) -> None:
                who.set(f"task {task}")
                await session.append("x", task)
                check_equal(who.get(), f"task {task}", "what the reducer set")

            await asyncio.gather(*(one(task) for task in range(20)))

    run(main())
    check_equal(pairs, [(task, f"task {task}") for task in range(20)], "contexts")


def test_policy_saves_by_itself_within_a_group(tmp_path: Path) -> None:
    """An automatic save is made when it is due, by events of many tasks.

    Method: a policy of ten events; 40 appends at once; then what the next opening starts from.
    """

    async def main() -> None:
        async with opened(tmp_path / "s", policy=CheckpointPolicy(events=10)) as session:
            await asyncio.gather(*(session.append("x", n) for n in range(40)))
        async with opened(tmp_path / "s") as session:
            check(session.resumed.checkpoint > 10, f"saved at {session.resumed.checkpoint}")
            check_equal(len((await session.state())["seen"]), 40, "events")

    run(main())


@pytest.mark.parametrize("which", ["reducer", "validate", "on_resume", "migrations"])
def test_coroutine_function_is_refused_where_nobody_would_await_it(
    tmp_path: Path, which: str
) -> None:
    """A check that is a coroutine function would never run: UsageError, before anything is made.

    Method: an async function in each place, as a function and as an object.
    """

    async def function(*_: object) -> bool:
        return True

    class Called:
        async def __call__(self, *_: object) -> bool:
            return True

    async def main() -> None:
        async with aio.open_store(tmp_path / "s", keys=KEYS) as store:
            for given in (function, Called()):
                more: dict[str, Any] = {which: {1: given} if which == "migrations" else given}
                with pytest.raises(UsageError, match="coroutine"):
                    session_of(store, **more)

    run(main())
    check(not (tmp_path / "s").exists(), "something was made")
