"""One program, killed 200 times; after each kill all five invariants hold together.

1. Every official file is complete.
2. The greatest number decides: neither a time, nor the order of a listing, nor the pointer.
3. An unknown schema never resumes, an older one or a newer one, and refusing changes nothing.
4. Checkpoint and log agree, in state, side effects and place.
5. An acknowledged side effect is never offered again.

And what was acknowledged through the pipe is there. Each invariant is a function of
``invariants.py``, and is shown to fail on a violation that is planted. A failure prints the seed.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from tests.journeys import payments, stored
from tests.journeys.invariants import (
    FOLDER,
    Load,
    Told,
    acknowledged_effects_are_never_offered_again,
    an_unknown_schema_never_resumes,
    checkpoint_and_log_agree,
    decided,
    every_official_file_is_complete,
    resume,
    schema_of,
    the_greatest_number_decides,
    what_was_acknowledged_is_there,
)
from tests.journeys.payments import CURRENT, effect, opened
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.normal_only]

KILLS: Final = 200
UPGRADED_AT: Final = 60
"""From this kill on the program's schema is 2."""
_MEMORY: Final = Path("/dev/shm")


def live(root: Path, told: Told, *, schema: int, lines: int, wait_s: float, fresh: bool) -> None:
    """A life of the program, ended by SIGKILL so long after it told so many lines; notes all."""
    reading, writing = os.pipe()
    pid = _fresh(root, writing, schema) if fresh else _forked(root, writing, schema)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = list(islice(pipe, lines))
        time.sleep(wait_s)
        os.kill(pid, signal.SIGKILL)
        said += list(pipe)
    _, status = os.waitpid(pid, 0)
    check(os.WIFSIGNALED(status), f"it ended by itself with {status}: {said[-3:]}")
    for line in said:
        if line.endswith("\n"):
            told.note(line)


