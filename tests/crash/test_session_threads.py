"""Threads that share one session: one flush for all, and what its failure means for each.

A thread is held at a call of the file system by a hook, so that who is where does not depend on
luck; one test lets nine threads run freely.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood import Retention, Session
from lastgood.errors import DurabilityUnknownError, LastgoodError, StorageError
from tests.crash.scenes import reader
from tests.crash.seam import Seam, once
from tests.crash.sessions import (
    Sessions,
    State,
    Told,
    check_goes_on,
    check_recovers,
    given,
    history,
    items_of,
    log_of,
    opened,
)
from tests.support.check import check, check_equal

PATIENCE_S: Final = 30.0


class Asking:
    """A thread that asks for one thing of a session, and what it was told."""

    def __init__(self, ask: Callable[[], object]) -> None:
        self.told: object = None
        self._ask = ask
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.told = self._ask()
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.told = error

    @property
    def is_waiting(self) -> bool:
        """Whether it was not told anything yet."""
        return self._thread.is_alive()

    def finish(self) -> object:
        """What it was told, at last."""
        self._thread.join(PATIENCE_S)
        check(not self.is_waiting, "a thread never came back")
        return self.told


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Wait for another thread."""
    end = time.monotonic() + PATIENCE_S
    while not holds():
        check(time.monotonic() < end, f"it never came: {what}")
        time.sleep(0.001)


class Held:
    """Holds whoever makes the ``number``-th call that begins with ``call``, until ``let_go``.

    Args:
        seam: Where.
        call: How it begins.
        number: Which of them, from 1 on.
        raises: What that call raises when it is let go; None: it is made.
    """

    def __init__(
        self, seam: Seam, call: str, *, number: int = 1, raises: BaseException | None = None
    ) -> None:
        self.came = threading.Event()
        self._go = threading.Event()
        self._call, self._left, self._raises = call, number, raises
        seam.begin(self._hook)

    def _hook(self, number: int, made: str) -> None:
        if not made.startswith(self._call):
            return
        self._left -= 1
        if self._left == 0:
            self.came.set()
            check(self._go.wait(PATIENCE_S), "nobody let it go")
            if self._raises is not None:
                raise self._raises

    def wait(self) -> None:
        """Until somebody stands there."""
        check(self.came.wait(PATIENCE_S), f"nobody came to {self._call}")

    def let_go(self) -> None:
        """Let it go on."""
        self._go.set()


def staged(session: Session[State]) -> int:
    """How many calls are written, or wait to be."""
    return len(log_of(session)._staged)


def append(session: Session[State], item: str) -> Callable[[], object]:
    """Ask for one item."""
    return lambda: session.append(*given(item))


FAILURES: Final = {
    "EIO": OSError(errno.EIO, os.strerror(errno.EIO)),
    "interrupt": KeyboardInterrupt(),
}


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("flush", [1, 2])
def test_a_flush_that_fails_is_told_to_everybody_who_waits(
    sessions: Sessions, failure: str, flush: int
) -> None:
    """7, G1: nobody who waits for a failed flush is acknowledged; who was before it is.

    Method: one thread is held in its fdatasync, seven wait; the first or the second flush fails.
    """
    with sessions.copy("begun") as place:
        seam, told = Seam(), sessions.told("begun")
        session = opened(place, seam, lock_wait_s=PATIENCE_S)
        first = Held(seam, "fdatasync", raises=FAILURES[failure] if flush == 1 else None)
        leader = Asking(append(session, "first"))
        first.wait()
        waiting = [Asking(append(session, f"n{n}")) for n in range(7)]
        wait_until(lambda: staged(session) == 8, "seven that wait beside the first")
        second = Held(seam, "fdatasync", raises=FAILURES[failure]) if flush == 2 else first
        first.let_go()
        second.let_go()
        errors = [asking.finish() for asking in waiting]
        came = leader.finish()
        if flush == 2:
            check(isinstance(came, int), f"the first came out as {came!r}")
            told.acknowledged.append("first")
        else:
            errors.append(came)
        _check_told(errors, failure)
        check_equal(session.state["items"], told.acknowledged, "the state")
        check_goes_on(session, told, "next", "after the flush that failed")
        session.close()
        check_recovers(place, told, f"flush {flush}, {failure}", name="later")


