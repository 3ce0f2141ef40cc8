"""The life of a handle: what it answers before it is open, elsewhere, and when it is closed."""

from __future__ import annotations

import asyncio
import gc
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood import CheckpointPolicy, LastgoodError, aio
from lastgood.errors import LockedError, StorageError, UsageError
from lastgood.formats.limits import Limits
from tests.aio.world import (
    KEYS,
    SESSION,
    Gate,
    disk,
    run,
    seen,
    session_of,
    turns,
    until,
    workers,
)
from tests.support.check import check, check_equal

PAIRS = [
    (
        lastgood.Session,
        aio.Session,
        "append append_many save state close fingerprints should_replay fencing_token resumed "
        "notices sequence id",
    ),
    (
        lastgood.CheckpointStore,
        aio.CheckpointStore,
        "save load_latest load verify check prune close current_sequence fingerprints "
        "fencing_token notices session",
    ),
    (lastgood.Store, aio.Store, "session checkpoints sessions close location notices"),
]


def program(text: str) -> str:
    """What a program of its own prints; a warning is an error in it."""
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    check_equal((ran.returncode, ran.stderr), (0, ""), "the program")
    return ran.stdout.strip()


def test_lastgood_loads_asyncio_only_for_those_who_ask_for_it() -> None:
    """A program without an event loop pays nothing for one, and importing begins no thread.

    Method: in a process of its own, import every public name, then ``lastgood.aio``.
    """
    said = program(
        "import sys, threading\n"
        "import lastgood\n"
        "from lastgood import *\n"
        "print('asyncio' in sys.modules, 'lastgood.aio' in sys.modules)\n"
        "from lastgood import aio\n"
        "import lastgood.aio\n"
        "print(lastgood.aio is aio, 'asyncio' in sys.modules, threading.active_count())\n"
    )
    check_equal(said, "False False\nTrue True 1", "what was loaded")


@pytest.mark.parametrize(("one", "other", "names"), PAIRS)
def test_awaited_names_take_what_the_synchronous_ones_take(
    one: type, other: type, names: str
) -> None:
    """The same names and the same arguments: what is learnt of one is known of the other.

    Method: every public name is one of the synchronous class, with its arguments; those listed are
    there. Left out are the constructors of handles that another one makes; what is a property
    there may be a method that is awaited here.
    """
    made_by_another = one is not lastgood.CheckpointStore
    public = [name for name in dir(other) if not name.startswith("_")]
    check_equal(sorted(set(names.split()) - set(public)), [], "missing names")
    check_equal([name for name in public if not hasattr(one, name)], [], "names of our own")
    calls = [name for name in public if inspect.isfunction(getattr(one, name))]
    for name in [*calls, *([] if made_by_another else ["__init__"])]:
        mine, theirs = (inspect.signature(getattr(c, name)).parameters for c in (other, one))
        check_equal(list(mine), list(theirs), f"{name}: arguments")
        defaults = [[p.default for p in of.values()] for of in (mine, theirs)]
        check_equal(defaults[0], defaults[1], f"{name}: defaults")


def test_open_store_takes_what_the_synchronous_one_takes() -> None:
    """As above, of the function."""
    mine, theirs = (inspect.signature(f).parameters for f in (aio.open_store, lastgood.open_store))
    check_equal(
        [(p.name, p.default) for p in mine.values()],
        [(p.name, p.default) for p in theirs.values()],
        "arguments",
    )


def test_threads_begin_with_opening_and_end_with_close(tmp_path: Path) -> None:
    """One thread a handle, none before it is opened and none after.

    Method: count threads at each step, of a store and three sessions.
    """

    async def main() -> None:
        opening = aio.open_store(tmp_path / "s", keys=KEYS)
        check_equal(len(workers()), 0, "before")
        async with opening as store:
            check_equal(len(workers()), 1, "the store's")
            many = [await session_of(store, name=f"s{n}") for n in range(3)]
            await asyncio.gather(*(one.append("x", n) for one in many for n in range(20)))
            check_equal(len(workers()), 4, "one each")
            for left, session in zip((3, 2, 1), many, strict=True):
                await session.close()
                check_equal(len(workers()), left, "after a close")
        check_equal(len(workers()), 0, "after the store's close")

    run(main())


