"""C7, sessions: killed, interrupted, and called by a signal handler, inside a call.

Method: strace kills at system calls; a hook at the file-system seam raises signals and exceptions
before each call; what is left is recovered by ``tests.crash.sessions``.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from lastgood import Session
from lastgood.errors import BusyError, LastgoodError, UsageError
from tests.crash.seam import Seam, once
from tests.crash.sessions import (
    LARGE,
    Sessions,
    State,
    Told,
    check_goes_on,
    check_recovers,
    given,
    items_of,
    opened,
)
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_strace


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Sessions to begin with."""
    return Sessions(tmp_path)


PROGRAM: Final = """
import os, sys
from pathlib import Path
from tests.crash.sessions import LARGE, given, opened
session = opened(Path(sys.argv[1]))
for item, pad in (("x", 0), ("y", LARGE)):
    session.append(*given(item, pad_bytes=pad))
    os.write(3, item.encode() + b"\\n")
session.save()
session.close()
"""


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.crash
@pytest.mark.needs_strace
@pytest.mark.timeout(300)
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync", "linkat"])
def test_c07_01_a_kill_at_a_system_call_loses_nothing_acknowledged(
    sessions: Sessions, tmp_path: Path, call: str
) -> None:
    """C7-01: SIGKILL at system calls of opening, appending, rolling, saving, closing; K1.

    Method: strace kills at the entry of each call of a name, until the program comes to its end.
    """
    count = 1
    while True:
        with sessions.copy("begun") as place:
            log, ack = tmp_path / f"trace-{count}", tmp_path / f"ack-{count}"
            died = _traced(place, call, count, log=log, ack=ack)
            done = ack.read_text().split()
            if not died:
                check_equal(done, ["x", "y"], "the program came to its end")
                break
            told = Told(["a", "b", "c", "d", *done], ["x", "y"][len(done) : len(done) + 1], 4)
            check_recovers(place, told, f"{call} {count}")
        count += 1
    check(count > 3, f"{count} calls of {call}")


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
    check(ran.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL), f"exit {ran.returncode}")
    made = [line for line in log.read_text().split("\n") if "(" in line]
    check(f" {call}(" in made[-1] and len(made) == count, f"it died at {made[-1:]}, {len(made)}")
    return True


@pytest.mark.parametrize("scene", ["published", "claimed"])
def test_c07_02_a_kill_between_checkpoint_and_pointer_is_rolled_forward(
    sessions: Sessions, scene: str
) -> None:
    """C7-02: the newer checkpoint is gone on from, and the next save of another state works; K1.

    Method: kill between the steps of a save; open, append, save, and verify everything.
    """
    with sessions.copy(scene) as place:
        told = sessions.told(scene)
        with opened(place) as session:
            found = session.resumed
            check(found.checkpoint > told.saved, f"it began at {found.checkpoint}")
            check_equal(found.rolled_forward, scene == "published", "rolled forward")
            check_goes_on(session, told, "other", scene)
        check_recovers(place, told, scene)


STEPS: Final[dict[str, Callable[[Session[State]], object]]] = {
    "append": lambda session: session.append(*given("y")),
    "roll": lambda session: session.append(*given("y", pad_bytes=LARGE)),
    "save": lambda session: session.save(),
    "state": lambda session: session.state,
    "close": lambda session: session.close(),
}


def calls_of(sessions: Sessions, name: str) -> int:
    """How many calls a step makes, until it gives back the lock."""
    seam = Seam()
    with sessions.copy("begun") as place, opened(place, seam) as session:
        session.append(*given("x"))
        seam.begin()
        STEPS[name](session)
        return next((n for n, made in enumerate(seam.made) if made == "flock"), len(seam.made))


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("name", ["append", "roll", "save", "close"])
def test_c07_03_an_interrupt_at_any_call_leaves_a_whole_session(
    sessions: Sessions, name: str
) -> None:
    """C7-03: nothing is half done: state and log are one, the acknowledged is there; K1.

    Method: KeyboardInterrupt out of each call of the file system; then go on, or open again.
    """
    for at in range(calls_of(sessions, name)):
        context = f"{name} interrupted at call {at}"
        with sessions.copy("begun") as place:
            seam, told = Seam(), sessions.told("begun")
            session = opened(place, seam)
            told.append(session, "x")
            seam.begin(once(at, _interrupt))
            with pytest.raises(KeyboardInterrupt):
                STEPS[name](session)
            seam.begin()
            if name != "close":
                told.acknowledged = session.state["items"]
                check(told.acknowledged in ([*"abcdx"], [*"abcdxy"]), f"{context}: {told}")
                check_goes_on(session, told, "next", context)
                session.close()
            check_recovers(place, told, context, name="later")


@contextmanager
def handling(number: signal.Signals, handler: Callable[[], object]) -> Iterator[None]:
    """Run ``handler`` on a signal."""

    def handle(signum: int, frame: FrameType | None) -> None:
        handler()

    before = signal.signal(number, handle)
    try:
        yield
    finally:
        signal.signal(number, before)


