"""A log of 64 MiB, or with ``make test-large`` of 1 GiB, is verified and resumed in little memory.

The log is made through the product: events of 6 KiB, and one of nearly 4 MiB, the largest that may
be. Children of their own then verify and resume it, and tell the peak of their resident memory,
the bytes that they read, and their processor time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import lastgood
from lastgood import CheckpointPolicy, Limits
from lastgood.errors import LimitError
from lastgood.formats.session import Program
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.normal_only, pytest.mark.timeout(1_800)]

MIB: Final = 1024 * 1024
IS_LARGE: Final = os.environ.get("LASTGOOD_LARGE") == "1"
SIZE_MIB: Final = 1024 if IS_LARGE else 64
EVENT_BYTES: Final = 6 * 1024
LARGEST_BYTES: Final = Limits().event_bytes
A_BATCH: Final = 150
MOST_BYTES: Final = 4 * LARGEST_BYTES + 150 * MIB
NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)
SESSION: Final = "nightly"

PROGRAM: Final = """
import json, resource, sys
from collections import Counter
from pathlib import Path
from lastgood.storage import filesystem
from tests.large.test_log_size import opened, verified

read = Counter()
real = filesystem.OsFileSystem.read
def counting(self, *args, **options):
    data = real(self, *args, **options)
    read["bytes"] += len(data)
    return data
filesystem.OsFileSystem.read = counting

place, what = Path(sys.argv[1]), sys.argv[2]
if what == "verify":
    told = verified(place)
else:
    with opened(place) as session:
        told = session.state
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(int(line.split()[1]) * 1024 for line in
            Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(json.dumps([told, peak, read["bytes"], used.ru_utime + used.ru_stime]))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a child needed.

    Attributes:
        told: What it found.
        peak_bytes: Of its resident memory.
        read_bytes: From files.
        used_s: Processor time.
    """

    told: Any
    peak_bytes: int
    read_bytes: int
    used_s: float

    def __str__(self) -> str:
        read = f"{self.read_bytes / MIB:.0f} MiB read"
        return f"peak {self.peak_bytes / MIB:.0f} MiB, {read}, {self.used_s:.1f} s of processor"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A store, whose many bytes do not stay behind."""
    yield tmp_path / "state"
    shutil.rmtree(tmp_path / "state", ignore_errors=True)


def count(state: dict[str, int], event: lastgood.Event) -> dict[str, int]:
    """The reducer: how many events, and how many bytes they hold."""
    data: Any = event.data
    return {"events": state["events"] + 1, "bytes": state["bytes"] + len(data)}


def opened(place: Path) -> lastgood.Session[dict[str, int]]:
    """Open the session."""
    store = lastgood.open_store(place, keys=records.keyring())
    return store.session(
        SESSION, reducer=count, initial={"events": 0, "bytes": 0}, policy=NEVER,
        program=Program("count", "1"),
    )  # fmt: skip


def verified(place: Path) -> dict[str, int]:
    """Verify the session, and say how much of a log there is."""
    with lastgood.CheckpointStore(place, SESSION, keys=records.keyring(), mode="read") as store:
        report = store.check()
    if report.error is not None or report.log is None:
        raise AssertionError(f"{report.error}")
    return {"events": report.log.end.count, "bytes": report.log.size_bytes}


def grow(place: Path, size_mib: int) -> dict[str, int]:
    """Append until the events' data alone has grown by ``size_mib``; returns the state."""
    with opened(place) as session:
        wanted = session.state["bytes"] + size_mib * MIB
        session.append("one", "x" * (LARGEST_BYTES - 1_024))
        while session.state["bytes"] < wanted:
            session.append_many([("one", "y" * (EVENT_BYTES - 400))] * A_BATCH)
        return session.state


def cost(place: Path, what: str) -> Cost:
    """Do it in a child."""
    ran = subprocess.run(
        [sys.executable, "-B", "-c", PROGRAM, place, what],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"the child that was to {what}: {ran.stderr[-2_000:]}")
    told, peak, read, used = json.loads(ran.stdout)
    return Cost(told, peak, read, used)


def test_a_large_log_is_verified_and_resumed_in_little_memory_and_linear_time(
    place: Path,
) -> None:
    """T8, C14-01: the peak is at most 4 × the largest record + 150 MiB; twice the log, twice the
    bytes read, and with ``make test-large`` about twice the time.

    Method: half of the log and all of it, each verified and resumed by a child of its own.
    """
    costs: dict[str, list[Cost]] = {"verify": [], "resume": []}
    for _ in range(2):
        state = grow(place, SIZE_MIB // 2)
        for what, found in costs.items():
            found.append(cost(place, what))
            print(f"{what} of {state['bytes'] / MIB:.0f} MiB: {found[-1]}")
            check(found[-1].peak_bytes <= MOST_BYTES, f"{what}: {found[-1]}")
        told = costs["resume"][-1].told
        check_equal(told, state, "the state that was resumed")
        check(costs["verify"][-1].told["events"] > state["events"], "the log that was verified")
    check(state["bytes"] >= SIZE_MIB * MIB, f"too little was written: {state}")
    for what, (half, whole) in costs.items():
        ratio = whole.read_bytes / half.read_bytes
        check(1.8 <= ratio <= 2.2, f"{what}: {half.read_bytes} and {whole.read_bytes} bytes read")
        check(whole.peak_bytes <= half.peak_bytes + 16 * MIB, f"{what}: {half}; {whole}")
        if IS_LARGE:
            check(whole.used_s <= 2.6 * half.used_s, f"{what}: {half}; {whole}")


def test_an_event_over_its_limit_is_refused_and_nothing_is_written(place: Path) -> None:
    """T8: a line above ``Limits.event_bytes`` is LimitError, alone and among others.

    Method: the largest line that may be, then one byte more; every byte of the store compared.
    """
    with opened(place) as session:
        low, high = LARGEST_BYTES - 2_048, LARGEST_BYTES
        session.append("one", "z" * low)
        before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
        for events in ([("one", "z" * high)], [("one", "a"), ("one", "z" * high), ("one", "b")]):
            with pytest.raises(LimitError):
                session.append_many(events)
            after = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
            check(after == before, "a refused event changed the store")
        check_equal(session.state, {"events": 1, "bytes": low}, "the state")
        session.append("one", "c")
        check_equal(session.state["events"], 2, "the session goes on")
