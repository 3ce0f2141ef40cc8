"""The jobs of lastgood: each can be tested, is the same in every process, and survives a kill."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fault_injection import workloads
from fault_injection.machine import MemoryMachine, RealMachine
from fault_injection.recording import Recording, check_testable, prepared, record, record_on
from fault_injection.workload import Violation, Workload
from fault_injection.workloads import writers
from fault_injection.world import Told, World
from lastgood.formats import names
from tests.injection.leaks import nothing_left
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
ALL = [pytest.param(workload, id=workload.name) for workload in workloads.WORKLOADS]
MOST_CALLS = {
    "repairs-rebuild": 1_000, "repairs-pointer": 900, "trims": 550, "writers-overtaken": 530,
    "writers-log": 460, "pays": 420,
}  # fmt: skip
"""Of those that read a session several times over before they decide anything."""
OVERTAKEN = {"writers": ["30", "60"], "writers-opening": ["30"], "writers-log": ["c", "e"]}
"""What a fenced owner, or one that died, asked for."""
COMINGS = {"writers": 2, "writers-overtaken": 2, "writers-opening": 2, "writers-log": 1}
"""How often others come within a call."""


def digest(recording: Recording) -> str:
    """Identity of what a run did, without the lock's text, which names the process."""
    told = hashlib.sha256()
    for call in recording.calls:
        is_lock = call.path.endswith(names.LOCK)
        what = "" if is_lock else f"{call.what} {call.operations}"
        told.update(f"{call.process} {call.name} {call.path} {what} {call.error}\n".encode())
    told.update(repr(recording.world.marks).encode())
    return told.hexdigest()


def every_digest() -> list[str]:
    return [f"{each.name} {digest(record(each))}" for each in workloads.WORKLOADS]


def kill_states(workload: Workload) -> dict[tuple[str, Told], int]:
    """What a kill after each call leaves, and after which it was left first."""
    recording = record(workload)
    found: dict[tuple[str, Told], int] = {}
    for calls in range(len(recording.calls) + 1):
        disk = recording.seen_after(calls).digest(unread=workload.unread)
        found.setdefault((disk, recording.told_after(calls)), calls)
    return found


def test_workloads_have_names_of_their_own_and_checkpoints_come_first() -> None:
    """A state's name says which job it is of. Method: the list, and the grammar of names."""
    known = [workload.name for workload in workloads.WORKLOADS]
    check_equal(len(set(known)), len(known), "names")
    check_equal(known[:3], ["first", "saves", "reopens"], "the jobs without a log")
    for workload in workloads.WORKLOADS:
        check(workloads.find(workload.name) is workload, workload.name)
    check_equal(workloads.find("none"), None, "a job that is not there")


@pytest.mark.parametrize("workload", ALL)
def test_job_makes_the_same_calls_in_every_run_and_ends_well(workload: Workload) -> None:
    """A state is built again from its name. Method: two recordings, call by call; their number."""
    recording = check_testable(workload)
    most = MOST_CALLS.get(workload.name, 400)
    check(len(recording.calls) <= most, f"{len(recording.calls)} calls")
    unknown = recording.world.told.names("open")
    check_equal(unknown, OVERTAKEN.get(workload.name, []), "acts that nobody was told of")


