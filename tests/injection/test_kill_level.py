"""L2 finds what a death or an error at a system call brings out, and tells bad workloads."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection import runner
from fault_injection.level import Plan, Tally
from fault_injection.levels.kill import Kill
from fault_injection.pool import in_memory
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.tracing.runs import FAULTS
from fault_injection.workload import BadWorkloadError, Recovered, Violation
from lastgood.errors import StorageError
from tests.injection import small_jobs
from tests.injection.leaks import nothing_left
from tests.injection.small_jobs import Small
from tests.support import require
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_strace

pytestmark = [pytest.mark.needs_ptrace, pytest.mark.slow, pytest.mark.normal_only]

ALL = Plan(budget="exhaustive")
QUICK = Kill(limit_s=2.0)


@pytest.fixture(autouse=True)
def _clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process, no descriptor and no file is left, whatever a workload did."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with nothing_left():
        yield
    check_equal(os.listdir(place), [], "files that are left")


def found(workload: Small, level: Kill | None = None, plan: Plan = ALL) -> dict[str, Tally]:
    return {tally.variant: tally for tally in (level or Kill()).run(workload, plan)}


def violations(workload: Small, level: Kill | None = None) -> dict[str, set[str]]:
    """Oracles that failed, by kind of fault."""
    return {
        variant: {example.oracle for example in tally.violations}
        for variant, tally in found(workload, level).items()
        if tally.violations
    }


def test_a_job_that_replaces_its_file_survives_every_fault_at_every_call() -> None:
    """What is right is never called wrong, and the tally says how much was tried.

    Method: three replacements, each call struck in each way; all numbers are known.
    """
    tallies = found(Small("right"))
    check_equal(list(tallies), list(FAULTS), "a tally a kind of fault")
    for fault, tally in tallies.items():
        check_equal(tally.violations, [], fault)
        check(tally.exhaustive, f"{fault} is exhaustive")
        points = 3 if fault in ("kill-middle", "short-write") else 15
        check_equal((tally.points, tally.raw), (points, points), f"{fault}: points")
        check_equal(tally.recovered, tally.distinct, f"{fault}: recovered")
        check_equal(sum(tally.rules.values()), tally.distinct, f"{fault}: rules")
    # Before 5 calls of 3 acts: new made, written, synced and closed alike, renamed is the next
    # act's first. The first act begins with a disk without the file new.
    check_equal(tallies["kill-before"].distinct, 9, "states before calls")
    check_equal(tallies["kill-after"].distinct, 9, "states after calls")
    check_equal(tallies["short-write"].distinct, 1, "states after short writes")


def test_a_file_that_is_overwritten_in_place_is_found() -> None:
    """F1: between emptying and writing there is nothing whole.

    Method: the same job, wrong; deaths show it, and errors leave it so.
    """
    wrong = violations(Small("overwrites", put=small_jobs.overwritten))
    for fault in ("kill-before", "kill-after", "kill-middle", "failed-after", "ENOSPC"):
        check_equal(wrong.get(fault), {"O3"}, fault)
    check("short-write" not in wrong, "a short write goes on")


def test_a_short_write_that_is_forgotten_is_found() -> None:
    """F8: what was not written is missing from what was acknowledged.

    Method: a job that writes once; nothing but a short write shows it.
    """
    wrong = violations(Small("once", put=small_jobs.replaced_once))
    check_equal(wrong, {"short-write": {"O3"}}, "violations")


def test_an_error_that_is_no_type_of_the_store_is_found() -> None:
    """A user sees errors that can be acted on, not those of the system.

    Method: a job whose OSErrors escape; EINTR is repeated by Python where it can be.
    """
    wrong = violations(Small("untyped", put=small_jobs.replaced_without_a_type))
    check_equal(set(wrong), {"failed-after", "EIO", "ENOSPC", "EINTR"}, "faults")
    check_equal(set().union(*wrong.values()), {"error"}, "oracles")


def test_a_job_that_hangs_or_leaves_a_process_after_an_error_is_found() -> None:
    """After an error there is an end, and nothing goes on behind it.

    Method: a job that waits for room for ever, and one that leaves a process; the first error ends
    each tally.
    """
    for put, got in (
        (small_jobs.hanging_after_an_error, "it hangs"),
        (small_jobs.leaving_after_an_error, "it left 1 process"),
    ):
        plan = Plan(budget="exhaustive", stop_at_first=True)
        tallies = found(Small("errs", put=put), QUICK, plan)
        for fault in ("EIO", "ENOSPC", "failed-after"):
            (example,) = tallies[fault].violations
            check_equal(example.oracle, "error", fault)
            check_equal(example.got, got, "what was got")
            check(not tallies[fault].exhaustive, f"{fault} was ended early")
        check_equal(tallies["kill-after"].violations, [], "deaths")


def test_a_recovery_that_hangs_or_raises_is_a_violation(tmp_path: Path) -> None:
    """Recovery ends, with an answer or an error that people can act on.

    Method: judges that do not, but for the first time, when nothing has struck.
    """

    def hang() -> None:
        time.sleep(1000)

    def fail() -> None:
        raise ZeroDivisionError("no")

    plan = Plan(budget="exhaustive", stop_at_first=True)
    for wrong, got in ((hang, "it hangs"), (fail, "ZeroDivisionError: no")):
        judged = tmp_path / got

        def judging(judged: Path = judged, wrong: Callable[[], None] = wrong) -> None:
            if judged.exists():
                wrong()
            judged.touch()

        tally = next(QUICK.run(Small("judged", judging=judging), plan))
        check_equal(
            [(example.oracle, example.got) for example in tally.violations],
            [("error", got)],
            "violations",
        )


def test_what_the_command_strikes_lies_in_main_memory_where_there_is_such_a_place() -> None:
    """A run waits for no disk, as nothing that L2 sees depends on one. Method: ask a job."""
    place = in_memory()
    if place is None:
        require.missing("no file system in main memory", remedy="mount a tmpfs at /dev/shm")
    job = Small("where", before=lambda top, world: _raise(ValueError(str(top))))
    (result,) = runner.run([runner.Job(Kill(), job)], ALL, workers=1)
    check(f"ValueError: {place}/" in result.reason, result.reason)


# --- workloads that cannot be tested --------------------------------------------------------


def _random(top: Path, world: object) -> None:
    (top / os.urandom(4).hex()).touch()


def _raise(error: Exception) -> None:
    raise error


def _leave(top: Path) -> None:
    if os.fork() == 0:
        time.sleep(1000)


def _no_acts(top: Path, world: object) -> None:
    (top / "file").touch()
    os._exit(0)


BAD = {
    "is not deterministic: call 0 was": Small("random", before=_random),
    "acknowledges nothing": Small("silent", before=_no_acts),
    "hangs: it did not end within 2 s": Small("hangs", behind=lambda top: time.sleep(1000)),
    "leaves processes behind: process": Small("leaves", behind=_leave),
    "fails without a fault: ValueError: no": Small(
        "raises", behind=lambda top: _raise(ValueError("no"))
    ),
    "fails without a fault: StorageError: ": Small(
        "stops", behind=lambda top: _raise(StorageError("Looking", errno=5))
    ),
    "fails without a fault: it died of SIGTERM": Small(
        "dies", behind=lambda top: os.kill(os.getpid(), 15)
    ),
    "makes no call about a file of its root": Small("idle", put=lambda top, number: None),
}


@pytest.mark.parametrize("said", BAD)
def test_a_workload_that_cannot_be_tested_is_told_in_one_line(said: str) -> None:
    """What proves nothing is not run, and its author learns why.

    Method: one workload of each kind.
    """
    with pytest.raises(BadWorkloadError) as caught:
        list(QUICK.run(BAD[said], ALL))
    text = str(caught.value)
    check(text.startswith(f"{BAD[said].name} {said}"), text)
    check("\n" not in text, "it is one line")


def test_a_workload_that_changes_its_mind_later_is_told(tmp_path: Path) -> None:
    """Each struck run is compared with the recording, up to the call that is struck.

    Method: a job that makes another call from its fourth run on.
    """
    runs = tmp_path / "runs"

    def count(top: Path, world: object) -> None:
        with runs.open("ab") as file:
            file.write(b"x")
        (top / ("a" if runs.stat().st_size < 4 else "b")).touch()

    with pytest.raises(BadWorkloadError, match="later is not deterministic: call 0 was utimensat"):
        list(Kill().run(Small("later", before=count), ALL))


def test_a_preparation_that_fails_is_told() -> None:
    """What lies there before is made by the workload, and its failures are its own.

    Method: a preparation that raises.
    """

    class Unprepared(Small):
        def prepare(self, machine: object, world: object) -> None:
            raise ValueError("no")

    with pytest.raises(BadWorkloadError, match="its preparation fails without a fault: ValueError"):
        list(Kill().run(Unprepared("unprepared"), ALL))


def test_a_judge_that_fails_by_itself_is_told() -> None:
    """A mistake in a judge is no finding about the store. Method: one that is misspelt."""

    def misspelt() -> None:
        raise NameError("name 'recoverd' is not defined")

    with pytest.raises(BadWorkloadError, match="its judge fails without a fault: NameError: name"):
        list(Kill().run(Small("misspelt", judging=misspelt), ALL))


# --- one state ------------------------------------------------------------------------------


def test_a_state_is_built_and_judged_again_from_its_name() -> None:
    """An id is all that a person needs to see a violation again.

    Method: every violation of a wrong job; its case shows the calls, their fates and the disk.
    """
    workload = Small("overwrites", put=small_jobs.overwritten)
    level = Kill()
    tally = found(workload)["kill-middle"]
    check_equal(
        [str(example.id) for example in tally.violations],
        [f"v1.L2.overwrites.kill-middle.{point}.write" for point in (1, 4, 7)],
        "ids",
    )
    case = level.case(workload, StateId.parse(str(tally.violations[1].id)))
    check_equal(case.title, "killed in the middle of call 4: write value 200 bytes", "")
    check_equal(
        dict(case.fates),
        {0: "persisted", 1: "persisted", 3: "persisted", 4: "torn: 100 of 200 bytes"},
        "fates",
    )
    check_equal([call.name for call in case.calls], ["open", "write", "close", "open", "write"], "")
    check_equal(case.told.names("acknowledged"), ["0", "1"], "acknowledged")
    check_equal([(mark.calls, len(mark.told.acts)) for mark in case.marks][-1], (3, 3), "marks")
    check_equal(
        [
            case.tree.nodes[inode].data
            for path, inode in case.tree.paths()
            if path.endswith("value")
        ],
        [small_jobs.content(2)[:100]],
        "the file",
    )
    with pytest.raises(Violation) as caught:
        level.replay(case)
    check_equal(caught.value.got, tally.violations[1].got, "what was got")


def test_a_state_that_is_right_is_recovered_again() -> None:
    """Any state of a job can be looked at.

    Method: an error at a call of the right job.
    """
    workload = Small("right")
    case = Kill().case(workload, StateId("L2", "right", "ENOSPC", 6, "write"))
    check_equal(case.calls[6].injected, "ENOSPC", "what was injected")
    check_equal((case.calls[6].error, case.fates[6]), (28, "LOST"), "what became of it")
    check_equal(Kill().replay(case), Recovered("read", "1"), "verdict")


@pytest.mark.parametrize(
    "state",
    [
        StateId("L2", "right", "EROFS", 6, "write"),
        StateId("L2", "right", "EIO", 600, "write"),
        StateId("L2", "right", "EIO", 6, "rename"),
        StateId("L2", "right", "kill-middle", 0, "openat"),
    ],
    ids=str,
)
def test_a_state_that_there_is_not_is_refused(state: StateId) -> None:
    """A name that leads to no state says so.

    Method: no such fault, no such call, another call, a call that has no half.
    """
    with pytest.raises(BadStateIdError):
        Kill().case(Small("right"), state)


PROGRAM = """
from fault_injection.level import Plan
from fault_injection.levels.kill import Kill
from tests.injection import small_jobs
job = small_jobs.Small("overwrites", put=small_jobs.overwritten)
for tally in Kill().run(job, Plan(seed=3)):
    print(tally.variant, tally.points, tally.distinct, [str(v.id) for v in tally.violations])
"""


def test_the_same_seed_gives_the_same_states_in_every_process() -> None:
    """Determinism: ids and numbers depend on the code and the seed alone.

    Method: the same level in two processes with other hashes.
    """
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=REPOSITORY, env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
            capture_output=True, text=True, timeout=200, check=True,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    check(outputs[0].count("v1.L2.overwrites") > 10, outputs[0])
    check_equal(outputs[1], outputs[0], "what the second process found")


def test_strace_alone_finds_what_a_death_before_a_call_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where ptrace is refused, deaths at entries are tried, and nothing else is claimed.

    Method: refuse ptrace; the same violations come at the same calls.
    """
    require_strace()
    workload = Small("overwrites", put=small_jobs.overwritten)
    right = found(workload)["kill-before"]

    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("fault_injection.tracing.ptrace.trace_me", refused)
    tallies = found(workload)
    check_equal(list(tallies), ["kill-before"], "kinds of fault")
    check_equal(tallies["kill-before"].violations, right.violations, "violations")
