"""A process that uses a session is killed at every call that changes a file; others go on (F1).

A child is forked, kills itself by SIGKILL before, after or, of a write, in the middle of the
call, and says through a pipe what was acknowledged. Calls that only read leave what the one
before them left, so the kills are at the others; one work is killed at every call. Recovery is by
fresh handles, itself killed again, and once in a process that shares nothing with this one.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood import Session
from tests.crash.scenes import clone
from tests.crash.seam import CHANGES, WRITES, Killed, Mortal, Seam, When, write_half
from tests.crash.sessions import (
    EACH,
    LARGE,
    Sessions,
    State,
    Told,
    check_recovers,
    looks_of,
    opened,
)
from tests.support.check import check, check_equal
from tests.support.records import fingerprint
from tests.support.require import REPOSITORY

# A generator that the dead process leaves behind is closed by the interpreter, in vain.
pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Say = Callable[[str], None]
Step = Callable[[Session[State], Say], object]


def _append(session: Session[State], say: Say, *items: str, pad_bytes: int = 0) -> None:
    say("asks " + " ".join(items))
    Told().append(session, *items, pad_bytes=pad_bytes)
    say("told")


def append(session: Session[State], say: Say) -> None:
    """One event."""
    _append(session, say, "x")


def roll(session: Session[State], say: Say) -> None:
    """One event that the segment has no room for, and one behind it."""
    _append(session, say, "x", pad_bytes=LARGE)
    _append(session, say, "y")


def many(session: Session[State], say: Say) -> None:
    """Six events over several segments, by one call."""
    _append(session, say, *"uvwxyz", pad_bytes=LARGE)


def save(session: Session[State], say: Say) -> None:
    """A checkpoint behind an event."""
    _append(session, say, "x")
    say(f"saved {session.save().sequence}")


def save_done(session: Session[State], say: Say) -> None:
    """A checkpoint with a side effect that was done."""
    say(f"saved {session.save(fingerprints=[fingerprint(7)]).sequence}")


def close(session: Session[State], say: Say) -> None:
    """The end."""
    session.close()


@dataclass(frozen=True, slots=True)
class Work:
    """What is being done when the process dies: opening, or a step after it.

    Attributes:
        scene: Where it begins.
        step: None: the opening itself.
        options: How it is opened.
    """

    scene: str
    step: Step | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def run(self, place: Path, seam: Seam, arm: Callable[[], None], say: Say) -> None:
        """Do it; ``arm`` is called where calls begin to count."""
        if self.step is None:
            arm()
        session = opened(place, seam, **dict(self.options))
        if self.step is not None:
            arm()
            self.step(session, say)

    def deaths(self, place: Path, *, everywhere: bool = False) -> list[tuple[int, When]]:
        """Every way to die in it."""
        seam = Seam()
        self.run(place, seam, seam.begin, lambda line: None)
        ways: list[tuple[int, When]] = []
        for number, made in enumerate(seam.made):
            name, subject = made.split(" ", 1) if " " in made else (made, "")
            if everywhere or name in CHANGES or (name == "open" and subject.startswith(".")):
                ways += [(number, "before"), (number, "after")]
                ways += [(number, "middle")] if name in WRITES else []
        return ways


WORKS: Final = {
    "opening a new session": Work("absent"),
    "opening": Work("begun"),
    "opening with a torn tail": Work("torn"),
    "opening that rolls forward": Work("published"),
    "opening that moves the pointer": Work("claimed"),
    "opening behind a dead owner": Work("unclosed"),
    "opening behind a claim": Work("unwritten"),
    "opening behind an empty segment": Work("reserved"),
    "append": Work("begun", append),
    "append that rolls": Work("begun", roll),
    "append of many": Work("begun", many),
    "automatic save": Work("begun", append, (("policy", EACH),)),
    "save": Work("begun", save),
    "save with a fingerprint": Work("begun", save_done),
    "close": Work("begun", close),
}


class Suicidal(Seam):
    """Kills its process before, after or in the middle of call ``at``."""

    def __init__(self, when: When) -> None:
        super().__init__()
        self.at = -1
        self._when = when

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> Any:
        due = len(self.made) == self.at
        if due and self._when == "middle":
            write_half(name, args)
        if due and self._when != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return super()._call(name, call, args, options)
        finally:
            if due:
                os.kill(os.getpid(), signal.SIGKILL)


def killed(work: Work, place: Path, at: int, when: When, told: Told) -> tuple[Told, int]:
    """Fork a child that dies at call ``at``; returns what is known then, and its status."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reading)
            seam = Suicidal(when)

            def arm() -> None:
                seam.begin()
                seam.at = at

            work.run(place, seam, arm, lambda line: _say(writing, line))
        finally:
            os._exit(7)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            _note(line.split(), told)
    return told, os.waitpid(pid, 0)[1]


def _say(pipe: int, line: str) -> None:
    os.write(pipe, f"{line}\n".encode())


def _note(words: list[str], told: Told) -> None:
    if words[0] == "asks":
        told.maybe = words[1:]
    elif words[0] == "told":
        told.acknowledged += told.maybe
        told.maybe = []
    else:
        told.saved = int(words[1])


