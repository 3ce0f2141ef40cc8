"""One job, killed again and again: it ends where an undisturbed run of the same job ends.

A child appends the events of a plan, alone and many at once, and saves now and then; it is
SIGKILLed at random points, also while it opens the session, and started again. Each event's place
in the plan, its size and the calls that append it follow from its number, so a child goes on from
its state alone. It tells by a pipe what it asks for and what was acknowledged.

``make test`` kills 200 times on the way to 100,000 events; ``make test-large`` 1,000 times. A
failure prints the seed; ``LASTGOOD_SEED`` repeats it.
"""

from __future__ import annotations

import hashlib
import os
import random
import select
import shutil
import signal
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

import lastgood
from lastgood.formats.session import Program
from tests.support import records
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.timeout(3_600),
]

IS_LARGE: Final = os.environ.get("LASTGOOD_LARGE") == "1"
EVENTS: Final = 100_000
KILLS: Final = 1_000 if IS_LARGE else 200
LAST: Final = 3_000
"""So many events are left to the life that nobody ends."""
SESSION: Final = "nightly"
LARGEST_BYTES: Final = 8 * 1024
EFFECT_EVERY: Final = 61
_MESSAGE: Final = struct.Struct("<cQ")
_ASKS, _TOLD, _BEGAN, _EFFECT, _ENDED = (b"a", b"t", b"b", b"e", b"z")

State = dict[str, Any]


# --- the job --------------------------------------------------------------------------------


def number_of(place: int, what: str) -> int:
    """A number that depends on nothing but the event's place."""
    return int.from_bytes(hashlib.sha256(f"{what} {place}".encode()).digest()[:8], "little")


def event_at(place: int) -> tuple[str, State]:
    """The event of this place, of 10 bytes to 8 KiB, small ones more often."""
    bits = number_of(place, "bits") % 10
    size = 10 + number_of(place, "size") % (8 << bits)
    return "put", {"place": place, "pad": "p" * min(size, LARGEST_BYTES)}


def group_at(place: int) -> int:
    """How many events one call appends from here on."""
    return 1 if number_of(place, "group") % 3 else 1 + number_of(place, "many") % 40


def saves_at(place: int) -> bool:
    """Whether the job saves before this event."""
    return number_of(place, "save") % 40 == 0


def fingerprint_at(place: int) -> str:
    """The side effect that belongs to this event."""
    return records.fingerprint(place + 1)


def put(state: State, event: lastgood.Event) -> State:
    """The reducer: each event once, in its place."""
    data: Any = event.data
    if data["place"] != state["next"]:
        raise ValueError(f"event {data['place']} where {state['next']} is due")
    digest = hashlib.sha256(f"{state['digest']} {data['place']} {len(data['pad'])}".encode())
    return {"next": state["next"] + 1, "digest": digest.hexdigest()}


def first() -> State:
    """The state before the first event."""
    return {"next": 0, "digest": ""}


def undisturbed(events: int) -> State:
    """The state of a run that nothing disturbs, without a store."""
    state = first()
    for place in range(events):
        kind, data = event_at(place)
        state = put(state, lastgood.Event(0, "", 0, 0, "", kind, data))
    return state


def opened(root: Path) -> lastgood.Session[State]:
    """Open the session."""
    store = lastgood.open_store(root, keys=records.keyring())
    return store.session(SESSION, reducer=put, initial=first(), program=Program("job", "1"))


def job(root: Path, events: int, pipe: int) -> None:
    """Go on from wherever the session stands, to the end."""

    def say(what: bytes, number: int) -> None:
        os.write(pipe, _MESSAGE.pack(what, number))

    with opened(root) as session:
        place = session.state["next"]
        say(_BEGAN, place)
        while place < events:
            if saves_at(place):
                done = [p for p in range(place) if p % EFFECT_EVERY == 0]
                new = [p for p in done if session.should_replay(fingerprint_at(p))]
                session.save(fingerprints=[fingerprint_at(p) for p in new])
                for effect in new:
                    say(_EFFECT, effect)
            end = min(events, place + group_at(place))
            say(_ASKS, end)
            if end - place == 1:
                session.append(*event_at(place))
            else:
                session.append_many([event_at(p) for p in range(place, end)])
            say(_TOLD, end)
            place = end
        session.save()
    say(_ENDED, place)


# --- the world ------------------------------------------------------------------------------


@dataclass(slots=True)
class Account:
    """What the world knows of the job.

    Attributes:
        told: Events before this place were acknowledged.
        asked: None from this place on was asked for.
        effects: Side effects whose save was acknowledged.
    """

    told: int = 0
    asked: int = 0
    effects: set[int] | None = None

    def note(self, what: bytes, number: int) -> None:
        """Take a message of the child's; what it began with must be what the world allows."""
        if what == _BEGAN:
            check(
                self.told <= number <= max(self.told, self.asked),
                f"it went on from {number}; {self.told} were acknowledged, {self.asked} asked for",
            )
            self.told = self.asked = number
        elif what == _ASKS:
            self.asked = number
        elif what == _TOLD:
            self.told = number
        elif what == _EFFECT:
            self.effects = (self.effects or set()) | {number}