def _forked(root: Path, pipe: int, schema: int) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            payments.run(
                root, lambda line: payments.void(os.write(pipe, f"{line}\n".encode())), schema
            )
        except BaseException as error:  # noqa: BLE001 - the child never comes back into pytest
            os.write(2, f"\nthe program stopped: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(3)
    return pid


def _fresh(root: Path, pipe: int, schema: int) -> int:
    """An interpreter of its own, which shares nothing with this one."""
    words = [sys.executable, "-B", "-m", "tests.journeys.payments", str(root), str(pipe)]
    child = subprocess.Popen([*words, str(schema)], cwd=REPOSITORY, pass_fds=[pipe])
    child.returncode = 0  # it is waited for by its id
    return child.pid


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A store, whose many files do not stay behind."""
    yield tmp_path / "state"
    shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def copy() -> Iterator[Path]:
    """Where a copy is looked at: in memory where that is offered, since no power is lost here."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    with tempfile.TemporaryDirectory(prefix="lastgood-", dir=parent) as made:
        yield Path(made) / "copy"


def check_all(root: Path, told: Told, *, copy: Path, chance: random.Random) -> Counter[str]:
    """All five, on a copy, so that the next life begins with what the kill left."""
    shutil.copytree(root, copy)
    try:
        counts = Counter(
            files=every_official_file_is_complete(copy),
            decided=the_greatest_number_decides(copy, chance=chance) and 1,
            schemas=an_unknown_schema_never_resumes(copy),
            checkpoints=checkpoint_and_log_agree(copy),
        )
        state = acknowledged_effects_are_never_offered_again(copy, told)
        what_was_acknowledged_is_there(state, told)
        check(decided(copy) >= told.saved, f"{decided(copy)} is current, {told} was saved")
        return counts
    finally:
        shutil.rmtree(copy)


@pytest.mark.timeout(300)
def test_after_each_of_two_hundred_kills_all_five_invariants_hold(root: Path, copy: Path) -> None:
    """G1–G4, I1, I2, I5, I6: together, on what SIGKILL at a random instant leaves.

    Method: the program in its own process, every tenth time in an interpreter of its own; after
    the sixtieth kill a newer version of it, which migrates the state.
    """
    chosen = int(os.environ.get("LASTGOOD_SEED") or random.SystemRandom().randrange(10**9))
    print(f"LASTGOOD_SEED={chosen}")
    chance, told, counts = random.Random(chosen), Told(), Counter[str]()
    started = time.monotonic()
    kill = 0
    while counts["lives"] < KILLS:
        schema = 1 if kill < UPGRADED_AT else CURRENT
        fresh = kill % 10 == 9
        kill += 1
        # Every third time at an instant of the opening, else of the work after so many lines.
        lines = chance.randrange(1, 60) if chance.randrange(3) else 0
        wait_s = chance.uniform(0.0, 0.003 if lines else 0.03)
        live(root, told, schema=schema, lines=lines, wait_s=wait_s, fresh=fresh)
        if not (root / FOLDER).is_dir():
            check_equal(told, Told(), "what was told before anything was made")
            continue
        try:
            counts += check_all(root, told, copy=copy, chance=chance)
        except AssertionError as error:
            raise AssertionError(f"LASTGOOD_SEED={chosen}, kill {kill}: {error}") from error
        counts["lives"] += 1
    print(f"{told.count} payments, {len(told.effects)} effects, {dict(counts)}, "
          f"{time.monotonic() - started:.0f} s")  # fmt: skip
    check(told.count > 300 and len(told.effects) > 50, f"too little was done: {told}")
    check(schema_of(root) == CURRENT, "the newer version never saved")
    for what in ("decided", "schemas", "checkpoints"):
        check(counts[what] >= KILLS // 2, f"too few {what} were seen: {counts}")


# --- each of them can fail ----------------------------------------------------------------


@pytest.fixture
def healthy(root: Path, copy: Path) -> tuple[Path, Told]:
    """A session with two generations, of schema 2, in which all five hold."""
    told = Told()
    for number in range(3):
        with opened(root, CURRENT) as session:
            for n in range(number * 2, number * 2 + 2):
                session.append("paid", {"number": n})
            told.saved = session.save(fingerprints=[effect(number)]).sequence
    told.count = told.asked = 6
    told.effects = {0, 1, 2}
    check_all(root, told, copy=copy, chance=random.Random(1))
    return root, told


def _newest_checkpoint(root: Path) -> Path:
    return list(stored.official(root / FOLDER, "checkpoint"))[-1]


def test_an_incomplete_official_file_is_seen(healthy: tuple[Path, Told]) -> None:
    """The first invariant can fail: on a beginning, on a lost last byte, on a wrong name."""
    root, _ = healthy
    path = _newest_checkpoint(root)
    data = path.read_bytes()
    for bad in (b"", data[: len(data) // 2], data[:-1], data + b"x", data.replace(b"paid", b"PAID"),
                data[:-40] + bytes(40), data.replace(b'"count":', b'"count": ')):  # fmt: skip
        if bad != data:
            path.write_bytes(bad)
            with pytest.raises(AssertionError):
                every_official_file_is_complete(root)
    path.write_bytes(data)
    path.rename(path.with_name("checkpoint-000999.json"))
    with pytest.raises(AssertionError):
        every_official_file_is_complete(root)


def test_a_choice_by_time_or_by_the_pointer_is_seen(healthy: tuple[Path, Told]) -> None:
    """The second invariant can fail: on a product that takes the newest file, or an older one."""
    root, _ = healthy
    folder = root / FOLDER

    def by_time(_: Path) -> int:
        newest = max(stored.official(folder, "checkpoint"), key=lambda path: path.stat().st_mtime)
        return int(newest.name[11:-5])

    def the_older(_: Path) -> int:
        return int(next(iter(stored.official(folder, "checkpoint"))).name[11:-5])

    def is_seen(loads: Load, seed: int) -> bool:
        try:
            the_greatest_number_decides(root, loads=loads, chance=random.Random(seed))
        except AssertionError:
            return True
        return False

    # By chance the newest file may be the right one; of twenty draws not each time.
    check(any(is_seen(by_time, seed) for seed in range(20)), "a choice by time is not seen")
    check(is_seen(the_older, 0) and is_seen(lambda _: 0, 0), "an older one is not seen")


def test_a_program_that_resumes_any_schema_is_seen(healthy: tuple[Path, Told]) -> None:
    """The third invariant can fail: on a program that resumes, and on one that writes first."""
    root, _ = healthy

    def anything(place: Path, _: int) -> Any:
        return opened(place, CURRENT)

    def writes_first(place: Path, schema: int) -> Any:
        (place / FOLDER / "events-000001-0001.jsonl").write_bytes(b"")
        return resume(place, schema)

    with pytest.raises(AssertionError, match="resumed a store"):
        an_unknown_schema_never_resumes(root, opens=anything)
    with pytest.raises(AssertionError, match=r"exit code|changed something"):
        an_unknown_schema_never_resumes(root, opens=writes_first)


def test_a_checkpoint_that_is_not_what_its_log_gives_is_seen(healthy: tuple[Path, Told]) -> None:
    """The fourth invariant can fail: on another state, effect, place, or a missing line.

    Method: the payload is changed and its length and hash made right again, as a writer would.
    """
    root, _ = healthy
    path = _newest_checkpoint(root)
    data = path.read_bytes()
    payload = stored.record(path).payload
    wrong: list[dict[str, Any]] = [
        payload | {"state": payload["state"] | {"count": 5}},
        payload | {"sideEffectFingerprints": payload["sideEffectFingerprints"][:-1]},
        payload | {"log": payload["log"] | {"offset": payload["log"]["offset"] + 1}},
        payload | {"log": payload["log"] | {"count": payload["log"]["count"] - 1}},
        payload | {"log": payload["log"] | {"head": "f" * 64}},
    ]
    for other in wrong:
        path.write_bytes(_sealed(data, other))
        every_official_file_is_complete(root)
        with pytest.raises(AssertionError):
            checkpoint_and_log_agree(root)
    path.write_bytes(data)
    checkpoint_and_log_agree(root)
    segment = root / FOLDER / "events-000001-0001.jsonl"
    lines = segment.read_bytes().split(b"\n")
    segment.write_bytes(b"\n".join(lines[:2] + lines[3:]))
    with pytest.raises(AssertionError):
        checkpoint_and_log_agree(root)


def _sealed(data: bytes, payload: dict[str, Any]) -> bytes:
    import hashlib
    import json

    seal, header, _, _ = data.split(b"\n")
    text = json.dumps(payload, separators=(",", ":")).encode()
    said = json.loads(header)
    said |= {"length": len(text), "sha256": hashlib.sha256(text).hexdigest()}
    return b"\n".join([seal, json.dumps(said, separators=(",", ":")).encode(), text, b""])


def test_an_effect_that_comes_again_and_a_payment_that_is_gone_are_seen(
    healthy: tuple[Path, Told],
) -> None:
    """The fifth invariant, and what was acknowledged, can fail: on false accounts, line by line."""
    root, told = healthy
    told.effects.add(5)
    with pytest.raises(AssertionError, match="offered again"):
        acknowledged_effects_are_never_offered_again(root, told)
    told.effects.discard(5)
    state = acknowledged_effects_are_never_offered_again(root, told)
    for wrong in (Told(7, 7), Told(4, 5), Told(0, 0)):
        with pytest.raises(AssertionError, match="payments"):
            what_was_acknowledged_is_there(state, wrong)
    with pytest.raises(AssertionError, match="the state"):
        what_was_acknowledged_is_there(state | {"chain": "0"}, told)
    for line in ("began 5 ", "began 7 ", "began 6 1"):
        with pytest.raises(AssertionError):
            Told(6, 6, 0, {0, 1, 2}).note(line)
