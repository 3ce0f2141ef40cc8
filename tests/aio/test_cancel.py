"""Cancelling: a call never began, or its outcome stands when the cancellation is raised."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from lastgood import aio
from tests.aio.world import (
    KEYS,
    Gate,
    cancelled,
    disk,
    note,
    run,
    seen,
    session_of,
    turns,
    until,
    workers,
)
from tests.support.check import check, check_equal


def data(place: Path) -> list[object]:
    """The data of the events that a fresh opening finds."""
    return [one[1] for one in seen(place)]


def later(call: Callable[[], object], seconds: float = 0.05) -> None:
    """Have ``call`` made by another thread, whatever the loop does meanwhile."""
    threading.Timer(seconds, call).start()


def test_cancelled_append_that_runs_is_raised_when_its_outcome_stands(tmp_path: Path) -> None:
    """A running append cannot be stopped, so the task is not let go before it has ended.

    Method: cancelled three times while its flush is held; what is acknowledged is asked for at the
    instant the cancellation is raised, without waiting for anything.
    """
    gate = Gate()

    async def main() -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):
            before = session.sequence
            at_the_end: list[int] = []

            async def one() -> None:
                try:
                    await session.append("x", 1)
                finally:
                    at_the_end.append(session.sequence)

            gate.shut()
            task = asyncio.create_task(one())
            await until(lambda: gate.is_reached, "the write")
            for _ in range(3):
                task.cancel()
                await turns()
                check(not task.done(), "it was let go while it ran")
            gate.release()
            check(await cancelled(task), "CancelledError is raised")
            check_equal(task.cancelling(), 3, "requests to cancel")
            check(at_the_end[0] > before, "raised before the outcome stood")

    run(main())
    check_equal(data(tmp_path / "s"), [1], "events")


def test_cancelled_call_that_never_began_ends_at_once_and_never_happens(tmp_path: Path) -> None:
    """What waits behind a running call is withdrawn by a cancellation, and leaves the rest alone.

    Method: one append runs, its flush held; appends, a save and a look wait; some are cancelled.
    """
    gate = Gate()

    async def main() -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):
            gate.shut()
            first = asyncio.create_task(session.append("x", 0))
            await until(lambda: gate.is_reached, "the write")
            waiting = [asyncio.create_task(session.append("x", n)) for n in range(1, 7)]
            others = [asyncio.create_task(session.save()), asyncio.create_task(session.state())]
            await turns()
            for task in [*waiting[::2], *others]:
                task.cancel()
                await turns()
                check(task.cancelled(), "it waits for the disk")
            check(not first.done(), "the one that runs")
            gate.release()
            await asyncio.gather(first, *waiting[1::2])
            check_equal(await session.append("x", "after") > 0, True, "the session goes on")

    run(main())
    check_equal(data(tmp_path / "s"), [0, 2, 4, 6, "after"], "events")
    check(not list((tmp_path / "s").glob("*/checkpoint-*")), "the withdrawn save happened")


@pytest.mark.parametrize("how", ["wait_for", "timeout"])
def test_timeout_ends_when_the_call_has_ended(tmp_path: Path, how: str) -> None:
    """A timeout is a cancellation: TimeoutError, and by then the append is in the log.

    Method: a timeout, also twice nested, around an append whose flush is held for longer. On a
    machine so busy that the append never began, its withdrawal is as good.
    """
    gate = Gate()

    async def within(call: Coroutine[Any, Any, int]) -> None:
        if how == "wait_for":
            await asyncio.wait_for(call, 0.1)
        else:
            async with asyncio.timeout(0.1), asyncio.timeout(0.1):
                await call

    async def main() -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):
            before = session.sequence
            gate.shut()
            later(gate.release, 0.3)
            with pytest.raises(TimeoutError):
                await within(session.append("x", 1))
            is_stored = session.sequence > before
            check(is_stored or not gate.is_reached, "TimeoutError before the outcome stood")
            state = await session.state()
            check_equal([one[1] for one in state["seen"]], [1] * is_stored, "events")
            task = asyncio.current_task()
            check(task is not None and task.cancelling() == 0, "a request to cancel is left over")

    run(main())


def test_failure_of_a_sibling_waits_for_what_runs_and_withdraws_the_rest(tmp_path: Path) -> None:
    """A TaskGroup that fails ends when its running append has; the session is as good as before.

    Method: a sibling raises while one append runs and five wait.
    """
    gate = Gate()

    async def main() -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):

            async def failing() -> None:
                await until(lambda: gate.is_reached, "the write")
                await turns()
                later(gate.release)
                raise ValueError("sibling")

            async def all_of_them() -> None:
                async with asyncio.TaskGroup() as group:
                    group.create_task(session.append("x", 0))
                    group.create_task(failing())
                    await until(lambda: gate.is_reached, "the write")
                    for number in range(1, 6):
                        group.create_task(session.append("x", number))

            before = session.sequence
            gate.shut()
            with pytest.raises(ExceptionGroup) as raised:
                await all_of_them()
            check_equal(len(raised.value.exceptions), 1, "errors")
            check(session.sequence > before, "the group ended before the running append")
            await session.append("x", "after")

    run(main())
    check_equal(data(tmp_path / "s"), [0, "after"], "events")


def test_error_of_a_cancelled_call_is_the_cause_of_the_cancellation(tmp_path: Path) -> None:
    """What a cancelled call raised is not lost: it is the cause of CancelledError.

    Method: the reducer refuses, behind a held thread, an event whose append is cancelled.
    """
    began, go = threading.Event(), threading.Event()

    def refusing(state: dict, event: Any) -> dict:
        began.set()
        go.wait(20)
        return note(state, event)

    async def main() -> None:
        async with (
            aio.open_store(tmp_path / "s", keys=KEYS) as store,
            session_of(store, reducer=refusing) as session,
        ):
            task = asyncio.create_task(session.append("refused"))
            await until(began.is_set, "the reducer")
            task.cancel()
            await turns()
            go.set()
            with pytest.raises(asyncio.CancelledError) as raised:
                await task
            check_equal(type(raised.value.__cause__).__name__, "ReducerError", "the cause")

    run(main())
    check_equal(data(tmp_path / "s"), [], "events")


@pytest.mark.parametrize("flush", range(4))
def test_cancelled_opening_gives_back_what_it_opened(tmp_path: Path, flush: int) -> None:
    """Nobody holds a session that nobody was given: after the cancellation it can be opened.

    Method: opening is held at each of its first flushes and cancelled; then it is opened anew.
    """
    gate = Gate()

    async def main() -> None:
        async with aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store:
            gate.shut(after=flush)

            async def one() -> None:
                async with session_of(store):
                    raise AssertionError("it went in")

            task = asyncio.create_task(one())
            await until(lambda: gate.is_reached, "a flush of the opening")
            task.cancel()
            await turns()
            check(not task.done(), "it was let go while it ran")
            gate.release()
            check(await cancelled(task), "CancelledError is raised")
            check(len(workers()) <= 1, f"its thread is left: {workers()}")
            async with session_of(store) as session:
                await session.append("x", 1)

    run(main())
    check_equal(data(tmp_path / "s"), [1], "events")


def test_cancelled_close_is_carried_through(tmp_path: Path) -> None:
    """``async with`` gives the session back even where its end is cancelled.

    Method: the block is left while an append of another task runs, its flush held; the leaving is
    cancelled twice; then the session is opened anew.
    """
    gate = Gate()

    async def main() -> None:
        async with aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store:
            others: list[asyncio.Task[int]] = []

            async def one() -> None:
                async with session_of(store) as session:
                    gate.shut()
                    others.append(asyncio.create_task(session.append("x", 0)))
                    await until(lambda: gate.is_reached, "the write")
                    others.append(asyncio.create_task(session.append("x", 1)))
                    await asyncio.sleep(0)

            task = asyncio.create_task(one())
            await until(lambda: len(others) > 1, "both appends")
            for _ in range(2):
                await turns()
                task.cancel()
            await turns()
            check(not task.done(), "it was let go while it closed")
            gate.release()
            check(await cancelled(task), "CancelledError is raised")
            check(all(other.done() for other in others), "closed in front of what was asked before")
            await asyncio.gather(*others)
            async with session_of(store) as session:
                await session.append("x", 2)

    run(main())
    check_equal(data(tmp_path / "s"), [0, 1, 2], "events")


def test_loop_that_ends_waits_for_what_runs_and_closes_the_session(tmp_path: Path) -> None:
    """``asyncio.run`` cancels what is left over: the session is closed before it returns.

    Method: the main task returns while another one holds a session, its append held.
    """
    gate = Gate()

    async def background(into: list[aio.Session[dict]]) -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):
            into.append(session)
            gate.shut()
            await session.append("x", 1)
            raise AssertionError("it was cancelled")

    async def main() -> asyncio.Task[None]:
        task = asyncio.create_task(background([]))
        await until(lambda: gate.is_reached, "the write")
        later(gate.release)
        return task

    check(run(main()).cancelled(), "the task")
    check_equal(workers(), [], "threads")
    check_equal(data(tmp_path / "s"), [1], "events")


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_from_the_keyboard_waits_for_what_runs_and_closes(
    tmp_path: Path, times: int
) -> None:
    """Ctrl-C, once or twice: KeyboardInterrupt, the append in the log, the session given back.

    Method: SIGINT while the append's flush is held; the flush is released after the last one.
    """
    gate = Gate()

    async def main() -> None:
        async with (
            aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store,
            session_of(store) as session,
        ):
            await session.append("x", 0)
            gate.shut()
            for number in range(times):
                later(lambda: os.kill(os.getpid(), signal.SIGINT), 0.05 + number / 10)
            later(gate.release, 0.1 + times / 10)
            await session.append("x", 1)

    with pytest.raises(KeyboardInterrupt):
        run(main())
    check_equal(workers(), [], "threads")
    check_equal(data(tmp_path / "s"), [0, 1], "events")
