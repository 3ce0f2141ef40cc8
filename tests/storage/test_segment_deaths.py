"""A process dies at any call of begin, append and finish: what is left is one of five things.

Method: a script of two segments runs until its process dies, before, in the middle of (half of
a write) or after each of its calls; once within this process, by a file system that makes
nothing happen from there on, and once as a forked child that kills itself. What is on the disk
is compared with what the script was told until then: nothing, a temporary, a segment of zeros,
what was acknowledged and perhaps a beginning of the append under way, zeros behind it; or, from
finish on, exactly what was acknowledged.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lastgood.storage.posix import PosixStorage
from tests.crash.processes import Child, fork
from tests.crash.seam import Killed, Mortal, Seam, When, system
from tests.storage.places import MAX_BYTES, SESSION, none_leaked, open_session, temporaries
from tests.support.check import check, check_equal

FIRST = "events-000001-0002.jsonl"
SECOND = "events-000003-0002.jsonl"
RESERVED = {FIRST: 70_000, SECOND: 40}
LINES = {FIRST: (b"one\n", b"two" * 9_000 + b"\n"), SECOND: (b"three\n", b"4\n")}


@dataclass
class Told:
    """What the script was told, and what it was doing.

    Attributes:
        begun: Segments whose begin returned.
        appended: What was acknowledged, by segment.
        under_way: The append that did not return, by segment.
        doing: The call that did not return.
    """

    begun: list[str] = field(default_factory=list)
    appended: dict[str, bytes] = field(default_factory=dict)
    under_way: dict[str, bytes] = field(default_factory=dict)
    doing: str = ""


def script(session: PosixStorage, told: Callable[[str], None]) -> None:
    """Two segments, the first finished; ``told`` hears before and after each step."""
    for name, lines in LINES.items():
        told(f"begin {name}")
        session.begin(name, size_bytes=RESERVED[name])
        told("done")
        for number, line in enumerate(lines):
            told(f"append {name} {number}")
            session.append(name, line)
            told("done")
        if name == FIRST:
            told(f"finish {name}")
            session.finish(name)
            told("done")


def understood(said: list[str]) -> Told:
    """What the steps that were said come to."""
    told = Told()
    for line in said:
        if line != "done":
            told.doing = line
            continue
        step, name, *number = told.doing.split()
        told.doing = ""
        if step == "begin":
            told.begun.append(name)
            told.appended[name] = b""
        elif step == "append":
            told.appended[name] += LINES[name][int(number[0])]
    step, name, *number = [*told.doing.split(), "", ""][:3]
    if step == "append":
        told.under_way[name] = LINES[name][int(number[0])]
    return told


def check_left(place: Path, said: list[str], context: str) -> str:
    """Fail unless what is on the disk is what ``said`` allows; returns what it is."""
    told = understood(said)
    reader = open_session(place, access="read")
    names = {name for name in reader.list() if not name.startswith(".")} - {"manifest.json"}
    extra = names - set(told.begun) - {"manifest-000001.json"}
    doing, _, subject = told.doing.partition(" ")
    check(extra <= {subject} if doing == "begin" else not extra, f"{context}: {extra}")
    check(set(told.begun) <= names, f"{context}: a segment is gone")
    left = "temporary" if temporaries(place) else "nothing"
    for name in sorted(names & set(RESERVED)):  # the second one tells what was left last
        data = reader.read(name, max_bytes=MAX_BYTES)
        known, begun = told.appended.get(name, b""), told.under_way.get(name, b"")
        if len(data) != RESERVED[name]:
            check_equal(name, FIRST, f"{context}: {name} was cut")
            check_equal(data, known, f"{context}: {name} is cut")
            left = "cut"
            continue
        check(data.startswith(known), f"{context}: {name} lost what was acknowledged")
        tail = data[len(known) :].rstrip(b"\0")
        check(begun.startswith(tail), f"{context}: {name} holds {tail[:20]!r}")
        left = "zeros" if not known + tail else "part" if tail and tail != begun else "lines"
    reader.close()
    return left


def check_next_owner_goes_on(place: Path, context: str) -> None:
    """R4: the next owner sweeps the temporary, reads what is left and begins its own segment."""
    session = open_session(place)
    session.acquire(timeout_s=1)
    session.settle(1, number_missing=False, pointer_behind=False)
    check_equal(temporaries(place), [], f"{context}: temporaries")
    for name in session.list("events-"):
        data = session.read(name, max_bytes=MAX_BYTES)
        session.rewrite(name, data.rstrip(b"\0"), offset=0)
        check_equal(session.read(name, max_bytes=MAX_BYTES), data, f"{context}: rewritten")
    session.swap([b"2"], expected=1)
    session.begin("events-000005-0003.jsonl", size_bytes=99)
    session.append("events-000005-0003.jsonl", b"goes on")
    session.close()


def clean_calls(place: Path) -> list[str]:
    """The calls of the script when nobody dies."""
    seam = Seam()
    session = open_session(place, filesystem=system(seam))
    session.swap([b"1"], expected=0)
    seam.begin()
    script(session, lambda line: None)
    made = list(seam.made)
    session.close()
    return made


def test_a_death_at_any_call_leaves_a_whole_segment_or_its_beginning(tmp_path: Path) -> None:
    """I1, F1: before, in the middle of and after each call, within this process."""
    made = clean_calls(tmp_path / "clean")
    whens: list[When] = ["before", "middle", "after"]
    seen: dict[str, int] = {}
    for at, call in enumerate(made):
        for when in whens:
            if when == "middle" and not call.startswith(("writev", "pwrite")):
                continue
            context = f"dead {when} call {at} ({call})"
            place = tmp_path / f"{at}{when}"
            mortal = Mortal(when=when)
            said: list[str] = []
            session = open_session(place, filesystem=system(mortal))
            session.swap([b"1"], expected=0)
            mortal.begin()
            mortal.at = at
            with pytest.raises(Killed):
                script(session, said.append)
            left = check_left(place, said, context)
            seen[left] = seen.get(left, 0) + 1
            check_next_owner_goes_on(place, context)
    check_equal(
        sorted(seen), ["cut", "lines", "nothing", "part", "temporary", "zeros"], "what was left"
    )


@pytest.mark.crash
@pytest.mark.normal_only
def test_a_process_killed_at_any_call_leaves_the_same(tmp_path: Path) -> None:
    """I1, F1: real processes, killed by SIGKILL right before each call; none leaks into here."""
    made = clean_calls(tmp_path / "clean")
    for at, call in enumerate(made):
        context = f"killed before call {at} ({call})"
        place = tmp_path / str(at)
        with none_leaked(context):
            child = fork(dying(place, at))
            said = _last_words(child, context)
            check_left(place, said, context)
            check_next_owner_goes_on(place, context)


def dying(place: Path, at: int) -> Callable[[Callable[[str], None]], None]:
    """The script, in a process that kills itself right before call ``at``."""

    def work(say: Callable[[str], None]) -> None:
        seam = Seam()
        session = open_session(place, filesystem=system(seam))
        session.swap([b"1"], expected=0)

        def hook(number: int, made: str) -> None:
            if number == at:
                os.kill(os.getpid(), signal.SIGKILL)

        seam.begin(hook)
        script(session, say)

    return work


def _last_words(child: Child, context: str) -> list[str]:
    """What a killed child said; fail if it was not killed."""
    with os.fdopen(child.pipe) as pipe:
        said = pipe.read().split("\n")[:-1]
    _, status = os.waitpid(child.pid, 0)
    check(os.WIFSIGNALED(status), f"{context}: it ended with {status}: {said[-2:]}")
    check_equal(os.WTERMSIG(status), int(signal.SIGKILL), f"{context}: the signal")
    return said


def test_a_judge_of_what_is_left_can_say_no(tmp_path: Path) -> None:
    """The control: a lost line, a torn first half, a foreign byte and a cut are all refused.

    Method: run the script to its end and damage the second segment in each way.
    """
    said: list[str] = []
    session = open_session(tmp_path)
    session.swap([b"1"], expected=0)
    script(session, said.append)
    session.close()
    check_equal(check_left(tmp_path, said, "whole"), "lines", "an undamaged end")
    path = tmp_path / SESSION / SECOND
    whole = path.read_bytes()
    for damaged in (
        bytes(40), b"three\n".ljust(40, b"\0"), b"three\n4\n5\n".ljust(40, b"\0"),
        b"three\n4\n", whole + b"\0", b"\0\0\0\0\0\0" + whole[6:],
    ):  # fmt: skip
        path.write_bytes(damaged)
        with pytest.raises(AssertionError):
            check_left(tmp_path, said, "damaged")
    path.unlink()
    with pytest.raises(AssertionError):
        check_left(tmp_path, said, "gone")
