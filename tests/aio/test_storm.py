"""A thousand rounds of tasks that are cancelled at any moment, and what is in the log then."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood import SaveReceipt, aio
from lastgood.errors import UsageError
from tests.aio.world import KEYS, SESSION, Gate, disk, run, seen, session_of
from tests.support.check import check, check_equal

ROUNDS = 1_000
ROUNDS_A_STORE = 40
SEED = 20261202


@dataclass(slots=True)
class Ledger:
    """What the tasks were told, over all rounds of one store.

    Attributes:
        acknowledged: Number of each event by its name, in the order of the acknowledgements.
        cancelled: Number of the last acknowledged event, at the instant at which the cancellation
            of the append of this event was raised.
        saves: What the saves returned, in the same order.
        withdrawn: Of those that were cancelled, how many are not in the log.
        carried_through: How many are.
    """

    acknowledged: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, int] = field(default_factory=dict)
    saves: list[SaveReceipt] = field(default_factory=list)
    withdrawn: int = 0
    carried_through: int = 0

    def check_against(self, log: list[tuple[int, str]], *, checkpoint: int) -> None:
        """The log holds what was acknowledged, once, in order; of the rest what it always held."""
        numbers = [number for number, _ in log]
        check(numbers == sorted(set(numbers)), "numbers rise strictly")
        held = {name: number for number, name in log}
        check_equal(len(held), len(log), "events, each once")
        told = list(self.acknowledged.items())
        check_equal([(n, held.get(n)) for n, _ in told], told, "what was acknowledged")
        order = [number for _, number in told]
        check(order == sorted(order), "acknowledged in another order than that of the log")
        foreign = [n for n in held if n not in self.acknowledged and n not in self.cancelled]
        check_equal(foreign, [], "events of nobody")
        late = [n for n, at in self.cancelled.items() if held.get(n, 0) > at]
        check_equal(late, [], "landed after their cancellation was raised")
        self.carried_through = sum(name in held for name in self.cancelled)
        self.withdrawn = len(self.cancelled) - self.carried_through
        revisions = [receipt.revision for receipt in self.saves]
        check(revisions == sorted(revisions), "a save rolled another one back")
        if self.saves:
            newest = max(receipt.sequence for receipt in self.saves)
            check_equal(newest, self.saves[-1].sequence, "the last save is the newest")
            check(checkpoint >= newest, f"{newest} was saved, {checkpoint} is current")


class Round:
    """Tasks that append and save, each cancelled at random, over a disk that stops at random."""

    def __init__(
        self, name: str, session: aio.Session[dict], gate: Gate, ledger: Ledger, seed: str
    ) -> None:
        self._name = name
        self._session = session
        self._gate = gate
        self._ledger = ledger
        self._choose = random.Random(seed)

    async def play(self) -> None:
        """All tasks to their end; sometimes the session is closed meanwhile."""
        choose, loop = self._choose, asyncio.get_running_loop()
        if choose.random() < 0.7:
            self._gate.shut(after=choose.randrange(6))
            loop.call_later(choose.random() / 100, self._gate.release)
        tasks = [asyncio.create_task(self._task(n)) for n in range(choose.randrange(2, 8))]
        for task in tasks:
            if choose.random() < 0.4:
                loop.call_later(choose.random() / 80, task.cancel)
        if choose.random() < 0.2:
            await asyncio.sleep(choose.random() / 80)
            await self._session.close()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        for one in done:
            expected = one is None or isinstance(one, asyncio.CancelledError)
            check(expected, f"a task ended with {one!r}")
        self._gate.release()

    async def _task(self, number: int) -> None:
        """Up to six calls; it ends where the session is closed or the task is cancelled."""
        choose = random.Random(f"{self._name}.{number}")
        with contextlib.suppress(UsageError):
            for step in range(choose.randrange(1, 7)):
                name = f"{self._name}.{number}.{step}"
                limit = choose.random() / 100 if choose.random() < 0.3 else None
                call = self._saved if choose.random() < 0.2 else self._appended
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(limit):
                        await call(name, choose.randrange(1, 4))
                if choose.random() < 0.3:
                    await asyncio.sleep(choose.random() / 500)

    async def _saved(self, _: str, __: int) -> None:
        self._ledger.saves.append(await self._session.save())

    async def _appended(self, name: str, count: int) -> None:
        names = [f"{name}/{number}" for number in range(count)]
        try:
            if count == 1:
                numbers: tuple[int, ...] = (await self._session.append("x", names[0]),)
            else:
                numbers = await self._session.append_many([("x", name) for name in names])
        except asyncio.CancelledError:
            at = self._session.sequence
            self._ledger.cancelled.update((name, at) for name in names)
            raise
        self._ledger.acknowledged.update(zip(names, numbers, strict=True))


async def rounds(place: Path, seeds: list[int], ledger: Ledger) -> None:
    """Some rounds on one store; each begins by opening what the one before left."""
    gate = Gate(really=False)
    async with aio.open_store(disk(place, gate), keys=KEYS) as store:
        for seed in seeds:
            session = await session_of(store)
            log = [(number, name) for number, name in session.resumed.state["seen"]]
            try:
                ledger.check_against(log, checkpoint=session.resumed.checkpoint)
                await Round(str(seed), session, gate, ledger, str(seed)).play()
                state = await unless_closed(session.state)
                if state is not None:
                    now = [(number, name) for number, name in state["seen"]]
                    ledger.check_against(now, checkpoint=1 << 60)
            finally:
                gate.release()
                await session.close()
            with lastgood.CheckpointStore(place, SESSION, keys=KEYS, mode="read") as checkpoints:
                check_equal(checkpoints.check().exit_code, 0, "the store's verdict")


async def unless_closed(
    call: Callable[[], Coroutine[Any, Any, dict[str, list]]],
) -> dict[str, list] | None:
    """What ``call`` returns, or None of a handle that the round has closed."""
    try:
        return await call()
    except UsageError:
        return None


@pytest.mark.slow
@pytest.mark.normal_only
def test_storm_of_cancellations_loses_no_event_and_doubles_none(tmp_path: Path) -> None:
    """G1, C7-04: every acknowledged event is there, once, in order; what was cancelled is settled.

    Method: 1,000 rounds of two to seven tasks that append and save, cancelled at random moments,
    by themselves and by timeouts, while flushes are held at random; some rounds close the session
    meanwhile. After each the state is compared with what was told, before and after reopening, and
    the store is verified. Flushes do nothing else here, so that there is time for all.
    """
    print(f"seed {SEED}")
    sums = {"acknowledged": 0, "carried through": 0, "withdrawn": 0, "saves": 0}
    for first in range(0, ROUNDS, ROUNDS_A_STORE):
        place, ledger = tmp_path / f"store-{first}", Ledger()
        seeds = [SEED + number for number in range(first, first + ROUNDS_A_STORE)]
        run(rounds(place, seeds, ledger))
        log = [(number, name) for number, name in seen(place)]
        with lastgood.CheckpointStore(place, SESSION, keys=KEYS, mode="read") as checkpoints:
            latest = checkpoints.load_latest()
        ledger.check_against(log, checkpoint=0 if latest is None else latest.sequence)
        sums["acknowledged"] += len(ledger.acknowledged)
        sums["carried through"] += ledger.carried_through
        sums["withdrawn"] += ledger.withdrawn
        sums["saves"] += len(ledger.saves)
    print(sums)
    check(min(sums.values()) >= ROUNDS // 10, f"a way that hardly came: {sums}")