def test_handle_that_was_forgotten_keeps_no_thread(tmp_path: Path) -> None:
    """A handle that is dropped without a close costs no thread for ever, and hangs no exit.

    Method: drop one in this process; drop one in a process of its own, which must end.
    """

    async def main() -> None:
        store = await aio.open_store(tmp_path / "s", keys=KEYS)
        check_equal(len(workers()), 1, "opened")
        del store
        gc.collect()
        await until(lambda: not workers(), "its thread ends")

    run(main())
    text = (
        "import asyncio, lastgood\nfrom lastgood import aio\n"
        "kept = []\n"
        "async def main():\n"
        f"    kept.append(await aio.open_store({str(tmp_path / 't')!r},"
        " keys=lastgood.Keyring.generate()))\n"
        "asyncio.run(main())\nprint('end')\n"
    )
    check_equal(program(text), "end", "a program that forgets to close")


def test_handle_that_is_not_open_says_so(tmp_path: Path) -> None:
    """Used before it was awaited: UsageError, with what to do; nothing was made.

    Method: every property and call, of each kind of handle.
    """

    async def main() -> None:
        store = aio.open_store(tmp_path / "s", keys=KEYS)
        checkpoints = aio.CheckpointStore(tmp_path / "s", SESSION, keys=KEYS)
        for look in (lambda: store.location, lambda: checkpoints.fencing_token):
            with pytest.raises(UsageError, match="async with"):
                look()
        for ask in (store.notices, checkpoints.load_latest, checkpoints.current_sequence):
            with pytest.raises(UsageError, match="async with"):
                await ask()
        with pytest.raises(UsageError, match="async with"):
            store.checkpoints(SESSION)
        await store.close()
        await store.close()
        with pytest.raises(UsageError, match="closed"):
            await store

    run(main())
    check(not (tmp_path / "s").exists(), "something was made")


def test_opening_twice_is_told_and_entering_what_is_open_is_not(tmp_path: Path) -> None:
    """``async with await …`` works as ``async with …`` does; a second opening is refused.

    Method: both, and two tasks that open one handle at once.
    """

    async def main() -> None:
        async with await aio.open_store(tmp_path / "s", keys=KEYS) as store:
            with pytest.raises(UsageError, match="already"):
                await store
        handle = aio.open_store(tmp_path / "s", keys=KEYS)

        async def one() -> aio.Store:
            return await handle

        done = await asyncio.gather(one(), one(), return_exceptions=True)
        check_equal([type(each) for each in done], [aio.Store, UsageError], "both")
        await handle.close()

    run(main())


def test_opening_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """A typed error of the opening, no thread, and the next opening works.

    Method: a session that is held already; then the holder gives it back.
    """
    limits = Limits(lock_wait_s=0.05)

    async def main() -> None:
        async with aio.open_store(tmp_path / "s", keys=KEYS, limits=limits) as store:
            async with session_of(store):
                refused = session_of(store)
                with pytest.raises(LockedError):
                    await refused
                check_equal(len(workers()), 2, "threads")
                with pytest.raises(UsageError, match="closed"):
                    await refused
            async with session_of(store) as session:
                await session.append("x", 1)

    run(main())


def test_closed_handle_says_so_and_what_was_read_once_stays(tmp_path: Path) -> None:
    """After close: UsageError from every call; id, token and what was found can still be read.

    Method: every call after a close, and a second and a third close.
    """

    async def main() -> None:
        async with aio.open_store(tmp_path / "s", keys=KEYS) as store:
            async with session_of(store) as session:
                await session.append("x", 1)
            check_equal(session.id, SESSION, "the id")
            check(session.fencing_token >= 1 and session.resumed.is_new, "what was found")
            await asyncio.gather(session.close(), session.close())
            calls: list[Callable[[], Any]] = [
                lambda: session.append("x", 2),
                lambda: session.append_many([("x", 2)]),
                session.save,
                session.state,
                session.fingerprints,
                lambda: session.should_replay("fx:v1:" + "a" * 64),
            ]
            for call in calls:
                with pytest.raises(UsageError, match="closed"):
                    await call()
        with pytest.raises(UsageError, match="closed"):
            session_of(store)
        with pytest.raises(UsageError, match="closed"):
            await anext(store.sessions())

    run(main())
    check_equal([data for _, data in seen(tmp_path / "s")], [1], "events")


