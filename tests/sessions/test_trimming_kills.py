"""A trimming is killed at every call that changes a file: the session goes on, a second one ends.

A child is forked and kills itself by SIGKILL before, after or, of a write, in the middle of the
call. Below the floor may then lie what it had not removed yet: a leftover.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.scenes import DIRECTORY, clone
from tests.crash.seam import CHANGES, WRITES, Killed, Mortal, Seam, When, write_half
from tests.crash.sessions import Told, opened
from tests.sessions.trimmed import (
    check_goes_on,
    found_log,
    generations,
    lines_of,
    make,
    report,
    segments,
    trim,
)
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.crash,
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ALL = 10**9
_MEMORY = Path("/dev/shm")


@pytest.fixture
def top() -> Iterator[Path]:
    """Where the copies lie: in memory where that is offered, since power is not lost here."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None
    found = Path(tempfile.mkdtemp(prefix="lastgood-", dir=parent))
    yield found
    shutil.rmtree(found)


class Suicidal(Seam):
    """Kills its process before, after or in the middle of call ``at``."""

    def __init__(self, at: int, when: When) -> None:
        super().__init__()
        self._at = at
        self._when = when

    def _call(self, name: str, call: object, args: tuple, options: dict) -> object:
        due = len(self.made) == self._at
        if due and self._when == "middle":
            write_half(name, args)
        if due and self._when != "after":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return super()._call(name, call, args, options)  # type: ignore[arg-type]
        finally:
            if due:
                os.kill(os.getpid(), signal.SIGKILL)


def deaths(original: Path, top: Path, archive: bool) -> list[tuple[int, When]]:
    """Every way to die in a trimming."""
    seam = Seam()
    copy = top / "recorded"
    clone(original, copy)
    trim(copy, ALL, archive=top / "recorded-kept" if archive else None, seam=seam)
    ways: list[tuple[int, When]] = []
    for number, made in enumerate(seam.made):
        name, _, subject = made.partition(" ")
        if name in CHANGES or (name == "open" and subject.startswith(".")):
            ways += [(number, "before"), (number, "after")]
            ways += [(number, "middle")] if name in WRITES else []
    return ways


def killed(copy: Path, archive: Path | None, at: int, when: When) -> None:
    """Trim in a forked child, which dies."""
    pid = os.fork()
    if pid == 0:
        try:
            with suppress(BaseException):
                trim(copy, ALL, archive=archive, seam=Suicidal(at, when))
        finally:
            os._exit(7)
    status = os.waitpid(pid, 0)[1]
    check(os.WIFSIGNALED(status), f"killed {when} call {at}: it did not die: {status}")
    check_equal(os.WTERMSIG(status), int(signal.SIGKILL), f"killed {when} call {at}")


def check_kept(copy: Path, kept: Path | None, held: dict[str, bytes], context: str) -> None:
    """Nothing that is gone lacks its copy, and nothing the older generation needs is gone."""
    gone = held.keys() - set(segments(copy))
    links = found_log(copy).links
    check(links[0].before.count < generations(copy)[0], f"{context}: begins at {links[0]}")
    if kept is None:
        return
    for name in gone:
        path = kept / DIRECTORY / name
        check(path.is_file() and path.read_bytes() == held[name], f"{context}: {name} is lost")


@pytest.mark.timeout(600)
@pytest.mark.parametrize("archive", [False, True], ids=["erase", "archive"])
def test_a_trimming_that_dies_anywhere_is_finished_by_the_next(top: Path, archive: bool) -> None:
    """G1, G2, F1: whatever a death leaves, resume and verify work, and the next trimming ends it.

    Method: SIGKILL at every changing call; verify, resume, trim again, compare with one that was
    left in peace.
    """
    original = top / "original"
    told = make(original, rounds=4)
    held = {n: (original / DIRECTORY / n).read_bytes().rstrip(b"\0") for n in segments(original)}
    ways = deaths(original, top, archive)
    expected = found_log(top / "recorded").links[0].before.count
    check(expected > 5 and len(ways) > 60, f"{expected} leave, {len(ways)} deaths")
    left = set()
    for at, when in ways:
        context = f"killed {when} call {at}"
        copy, kept = top / "copy", top / "kept" if archive else None
        clone(original, copy)
        killed(copy, kept, at, when)
        found = report(copy)
        check(found.error is None, f"{context}: {found.error}")
        check(found.verdict in ("good", "recoverable"), f"{context}: {found.verdict}")
        check_kept(copy, kept, held, context)
        left.add((len(segments(copy)), bool(found.leftovers), found.verdict))
        with opened(copy) as session:
            check_equal(session.state["items"], told.acknowledged, f"{context}: the state")
        trim(copy, ALL, archive=kept)
        check(found_log(copy).links[0].before.count >= expected, f"{context}: not all left")
        check_equal(found_log(copy).leftovers, (), f"{context}: leftovers")
        check_kept(copy, kept, held, f"{context}, trimmed again")
        going = Told(list(told.acknowledged), saved=told.saved)
        check_goes_on(copy, going, context, rounds=4)
        shutil.rmtree(copy)
        shutil.rmtree(top / "kept", ignore_errors=True)
    print(f"{len(ways)} kills left {len(left)} states")
    check(len(left) >= 4, f"the kills left {left}")


def test_a_second_death_in_the_trimming_that_finishes_is_finished_too(top: Path) -> None:
    """G2, F10: trimmings that die one after another lose nothing.

    Method: for every twelfth death, another at every eleventh call of the one that goes on.
    """
    original = top / "original"
    told = make(original, rounds=3)
    held = {n: (original / DIRECTORY / n).read_bytes().rstrip(b"\0") for n in segments(original)}
    kept, copy, again = top / "kept", top / "copy", top / "again"
    for number, (at, when) in enumerate(deaths(original, top, archive=True)[::12]):
        clone(original, copy)
        killed(copy, kept, at, when)
        for second in range(number % 11, 400, 11):
            clone(copy, again)
            shutil.copytree(kept, top / "kept-again") if kept.exists() else None
            mortal = Mortal(second, "after")
            with suppress(Killed):
                trim(again, ALL, archive=top / "kept-again", seam=mortal)
            context = f"killed {when} call {at}, then after call {second}"
            check_kept(again, top / "kept-again", held, context)
            check_equal(report(again).error, None, context)
            with opened(again) as session:
                check_equal(session.state["items"], told.acknowledged, f"{context}: the state")
            shutil.rmtree(again)
            shutil.rmtree(top / "kept-again", ignore_errors=True)
            if not mortal.is_dead:
                break
        shutil.rmtree(copy)
        shutil.rmtree(kept, ignore_errors=True)


def test_the_oracle_sees_a_segment_that_was_removed_too_soon(top: Path) -> None:
    """The oracle of this module can fail: on a lost copy, and on what the older one needs.

    Method: take away an archived segment; take away the first kept one.
    """
    copy, kept = top / "copy", top / "kept"
    make(copy, rounds=3)
    held = {n: (copy / DIRECTORY / n).read_bytes().rstrip(b"\0") for n in segments(copy)}
    gone = trim(copy, ALL, archive=kept)
    check_kept(copy, kept, held, "sound")
    check(lines_of(kept / DIRECTORY / gone.names[0]), "lines")
    (kept / DIRECTORY / gone.names[0]).unlink()
    with pytest.raises(AssertionError, match="is lost"):
        check_kept(copy, kept, held, "lost")
    (copy / DIRECTORY / segments(copy)[0]).unlink()
    check(report(copy).error is not None, "a missing segment is seen")