def _check_told(errors: list[object], failure: str) -> None:
    """Each got an error of its own; an interrupt is the leader's alone."""
    interrupted = [error for error in errors if isinstance(error, KeyboardInterrupt)]
    typed = [error for error in errors if isinstance(error, DurabilityUnknownError)]
    check_equal(len(interrupted), int(failure == "interrupt"), f"interrupted: {errors}")
    check_equal(len(typed) + len(interrupted), len(errors), f"told: {errors}")
    check_equal(len({id(error) for error in errors}), len(errors), "errors of their own")


def a_snapshot_waits_for_the_batch_that_is_being_written(place: Path) -> None:
    """A checkpoint never holds an event that is not in the log yet.

    A thread is held in its fdatasync while another one saves.
    """
    seam = Seam()
    session = opened(place, seam, lock_wait_s=PATIENCE_S)
    held = Held(seam, "fdatasync")
    appending = Asking(append(session, "slow"))
    held.wait()
    saving = Asking(session.save)
    time.sleep(0.05)  # without waiting it would be done by now
    done = not saving.is_waiting
    held.let_go()
    check(isinstance(appending.finish(), int), f"the append: {appending.told!r}")
    check(not isinstance(saving.finish(), BaseException), f"the save: {saving.told!r}")
    session.close()
    check(not done, "the save did not wait")
    check_checkpoints(place)


def check_checkpoints(place: Path) -> int:
    """Each stored checkpoint holds what a replay of the events up to it gives; returns how many."""
    stored = history(place)
    with reader(place) as store:
        rows = [row for row in store.check().rows if row.is_verified]
        for row in rows:
            state: Any = store.load(row.sequence).state
            expected = [item for sequence, item in stored if sequence <= row.sequence]
            check(state["items"] == expected, f"checkpoint {row.sequence} is no replay's state")
    return len(rows)


def test_a_snapshot_waits_for_the_batch_that_is_being_written(sessions: Sessions) -> None:
    """S2, 7: a checkpoint at N is the state after events 1 to N, and N was acknowledged.

    Method: hold an append in its fdatasync, and save meanwhile.
    """
    with sessions.copy("begun") as place:
        a_snapshot_waits_for_the_batch_that_is_being_written(place)


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(300)
def test_checkpoints_among_eight_appending_threads_are_what_a_replay_gives(
    sessions: Sessions,
) -> None:
    """S2, 7: whatever the threads do, each checkpoint is the state after the events up to it.

    Method: eight threads append, a ninth saves three hundred times and keeps every generation.
    """
    with sessions.copy("absent") as place:
        session = opened(
            place, lock_wait_s=PATIENCE_S, initial={"items": []}, retention=Retention(archive="all")
        )
        stop = threading.Event()
        numbers: list[list[int]] = [[] for _ in range(8)]

        def work(n: int) -> None:
            while not stop.is_set():
                numbers[n].append(session.append(*given(f"{n}-{len(numbers[n])}")))
                time.sleep(0.004)

        workers = [Asking(lambda n=n: work(n)) for n in range(8)]  # type: ignore[misc]
        for _ in range(300):
            session.save()
            time.sleep(0.002)
        stop.set()
        for worker in workers:
            check_equal(worker.finish(), None, "what a thread was told")
        state = session.state["items"]
        session.close()
        check_equal(items_of(place), state, "the log")
        given_out = sorted(number for own in numbers for number in own)
        check_equal([s for s, _ in history(place)], given_out, "acknowledged sequences")
        for n, own in enumerate(numbers):
            mine = [item for item in state if item.startswith(f"{n}-")]
            check_equal(mine, [f"{n}-{k}" for k in range(len(own))], f"items of thread {n}")
        count = check_checkpoints(place)
        print(f"{len(state)} events, {count} checkpoints")
        check(count >= 100 and len(state) >= 200, f"{count} checkpoints, {len(state)} events")