def test_close_while_calls_are_under_way_acknowledges_them_first(tmp_path: Path) -> None:
    """What was asked for before the close is done, what is asked for after it is refused.

    Method: appends and a save while the flush is held; close; more appends; then release.
    """
    gate = Gate()

    async def main() -> None:
        async with aio.open_store(disk(tmp_path / "s", gate), keys=KEYS) as store:
            session = await session_of(store)
            gate.shut()
            before = [asyncio.create_task(session.append("x", n)) for n in range(5)]
            before.append(asyncio.create_task(session.save()))  # type: ignore[arg-type]
            await until(lambda: gate.is_reached, "the write")
            closing = asyncio.create_task(session.close())
            await turns()
            with pytest.raises(UsageError, match="closed"):
                await session.append("x", "late")
            check(not closing.done(), "closed while an append ran")
            gate.release()
            *numbers, receipt = await asyncio.gather(*before)
            check_equal(receipt.sequence, numbers[-1], "the save")  # type: ignore[attr-defined]
            await closing

    run(main())
    check_equal([data for _, data in seen(tmp_path / "s")], list(range(5)), "events")


def test_another_event_loop_is_refused_and_may_close_what_a_loop_left_behind(
    tmp_path: Path,
) -> None:
    """A handle belongs to its loop; when that is closed, another one can still give it back.

    Method: use and close it from the loop of another thread, and from a later loop.
    """
    kept: list[aio.Session[dict]] = []

    def elsewhere(make: Callable[[aio.Session[dict]], Any], session: aio.Session[dict]) -> str:
        said = []

        async def main() -> None:
            try:
                await make(session)
            except LastgoodError as error:
                said.append(error.code + ": " + error.happened)

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        thread.join(20)
        return "".join(said)

    async def first() -> None:
        async with aio.open_store(tmp_path / "s", keys=KEYS) as store:
            session = await session_of(store)
            await session.append("x", 1)
            for make in (lambda s: s.append("x", 2), lambda s: s.state(), lambda s: s.close()):
                said = await asyncio.to_thread(elsewhere, make, session)
                check_equal(said, "usage: This handle belongs to another event loop", "the answer")
            await session.append("x", 3)
            kept.append(session)

    async def second() -> None:
        with pytest.raises(UsageError, match="another event loop"):
            await kept[0].append("x", 4)
        await kept[0].close()

    run(first())
    check_equal(len(workers()), 1, "the session's thread")
    run(second())
    with pytest.raises(UsageError, match="closed"):
        kept[0]._ready()
    check_equal([data for _, data in seen(tmp_path / "s")], [1, 3], "events")


def test_call_whose_coroutine_is_thrown_away_comes_to_its_end(tmp_path: Path) -> None:
    """A loop that is torn down cannot take the thread with it, nor the order of what follows.

    Method: a coroutine is closed while its flush is held; the loop ends; another one closes.
    """
    gate = Gate()
    kept: list[Any] = []

    async def first() -> None:
        store = await aio.open_store(disk(tmp_path / "s", gate), keys=KEYS)
        session = await session_of(store)
        kept.extend([session, store])
        gate.shut()
        thrown = session.append("x", 1)
        thrown.send(None)
        await until(lambda: gate.is_reached, "the write")
        thrown.close()

    async def second() -> None:
        gate.release()
        for handle in kept:
            await handle.close()

    run(first())
    run(second())
    kept.clear()
    check_equal([data for _, data in seen(tmp_path / "s")], [1], "events")


def test_failed_automatic_save_is_told_by_close_and_not_in_place_of_the_block_s_error(
    tmp_path: Path,
) -> None:
    """As of the synchronous session: close raises it, once; an error of the block goes first.

    Method: a policy of one event, every fsync of the save refused; with and without an
    error in the block.
    """

    policy = CheckpointPolicy(events=1)

    async def main(*, fails: bool) -> None:
        gate = Gate()
        root = disk(tmp_path / f"s{fails}", gate)
        async with (
            aio.open_store(root, keys=KEYS) as store,
            session_of(store, policy=policy) as session,
        ):
            await session.append("x", 1)
            gate.failing = "fsync"
            await session.append("x", 2)
            gate.failing = ""
            check(any("automatic save" in notice for notice in session.notices), "a notice")
            if fails:
                raise KeyError("the block's")
            with pytest.raises(StorageError):
                await session.close()
            await session.close()

    run(main(fails=False))
    with pytest.raises(KeyError):
        run(main(fails=True))