def test_jobs_are_the_same_in_every_process() -> None:
    """No identity depends on a process. Method: digests of all, with another hash seed."""
    code = (
        "from tests.injection.test_workloads import every_digest\nprint(*every_digest(), sep='\\n')"
    )
    said = subprocess.run(
        [sys.executable, "-c", code],
        cwd=TOP,
        env={**os.environ, "PYTHONPATH": str(TOP), "PYTHONHASHSEED": "7"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    check_equal(said.stdout.split("\n")[:-1], every_digest(), "digests")


@pytest.mark.parametrize("workload", ALL)
def test_what_lies_there_before_is_whole_and_known(workload: Workload) -> None:
    """A fault is judged from a sound beginning. Method: the judge, before the job and after it."""
    base, told = prepared(workload)
    workload.judge(MemoryMachine(base, seed="judge"), told, depth="whole")
    recording = record(workload)
    end = recording.seen_after(len(recording.calls))
    workload.judge(MemoryMachine(end, seed="judge"), recording.world.told, depth="whole")


@pytest.mark.parametrize("workload", ALL)
def test_job_and_its_judge_work_on_real_files(workload: Workload, tmp_path: Path) -> None:
    """What is found in memory is said of real calls. Method: the job and its judge, really run."""
    with nothing_left():
        world = World()
        root = str(tmp_path / "state")
        workload.prepare(RealMachine(root, seed="before"), world)
        workload.run(RealMachine(root, seed="run"), world)
        known = world.told
        found = workload.judge(RealMachine(root, seed="judge"), known, depth="whole")
    recording = record(workload)
    check_equal(known, recording.world.told, "what the world was told")
    end = MemoryMachine(recording.seen_after(len(recording.calls)), seed="judge")
    check_equal(found, workload.judge(end, known, depth="whole"), "what was recovered")


@pytest.mark.parametrize("workload", ALL)
def test_going_on_acts_twice_and_can_be_recorded(workload: Workload) -> None:
    """Nested faults strike a recovery. Method: a recording of it, judged at its end."""
    base, told = prepared(workload)
    recording = record_on(base, told, workload.go_on, seed="again")
    check_equal(recording.error, None, "the recovery's end")
    more = len(recording.world.told.names("acknowledged")) - len(told.names("acknowledged"))
    check(more >= 2, f"{more} acts more")
    end = MemoryMachine(recording.seen_after(len(recording.calls)), seed="judge")
    workload.judge(end, recording.world.told, depth="short")


@pytest.mark.normal_only
@pytest.mark.parametrize("workload", ALL)
def test_every_state_that_a_kill_leaves_is_recovered(workload: Workload) -> None:
    """G1, G2, F1: nothing that was acknowledged is lost, no human is needed. Method: each state."""
    recording = record(workload)
    for (_, told), calls in kill_states(workload).items():
        machine = MemoryMachine(recording.seen_after(calls), seed="judge")
        try:
            found = workload.judge(machine, told, depth="short")
        except Violation as error:
            raise AssertionError(f"{workload.name}, killed after call {calls}: {error}") from error
        check(found.rule, "nobody says what rescued it")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("workload", ALL)
def test_every_state_that_a_kill_leaves_goes_on(workload: Workload) -> None:
    """O4, O9: recovering again loses nothing, two saves more work. Method: each state, whole."""
    recording = record(workload)
    for (_, told), calls in kill_states(workload).items():
        machine = MemoryMachine(recording.seen_after(calls), seed="judge")
        workload.judge(machine, told, depth="whole")


@pytest.mark.parametrize("workload", writers.WORKLOADS, ids=lambda workload: workload.name)
def test_others_come_within_the_call_that_they_are_to_meet(
    monkeypatch: pytest.MonkeyPatch, workload: Workload
) -> None:
    """F13: owners do overtake each other. Method: who has come when the call of another ends."""
    comings: list[bool] = []
    right = writers._Others.check

    def check_others(self: writers._Others) -> None:
        comings.append(self._came)
        right(self)

    monkeypatch.setattr(writers._Others, "check", check_others)
    record(workload)
    check_equal(comings, [True] * COMINGS[workload.name], "others that came in time")


def test_appends_roll_in_the_middle_of_a_call() -> None:
    """A batch that two segments share is among the jobs. Method: the writes of one act."""
    recording = record(next(w for w in workloads.WORKLOADS if w.name == "appends"))
    marks = recording.world.marks
    begun = next(mark.calls for mark in marks if "d.3" in mark.told.names())
    ended = next(mark.calls for mark in marks if "d.3" in mark.told.names("acknowledged"))
    written = {call.inode for call in recording.calls[begun:ended] if call.name == "pwrite"}
    check_equal(len(written), 2, "segments that one call writes into")
