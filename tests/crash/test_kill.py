"""Real processes die by SIGKILL at every call, and fresh ones recover (F1).

A child is forked, kills itself before or after call k of the file system, and says through a
pipe, by ``os.write``, what was acknowledged. A last test has the kernel's own tracer kill at
system calls. The process must have died there, by that signal, or the run proves nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from tests.crash.scenes import (
    NOTHING,
    Believed,
    Scenes,
    check_recovers,
    checkpoint,
    looks_of,
    writer,
)
from tests.crash.seam import Seam
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_strace

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.normal_only]


class Suicidal(Seam):
    """Kills its process, before or after call ``at``."""

    def __init__(self, at: int | None, when: Literal["before", "after"]) -> None:
        super().__init__()
        self.at = at
        self._when = when

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> Any:
        due = len(self.made) == self.at
        if due and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return super()._call(name, call, args, options)
        finally:
            if due:
                os.kill(os.getpid(), signal.SIGKILL)


def run(place: Path, saves: int, seam: Suicidal, *, ack: int) -> None:
    """What the child does: open, and save that often; the calls count from the last step on."""
    at, seam.at = seam.at, seam.at if saves == 0 else None
    store = writer(place, seam)
    for number in range(1, saves + 1):
        if number == saves:
            seam.begin()
            seam.at = at
        store.save(checkpoint(number * 10, "child"))
        os.write(ack, b"%d\n" % (number * 10))
    os.write(ack, b"end %d\n" % len(seam.made))
    store.close()


def child(
    place: Path, saves: int, at: int | None, when: Literal["before", "after"]
) -> tuple[list[str], int]:
    """Fork a child that dies at call ``at``; returns what it acknowledged, and its status."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            run(place, saves, Suicidal(at, when), ack=writing)
        finally:
            os._exit(7)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split("\n")[:-1]
    return said, os.waitpid(pid, 0)[1]


WHENS: Final[tuple[Literal["before", "after"], ...]] = ("before", "after")
SAVES: Final = {"opening a new store": 0, "first save": 1, "third save": 3, "save that prunes": 4}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", SAVES)
def test_sigkill_at_every_call_leaves_old_or_new(scenes: Scenes, what: str) -> None:
    """G1, G2, C7-01, C7-02: acknowledged is never lost, and no human is needed.

    Method: SIGKILL a forked process before and after every call; recover in this one.
    """
    saves = SAVES[what]
    with scenes.copy("absent") as place:
        said, _ = child(place, saves, None, "before")
    calls = int(said[-1].removeprefix("end "))
    seen: set[tuple[str, int]] = set()
    for at in range(calls):
        for when in WHENS:
            with scenes.copy("absent") as place:
                context = f"{what}: killed {when} call {at}"
                said, status = child(place, saves, at, when)
                check(os.WIFSIGNALED(status), f"{context}: it did not die: {status}")
                check_equal(os.WTERMSIG(status), int(signal.SIGKILL), f"{context}: signal")
                acknowledged = int(said[-1]) if said else 0
                state = (looks_of(place), acknowledged)
                if state not in seen:
                    seen.add(state)
                    check_recovers(place, _may_be(acknowledged, saves), context)
    print(f"{what}: {2 * calls} kills, {len(seen)} states")
    check(len(seen) >= 3, f"{what}: only {len(seen)} states")


def _may_be(acknowledged: int, saves: int) -> list[Believed]:
    numbers = range(acknowledged, saves * 10 + 1, 10)
    return [(number, "child") if number else NOTHING for number in numbers]


PROGRAM: Final = """
import os, sys
from pathlib import Path
from tests.crash.scenes import checkpoint, writer
with writer(Path(sys.argv[1])) as store:
    for number in (1, 2, 3, 4):
        store.save(checkpoint(number * 10, "child"))
        os.write(3, b"%d\\n" % (number * 10))
"""
RECOVERY: Final = """
import sys
from pathlib import Path
from tests.crash.scenes import check_recovers
may_be = [(int(number), "child" if number != "0" else "") for number in sys.argv[2:]]
check_recovers(Path(sys.argv[1]), may_be, "in a fresh process")
"""
CALLS: Final = (
    "mkdir,mkdirat", "flock", "pwrite64", "writev", "fsync", "linkat", "unlinkat",
    "rename,renameat,renameat2",
)  # fmt: skip
"""Every system call by which this program changes files; what only reads is among the above."""


@pytest.mark.needs_strace
@pytest.mark.timeout(600)
@pytest.mark.parametrize("call", CALLS)
def test_a_kill_by_the_kernels_tracer_is_recovered_in_a_fresh_process(
    scenes: Scenes, tmp_path: Path, call: str
) -> None:
    """G1, G2, C7-01: the same, killed at the entry of every system call that changes a file.

    Method: strace injects SIGKILL at the first, second … call of a name, in a program that makes a
    store and saves four times, until it comes to its end; it must have died there.
    """
    seen: set[tuple[str, int]] = set()
    count = 1
    while True:
        with scenes.copy("absent") as place:
            log, ack = tmp_path / f"trace-{count}", tmp_path / f"ack-{count}"
            died = _traced(place, call, count, log=log, ack=ack)
            told = ack.read_text().split("\n")[:-1]
            acknowledged = int(told[-1]) if told else 0
            if not died:
                check_equal(acknowledged, 40, "the program came to its end")
                break
            state = (looks_of(place), acknowledged)
            if state not in seen:
                seen.add(state)
                _recover_in_a_fresh_process(place, acknowledged, f"{call} {count}")
        count += 1
    print(f"{call}: {count - 1} kills, {len(seen)} states")
    check(count > 1, f"no {call} was made")


def _traced(place: Path, call: str, count: int, *, log: Path, ack: Path) -> bool:
    """Run the program under strace; whether it was killed, which must have been at that call."""
    with ack.open("wb") as acknowledged:
        ran = subprocess.run(
            [require_strace(), "-f", "-qq", "-o", log, "-e", f"trace={call}",
             "-e", f"inject={call}:signal=SIGKILL:when={count}",
             "/bin/sh", "-c", 'exec "$0" -B -c "$1" "$2" 3>&1', sys.executable, PROGRAM, place],
            cwd=REPOSITORY, stdout=acknowledged, stderr=subprocess.PIPE, timeout=100, check=False,
        )  # fmt: skip
    if ran.returncode == 0:
        return False
    lines = [line for line in log.read_text().split("\n") if line]
    check(ran.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), f"exit {ran.returncode}")
    check(any("killed by SIGKILL" in line for line in lines), f"it was not killed: {lines[-3:]}")
    made = [line for line in lines if "(" in line]
    check(any(f" {name}(" in made[-1] for name in call.split(",")), f"it died at {made[-1]}")
    check_equal(len(made), count, f"{call}: number of the call it died at")
    return True


def _recover_in_a_fresh_process(place: Path, acknowledged: int, context: str) -> None:
    may_be = [str(number) for number in range(acknowledged, 41, 10)]
    ran = subprocess.run(
        [sys.executable, "-B", "-c", RECOVERY, place, *may_be],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"killed at {context}: {ran.stderr[-2000:]}")
