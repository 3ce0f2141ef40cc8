"""Real processes at the same time: owners who loop, readers beside a writer, a paused owner."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from lastgood.errors import FencedError, LockedError
from lastgood.formats.limits import Limits
from lastgood.saving import SaveReceipt
from tests.crash.processes import (
    Say,
    check_for,
    count_up,
    delete_lock,
    fork,
    load_for,
    save_for,
    wait_stopped,
)
from tests.crash.scenes import (
    Scenes,
    believed,
    check_believable,
    check_recovers,
    check_settled,
    checkpoint,
    latest,
    outcome,
    writer,
)
from tests.crash.seam import Locks, Seam
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.normal_only]

BARRIER_S: Final = 0.2


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("owners", "saves", "locks"),
    [(2, 200, "kept"), (4, 50, "kept"), (2, 200, "broken"), (4, 50, "broken")],
)
def test_processes_that_count_up_lose_no_update(
    fast: Path, owners: int, saves: int, locks: Locks
) -> None:
    """S6, C4-01, C4-02: each acknowledged save is one more; one winner a revision.

    Method: processes loop open, load, save at the next sequence, close; with and without locks.
    """
    start = time.monotonic() + BARRIER_S
    children = [
        fork(count_up(fast, saves, locks=locks, author=f"owner{n}"), start=start)
        for n in range(owners)
    ]
    told = [line.split() for child in children for line in child.finish()]
    _check_count(fast, told, owners * saves)


@pytest.mark.timeout(300)
def test_a_lock_file_deleted_in_mid_race_costs_no_update(fast: Path) -> None:
    """S1, S6: without the lock file the directory's lock, and the claim, still exclude.

    Method: two processes count up while a third deletes the lock file every few milliseconds.
    """
    writer(fast).close()
    start = time.monotonic() + BARRIER_S
    owners = [
        fork(count_up(fast, 200, locks="kept", author=f"owner{n}"), start=start) for n in range(2)
    ]
    deleter = fork(delete_lock(fast, duration_s=3), start=start)
    told = [line.split() for child in owners for line in child.finish()]
    deleted = int(deleter.finish()[0].split()[1])
    check(deleted >= 5, f"the lock was deleted {deleted} times only")
    _check_count(fast, told, 400)


def _check_count(place: Path, told: list[list[str]], acknowledged: int) -> None:
    """No sequence and no revision was given twice, and none is missing but unknown ones."""
    saved = [int(sequence) for status, sequence, _ in told if status in ("saved", "adopted")]
    check_equal(len(saved), acknowledged, "acknowledged saves")
    check_equal(len(set(saved)), len(saved), "sequences, each acknowledged once")
    revisions = Counter(revision for status, _, revision in told if status == "saved")
    check_equal(max(revisions.values()), 1, "acknowledged saves of one revision")
    unknown = {int(sequence) for status, sequence, _ in told if status == "unknown"}
    final = latest(place)[0]
    missing = set(range(1, final + 1)) - set(saved)
    check(missing <= unknown, f"lost updates: {sorted(missing - unknown)}")
    check(final >= max(saved), f"{final} is believed, {max(saved)} was acknowledged")
    print(f"{len(saved)} acknowledged, {len(unknown)} unknown, {len(missing)} of them done")
    check_believable(place, "after the race")
    check_recovers(place, [latest(place)], "after the race")


@pytest.mark.timeout(120)
def test_readers_beside_a_saving_and_pruning_writer_never_alarm(fast: Path) -> None:
    """G8: no exception at all, not even BusyError, and sequences never fall.

    Method: four processes load, one lists and verifies, one saves and prunes, for five seconds.
    """
    with writer(fast) as store:
        for sequence in (1, 2, 3):
            store.save(checkpoint(sequence))
    readers = [fork(load_for(fast, duration_s=5.2)) for _ in range(4)]
    lister = fork(check_for(fast, duration_s=5.2))
    saved = int(fork(save_for(fast, duration_s=5)).finish()[0])
    loads = [child.finish()[0].split() for child in readers]
    checks, _ = lister.finish()[0].split()
    print(f"{saved} saves, loads {[count for count, _ in loads]}, {checks} verified")
    check(saved >= 50, f"only {saved} saves")
    check(all(int(count) >= 50 for count, _ in loads), f"hardly any loads: {loads}")
    check_settled(fast, (saved, "owner"), "after the readers")


PAUSES: Final = [
    "listdir", "open .checkpoint", "link .checkpoint", "unlink .checkpoint", "open .manifest",
    "link .manifest", "rename", "unlink checkpoint", "unlink manifest",
]  # fmt: skip


@pytest.mark.parametrize("at", PAUSES)
def test_a_stopped_owner_is_fenced_when_it_wakes(scenes: Scenes, at: str) -> None:
    """C4-06: its bytes are never believed unless they were adopted; the next owner's stay.

    Method: SIGSTOP a process within a save, the lock broken; another saves twice; SIGCONT.
    """
    with scenes.copy("three") as place:

        def work(say: Say) -> None:
            seam = Seam(locks="broken")
            store = writer(place, seam)

            def stop(number: int, made: str) -> None:
                if made.startswith(at):
                    seam.before = None
                    signal.raise_signal(signal.SIGSTOP)

            seam.begin(stop)
            came = outcome(lambda: store.save(checkpoint(40, "stopped")))
            say(came.status if isinstance(came, SaveReceipt) else type(came).__name__)
            again = outcome(lambda: store.save(checkpoint(500, "stopped")))
            say("fenced" if isinstance(again, FencedError) else repr(again))

        child = fork(work)
        wait_stopped(child.pid)
        with writer(place, Seam(locks="broken")) as store:
            opened_on = believed(store.load_latest())
            for step in (10, 20):
                store.save(checkpoint(opened_on[0] + step, "second"))
        child.send(signal.SIGCONT)
        told, again = child.finish()
        check_equal(again, "fenced", f"{at}: a later save")
        adopted = opened_on == (40, "stopped")
        allowed = (
            {"saved", "DurabilityUnknownError"} if adopted else {"FencedError", "ConflictError"}
        )
        check(told in allowed, f"{at}: adopted is {adopted}, it was told {told}")
        # Its late claim of a number that was pruned meanwhile may lie there until the next prune.
        check_believable(place, at)
        check_recovers(place, [(opened_on[0] + 20, "second")], at)


def test_a_stopped_owner_keeps_its_lock(scenes: Scenes) -> None:
    """C4-06: where locks work, nobody takes a session from a process that only sleeps.

    Method: SIGSTOP a process that holds the session; an opening is refused; SIGCONT; it saves.
    """
    with scenes.copy("three") as place:

        def work(say: Say) -> None:
            with writer(place) as store:
                signal.raise_signal(signal.SIGSTOP)
                say(store.save(checkpoint(40)).status)

        child = fork(work)
        wait_stopped(child.pid)
        with pytest.raises(LockedError) as refused:
            writer(place, limits=Limits(lock_wait_s=0.05))
        check(str(child.pid) in refused.value.holder, f"holder: {refused.value.holder}")
        child.send(signal.SIGCONT)
        check_equal(child.finish(), ["saved"], "what the woken owner was told")
