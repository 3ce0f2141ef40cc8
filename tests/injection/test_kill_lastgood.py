"""lastgood's own jobs survive real deaths and errors, and known mistakes in its code do not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from fault_injection import workloads
from fault_injection.level import Counterexample, Plan
from fault_injection.levels.kill import LEVEL, call_of
from fault_injection.memory.calls import Call
from fault_injection.recording import record
from fault_injection.state_id import StateId
from fault_injection.tracing import driver
from fault_injection.tracing.bench import Bench
from fault_injection.tracing.runs import Fault, Strike
from fault_injection.workload import Violation, Workload
from lastgood import saving
from lastgood.formats import names
from lastgood.lease import Lease
from lastgood.reading import verify_checkpoint
from lastgood.storage import publish, revisions
from lastgood.storage.filesystem import WRITE
from tests.injection.jobs import job
from tests.injection.leaks import nothing_left
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.needs_ptrace,
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.timeout(900),
]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


@pytest.mark.parametrize("name", ["first", "appends"])
def test_no_fault_at_a_system_call_breaks_a_promise(name: str) -> None:
    """G1, G2: whatever strikes a real process, nothing acknowledged is lost, no human is needed.

    Method: L2 in the budget of CI, with jobs of checkpoints and of a session.
    """
    workload = job(name)
    begun = time.monotonic()
    raw = distinct = 0
    seconds = 0.0
    for tally in LEVEL.run(workload, Plan()):
        check_equal(tally.violations, [], f"{name}, {tally.variant}")
        check_equal(tally.recovered, tally.distinct, f"{name}, {tally.variant}: recovered")
        raw, distinct = raw + tally.raw, distinct + tally.distinct
        seconds += tally.seconds
    print(
        f"{name}: {raw} runs, {distinct} states, {seconds:.1f} s of processors, "
        f"{raw / (time.monotonic() - begun):.0f} runs a second"
    )
    check(distinct > 50, f"only {distinct} states")


@pytest.mark.parametrize("workload", workloads.WORKLOADS, ids=lambda workload: workload.name)
def test_a_real_kernel_and_the_disk_in_memory_are_changed_alike(workload: Workload) -> None:
    """What L1 and L3 judge is what a real process does: the same changes, the same disk, the same
    acknowledgements.

    Method: record each job in memory, and run it traced; compare every call that changes anything
    or makes it durable, in order, and the names, modes, links and bytes at the end.
    """
    recorded = record(workload)
    with Bench(workload, driver()) as bench:
        trial = bench.tried(None)
    seen = recorded.seen_after(len(recorded.calls))
    check_equal(
        _changes([call_of(call, trial.run) for call in trial.run.calls]),
        _changes(recorded.calls),
        "calls that change something",
    )
    check_equal(
        trial.tree.digest(unread=workload.unread), seen.digest(unread=workload.unread), "disk"
    )
    check_equal(trial.told, recorded.world.told, "what the world knows")
    check(len(_changes(recorded.calls)) > 20, "calls that change something")


def _changes(calls: list[Call]) -> list[tuple[str, str]]:
    return [(call.name, call.path) for call in calls if call.changes]


def test_a_death_leaves_what_the_model_of_a_death_says() -> None:
    """F1: the states that L3 begins a restart from are those of a real kernel.

    Method: kill a real process behind each call that changes something, and compare its disk with
    the one in memory after that call.
    """
    workload = job("reopens")
    recorded = record(workload)
    in_memory = [call for call in recorded.calls if call.changes]
    with Bench(workload, driver()) as bench:
        run = bench.recorded().run
        real = [call for call in run.calls if call_of(call, run).changes]
        for call, model in zip(real, in_memory, strict=True):
            tree = bench.struck(Strike(call, "kill-after"), run).tree
            check_equal(
                tree.digest(unread=workload.unread),
                recorded.seen_after(model.number + 1).digest(unread=workload.unread),
                f"the disk after call {call.number}, {call}",
            )


def test_a_state_is_shown_alike_in_every_run() -> None:
    """A report can quote a state: nothing of a process or of its time is in it.

    Method: build one state twice; the lock holds the id of the process that died.
    """
    workload = job("reopens")
    cases = []
    for _ in range(2):
        with Bench(workload, driver()) as bench:
            calls = bench.tried(None).run.calls
        point = next(call.number for call in calls if call.path.endswith("/lock") and call.creates)
        state = StateId("L2", "reopens", "kill-after", point + 150, calls[point + 150].name)
        cases.append(LEVEL.case(workload, state))
    check_equal(cases[0], replace(cases[1], workload=workload), "the state, built again")


# --- mistakes -----------------------------------------------------------------------------

Patch = AbstractContextManager[object]


def _short_write_ignored() -> Patch:
    """What a write did not take is forgotten."""

    def write_all(filesystem: Any, fd: int, data: Sequence[bytes]) -> None:
        filesystem.writev(fd, data)

    return mock.patch.object(publish, "write_all", write_all)


def _pruned_before_the_manifest() -> Patch:
    """Behind S5 all older checkpoints go, and S6 names the new one alone."""
    right = verify_checkpoint

    def verify(scope: Any, storage: Any, sequence: int) -> object:
        found = right(scope, storage, sequence)
        for parsed in map(names.parse, storage.list("checkpoint-")):
            if parsed is not None and parsed.number < sequence:
                storage.delete(names.checkpoint(parsed.number))
        return found

    stack = ExitStack()
    stack.enter_context(mock.patch.object(saving, "verify_checkpoint", verify))
    stack.enter_context(mock.patch.object(Lease, "sound", property(lambda lease: None)))
    return stack


def _manifest_in_place() -> Patch:
    """S7 writes into the pointer's own file, which no number leads to."""

    def point(directory: Any, temporary: str) -> None:
        fd, status = directory.open_file(temporary)
        data = directory.filesystem.read(fd, status.st_size)
        directory.give_back(fd)
        directory.filesystem.unlink(temporary, dir_fd=directory.fd)
        flags = WRITE | os.O_CREAT | os.O_TRUNC
        fd = directory.filesystem.open(names.POINTER, flags, dir_fd=directory.fd)
        publish.write_all(directory.filesystem, fd, [data])
        directory.filesystem.fsync(fd)
        directory.filesystem.close(fd)

    return mock.patch.object(revisions, "_point", point)


MISTAKES: dict[str, tuple[Callable[[], Patch], Fault]] = {
    "short write ignored": (_short_write_ignored, "short-write"),
    "prune to one before the manifest": (_pruned_before_the_manifest, "kill-before"),
    "manifest written in place": (_manifest_in_place, "kill-middle"),
}


def _first_violation(workload: Workload, fault: Fault) -> Counterexample | None:
    for tally in LEVEL.run(workload, Plan(stop_at_first=True)):
        if tally.variant == fault:
            return tally.violations[0] if tally.violations else None
    return None


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_known_mistake_is_found_by_real_processes(mistake: str) -> None:
    """L2 is alive: what a death or a short write brings out is seen, and can be seen again.

    Method: plant it, find it, and judge the state again from its name; without it all is well.
    """
    patch, fault = MISTAKES[mistake]
    workload = job("saves")
    with patch():
        example = _first_violation(workload, fault)
        if example is None:
            raise AssertionError(f"{mistake} was not found by {fault}")
        case = LEVEL.case(workload, example.id)
        with pytest.raises(Violation) as caught:
            LEVEL.replay(case)
    check_equal(caught.value.oracle, example.oracle, "oracle of the state, judged again")
    print(f"{mistake}: {example.id}: {example.oracle}, got {example.got}")
