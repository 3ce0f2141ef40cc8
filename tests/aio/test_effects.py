"""Effects, awaited: what holds of the synchronous ones, whatever is cancelled (C7-03, C8)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from lastgood import aio
from lastgood.aio.effect import Effect
from lastgood.errors import EffectConflictError, EffectUndecidedError, UsageError
from lastgood.probes import done
from tests.crash.scenes import KEYS
from tests.support.check import check, check_equal


def apply(state: Any, event: Any) -> Any:
    """The reducer."""
    return [*state, event.data]


_EMPTY: list[Any] = []


@asynccontextmanager
async def opened(root: Path) -> AsyncIterator[aio.Session[Any]]:
    """The session, open."""
    async with (
        aio.open_store(root / "store", keys=KEYS) as store,
        store.session("s", reducer=apply, initial=_EMPTY) as session,
    ):
        yield session


async def again(root: Path, **options: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """The result, the state, and what is open, for a second run."""

    async def never(effect: object) -> None:
        pytest.fail("it ran again")

    async with opened(root) as session:
        open_ones = await session.open_effects()
        result = await session.run_once("pay", never, key="7", **options)
        return result, await session.state(), open_ones


def test_effect_is_done_once(tmp_path: Path) -> None:
    """Intent, result and event as in the synchronous session (G5)."""

    async def act(effect: Effect) -> dict[str, str]:
        await asyncio.sleep(0)
        return {"key": effect.idempotency_key}

    async def job() -> None:
        async with opened(tmp_path) as session:
            result = await session.run_once("pay", act, key="7", event=lambda _: ("paid", 7))
            check(result["key"].startswith("fx:v1:"), "result")
            with pytest.raises(EffectConflictError):
                await session.run_once("pay", act, key="7")
            async with session.effect("pay", key="8") as effect:
                check(effect.should_run, "to be run")
                await effect.not_done("refused")
        check_equal(await again(tmp_path), (result, [7], ()), "a second run")

    asyncio.run(job())


@pytest.mark.parametrize("steps", range(12))
def test_cancelled_effect_is_open_or_never_began(tmp_path: Path, steps: int) -> None:
    """Cancelled at any step: never half, and the same session may go on (C7-03)."""

    async def act(effect: object) -> None:
        await asyncio.sleep(30)

    async def job() -> None:
        async with opened(tmp_path) as session:
            task = asyncio.create_task(session.run_once("pay", act, key="7"))
            for _ in range(steps):
                await asyncio.sleep(0.0005 * steps)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            found = await session.open_effects()
            for one in found:
                await session.resolve(one.fingerprint, "not done", actor="clerk", reason="no")
            check_equal(await session.run_once("pay", _seven, key="7"), 7, "result")
        check_equal((await again(tmp_path))[0], 7, "a second run")

    asyncio.run(job())


async def _seven(effect: object) -> int:
    return 7


def test_open_effect_is_asked_about(tmp_path: Path) -> None:
    """A probe is a plain function; without one a person decides (design 8)."""

    async def fails(effect: object) -> None:
        raise ConnectionResetError

    async def answers(asked: object) -> Any:
        return done()

    coroutine: Any = answers

    async def job() -> None:
        async with opened(tmp_path) as session:
            with pytest.raises(ConnectionResetError):
                await session.run_once("pay", fails, key="7", on_unknown=lambda asked: done(1))
            with pytest.raises(UsageError, match="coroutine"):
                session.effect("pay", key="7", on_unknown=coroutine)
            with pytest.raises(EffectUndecidedError):
                await session.run_once("pay", fails, key="7")
        result, _, open_ones = await again(tmp_path, on_unknown=lambda asked: done(5))
        check_equal((result, len(open_ones)), (5, 1), "what the probe said")

    asyncio.run(job())