def an_append_under_way_survives_a_second_taking(place: Path) -> None:
    """An event that is acknowledged while the session is taken again is not cut off.

    A save fails behind S4's link, after another thread began to append; the thread is held in its
    fdatasync until the next call takes the session again, or waits for it.
    """
    seam, told = Seam(), Told(["a", "b", "c", "d"], saved=4)
    session = opened(place, seam, lock_wait_s=PATIENCE_S)
    held, appending = _append_beside_a_save(session, seam, fails="fsync", behind="link .check")

    def release() -> None:
        held.let_go()
        appending.finish()

    seam.before = once("fsync", release)  # the first call of a second taking
    threading.Timer(0.2, held.let_go).start()
    session.append(*given("next"))
    told.acknowledged += ["beside", "next"] if appending.finish() else ["next"]
    check(isinstance(appending.told, int), f"the append beside it: {appending.told!r}")
    check_goes_on(session, told, "then", "after the save that failed")
    session.close()
    check_recovers(place, told, "an append beside a save that failed", name="later")


def _append_beside_a_save(
    session: Session[State], seam: Seam, *, fails: str, behind: str
) -> tuple[Held, Asking]:
    """Begin to append in S1 of a save that fails with EIO at ``fails`` behind ``behind``."""
    begun: list[tuple[Held, Asking]] = []
    me = threading.get_ident()
    reached: list[str] = []

    def hook(number: int, made: str) -> None:
        if threading.get_ident() != me:
            return
        if not begun:
            hold = Held(seam, "fdatasync")
            begun.append((hold, Asking(append(session, "beside"))))
            hold.wait()
            seam.before = hook
        if made.startswith(behind):
            reached.append(made)
        elif reached and made.startswith(fails):
            seam.before = None
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    seam.begin(hook)
    with pytest.raises(DurabilityUnknownError):
        session.save()
    return begun[0]


def test_an_append_under_way_survives_a_second_taking(sessions: Sessions) -> None:
    """G1: what is acknowledged stays, whatever the handle does after a save that failed.

    Method: an append held in its fdatasync across the failure and the taking.
    """
    with sessions.copy("begun") as place:
        an_append_under_way_survives_a_second_taking(place)


def test_a_save_that_fails_beside_an_append_does_not_fence_the_handle(sessions: Sessions) -> None:
    """S6, F5: a swap that broke off is the handle's own failure: it goes on, and is not fenced.

    Method: an append is held in its fdatasync while the rename of a save's pointer fails.
    """
    with sessions.copy("begun") as place:
        seam, told = Seam(), sessions.told("begun")
        session = opened(place, seam, lock_wait_s=PATIENCE_S)
        held, appending = _append_beside_a_save(session, seam, fails="rename", behind="link")
        held.let_go()
        came = appending.finish()
        check(isinstance(came, StorageError | int), f"the append beside it: {came!r}")
        told.acknowledged += ["beside"] if isinstance(came, int) else []
        check_goes_on(session, told, "next", "after the swap that failed")
        session.close()
        check_recovers(place, told, "a swap that failed beside an append", name="later")


def test_failed_saves_leave_no_descriptor_behind(sessions: Sessions) -> None:
    """A session that is taken again gives back the segment that it leaves.

    Method: ten saves that fail behind S4's link, and the descriptors after the next append.
    """
    with sessions.copy("begun") as place:
        seam, told = Seam(), sessions.told("begun")
        session = opened(place, seam)
        counts = []
        for number in range(10):
            told.append(session, f"x{number}")
            linked: list[str] = []

            def fail(number: int, made: str, linked: list[str] = linked) -> None:
                if made.startswith("link .checkpoint"):
                    linked.append(made)
                elif linked and made == "fsync":
                    seam.before = None
                    raise OSError(errno.EIO, os.strerror(errno.EIO))

            seam.begin(fail)
            with pytest.raises(LastgoodError):
                session.save()
            told.append(session, f"y{number}")
            counts.append(len(os.listdir("/proc/self/fd")))
        check_equal(counts[-1], counts[1], f"descriptors: {counts}")
        session.close()
        check_recovers(place, told, "after ten saves that failed", name="later")
