"""Power is lost behind every call of a session, with nothing kept but what was synced (F2, F11).

The disk is ``tests.crash.platter``: the weakest one, that keeps no byte and no name without its
sync. Processes die before, so that what they left in the page cache is built on by others.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

from lastgood import LastgoodError, Session
from lastgood.errors import StorageError
from tests.crash.platter import Platter
from tests.crash.seam import CHANGES, Killed
from tests.crash.sessions import (
    LARGE,
    Sessions,
    State,
    Told,
    check_recovers,
    given,
    looks_of,
    opened,
)
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def job(session: Session[State], told: Told) -> None:
    """Events, a new segment, several segments by one call, and a checkpoint."""
    found: list[str] = session.state["items"]
    check(told.allows(found), f"found {found}, told {told}")
    told.acknowledged, told.maybe = found, []
    told.append(session, "x")
    told.append(session, "y", pad_bytes=LARGE)
    told.save(session)
    told.append(session, "u", "v", "w", pad_bytes=LARGE)
    session.close()


def stopped(place: Path, platter: Platter, at: int | None, told: Told) -> bool:
    """Do the job until call ``at``; whether it came so far."""
    platter.die_at(at)
    with suppress(Killed):
        job(opened(place, platter), told)
    return platter.is_dead


@contextmanager
def after_power_loss(place: Path, platter: Platter) -> Iterator[Path]:
    """What the disk holds."""
    target = place.with_name(f"{place.name}-dark")
    platter.lose_power(place, target)
    try:
        yield target
    finally:
        shutil.rmtree(target)


def power_is_lost_anywhere(sessions: Sessions) -> int:
    """Nothing acknowledged is lost, at whatever call of the job; returns the number of states."""
    seen: set[tuple[str, str]] = set()
    at, going = 0, True
    while going:
        with sessions.copy("begun") as place:
            platter, told = Platter().load(place), sessions.told("begun")
            going = stopped(place, platter, at, told)
            with after_power_loss(place, platter) as dark:
                looks = (looks_of(dark), repr(told))
                if looks not in seen:
                    seen.add(looks)
                    check_recovers(dark, told, f"power lost before call {at}")
        at += 1
    check(at > 100, f"{at} calls")
    return len(seen)


@pytest.mark.timeout(300)
def test_a_loss_of_power_at_any_call_loses_nothing_acknowledged(sessions: Sessions) -> None:
    """G1, F2: bytes are synced before their name is, and both before anybody is told.

    Method: stop a job at each call and keep what was synced; recover it.
    """
    states = power_is_lost_anywhere(sessions)
    print(f"{states} states")
    check(states >= 15, f"{states} states")


def a_dead_owners_end_is_written_again(sessions: Sessions, *, fails: bool) -> None:
    """What the page cache shows of a dead owner's append is made durable before it is built on.

    Its fdatasync failed, or was not made; a second owner finds the whole line, appends, and then
    power is lost.
    """
    with sessions.copy("begun") as place:
        platter, told = Platter().load(place), sessions.told("begun")
        session = opened(place, platter)
        told.append(session, "x")
        if fails:
            platter.fails = 1
            with pytest.raises(StorageError):
                session.append(*given("late"))
            platter.die()
        else:
            platter.begin()
            platter.at = "fdatasync"
            with pytest.raises(Killed):
                session.append(*given("late"))
        platter.die_at(None)
        second = opened(place, platter)
        state: list[str] = second.state["items"]
        told.acknowledged = state
        check(state in ([*"abcdx"], [*"abcdx", "late"]), f"the second found {state}")
        told.append(second, "more")
        platter.die()
        with after_power_loss(place, platter) as dark:
            check_recovers(dark, told, f"after a dead owner, {fails}")


@pytest.mark.parametrize("fails", [False, True])
def test_what_a_dead_owner_left_is_made_durable_before_it_is_built_on(
    sessions: Sessions, fails: bool
) -> None:
    """R1, F5, F11: the unattested end is written again; a failed sync left pages that look clean.

    Method: a kill before the sync, or a sync that fails; the next owner appends; power is lost.
    """
    a_dead_owners_end_is_written_again(sessions, fails=fails)


def a_failed_sync_acknowledges_nothing(sessions: Sessions) -> None:
    """An event whose fdatasync failed is not acknowledged, and what follows it is kept."""
    with sessions.copy("begun") as place:
        platter, told = Platter().load(place), sessions.told("begun")
        session = opened(place, platter)
        told.append(session, "x")
        platter.fails = 1
        with suppress(LastgoodError):
            told.append(session, "lost")
        told.maybe = []
        told.append(session, "y")
        told.append(session, "z")
        platter.die()
        with after_power_loss(place, platter) as dark:
            check_equal(check_recovers(dark, told, "a failed sync"), [*"abcdxyz"], "items")


def test_an_event_whose_sync_failed_is_never_acknowledged(sessions: Sessions) -> None:
    """C6-04, F12: what follows a failed sync is kept, and what failed is not, when power is lost.

    Method: one fdatasync fails; the handle appends twice more; power is lost.
    """
    a_failed_sync_acknowledges_nothing(sessions)


OWNERS: Final = 3


def test_kills_followed_by_a_loss_of_power_lose_nothing(sessions: Sessions) -> None:
    """F11: killed, taken by another owner, killed again, then without power: all acknowledged.

    Method: three owners are killed at changing calls, at a stride; then power is lost.
    """
    with sessions.copy("begun") as place:
        platter = Platter().load(place)
        stopped(place, platter, None, sessions.told("begun"))
        names = [call.split()[0] for call in platter.made]
        points = [number for number, name in enumerate(names) if name in CHANGES]
    for number, at in enumerate(points):
        with sessions.copy("begun") as place:
            platter, told = Platter().load(place), sessions.told("begun")
            for owner in range(OWNERS):
                dead = stopped(place, platter, points[(number + owner * 7) % len(points)], told)
                check(dead, f"owner {owner} from call {at} on lived")
            with after_power_loss(place, platter) as dark:
                check_recovers(dark, told, f"{OWNERS} owners from call {at} on")
    check(len(points) > 40, f"{len(points)} points")
