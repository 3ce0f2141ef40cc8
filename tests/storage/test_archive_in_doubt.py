"""What is moved to the archive is on the medium there before it leaves, whatever failed."""

from __future__ import annotations

import errno
from collections.abc import Callable

import pytest

from fault_injection.machine import MemoryMachine
from fault_injection.memory.calls import Call, Fail, Injection
from lastgood.errors import LastgoodError, StorageError
from lastgood.storage.posix import PosixRoot, PosixStorage
from tests.support.check import check, check_equal

SESSION = "0123456789012345678901234567890123456789"


def fail_sync(number: int) -> Callable[[Call], Injection | None]:
    """Let the sync of that number fail, once."""
    count = iter(range(100))

    def hook(call: Call) -> Injection | None:
        if call.name == "fsync" and next(count) == number:
            return Fail(errno.EIO)
        return None

    return hook


def opened(machine: MemoryMachine) -> tuple[PosixRoot, PosixStorage]:
    """A session's directory, owned."""
    root = PosixRoot(
        machine.root,
        filesystem=machine.process(),
        clock=machine.clock,
        entropy=machine.entropy,
    )
    session = root.session(SESSION, access="write")
    check(isinstance(session, PosixStorage), "a directory of files")
    session.acquire(timeout_s=0)
    return root, session  # type: ignore[return-value]


@pytest.mark.parametrize("number", [0, 1])
def test_nothing_leaves_for_an_archive_whose_sync_has_failed(number: int) -> None:
    """G3, F5: neither that record, nor the next one; a handle without a failed sync moves both.

    Method: the sync of the directory that got the archive fails, or that of the archive; two
    records are archived, then again by a handle of its own.
    """
    machine = MemoryMachine()
    root, session = opened(machine)
    for name in ("one", "two"):
        session.create(name, [b"damaged"])
    process = machine.processes[-1]
    process.hook = fail_sync(number)
    for name in ("one", "two"):
        with pytest.raises(StorageError):
            session.archive(name)
    check_equal(sorted({"one", "two"} & set(session.list())), ["one", "two"], "what is there")
    session.close()
    root.close()
    again, session = opened(machine)
    for name in ("one", "two"):
        session.archive(name)
    check_equal(set(session.list()) & {"one", "two"}, set(), "what is left")
    check_equal(sorted(session.list("archive/")), ["archive/one", "archive/two"], "the archive")
    session.close()
    again.close()


def test_a_failed_sync_is_told_with_what_to_do() -> None:
    """The refusal says what to do, and taking the session again (R1) ends it.

    Method: the second record behind a failed sync; then R1's syncs.
    """
    machine = MemoryMachine()
    root, session = opened(machine)
    session.create("one", [b"damaged"])
    machine.processes[-1].hook = fail_sync(0)
    for _ in range(2):
        try:
            session.archive("one")
        except LastgoodError as error:
            told = str(error)
    check("after a sync that failed" in told and "Open the session again" in told, told)
    session.persist()
    session.archive("one")
    check_equal(session.list("archive/"), ("archive/one",), "the archive")
    session.close()
    root.close()
