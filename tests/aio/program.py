"""A program as a user writes it: it must type-check strictly, wrong uses must not.

Each ``type: ignore`` marks a wrong use; were it not an error, the unused comment would be one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import assert_type

import lastgood.aio
from lastgood import Checkpoint, Event, Keyring, Report, Resumed, SaveReceipt, aio
from lastgood.store import SessionEntry

State = dict[str, list[int]]


def apply(state: State, event: Event) -> State:
    """A reducer."""
    state["n"].append(event.sequence)
    return state


async def job(root: Path, keys: Keyring) -> SaveReceipt:
    """Right uses."""
    first: State = {"n": []}
    async with (
        aio.open_store(root, keys=keys) as store,
        store.session("nightly", reducer=apply, initial=first) as session,
    ):
        assert_type(store, lastgood.aio.Store)
        assert_type(session, aio.Session[State])
        assert_type(session.fencing_token, int)
        assert_type(session.resumed, Resumed[State])
        assert_type(await session.append("x", {"n": 1}), int)
        assert_type(await session.append_many([("x", None), ("x", [1])]), tuple[int, ...])
        assert_type(await session.state(), State)
        assert_type(await session.should_replay("fx:v1:" + "0" * 64), bool)
        async for entry in store.sessions():
            assert_type(entry, SessionEntry)
        async with asyncio.TaskGroup() as group:
            task = group.create_task(session.save(milestone="first"))
        return task.result()


async def checkpoints(root: Path, keys: Keyring) -> Report:
    """Opened by await, closed by name."""
    store = await aio.CheckpointStore(root, "nightly", keys=keys, schema_version=2)
    assert_type(store, aio.CheckpointStore)
    assert_type(await store.load_latest(), Checkpoint | None)
    assert_type(await store.load(1), Checkpoint)
    assert_type(await store.current_sequence(), int)
    assert_type(await store.save(Checkpoint(2, {})), SaveReceipt)
    report = await store.verify()
    await store.close()
    return report


async def wrong(root: Path, keys: Keyring, session: aio.Session[State]) -> None:
    """Wrong uses, each of which a type checker finds."""
    aio.open_store(root)  # type: ignore[call-arg]
    aio.CheckpointStore(root, "nightly", keys)  # type: ignore[call-arg]
    aio.CheckpointStore(root, "nightly", keys=keys, mode="append")  # type: ignore[arg-type]
    store = await aio.open_store(root, keys=keys)
    store.session("nightly", reducer=apply, initial=7)  # type: ignore[arg-type]
    store.session("nightly", initial={"n": []})  # type: ignore[call-arg]
    number: int = session.append("x")  # type: ignore[assignment]
    print(session.state["n"], number)  # type: ignore[index]
    await session.append(7)  # type: ignore[arg-type]
    await session.save("first")  # type: ignore[call-arg]
    with aio.open_store(root, keys=keys):  # type: ignore[attr-defined]
        pass
