"""C7-04: a cancelled save whose thread goes on must not roll back a newer one."""

from __future__ import annotations

import asyncio
import contextlib
import random
from pathlib import Path

import pytest

from lastgood import Checkpoint, aio
from tests.aio.world import KEYS, SESSION, Gate, cancelled, disk, turns, until
from tests.cases.harness import latest
from tests.support import trees
from tests.support.check import check, check_equal

ROUNDS = 1_000
SEED = 704
FLUSHES_OF_A_SAVE = 4


def stored(place: Path) -> set[str]:
    """Names of the checkpoints that lie there."""
    return {path.name for path in place.glob("*/checkpoint-*.json")}


def name(sequence: int) -> str:
    """The file of that checkpoint."""
    return f"checkpoint-{sequence:06d}.json"


@pytest.mark.parametrize("flush", range(FLUSHES_OF_A_SAVE))
def test_c07_04_cancelled_save_that_runs_has_ended_before_a_newer_one_begins(
    tmp_path: Path, flush: int
) -> None:
    """C7-04: A is cancelled while it is blocked, B is saved, A is unblocked: B stays current.

    Method: A held at each of its flushes; it is let go by its cancellation only when it is
    complete, and B, asked for meanwhile, follows.
    """
    gate, place = Gate(), tmp_path / "store"

    async def main() -> None:
        async with aio.CheckpointStore(disk(place, gate), SESSION, keys=KEYS) as store:
            await store.save(Checkpoint(1, {"who": "before"}))
            gate.shut(after=flush)
            a = asyncio.create_task(store.save(Checkpoint(2, {"who": "A"})))
            await until(lambda: gate.is_reached, "A blocked")
            a.cancel()
            b = asyncio.create_task(store.save(Checkpoint(3, {"who": "B"})))
            await turns()
            check(not a.done(), "the cancellation of A returned while A could still write")
            check(not b.done(), "B was saved beside A")
            gate.release()
            check(await cancelled(a), "A is cancelled")
            check(name(2) in stored(place), "A is not complete when its cancellation returns")
            check_equal((await b).status, "saved", "B")
            check_equal(await store.current_sequence(), 3, "current")

    asyncio.run(main())
    loaded = latest(place)
    check(loaded is not None and loaded.state == {"who": "B"}, f"a later reader sees {loaded}")
    check_equal(trees.read(place).reported, 0, "the chain")


class Storm:
    """Rounds of saves that are cancelled at random; numbers rise from round to round.

    Attributes:
        outcomes: How often A was withdrawn, carried through all the same, or saved in time.
        newest: The number of the last B.
    """

    def __init__(self, place: Path, gate: Gate, *, seed: int) -> None:
        self.outcomes = {"withdrawn": 0, "carried through": 0, "saved": 0}
        self.newest = 0
        self._place = place
        self._gate = gate
        self._choose = random.Random(seed)
        self._gone: list[int] = []

    async def round(self, store: aio.CheckpointStore) -> None:
        """A save ahead, A with a tiny timeout, B; blocked and released at random."""
        choose, at = self._choose, self.newest + self._choose.randrange(1, 4)
        ahead = asyncio.create_task(store.save(Checkpoint(at, {"who": "ahead"})))
        self._gate.shut(after=choose.randrange(FLUSHES_OF_A_SAVE * 2 + 2))
        a = asyncio.create_task(self._cancelled(store, at + 1, choose.random() / 60))
        asyncio.get_running_loop().call_later(choose.random() / 200, self._gate.release)
        for _ in range(3):
            await asyncio.sleep(0)  # both are asked for
        if choose.random() < 0.5:
            await asyncio.gather(ahead, a)
        receipt = await store.save(Checkpoint(at + 2, {"who": "B"}))
        check_equal(receipt.status, "saved", f"B, {at + 2}")
        await asyncio.gather(ahead, a)
        landed = [sequence for sequence in self._gone if name(sequence) in stored(self._place)]
        check_equal(landed, [], "landed after their cancellation")
        loaded = await store.load_latest()
        check(loaded is not None, "nothing is current")
        self.newest = at + 2
        check_equal(loaded, Checkpoint(self.newest, {"who": "B"}, (), 1), "what is current")

    async def _cancelled(self, store: aio.CheckpointStore, at: int, timeout_s: float) -> None:
        """A: saved within the time, or cancelled; then it stands where it ever will."""
        with contextlib.suppress(TimeoutError):
            receipt = await asyncio.wait_for(store.save(Checkpoint(at, {"who": "A"})), timeout_s)
            check_equal(receipt.status, "saved", f"A, {at}")
            self.outcomes["saved"] += 1
            return
        is_there = name(at) in stored(self._place)
        self.outcomes["carried through" if is_there else "withdrawn"] += 1
        if not is_there:
            self._gone.append(at)


@pytest.mark.slow
@pytest.mark.normal_only
def test_c07_04_thousand_rounds_of_cancelled_saves_leave_the_newest_current(
    tmp_path: Path,
) -> None:
    """C7-04: whatever is cancelled when, sequences rise, and B is what later readers see.

    Method: 1,000 rounds from one seed, the handle opened anew every 50: A is blocked at a flush of
    its own, or of the save before it, or not at all, by an event that is set at random; A is
    awaited with a tiny timeout; B is saved meanwhile or afterwards. Flushes do nothing else here,
    so that there is time for all.
    """
    gate, place = Gate(really=False), tmp_path / "store"
    storm = Storm(place, gate, seed=SEED)

    async def fifty_rounds() -> None:
        async with aio.CheckpointStore(disk(place, gate), SESSION, keys=KEYS) as store:
            check_equal(await store.current_sequence(), storm.newest, "current, reopened")
            for _ in range(50):
                await storm.round(store)
                gate.release()

    print(f"seed {SEED}")
    for _ in range(ROUNDS // 50):
        asyncio.run(fifty_rounds())
        check_equal(trees.read(place).reported, 0, "the chain")
    print(storm.outcomes)
    check(min(storm.outcomes.values()) >= 20, f"a way that hardly came: {storm.outcomes}")
