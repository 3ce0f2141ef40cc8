"""One owner is suspended before any call while another takes the session, appends and saves.

The lock is broken, so that only the epoch and the pointer stand between the two (F13). Whatever
either was acknowledged stays, in order; the one that was overtaken is told, and what it writes
afterwards is never believed. The other way round, too: an owner works while its successor opens.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from lastgood import Session
from lastgood.errors import ConflictError, DurabilityUnknownError, FencedError, LastgoodError
from tests.crash.processes import Say, fork, wait_stopped
from tests.crash.scenes import DIRECTORY
from tests.crash.seam import Killed, Mortal, Seam, once
from tests.crash.sessions import (
    LARGE,
    Sessions,
    State,
    Told,
    check_recovers,
    given,
    items_of,
    opened,
)
from tests.crash.turns import Turn
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Action = Callable[[Session[State]], object]


def append(session: Session[State]) -> None:
    """One event."""
    session.append(*given("first"))


def roll(session: Session[State]) -> None:
    """One event that the segment has no room for."""
    session.append(*given("first", pad_bytes=LARGE))


def save(session: Session[State]) -> None:
    """A checkpoint."""
    session.save()


def close(session: Session[State]) -> None:
    """The end."""
    session.close()


ACTIONS: Final[dict[str, Action]] = {
    "append": append, "roll": roll, "save": save, "close": close,
}  # fmt: skip
SECONDS: Final = ("stays", "closes", "saves", "dies after its claim")


def second(place: Path, what: str) -> tuple[list[str], Session[State] | None]:
    """Take the session; what it found, or appended and was acknowledged, and its handle."""
    mortal = Mortal(locks="broken")
    if what == "dies after its claim":
        mortal.at = "open .events"
        with suppress(Killed):
            opened(place, mortal)
        check(mortal.is_dead, "the second owner lived")
        return [], None
    session = opened(place, mortal)
    session.append(*given("second"))
    if what == "saves":
        session.save()
        session.append(*given("third"))
    known: list[str] = session.state["items"]
    if what == "stays":
        return known, session
    session.close()
    return known, None


def calls_of(sessions: Sessions, name: str) -> int:
    """How many calls an action makes."""
    seam = Seam(locks="broken")
    with sessions.copy("begun") as place:
        session = opened(place, seam)
        session.append(*given("x"))
        seam.begin()
        ACTIONS[name](session)
        return len(seam.made)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", SECONDS)
@pytest.mark.parametrize("name", ACTIONS)
def test_an_owner_paused_at_any_call_changes_nothing_afterwards(
    sessions: Sessions, name: str, what: str
) -> None:
    """C4-06, G4, F13: nothing acknowledged to either vanishes; the first is told, and is over.

    Method: suspend the first owner before each call, let another take the session and work.
    """
    fenced = 0
    for at in range(calls_of(sessions, name)):
        with sessions.copy("begun") as place:
            fenced += an_owner_paused(place, name, at, what)
    check(fenced >= 1 or name == "close", "nobody was fenced")


def an_owner_paused(place: Path, name: str, at: int, what: str) -> bool:
    """One pause; whether the first owner was fenced in it."""
    context = f"{name} paused at call {at}, the second {what}"
    seam, found = Seam(locks="broken"), []
    session = opened(place, seam)
    session.append(*given("x"))
    seam.begin(once(at, lambda: found.append(second(place, what))))
    came: object = "told"
    try:
        ACTIONS[name](session)
    except LastgoodError as error:
        came = error
    seam.begin()
    [(known, other)] = found
    told = Told(known or ["a", "b", "c", "d", "x"])
    if came == "told" and name in ("append", "roll"):
        # Acknowledged: so the second owner found it, before its own.
        check("first" in (known or items_of(place)), f"{context}: acknowledged and lost: {known}")
    if not known and "first" in items_of(place):
        told.acknowledged.append("first")  # nobody took over behind it
    check_told(came, name, context)
    if name != "close":
        _check_is_over(session, context)
    if other is not None:
        other.append(*given("more"))
        other.save()
        told.acknowledged.append("more")
        check_equal(other.state["items"], told.acknowledged, f"{context}: the second's state")
        other.close()
    session.close()
    check_recovers(place, told, context)
    return isinstance(came, FencedError)


def check_told(came: object, name: str, context: str) -> None:
    """It stands, it is lost, or that is not known; closing tells nothing."""
    allowed: tuple[type, ...] = (FencedError, str)
    if name == "save":
        allowed = (FencedError, ConflictError, DurabilityUnknownError, str)
    check(isinstance(came, allowed), f"{context}: it came out as {came!r}")


def _check_is_over(session: Session[State], context: str) -> None:
    """Whatever the overtaken owner tries, it is told, and no file changes."""
    for ask in (lambda: session.append(*given("late")), session.save):
        try:
            came: object = ask()
        except LastgoodError as error:
            came = error
        check(isinstance(came, FencedError), f"{context}: afterwards it was told {came!r}")


def overtaken_append_writes_nothing(place: Path) -> None:
    """An owner that was overtaken before it appends changes no byte."""
    session = opened(place, Seam(locks="broken"))
    session.append(*given("x"))
    known, _ = second(place, "closes")
    before = {path.name: path.read_bytes() for path in (place / DIRECTORY).iterdir()}
    with pytest.raises(FencedError):
        session.append(*given("late"))
    after = {path.name: path.read_bytes() for path in (place / DIRECTORY).iterdir()}
    changed = [name for name in after if after[name] != before.get(name)]
    check_equal(changed, [], "files that it changed")
    session.close()
    check_recovers(place, Told(known), "overtaken before an append")


def test_an_overtaken_owner_writes_nothing(sessions: Sessions) -> None:
    """T11: who knows that it was overtaken leaves the log alone.

    Method: another owner takes the session; the first appends; every file is compared.
    """
    with sessions.copy("begun") as place:
        overtaken_append_writes_nothing(place)


def an_owner_that_works_while_it_is_overtaken(place: Path, at: int, name: str) -> bool:
    """The second's opening is suspended at call ``at``; the first works meanwhile.

    Returns whether the opening has such a call.
    """
    context = f"{name} in the opening's pause at call {at}"
    session = opened(place, Seam(locks="broken"))
    session.append(*given("x"))
    told, came = Told(["a", "b", "c", "d", "x"]), []
    seam = Seam(locks="broken")

    def work() -> None:
        try:
            ACTIONS[name](session)
            came.append("told")
        except LastgoodError as error:
            came.append(type(error).__name__)

    seam.begin(once(at, work))
    try:
        other = opened(place, seam)
    except LastgoodError as error:
        check(name == "save", f"{context}: the opening came out as {error!r}")
        other = opened(place, Seam(locks="broken"))
    seam.begin()
    if not came:
        other.close()
        session.close()
        return False
    state: list[str] = other.state["items"]
    if came == ["told"] and name != "save":
        told.acknowledged.append("first")
    elif "first" in state:
        told.acknowledged.append("first")  # it was overtaken in the middle, and may be believed
    check_equal(state, told.acknowledged, f"{context}: {came}, what the second found")
    _check_is_over(session, context)
    other.append(*given("more"))
    told.acknowledged.append("more")
    other.close()
    session.close()
    check_recovers(place, told, context)
    return True


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["append", "roll", "save"])
def test_an_owner_that_works_while_it_is_overtaken_loses_nothing(
    sessions: Sessions, name: str
) -> None:
    """G1, R4: what the first was acknowledged while the second opened is in what the second found.

    Method: suspend an opening at each of its calls; the first owner works in that pause.
    """
    at = 0
    going = True
    while going:
        with sessions.copy("begun") as place:
            going = an_owner_that_works_while_it_is_overtaken(place, at, name)
        at += 1
    check(at > 80, f"an opening of {at} calls")


STOPS: Final = ("pwrite", "fdatasync", "stat manifest.json", "link .checkpoint", "rename")


@pytest.mark.crash
@pytest.mark.parametrize("at", STOPS)
def test_a_stopped_process_is_fenced_when_it_wakes(sessions: Sessions, at: str) -> None:
    """C4-06: its bytes are not believed unless the next owner found them; that one's stay.

    Method: SIGSTOP a process within an append or a save, the lock broken; another works; SIGCONT.
    """
    with sessions.copy("begun") as place:

        def work(say: Say) -> None:
            seam = Seam(locks="broken")
            session = opened(place, seam)

            def stop(number: int, made: str) -> None:
                if made.startswith(at):
                    seam.before = None
                    signal.raise_signal(signal.SIGSTOP)

            seam.begin(stop)
            for ask in (append, save, append):
                try:
                    ask(session)
                    say("told")
                except LastgoodError as error:
                    say(type(error).__name__)

        child = fork(work)
        wait_stopped(child.pid)
        known, _ = second(place, "saves")
        child.send(signal.SIGCONT)
        said = child.finish()
        check_equal(said[-1], "FencedError", f"{at}: told {said}")
        check(said[0] != "told" or "first" in known, f"{at}: lost {known}, told {said}")
        check_recovers(place, Told(known), f"stopped at {at}")


def told_of(ask: Callable[[], object]) -> str:
    """What asking came to: ``told``, or the error's name."""
    try:
        ask()
    except LastgoodError as error:
        return type(error).__name__
    return "told"