def remains(
    sessions: Sessions, name: str, *, everywhere: bool = False
) -> Iterator[tuple[Path, Told, str]]:
    """What each kill in a work leaves, where it differs from what another one left."""
    work = WORKS[name]
    with sessions.copy(work.scene) as place:
        deaths = work.deaths(place, everywhere=everywhere)
    seen: set[tuple[str, str]] = set()
    for at, when in deaths:
        with sessions.copy(work.scene) as place:
            context = f"{name}: killed {when} call {at}"
            told, status = killed(work, place, at, when, sessions.told(work.scene))
            check(os.WIFSIGNALED(status), f"{context}: it did not die: {status}")
            check_equal(os.WTERMSIG(status), int(signal.SIGKILL), f"{context}: signal")
            looks = (looks_of(place), repr(told))
            if looks not in seen:
                seen.add(looks)
                yield place, told, context
    print(f"{name}: {len(deaths)} kills, {len(seen)} states")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", WORKS)
def test_sigkill_anywhere_loses_nothing_that_was_acknowledged(
    sessions: Sessions, name: str
) -> None:
    """G1, G2, C7-01, C7-02: all of the acknowledged, a beginning of the rest; work goes on.

    Method: SIGKILL a forked process at every call, of an opening at every one that changes a
    file; recover, append, save.
    """
    states = 0
    for place, told, context in remains(sessions, name, everywhere=WORKS[name].step is not None):
        check_recovers(place, told, context)
        states += 1
    check(states >= 2, f"{name}: {states} states")


NESTED: Final = ("append that rolls", "automatic save", "opening with a torn tail")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NESTED)
def test_a_second_death_in_any_recovery_changes_nothing(sessions: Sessions, name: str) -> None:
    """G2, F10: a recovery that dies at any call is recovered, to the same state.

    Method: for every state that a kill leaves, die at each third changing call of its opening,
    another third for each state.
    """
    count = itertools.count()
    recovery = Work("begun")
    for number, (place, told, context) in enumerate(remains(sessions, name)):
        copied = place.with_name(f"{place.name}-again")
        seen: set[str] = set()
        for at, when in _deaths_of_recovery(recovery, place, copied)[number % 3 :: 3]:
            clone(place, copied)
            mortal = Mortal(at, when)
            with suppress(Killed):
                opened(copied, mortal)
            check(mortal.is_dead, f"{context}: nobody died at {at} of the recovery")
            looks = looks_of(copied)
            if looks not in seen:
                seen.add(looks)
                next(count)
                check_recovers(copied, told, f"{context}, then {when} call {at} of recovery")
            shutil.rmtree(copied)
    states = next(count)
    print(f"{name}: {states} states after a second death")
    check(states >= 10, f"{name}: {states} states")


def _deaths_of_recovery(recovery: Work, place: Path, copied: Path) -> list[tuple[int, When]]:
    clone(place, copied)
    try:
        return recovery.deaths(copied)
    finally:
        shutil.rmtree(copied)


RECOVERY: Final = """
import sys
from pathlib import Path
from tests.crash.sessions import Told, check_recovers
told = Told(sys.argv[2].split(), sys.argv[3].split(), int(sys.argv[4]))
check_recovers(Path(sys.argv[1]), told, "in a fresh process")
"""


def test_a_fresh_process_recovers_what_a_kill_left(sessions: Sessions) -> None:
    """G2: nothing of the process that died is needed.

    Method: what kills in an append of many leave, recovered by interpreters of their own.
    """
    states = list(itertools.islice(_copies(sessions, "append of many"), 0, None, 7))
    check(len(states) >= 3, f"{len(states)} states")
    for place, told in states:
        arguments = [" ".join(told.acknowledged), " ".join(told.maybe), str(told.saved)]
        ran = subprocess.run(
            [sys.executable, "-B", "-c", RECOVERY, place, *arguments],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        shutil.rmtree(place)
        check_equal(ran.returncode, 0, f"{told}: {ran.stderr[-2000:]}")


def _copies(sessions: Sessions, name: str) -> Iterator[tuple[Path, Told]]:
    for number, (place, told, _) in enumerate(remains(sessions, name)):
        copied = place.with_name(f"kept-{number}")
        clone(place, copied)
        yield copied, told


def test_the_harness_sees_what_is_lost_or_invented(sessions: Sessions) -> None:
    """The oracle of this room can fail: on a lost item, on an invented one, and on a wrong order.

    Method: the same store, with a false account of what was acknowledged.
    """
    wrong = (
        Told(["a", "b", "c", "d", "e"]), Told(["a", "b", "c"]), Told(["a", "c", "b", "d"]),
        Told(["a", "b"], ["d", "c"]), Told(["a", "b", "c", "d"], saved=99),
    )  # fmt: skip
    for told in wrong:
        with sessions.copy("begun") as place, pytest.raises(AssertionError):
            check_recovers(place, told, "false account")
    with sessions.copy("begun") as place:
        check_equal(check_recovers(place, Told(["a"], ["b", "c", "d"]), "true"), [*"abcd"], "items")