def fork(root: Path, events: int) -> tuple[int, int]:
    """Run the job in a child; returns its id and the pipe that it tells by."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        job(root, events, writing)
        code = 0
    except BrokenPipeError:
        pass  # nobody listens any more: the test failed already
    except BaseException as error:  # noqa: BLE001 - the child never comes back into pytest
        os.write(2, f"\nthe job stopped: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def messages(pipe: int, *, wait_s: float | None) -> Iterator[tuple[bytes, int]]:
    """What the child tells, until it is dead, or for so long."""
    deadline = None if wait_s is None else time.monotonic() + wait_s
    while True:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([pipe], [], [], left)[0]:
                return
        data = os.read(pipe, _MESSAGE.size)
        if not data:
            return
        while len(data) < _MESSAGE.size:
            data += os.read(pipe, _MESSAGE.size - len(data)) or b"\0" * _MESSAGE.size
        yield _MESSAGE.unpack(data)


def live(root: Path, events: int, account: Account, *, until: int | None, wait_s: float) -> bool:
    """One life of the job: killed so long after ``until`` events; returns whether it ended."""
    pid, pipe = fork(root, events)
    ended = False
    try:
        if until is not None:
            for what, number in messages(pipe, wait_s=60) if until > account.told else ():
                account.note(what, number)
                if number >= until:
                    break
            for what, number in messages(pipe, wait_s=wait_s):
                account.note(what, number)
            os.kill(pid, signal.SIGKILL)
        for what, number in messages(pipe, wait_s=None):
            account.note(what, number)
            ended = what == _ENDED
    finally:
        os.close(pipe)
        _, status = os.waitpid(pid, 0)
    stopped = os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
    check(not stopped, f"a life of the job ended with {status}")
    return ended


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A store, whose many bytes do not stay behind."""
    yield tmp_path / "state"
    shutil.rmtree(tmp_path / "state", ignore_errors=True)


def seed() -> int:
    """Of this run."""
    return int(os.environ.get("LASTGOOD_SEED") or random.SystemRandom().randrange(10**9))


def test_a_job_that_is_killed_again_and_again_ends_like_one_that_never_was(root: Path) -> None:
    """G1, G2, C7-01: nothing acknowledged is lost, nothing is there twice, no effect comes again.

    Method: SIGKILL at random points of random lives; then the state, every line of the log, and
    the verdict of ``verify``.
    """
    account, chosen = Account(), seed()
    print(f"LASTGOOD_SEED={chosen}")
    chance = random.Random(chosen)
    started, kills, early = time.monotonic(), 0, 0
    while kills < KILLS:
        left = EVENTS - LAST - account.told
        if left <= 0 or chance.random() < 0.15:  # while it opens the session
            until, wait_s = 0, chance.uniform(0.0, 0.03)
            early += 1
        else:
            until = account.told + 1 + chance.randrange(1 + 2 * left // (KILLS - kills + 1))
            wait_s = chance.choice([0.0, chance.uniform(0, 0.004), chance.uniform(0, 0.02)])
        context = f"LASTGOOD_SEED={chosen}, kill {kills}"
        ended = live(root, EVENTS, account, until=until, wait_s=wait_s)
        check(not ended, f"{context}: the job ended before it was killed")
        kills += 1
    at = account.told
    check(live(root, EVENTS, account, until=None, wait_s=0), "the last life did not end")
    took = time.monotonic() - started
    print(f"{kills} kills on the way to {at} of {EVENTS} events, {early} early, {took:.0f} s")
    check(at > EVENTS // 3, f"LASTGOOD_SEED={chosen}: the kills only reached event {at}")
    check_end(root, EVENTS, account)


def check_end(root: Path, events: int, account: Account) -> None:
    """The state, the log and the effects are those of a run that nothing disturbed."""
    with opened(root) as session:
        check_equal(session.state, undisturbed(events), "the state")
        again = [p for p in account.effects or () if session.should_replay(fingerprint_at(p))]
        check_equal(again, [], "acknowledged side effects that are offered again")
    with lastgood.open_store(root, keys=records.keyring()) as store:
        with store.history(SESSION) as found:
            ours = [event for event in found.events() if event.type == "put"]
        check_equal([(e.type, e.data) for e in ours] == [event_at(p) for p in range(events)], True,
                    "every event of the log, once, in its place")  # fmt: skip
        reader = store.checkpoints(SESSION, mode="read")
        report = reader.check()
        reader.close()
    check_equal((report.verdict, report.error), ("good", None), "what verify says")
    check(len(account.effects or ()) > 0, "no side effect was acknowledged")


def test_the_account_sees_what_is_lost_and_what_nobody_asked_for(root: Path) -> None:
    """The oracle of this module can fail.

    Method: a job of 200 events that is left in peace, and false accounts of it.
    """
    account = Account()
    check(live(root, 200, account, until=None, wait_s=0), "it ended")
    check_end(root, 200, account)
    for told, asked in ((201, 201), (0, 199), (150, 180)):
        with pytest.raises(AssertionError, match="it went on from 200"):
            live(root, 200, Account(told, asked), until=None, wait_s=0)
    with pytest.raises(AssertionError, match="the state"):
        check_end(root, 199, account)
    with pytest.raises(AssertionError, match="offered again"):
        check_end(root, 200, Account(200, 200, {199}))
