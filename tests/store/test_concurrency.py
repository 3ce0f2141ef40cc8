"""One handle in several threads, in a signal handler and over a fork (C5-02, C7-06)."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from lastgood import SaveReceipt
from lastgood.errors import BusyError, LastgoodError, LockedError
from lastgood.formats.limits import Limits
from lastgood.storage.filesystem import OsFileSystem
from tests.storage.places import in_child
from tests.store.doubles import watched
from tests.store.world import World, at, forked_handle
from tests.support.check import check, check_equal

THREADS, SAVES = 16, 50


def test_sixteen_threads_on_one_handle_lose_nothing(world: World) -> None:
    """Thread-safe: 16 x 50 saves, each saved or superseded by a higher one, the highest stays."""
    saves = SAVES if world.engine == "memory" else 10
    receipts: list[SaveReceipt] = []
    errors: list[BaseException] = []
    start = threading.Barrier(THREADS)
    with world.open(limits=Limits(lock_wait_s=60)) as handle:

        def work(number: int) -> None:
            try:
                start.wait()
                for turn in range(saves):
                    receipts.append(handle.save(at(1 + turn * THREADS + number)))
                    loaded = handle.load_latest()
                    check(loaded is not None and loaded.sequence >= 1, "a load beside saves")
            except BaseException as error:  # noqa: BLE001 - shown by the main thread
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        loaded = handle.load_latest()
    check(not errors, f"errors: {errors[:3]}")
    check_equal(loaded and loaded.sequence, THREADS * saves, "the current sequence")
    check_equal(len(receipts), THREADS * saves, "receipts")
    check_equal({r.status for r in receipts} - {"saved", "superseded"}, set(), "status")
    made = [r.revision for r in receipts if r.status == "saved"]
    check_equal(len(set(made)), len(made), "each save has a revision of its own")


def test_a_state_that_changes_while_it_is_saved_is_stored_as_it_was_at_one_moment(
    world: World,
) -> None:
    """S2: another thread replaces the value all the time; what is stored is one of them."""
    state = {"pair": [0, 0]}
    done = threading.Event()

    def change() -> None:
        number = 0
        while not done.is_set():
            number += 1
            state["pair"] = [number, number]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with world.open() as handle:
            for sequence in range(1, 12):
                handle.save(at(sequence, state=state))
                loaded = handle.load_latest()
                one, other = loaded.state["pair"] if loaded else (0, 1)
                check_equal(one, other, "the two halves of the value")
    finally:
        done.set()
        thread.join()


@contextmanager
def handled(handler: object) -> Iterator[None]:
    before = signal.signal(signal.SIGUSR1, handler)  # type: ignore[arg-type]
    try:
        yield
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_handler_that_saves_inside_a_save_is_told_busy_at_every_stage(
    disk: World,
) -> None:
    """C7-06: at each system call of a save; no dead-lock, BusyError at once, the save goes on."""
    told: list[tuple[type, float]] = []
    at_call, count = -1, 0

    def before(name: str) -> None:
        nonlocal count
        count += 1
        if count == at_call:
            signal.raise_signal(signal.SIGUSR1)

    def save_in_handler(*_: object) -> None:
        began_s = time.monotonic()
        try:
            handle.save(at(10**9))
        except LastgoodError as error:
            told.append((type(error), time.monotonic() - began_s))
        else:
            told.append((type(None), time.monotonic() - began_s))

    with disk.open(root=disk.on(watched(before))) as handle, handled(save_in_handler):
        sequence, hit = 0, True
        while hit:
            sequence, count, at_call = sequence + 1, 0, sequence + 1
            check_equal(handle.save(at(sequence)).status, "saved", f"the save at call {at_call}")
            hit, at_call = count >= at_call, -1
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, sequence, "the current sequence")
    check(len(told) > 25, f"a save has many calls: {len(told)}")
    check_equal({kind for kind, _ in told}, {BusyError}, "what the handler was told")
    check(max(took_s for _, took_s in told) < 5, "at once")


def test_a_second_signal_inside_the_handler_is_told_busy_too(disk: World) -> None:
    """C7-06: a handler interrupted by its own signal."""
    told: list[type] = []

    def before(name: str) -> None:
        if name == "fsync" and armed and not told:
            signal.raise_signal(signal.SIGUSR1)

    def save_in_handler(*_: object) -> None:
        if not told:
            told.append(type(None))
            signal.raise_signal(signal.SIGUSR1)
        try:
            handle.save(at(10**9))
        except LastgoodError as error:
            told.append(type(error))

    armed = False
    with disk.open(root=disk.on(watched(before))) as handle, handled(save_in_handler):
        armed = True
        handle.save(at(10))
    check_equal(told[1:], [BusyError, BusyError], "what the handler was told")


class _Closing(OsFileSystem):
    """Runs ``then``, once, as a signal handler would, in the middle of opening a directory."""

    then: Callable[[], object] | None = None

    def geteuid(self) -> int:
        then, self.then = self.then, None
        if then is not None:
            then()
        return super().geteuid()


def test_a_root_that_is_closed_inside_its_own_opening_does_not_hang(disk: World) -> None:
    """C7-06: a signal handler may close a handle in the middle of its first reading.

    Method: the root is closed while it opens its directory, in a thread that can be given up.
    """
    disk.saved(10)
    filesystem = _Closing()
    root = disk.on(filesystem)
    filesystem.then = root.close
    names_seen: list[str] = []
    reading = threading.Thread(target=lambda: names_seen.extend(root.directories()), daemon=True)
    reading.start()
    reading.join(timeout=30)
    check(not reading.is_alive(), "it waits for itself")
    check(len(names_seen) == 2, f"what it found: {names_seen}")
    root.close()


def test_another_thread_that_waits_too_long_is_told_busy(disk: World) -> None:
    """A save that hangs in the system does not hang everybody else for ever."""
    hang, hanging = threading.Event(), threading.Event()

    def before(name: str) -> None:
        if name == "fsync" and armed:
            hanging.set()
            hang.wait(30)

    armed = False
    root = disk.on(watched(before))
    with disk.open(root=root, limits=Limits(lock_wait_s=0.05)) as handle:
        armed = True
        thread = threading.Thread(target=lambda: handle.save(at(10)))
        thread.start()
        hanging.wait(30)
        armed = False
        try:
            with pytest.raises(BusyError):
                handle.save(at(20))
            check_equal(handle.load_latest(), None, "loading goes on")
        finally:
            hang.set()
            thread.join()
        check_equal(handle.save(at(20)).status, "saved", "afterwards")


def test_a_forked_child_may_not_use_its_parent_s_handle(world: World) -> None:
    """C5-02: the child is fenced, the parent keeps lock and epoch and goes on."""
    with world.open() as handle:
        handle.save(at(10))
        token = handle.fencing_token
        for _ in range(2):
            check(forked_handle(handle).startswith("FencedError"), "what the child is told")
        said = in_child(handle.close)
        check_equal(said, "returned", "a child may close its copy")
        with pytest.raises(LockedError):
            world.open(limits=Limits(lock_wait_s=0.05))
        check_equal(handle.save(at(20)).status, "saved", "the parent goes on")
        check_equal(handle.fencing_token, token, "its token")


def test_a_forked_child_may_read_with_a_handle_of_its_own(disk: World) -> None:
    """Readers take no lock, so a child can look at what its parent saves."""

    def look() -> None:
        with disk.reader(root=str(disk.path)) as reader:
            loaded = reader.load_latest()
            check_equal(loaded and loaded.sequence, 10, "what the child loads")

    with disk.open() as handle:
        handle.save(at(10))
        check_equal(in_child(look), "returned", "what the child says")
        check_equal(handle.save(at(20)).status, "saved", "the parent goes on")
