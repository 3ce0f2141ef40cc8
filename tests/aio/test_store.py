"""The awaited store and its checkpoints: what the synchronous ones answer."""

from __future__ import annotations

from pathlib import Path

import pytest

import lastgood
from lastgood import Checkpoint, aio
from lastgood.errors import PolicyError, UsageError
from tests.aio.world import KEYS, SESSION, note, run
from tests.support.check import check, check_equal


def test_checkpoint_store_has_the_same_answers(tmp_path: Path) -> None:
    """Each call of CheckpointStore, awaited, for a writer, a reader, and one of an open store.

    Method: what the synchronous one gives for the same, afterwards.
    """

    async def main() -> None:
        async with aio.CheckpointStore(tmp_path / "s", SESSION, keys=KEYS) as store:
            check_equal(await store.load_latest(), None, "new")
            check_equal(await store.current_sequence(), 0, "none yet")
            for n in range(1, 5):
                label = "kept" if n == 1 else None
                receipt = await store.save(Checkpoint(n, {"n": n}), milestone=label)
                check_equal(receipt.status, "saved", "saved")
            check_equal((await store.load(3)).state, {"n": 3}, "the one before")
            check_equal((await store.verify()).verdict, (await store.check()).verdict, "verdict")
            check_equal(await store.fingerprints(), (), "fingerprints")
            check_equal((store.session, store.fencing_token), (SESSION, 1), "whose")
            released = [1]
            await store.prune(release=released)
            with pytest.raises(UsageError, match="not stored"):
                await store.load(1)
            check(isinstance(await store.notices(), tuple), "notices")
        async with (
            aio.open_store(tmp_path / "s", keys=KEYS) as many,
            many.checkpoints(SESSION, mode="read") as reader,
        ):
            latest = await reader.load_latest()
            check(latest is not None and latest.sequence == 4, f"latest: {latest}")
            with pytest.raises(PolicyError):
                await reader.save(Checkpoint(5, {}))
            with pytest.raises(PolicyError):
                print(reader.fencing_token)
            check(many.location.endswith("/s"), many.location)
            check(isinstance(await many.notices(), tuple), "notices")

    run(main())
    with lastgood.CheckpointStore(tmp_path / "s", SESSION, keys=KEYS, mode="read") as store:
        check_equal(store.check().exit_code, 0, "the verdict")


def test_sessions_are_listed_as_a_stream(tmp_path: Path) -> None:
    """Every session once, in pieces; leaving early leaves nothing open.

    Method: 70 sessions in memory, more than one piece; all of them, and the first one.
    """
    where = f"memory:{tmp_path.name}-aio"
    with lastgood.open_store(where, keys=KEYS) as store:
        for number in range(70):
            store.session(f"s{number}", reducer=note, initial={"seen": []}).close()

    async def main() -> None:
        async with aio.open_store(where, keys=KEYS) as store:
            found = [entry.record.session async for entry in store.sessions() if entry.record]
            check_equal(sorted(found), sorted(f"s{number}" for number in range(70)), "sessions")
            async for entry in store.sessions():
                check(entry.problem is None, f"{entry}")
                break

    run(main())
