"""What the tests of the awaited names share: a disk whose flushes stop at a gate, and a program."""

from __future__ import annotations

import asyncio
import errno
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, cast

import lastgood
from lastgood import CheckpointPolicy, Event, aio
from lastgood.rules.cadence import NEVER
from lastgood.storage.filesystem import FileSystem, OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.support import trees
from tests.support.check import check, check_equal

T = TypeVar("T")

KEYS = trees.KEYS
SESSION = "nightly"
LONG_S = 10.0
FLUSHES = ("fsync", "fdatasync")


class Gate:
    """Where flushes stop while it is shut.

    Attributes:
        flushes: Names of the flushes that were begun.
        is_reached: Whether one waits.
        failing: Name of those that fail.
    """

    def __init__(self, *, really: bool = True) -> None:
        self.flushes: list[str] = []
        self.failing = ""
        self._really = really
        self._is_open = threading.Event()
        self._is_open.set()
        self._reached = threading.Event()
        self._passing = 0

    def shut(self, *, after: int = 0) -> None:
        """Stop the flush that comes after that many others."""
        self._passing = after
        self._reached.clear()
        self._is_open.clear()

    def release(self) -> None:
        """Let everything through."""
        self._is_open.set()

    @property
    def is_reached(self) -> bool:
        return self._reached.is_set()

    def flush(self, name: str, call: Callable[[int], None], fd: int) -> None:
        self.flushes.append(name)
        self._passing -= 1
        if self._passing < 0 and not self._is_open.is_set():
            self._reached.set()
            check(self._is_open.wait(LONG_S), "nobody opened the gate")
        if name == self.failing:
            raise OSError(errno.EIO, "planted")
        if self._really:
            call(fd)


class _Gated:
    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._inner = OsFileSystem()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name not in FLUSHES:
            return call
        return lambda fd: self._gate.flush(name, call, fd)


def disk(place: Path, gate: Gate) -> PosixRoot:
    """A back end at ``place`` whose flushes go through ``gate``."""
    return PosixRoot(place, filesystem=cast(FileSystem, _Gated(gate)))


def note(state: dict, event: Event) -> dict:
    """The program of these tests: a list of what came, with its number."""
    if event.type == "refused":
        state["seen"].append("spoiled")
        raise ValueError("refused")
    state["seen"].append([event.sequence, event.data])
    return state


def session_of(
    store: aio.Store,
    *,
    reducer: Callable[[dict, Event], dict] = note,
    policy: CheckpointPolicy = NEVER,
    name: str = SESSION,
    **more: Any,
) -> aio.Session[dict]:
    """The session of these tests, to be opened."""
    return store.session(name, reducer=reducer, initial={"seen": []}, policy=policy, **more)


def seen(place: Path) -> list:
    """What a fresh, synchronous opening finds in the log; the store verifies."""
    with lastgood.open_store(place, keys=KEYS) as store:
        first: dict = {"seen": []}
        with store.session(SESSION, reducer=note, initial=first, policy=NEVER) as session:
            found = session.state["seen"]
        with store.checkpoints(SESSION, mode="read") as checkpoints:
            check_equal(checkpoints.check().exit_code, 0, "the store's verdict")
    return found


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` in a loop of its own."""
    return asyncio.run(main)


async def until(condition: Callable[[], object], what: str) -> None:
    """Let the loop go on until ``condition`` holds."""
    end = time.monotonic() + LONG_S
    while not condition():
        check(time.monotonic() < end, f"never: {what}")
        await asyncio.sleep(0.0005)


async def turns(count: int = 30) -> None:
    """Let everything happen that can happen without the disk."""
    for _ in range(count):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)


async def cancelled(task: asyncio.Task[Any]) -> bool:
    """Wait for ``task``; whether it was cancelled."""
    with suppress(asyncio.CancelledError):
        await task
    return task.cancelled()


def workers() -> list[str]:
    """The threads that handles have now."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("lastgood")]