class Handler:
    """Asks for one thing of a session whenever the signal comes, also inside itself.

    Attributes:
        came: What it was told, each time.
        longest_s: How long the slowest took.
    """

    def __init__(self, ask: Callable[[], object]) -> None:
        self.came: list[object] = []
        self.longest_s = 0.0
        self._ask = ask
        self._again = True

    def __call__(self) -> None:
        """What the signal's handler does."""
        if self._again:  # a second signal during the first
            self._again = False
            signal.raise_signal(signal.SIGTERM)
        began = time.monotonic()
        try:
            self.came.append(self._ask())
        except LastgoodError as error:
            self.came.append(error)
        self.longest_s = max(self.longest_s, time.monotonic() - began)


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(120)
@pytest.mark.parametrize("inner", ["append", "save", "state", "close"])
@pytest.mark.parametrize("outer", ["append", "save", "close"])
def test_c07_06_a_handler_inside_a_call_is_told_at_once(
    sessions: Sessions, outer: str, inner: str
) -> None:
    """C7-06: busy, closed, or done, at once, at every stage; the call outside comes to its end.

    Method: SIGTERM, twice, before each call of the file system, and a handler that calls in.
    """
    for at in range(calls_of(sessions, outer)):
        context = f"{inner} by a handler inside {outer}, before call {at}"
        with sessions.copy("begun") as place:
            seam, told = Seam(), sessions.told("begun")
            session = opened(place, seam, lock_wait_s=60)
            told.append(session, "x")
            handler = Handler(lambda: STEPS[inner](session))  # noqa: B023 - used in this turn
            seam.begin(once(at, lambda: signal.raise_signal(signal.SIGTERM)))
            with handling(signal.SIGTERM, handler):
                STEPS[outer](session)
            check_equal(len(handler.came), 2, f"{context}: signals")
            for came in handler.came:
                expected = _expected(outer, inner)
                check(isinstance(came, expected), f"{context}: the handler was told {came!r}")
            check(handler.longest_s < 1, f"{context}: the handler took {handler.longest_s} s")
            told.acknowledged += ["y"] if outer == "append" else []
            seam.begin()
            if "close" in (outer, inner):
                with pytest.raises(UsageError):
                    session.append(*given("late"))
            session.close()
            check_equal(items_of(place), told.acknowledged, f"{context}: the log")
    with sessions.copy("begun") as place:
        check_recovers(place, sessions.told("begun"), "the control")


def _expected(outer: str, inner: str) -> type:
    if inner == "close":
        return type(None)  # it is done when the call outside is
    return UsageError if outer == "close" else BusyError


@pytest.mark.timeout(30)
def test_c07_06_a_timer_during_a_slow_fsync_ends_in_no_deadlock(sessions: Sessions) -> None:
    """C7-06: the same in real time, with nothing arranged but a slow disk.

    Method: SIGALRM every few milliseconds while each fdatasync takes longer; the handler appends.
    """
    with sessions.copy("begun") as place:
        slow = {"fdatasync": 0.02, "fsync": 0.005}
        seam = Seam(before=lambda number, made: time.sleep(slow.get(made, 0)))
        session, told = opened(place, seam), sessions.told("begun")
        came: list[str] = []

        def ask() -> None:
            try:
                came.append("told")
                session.append(*given(f"handler-{len(came)}"))
            except BusyError:
                came[-1] = "busy"

        with handling(signal.SIGALRM, ask):
            signal.setitimer(signal.ITIMER_REAL, 0.003, 0.007)
            try:
                for number in range(5):
                    session.append(*given(f"main-{number}"))
                session.save()
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        check(came.count("busy") >= 5, f"the handler was told {came}")
        told.acknowledged = session.state["items"]
        mine = [item for item in told.acknowledged if item.startswith("main")]
        check_equal(mine, [f"main-{number}" for number in range(5)], "the main thread's")
        by_handler = [item for item in told.acknowledged if item.startswith("handler")]
        check_equal(len(by_handler), came.count("told"), "the handler's")
        session.close()
        check_recovers(place, told, "after the timer")


TERMINATED: Final = """
import os, signal, sys
from pathlib import Path
from tests.crash.sessions import given, opened
stop = []
signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
with opened(Path(sys.argv[1])) as session:
    count = 0
    while not stop:
        session.append(*given(f"n{count}"))
        count += 1
        os.write(1, b"n%d\\n" % (count - 1))
    os.write(1, b"saved %d\\n" % session.save().sequence)
"""


@pytest.mark.slow
@pytest.mark.crash
def test_c07_06_a_program_that_is_asked_to_end_saves_and_ends(sessions: Sessions) -> None:
    """C7-06: the pattern that is safe: a handler sets a flag, the loop saves and ends with 0.

    Method: SIGTERM a program in its loop; what it said last is what is recovered.
    """
    with sessions.copy("begun") as place:
        program = subprocess.Popen(
            [sys.executable, "-B", "-c", TERMINATED, place], cwd=REPOSITORY, stdout=subprocess.PIPE
        )
        with program:
            if program.stdout is None:
                raise AssertionError("no pipe")
            said = [program.stdout.readline().decode() for _ in range(3)]
            program.send_signal(signal.SIGTERM)
            said += program.stdout.read().decode().splitlines(keepends=True)
        check_equal(program.returncode, 0, "how it ended")
        *items, saved = [line.strip() for line in said]
        with opened(place) as session:
            check_equal(session.resumed.checkpoint, int(saved.split()[1]), "the checkpoint")
            check_equal(session.resumed.replayed, 0, "nothing to be replayed")
            check_equal(session.state["items"], ["a", "b", "c", "d", *items], "items")
        check(os.listdir(place), "the store is gone")
