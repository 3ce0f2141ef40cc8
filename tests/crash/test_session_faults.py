"""Every call of an append, a roll, a save, a close and a second try fails, in every way.

Whatever fails, only what is durable is acknowledged; the next call of the same handle takes the
session again and goes on behind the last acknowledged event; what failed is never seen again.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from lastgood import Session
from lastgood.errors import BusyError, LastgoodError, NotStoredError, StorageError
from tests.crash.scenes import DIRECTORY
from tests.crash.seam import CHANGES
from tests.crash.sessions import (
    LARGE,
    Sessions,
    State,
    Told,
    check_goes_on,
    check_recovers,
    looks_of,
    opened,
)
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, Repeats, When, faulty, system_error
from tests.support.records import fingerprint
from tests.support.require import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

NUMBERS: Final = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EMFILE, errno.EINTR,
)  # fmt: skip
WAYS: Final[tuple[tuple[Repeats, When], ...]] = (
    ("once", "instead"), ("once", "after"), ("for ever", "instead"), ("for ever", "after"),
)  # fmt: skip

Action = Callable[[Session[State], Told], object]


def append(session: Session[State], told: Told) -> None:
    """One event."""
    told.append(session, "y")


def roll(session: Session[State], told: Told) -> None:
    """One event that the segment has no room for."""
    told.append(session, "y", pad_bytes=LARGE)


def save(session: Session[State], told: Told) -> None:
    """A checkpoint with a side effect that was done."""
    told.save(session, fingerprints=[fingerprint(7)])


def close(session: Session[State], told: Told) -> None:
    """The end."""
    session.close()


def again(session: Session[State], told: Told) -> None:
    """The first append after one that failed."""
    told.append(session, "z")


ACTIONS: Final[dict[str, Action]] = {
    "append": append, "roll": roll, "save": save, "close": close, "again": again,
}  # fmt: skip


def begun(place: Path, calls: Calls, name: str, told: Told) -> Session[State]:
    """The session with a segment of its own, at the point where ``name`` begins."""
    session = opened(place, faulty(calls))
    told.append(session, "x")
    if name == "again":
        calls.begin()
        told.append(session, "w")
        calls.begin(Fault(calls.made.index("fdatasync"), system_error(errno.EIO)))
        with pytest.raises(StorageError):
            told.append(session, "failed")
        told.maybe = []
    return session


def faults(sessions: Sessions, name: str, number: int) -> Iterator[tuple[Fault, str]]:
    """Every way in which one of the calls of ``name`` can fail with ``number``.

    Calls that change nothing fail with EIO only: what they do not tell is the same; and two
    numbers stand for all that stay.
    """
    calls = Calls()
    with sessions.copy("begun") as place:
        session = begun(place, calls, name, Told())
        calls.begin()
        ACTIONS[name](session, Told())
        made = list(calls.made)
        session.close()
    for at, call in enumerate(made):
        if number != errno.EIO and call not in (*CHANGES, "open", "close"):
            continue
        for repeats, when in WAYS:
            if repeats == "for ever" and number not in (errno.EIO, errno.ENOSPC):
                continue
            fault = Fault(at, system_error(number), when=when, repeats=repeats)
            told = f"{errno.errorcode[number]} {repeats}, {when} call {at} ({call})"
            yield fault, f"{name}: {told}"


def descriptors() -> int:
    """How many are open."""
    return len(os.listdir("/proc/self/fd"))


def synced_again(place: Path, calls: Calls) -> list[tuple[int, int]]:
    """Files that were synced after a sync of theirs had failed; R1 syncs directories again."""
    directories = {(s.st_dev, s.st_ino) for s in (place.stat(), (place / DIRECTORY).stat())}
    return [inode for inode in calls.synced_again if inode not in directories]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: errno.errorcode[number])
@pytest.mark.parametrize("name", ACTIONS)
def test_any_call_that_fails_costs_nothing_that_was_acknowledged(
    sessions: Sessions, name: str, number: int
) -> None:
    """G1, F5 to F9, C6-04: told rightly, whole behind the last acknowledged event, never revived.

    Method: fail each call once and for ever, not executed and executed; go on with the same
    handle; then recover by fresh ones, and count descriptors.
    """
    seen: set[tuple[str, str]] = set()
    count = 0
    for fault, context in faults(sessions, name, number):
        with sessions.copy("begun") as place:
            told = _check_fault(sessions, place, name, fault, context)
            looks = (looks_of(place), repr(told))
            if looks not in seen:
                seen.add(looks)
                check_recovers(place, told, context, name="later")
        count += 1
    print(f"{name}, {errno.errorcode[number]}: {count} faults, {len(seen)} states")
    check(count >= 4, f"{count} faults")


def _check_fault(sessions: Sessions, place: Path, name: str, fault: Fault, context: str) -> Told:
    before, calls, told = descriptors(), Calls(), sessions.told("begun")
    session = begun(place, calls, name, told)
    failed = calls.failed_syncs.copy()
    calls.begin(fault)
    calls.failed_syncs |= failed
    try:
        ACTIONS[name](session, told)
    except LastgoodError as error:
        _check_typed(error, name, context)
        if fault.repeats == "for ever":
            with suppress(LastgoodError):  # still failing; and it must not make it worse
                Told().append(session, "refused")
        told.maybe = []
    check(bool(calls.failed), f"{context}: the fault never came")
    calls.fault = None
    if name != "close":
        if "refused" in session.state["items"]:  # its calls did not fail
            told.acknowledged.append("refused")
        check_goes_on(session, told, "next", context)
        check_equal(synced_again(place, calls), [], f"{context}: synced again after an error")
        session.close()
    check_equal(descriptors(), before, f"{context}: descriptors")
    return told


def _check_typed(error: LastgoodError, name: str, context: str) -> None:
    """An error of the machine, and nothing else."""
    allowed = isinstance(error, StorageError) and not isinstance(error, NotStoredError)
    allowed = allowed or isinstance(error, BusyError)
    check(allowed and name != "close", f"{context}: it came out as {error!r}: {error}")


@pytest.mark.parametrize("longest_bytes", [1, 7, 512])
def test_short_writes_of_an_append_are_gone_on_with(sessions: Sessions, longest_bytes: int) -> None:
    """F8: a write that takes fewer bytes than asked changes nothing of what is stored.

    Method: cut every write to a few bytes, in an append, a roll and a save; recover.
    """
    calls, told = Calls(longest_write_bytes=longest_bytes), sessions.told("begun")
    with sessions.copy("begun") as place:
        with opened(place, faulty(calls)) as session:
            calls.begin()
            told.append(session, "x")
            check(calls.made.count("pwrite") >= 2 if longest_bytes < 100 else True, "no cut")
            if longest_bytes > 1:
                told.append(session, "y", pad_bytes=LARGE)
            told.save(session)
        check_recovers(place, told, f"writes of {longest_bytes} bytes")


FULL: Final = """
import resource, signal, sys
from pathlib import Path
from lastgood.errors import StorageError
from tests.crash.scenes import DIRECTORY
from tests.crash.sessions import Told, check_goes_on, check_recovers, items_of, opened
from tests.support.check import check, check_equal
place, told = Path(sys.argv[1]), Told(["a", "b", "c", "d"], saved=4)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
session = opened(place)
told.append(session, "x")
written = session._following.log.end.offset
resource.setrlimit(resource.RLIMIT_FSIZE, (written + 5_000, -1))
for attempt in range(2):
    try:
        told.append(session, "failed", pad_bytes=10_000)
    except StorageError as error:
        check(error.errno > 0 or attempt, f"no number: {error}")
    else:
        raise AssertionError("it was acknowledged")
[torn] = [path for path in (place / DIRECTORY).glob("events-*")
          if b'"failed"' in path.read_bytes()]
check(b"x" * 5_000 not in torn.read_bytes(), "more than the limit was written")
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
told.maybe = []
check_goes_on(session, told, "next", "with room again")
check(session._following.log.end.segment != torn.name, "the damaged segment was continued")
session.close()
check(b'"failed"' in torn.read_bytes(), "the partial bytes are gone")
check_recovers(place, told, "after the disk was full", name="later")
"""


def test_a_record_that_was_cut_by_a_full_disk_is_never_continued(sessions: Sessions) -> None:
    """C6-02: half a record stays and is not believed; the next append begins a new segment.

    Method: RLIMIT_FSIZE, by which half of a 10 KiB record fits; lifted for the next append.
    """
    with sessions.copy("begun") as place:
        ran = subprocess.run(
            [sys.executable, "-B", "-c", FULL, place],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        check_equal(ran.returncode, 0, f"the child: {ran.stderr}")