def a_claim_says_what_no_owner_before_it_leaves_out(place: Path) -> None:
    """Three owners, one late: what the third's claim says of the log holds on every branch of it.

    The first is paused before its write, the second before its first line. The first writes; the
    third claims and dies; then the second's line comes, which leaves out what the first wrote.
    """
    seam = Seam(locks="broken")
    session = opened(place, seam)
    session.append(*given("x"))
    seam.begin()
    first = Turn(lambda _: told_of(lambda: append(session)), pause_at="pwrite")
    first.seam = seam
    first.start()
    second_owner = Turn(lambda under: told_of(lambda: opened(place, under)), pause_at="stat events")
    second_owner.start()
    check_equal(first.finish(), "FencedError", "the first")
    second(place, "dies after its claim")
    check_equal(second_owner.finish(), "FencedError", "the second")
    session.close()
    check_recovers(place, Told([*"abcdx"], ["first"]), "three owners")


def test_a_claim_says_nothing_that_an_owner_before_it_may_leave_out(sessions: Sessions) -> None:
    """F13, R4: a late segment of a fenced owner never makes a claim untrue, so nobody is stopped.

    Method: three owners who take turns, and one more that opens.
    """
    with sessions.copy("begun") as place:
        a_claim_says_what_no_owner_before_it_leaves_out(place)


def test_a_segment_that_comes_late_stops_nobody(sessions: Sessions) -> None:
    """F13, 7: of three owners one writes late; what it left behind is a fenced owner's, no fork.

    Method: the first is paused before its write, the second before its first line; the first
    writes, the third takes the session behind that, and only then the second writes its line.
    """
    with sessions.copy("begun") as place:
        seam = Seam(locks="broken")
        session = opened(place, seam)
        session.append(*given("x"))
        seam.begin()
        first = Turn(lambda _: told_of(lambda: append(session)), pause_at="pwrite")
        first.seam = seam
        first.start()
        second = Turn(lambda seam: told_of(lambda: opened(place, seam)), pause_at="stat events")
        second.start()
        check_equal(first.finish(), "FencedError", "the first")
        third = opened(place, Seam(locks="broken"))
        state: list[str] = third.state["items"]
        check_equal(second.finish(), "FencedError", "the second")
        third.append(*given("more"))
        third.close()
        session.close()
        check_recovers(place, Told([*state, "more"]), "a late segment")
