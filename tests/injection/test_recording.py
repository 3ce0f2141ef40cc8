"""A recording is a job call by call; a job that cannot be tested is told, in one line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Literal
from unittest import mock

import pytest

from fault_injection.examples.notes import NOTES, Job
from fault_injection.machine import Machine, MemoryMachine
from fault_injection.memory.calls import Call, Die, Fail, Killed
from fault_injection.recording import check_testable, prepared, record
from fault_injection.workload import BadWorkloadError, Recovered, Violation
from fault_injection.workloads import WORKLOADS
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.world import Told, World
from lastgood.errors import LastgoodError, StorageError
from lastgood.storage.filesystem import CREATE_NEW
from tests.support.check import check, check_equal

Work = Callable[[Machine, World], None]


@dataclass(frozen=True)
class Small:
    """A workload of one function."""

    work: Work
    name: str = "small"
    unread: Collection[str] = ()

    def prepare(self, machine: Machine, world: World) -> None:
        with world.act("before"):
            system = machine.process()
            system.mkdir("kept", dir_fd=system.open("/disk", 0))

    def run(self, machine: Machine, world: World) -> None:
        self.work(machine, world)

    def go_on(self, machine: Machine, world: World) -> None:
        with world.act("again"):
            machine.process().stat("/disk")

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        return Recovered("none", "nothing")


def _prepare_nothing(machine: Machine, world: World) -> None: ...


def makes(*names: str) -> Work:
    """A job that makes files, and is acknowledged."""

    def work(machine: Machine, world: World) -> None:
        system = machine.process()
        with world.act("make"):
            for name in names:
                system.close(system.open(f"/disk/{name}", CREATE_NEW))

    return work


def test_a_job_that_does_the_same_twice_can_be_tested() -> None:
    """A workload is deterministic, acknowledges something, and works.

    Method: one that is.
    """
    recording = check_testable(Small(makes("a", "b")))
    check_equal([call.name for call in recording.calls], ["open", "close"] * 2, "calls")
    check_equal(recording.world.told.names("acknowledged"), ["before", "make"], "told")


def _fails(machine: Machine, world: World) -> None:
    with world.act("fails"):
        raise StorageError("Doing nothing")


def _tells_nothing(machine: Machine, world: World) -> None:
    machine.process().stat("/disk")
    world.begin("begun")


def _tells_no_more_than_before(machine: Machine, world: World) -> None:
    machine.process().stat("/disk")
    world.settle(["before"])


def _changing(change: Callable[[int, Machine, World], None]) -> Work:
    """A job that knows how often it was run."""
    runs = itertools.count(1)

    def work(machine: Machine, world: World) -> None:
        change(next(runs), machine, world)

    return work


def _another_name(run: int, machine: Machine, world: World) -> None:
    makes("a", f"b{run}")(machine, world)


def _another_number(run: int, machine: Machine, world: World) -> None:
    makes(*"abc"[:run])(machine, world)


def _another_content(run: int, machine: Machine, world: World) -> None:
    system = machine.process()
    with world.act("make"):
        fd = system.open("/disk/a", CREATE_NEW)
        system.writev(fd, [b"%d" % run])
        system.close(fd)


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (lambda: _fails, "fails without a fault: Doing nothing"),
        (lambda: _tells_nothing, "acknowledges nothing"),
        (lambda: _tells_no_more_than_before, "acknowledges nothing"),
        (lambda: _changing(_another_name), "not deterministic: call 2 was open /disk/b1"),
        (lambda: _changing(_another_number), "not deterministic: 2 calls, then 4"),
        (lambda: _changing(_another_content), "not deterministic: call 1 was writev"),
    ],
    ids=["fails", "silent", "old news", "names", "numbers", "bytes"],
)
def test_a_job_that_cannot_be_tested_is_told(work: Callable[[], Work], said: str) -> None:
    """Nothing is judged of a job whose faults could not be repeated, or that promises nothing.

    Method: one of each kind.
    """
    with pytest.raises(BadWorkloadError) as raised:
        check_testable(Small(work()))
    check(said in str(raised.value), str(raised.value))
    check(str(raised.value).startswith("small "), "it is not named")


def _never(*_: object, **__: object) -> None: ...


def _misses(*_: object, **__: object) -> Recovered:
    raise KeyError("item")


def _stops(*_: object, **__: object) -> Recovered:
    raise StorageError("Reading")


def _fails_to_read(*_: object, **__: object) -> Recovered:
    raise OSError(5, "read")


def _breaks(*_: object, **__: object) -> Recovered:
    raise Violation("O1", expected="one", got="none")


def _misspelt(self: Job, machine: Machine, world: World) -> None:
    machine.process().stat("/disk")
    world.acknowledge("make")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("method", "wrong", "said"),
    [
        ("run", _misspelt, "fails without a fault, at test_recording.py:"),
        ("run", _fails_to_read, "OSError: [Errno 5] read"),
        ("run", _breaks, "Violation: O1: expected one; got none"),
        ("prepare", _misses, "fails without a fault, at test_recording.py:"),
        ("judge", _misses, "KeyError: 'item'"),
        ("judge", lambda *_, **__: None, "its judge returns NoneType, not Recovered"),
        ("go_on", _misses, "fails without a fault, at test_recording.py:"),
        ("go_on", _never, "its go_on acknowledges nothing"),
    ],
)
def test_a_mistake_of_the_workload_itself_is_told_with_its_place(
    method: str, wrong: Callable[..., object], said: str
) -> None:
    """What no store brings about is no finding: the author is told file, line and error.

    Method: a job, its preparation, its judge or who goes on make a mistake without any fault.
    """
    with mock.patch.object(Job, method, wrong), pytest.raises(BadWorkloadError) as raised:
        check_testable(NOTES)
    check(said in str(raised.value), str(raised.value))
    check(str(raised.value).startswith("notes") and "\n" not in str(raised.value), "one line")


@pytest.mark.parametrize("method", ["judge", "go_on"])
@pytest.mark.parametrize("finding", [_stops, _fails_to_read, _breaks])
def test_a_store_that_breaks_its_word_without_a_fault_is_a_finding(
    method: str, finding: Callable[..., object]
) -> None:
    """What the store does wrong is the levels' to tell. Method: errors of the store's."""
    with mock.patch.object(Job, method, finding):
        check_equal(check_testable(NOTES).world.told.names("acknowledged")[-1], "three", "told")


def test_what_lies_there_before_is_durable_and_known() -> None:
    """A recording begins with what was prepared, and with what the world knows of it.

    Method: look at both.
    """
    base, told = prepared(Small(_prepare_nothing))
    check_equal([path for path, _ in base.paths()], ["disk", "disk/kept"], "paths")
    check_equal(told.names("acknowledged"), ["before"], "told")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_every_workload_can_be_tested(workload: Checkpoints) -> None:
    """Each level may be run with each workload: its run has the same calls and bytes each time.

    Method: record it twice; all that is seen at its end is what its operations make.
    """
    recording = check_testable(workload)
    check(len(recording.calls) > 50, f"{len(recording.calls)} calls")
    again = record(workload)
    count = len(recording.calls)
    check_equal(recording.seen_after(count).digest(), again.seen_after(count).digest(), "disks")
    check_equal(recording.seen_after(0).digest(), prepared(workload)[0].digest(), "the beginning")
    check_equal(recording.told_after(count), recording.world.told, "what is known at the end")


def _dies(at: int, call: Call) -> Die | None:
    return Die() if call.number == at else None


def test_a_recording_is_what_was_seen_at_each_call() -> None:
    """A kill after N calls leaves what N calls changed.

    Method: kill a job after each call; compare the disk with the recording of the whole job.
    """
    workload = WORKLOADS[0]
    whole = record(workload)
    base, told = prepared(workload)
    for number in range(0, len(whole.calls), 7):
        machine = MemoryMachine(base, seed="run", hook=partial(_dies, number))
        with pytest.raises(Killed):
            workload.run(machine, World(told))
        left = machine.disk.tree().digest(unread=workload.unread)
        expected = whole.seen_after(number).digest(unread=workload.unread)
        check_equal(left, expected, f"killed before call {number}")


def test_an_error_of_a_job_is_part_of_its_recording() -> None:
    """What a fault brings about is recorded, not raised.

    Method: fail one call; operations carry the numbers of their calls.
    """

    def hook(call: Call) -> Fail | None:
        return Fail(28) if call.name == "link" else None

    recording = record(WORKLOADS[0], hook=hook)
    check(isinstance(recording.error, LastgoodError), f"{recording.error!r}")
    check_equal([call.error for call in recording.calls if call.name == "link"], [28], "links")
    numbers = [number for number, _ in recording.operations()]
    check(numbers == sorted(numbers) and len(set(numbers)) > 5, f"{numbers}")
