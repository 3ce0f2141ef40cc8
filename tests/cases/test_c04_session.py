"""C4, sessions: two processes, one session.

Method: real processes, spawned or forked, at a barrier; ``tests.crash`` breaks the lock where a
case asks for that, and says what must be true at the end.
"""

from __future__ import annotations

import multiprocessing
import platform
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import FencedError, LockedError
from lastgood.saving import SaveReceipt
from tests.crash.processes import (
    Say,
    append_for_ever,
    contend,
    fork,
    wait_stopped,
)
from tests.crash.seam import Seam
from tests.crash.sessions import (
    Sessions,
    check_recovers,
    check_whole,
    given,
    history,
    items_of,
    opened,
)
from tests.support.check import check, check_equal

pytestmark = pytest.mark.crash


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Sessions to begin with."""
    return Sessions(tmp_path)


@pytest.mark.parametrize("locks", ["kept", "broken"])
def test_c04_01_an_idle_owner_never_erases_what_another_one_saved(
    sessions: Sessions, locks: Any
) -> None:
    """C4-01: the second is refused, or the first is when it saves with its old state; K1.

    Method: this process stays idle while another one opens, appends, saves and ends.
    """
    with sessions.copy("begun") as place:

        def work(say: Say) -> None:
            try:
                with opened(place, Seam(locks=locks)) as other:
                    other.append(*given("other"))
                    say(f"saved {other.save().sequence}")
            except LockedError as error:
                say(f"locked {error}")

        told = sessions.told("begun")
        idle = opened(place, Seam(locks=locks))
        told.append(idle, "x")
        [said] = fork(work).finish()
        check_equal(said.split()[0], "locked" if locks == "kept" else "saved", said)
        if locks == "kept":
            told.save(idle)
        else:
            told.acknowledged.append("other")
            told.saved = int(said.split()[1])
            for ask in (idle.save, lambda: idle.append(*given("late")), lambda: idle.state):
                with pytest.raises(FencedError) as refused:
                    ask()
                check("Open" in str(refused.value), f"no way on: {refused.value}")
        idle.close()
        check_recovers(place, told, f"locks {locks}")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(120)
@pytest.mark.parametrize("count", [2, 5, 8])
def test_c04_02_of_processes_that_open_at_once_one_goes_on(sessions: Sessions, count: int) -> None:
    """C4-02: one holder; the others are told its pid, host and epoch; all of its events are there.

    Method: spawned processes open at a barrier; the holder appends 500 events of 10 B to 200 KiB.
    """
    with sessions.copy("begun") as place:
        spawn = multiprocessing.get_context("spawn")
        start, done = spawn.Barrier(count), spawn.Event()
        pipes = [spawn.Pipe(duplex=False) for _ in range(count)]
        children = [
            spawn.Process(target=contend, args=(str(place), n, start, done, pipe))
            for n, (_, pipe) in enumerate(pipes)
        ]
        for child in children:
            child.start()
        first = [pipe.recv() for pipe, _ in pipes]
        held = [number for number, said in enumerate(first) if said[0] == "held"]
        check_equal(len(held), 1, f"holders: {first}")
        for _, text, seconds in (said for said in first if said[0] == "locked"):
            for part in (f"process {first[held[0]][1]}", platform.node()[:64], "epoch 2"):
                check(part in text, f"{part} is not told: {text}")
            check(1.0 <= seconds < 20, f"told after {seconds} s")
        appended = pipes[held[0]][0].recv()
        done.set()
        for child in children:
            child.join(30)
            check_equal(child.exitcode, 0, "how a process ended")
        told = sessions.told("begun")
        told.acknowledged += appended[1]
        check_equal(len(appended[1]), 500, "events")
        check_recovers(place, told, f"{count} processes")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(120)
def test_c04_04_processes_without_a_lock_share_no_temporary(sessions: Sessions) -> None:
    """C4-04: names of temporaries are unique and created exclusively; nothing acknowledged is lost.

    Method: two processes, the lock broken, append and save 60 times each; every name is noted.
    """
    with sessions.copy("begun") as place:
        start = time.monotonic() + 0.1
        owners = [
            fork(append_for_ever(place, 60, locks="broken", author=f"o{n}"), start=start)
            for n in range(2)
        ]
        said = [line.split() for child in owners for line in child.finish()]
        made = [(name, how) for word, name, *rest in said if word == "made" for how in rest]
        check(len(made) > 200, f"{len(made)} temporaries")
        check_equal([name for name, how in made if how != "exclusive"], [], "not exclusive")
        names = Counter(name for name, _ in made)
        check_equal([name for name, times in names.items() if times > 1], [], "made twice")
        told = {item for word, item, *_ in said if word == "told"}
        maybe = {item for word, item, *_ in said if word == "maybe"}
        found = items_of(place)
        check_equal(len(told), 120, "acknowledged")
        check_equal(len(set(found)), len(found), "each once")
        check(told <= set(found), f"lost: {told - set(found)}")
        check(set(found) <= told | maybe | set("abcd"), "events that nobody asked for")
        with opened(place) as session:
            check_equal(session.state["items"], found, "the state")
        check_whole(place, "after the race")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(120)
def test_c04_04_threads_that_save_one_session_have_a_content_for_each_sequence(
    sessions: Sessions,
) -> None:
    """C4-04: what is acknowledged for a sequence is its one content, whoever saved it; I3.

    Method: sixteen threads append and save fifty times each on one handle.
    """
    with sessions.copy("absent") as place:
        session = opened(place, lock_wait_s=60)
        receipts: list[SaveReceipt] = []

        def work(number: int) -> None:
            for count in range(50):
                session.append(*given(f"{number}-{count}"))
                receipts.append(session.save())

        threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        session.close()
        check_equal(len(receipts), 800, "acknowledged saves")
        digests = {(receipt.sequence, receipt.digest) for receipt in receipts}
        sequences = {receipt.sequence for receipt in receipts}
        check_equal(len(digests), len(sequences), "contents for each sequence")
        check_equal(len(history(place)), 800, "events")
        check_whole(place, "after sixteen threads")


def test_c04_06_a_stopped_owner_keeps_everybody_out(sessions: Sessions) -> None:
    """C4-06: nobody takes a session from a process that only sleeps; it goes on when it wakes.

    Method: SIGSTOP the holder; openings are refused; SIGCONT; it appends and saves. What happens
    where the lock is broken is in ``tests/crash/test_session_pauses.py``.
    """
    with sessions.copy("begun") as place:

        def work(say: Say) -> None:
            with opened(place) as session:
                signal.raise_signal(signal.SIGSTOP)
                session.append(*given("woken"))
                say(f"saved {session.save().sequence}")

        child = fork(work)
        wait_stopped(child.pid)
        for _ in range(3):
            with pytest.raises(LockedError) as refused:
                opened(place, lock_wait_s=0.02)
            check(str(child.pid) in refused.value.holder, f"holder: {refused.value.holder}")
        child.send(signal.SIGCONT)
        told = sessions.told("begun")
        told.saved = int(child.finish()[0].split()[1])
        told.acknowledged.append("woken")
        check_recovers(place, told, "after it woke")
