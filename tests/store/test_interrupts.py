"""An interrupt, or an error, at any system call of a save leaves a handle that goes on.

Method: ``KeyboardInterrupt`` is raised instead of, and after, each call of the file system in
turn. Nothing is stated about *which* of old and new is current; that the next call settles it
and that nothing acknowledged is lost.
"""

from __future__ import annotations

import errno

import pytest

from lastgood import CheckpointStore
from lastgood.errors import (
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    RollbackDetectedError,
)
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, When, faulty, system_error


def calls_of_a_save(disk: World) -> int:
    calls = Calls()
    with disk.open("counted", root=disk.on(faulty(calls))) as handle:
        handle.save(at(1))
        handle.save(at(2))
        calls.begin()
        handle.save(at(3))
        return len(calls.made)


def settle(handle: CheckpointStore, disk: World, session: str) -> None:
    """The same save again, then another: whatever was interrupted, both are there."""
    receipt = handle.save(at(30, 1))
    check(receipt.status in ("saved", "unchanged"), f"the same save again: {receipt.status}")
    loaded = handle.load_latest()
    check_equal(loaded and loaded.sequence, 30, "the current sequence")
    check_equal(handle.load(20).sequence, 20, "the generation before")
    check_equal(handle.save(at(40, 1)).status, "saved", "the next save")
    report = disk.report(session)
    check_equal((report.verdict, report.findings), ("good", ()), "the report")
    check_equal([row.sequence for row in report.rows], [30, 40], "what is stored")
    check(not any(name.endswith(".tmp") for name in disk.listed(session)), "no temporary stays")


@pytest.mark.slow
@pytest.mark.parametrize("when", ["instead", "after"])
def test_an_interrupt_at_any_call_of_a_save_loses_nothing(disk: World, when: When) -> None:
    """The handle settles by itself what an interrupt left, by R1, R3 and R4."""
    calls = Calls()
    root = disk.on(faulty(calls))
    count = calls_of_a_save(disk)
    check(count > 30, f"a save has many calls: {count}")
    for number in range(count):
        session = f"{when} {number}"
        with disk.open(session, root=root) as handle:
            handle.save(at(10, 1))
            handle.save(at(20, 1))
            calls.begin(Fault(number, KeyboardInterrupt, when=when))
            with pytest.raises(KeyboardInterrupt):
                handle.save(at(30, 1))
            calls.begin()
            settle(handle, disk, session)


def unfinished(handle: CheckpointStore, calls: Calls) -> None:
    """A save of 30 whose last fsync fails: published, claimed, and not known to be durable."""
    handle.save(at(10, 1))
    handle.save(at(20, 1))
    calls.begin()
    syncs = 0

    def fourth(name: str) -> bool:
        nonlocal syncs
        syncs += name == "fsync"
        return name == "fsync" and syncs == 4

    plain = calls.fails
    calls.fails = lambda name: fourth(name) or plain(name)  # type: ignore[method-assign]
    calls.fault = Fault(-1, system_error(errno.EIO))
    with pytest.raises(DurabilityUnknownError):
        handle.save(at(30, 1))
    calls.fails = plain  # type: ignore[method-assign]


@pytest.mark.parametrize("what", ["older copy", "nothing"])
def test_a_store_that_was_rolled_back_under_an_unfinished_save_stops(
    disk: World, what: str
) -> None:
    """G7: the handle remembers the revision that it made, as a witness would."""
    calls = Calls()
    with disk.open(root=disk.on(faulty(calls))) as handle:
        handle.save(at(1, 1))
        older = disk.files()
        unfinished(handle, calls)
        calls.begin()
        for name in disk.files():
            disk.drop(name)
        for name, data in older.items() if what == "older copy" else ():
            disk.put(name, data)
        before = disk.files()
        for _ in range(2):
            with pytest.raises(RollbackDetectedError):
                handle.save(at(30, 1))
        check_equal(disk.files(), before, "the directory")


@pytest.mark.slow
@pytest.mark.parametrize("what", ["interrupt", "error"])
@pytest.mark.parametrize("when", ["instead", "after"])
def test_taking_the_session_again_can_itself_be_interrupted(
    disk: World, what: str, when: When
) -> None:
    """The same save settles an unknown outcome, however often its own R1 to R4 fail."""
    calls = Calls()
    root = disk.on(faulty(calls))
    error = KeyboardInterrupt if what == "interrupt" else system_error(errno.EIO)
    number = fenced = 0
    while True:
        session = f"{what} {when} {number}"
        with disk.open(session, root=root) as handle:
            unfinished(handle, calls)
            calls.begin(Fault(number, error, when=when))
            try:
                handle.save(at(30, 1))
            except FencedError:
                fenced += 1
            except (KeyboardInterrupt, LastgoodError):
                pass
            hit = bool(calls.failed)
            calls.begin()
            if hit:
                settle(handle, disk, session)
        if not hit:
            break
        number += 3
    check(number > 60, f"taking a session again has many calls: {number}")
    check_equal(fenced, 0, "nobody else was there, so nobody is fenced")
