"""The driver by strace sees the calls that ptrace sees, and kills at the very one it is told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection.tracing import children as forked
from fault_injection.tracing.runs import Run, Strike
from fault_injection.tracing.strace import StraceDriver
from fault_injection.tracing.tracer import PtraceDriver
from tests.injection.leaks import is_alive, nothing_left
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.needs_ptrace, pytest.mark.needs_strace, pytest.mark.normal_only]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


def job_in(top: Path, other: Path) -> None:
    """Calls about files of the top, and between them calls of the same names about others."""
    other.write_bytes(b"x")
    for name in ("a", "b"):
        file = os.open(top / name, os.O_WRONLY | os.O_CREAT)
        os.write(file, b"0123456789")
        os.fsync(file)
        os.close(file)
        other.write_bytes(b"x")
        os.rename(top / name, top / f"{name} done")
        os.mkdir(top / f"folder of {name}")


def run_by(
    tracer: StraceDriver | PtraceDriver, folder: Path, strike: Strike | None = None
) -> tuple[Run, list[str]]:
    top = folder.resolve()
    top.mkdir()
    run = tracer.run(lambda fd: job_in(top, folder.with_name("other")), top=str(top), strike=strike)
    return run, sorted(os.listdir(top))


def test_strace_sees_the_calls_that_ptrace_sees(tmp_path: Path) -> None:
    """The crash points do not depend on who finds them.

    Method: record one job by both.
    """
    by_strace, _ = run_by(StraceDriver(), tmp_path / "strace")
    by_ptrace, _ = run_by(PtraceDriver(), tmp_path / "ptrace")
    check_equal(len(by_ptrace.calls), 12, "calls")
    check_equal(
        [(call.number, call.name, call.path, call.creates) for call in by_strace.calls],
        [(call.number, call.name, call.path, call.creates) for call in by_ptrace.calls],
        "calls",
    )


def test_strace_kills_before_each_call_and_proves_where(tmp_path: Path) -> None:
    """F1: the job dies at the entry of the call that was meant, and leaves what was done before.

    Method: kill at each call, and compare with what ptrace leaves when it kills there.
    """
    recorded = run_by(StraceDriver(), tmp_path / "recorded")[0].calls
    same = run_by(PtraceDriver(), tmp_path / "same")[0].calls
    for call, by_ptrace in zip(recorded, same, strict=True):
        killed, left = run_by(
            StraceDriver(), tmp_path / f"{call.number}", Strike(call, "kill-before")
        )
        expected = run_by(
            PtraceDriver(), tmp_path / f"p{call.number}", Strike(by_ptrace, "kill-before")
        )[1]
        check_equal((killed.struck, killed.signal), (True, 9), f"death at {call}")
        check_equal(killed.calls[-1], call, "the last call")
        check_equal(left, expected, f"what is left of a death at {call}")


def test_strace_says_when_it_did_not_kill_where_it_was_told(tmp_path: Path) -> None:
    """A death elsewhere, or none, is no proof.

    Method: a count that never comes, and one that belongs to another call.
    """
    recorded = run_by(StraceDriver(), tmp_path / "recorded")[0].calls
    call = next(call for call in recorded if call.name == "fsync")
    for wrong in (replace(call, count=50), replace(call, count=call.count + 1)):
        run, _ = run_by(StraceDriver(), tmp_path / f"{wrong.count}", Strike(wrong, "kill-before"))
        check(not run.struck, f"count {wrong.count}")


def test_strace_finds_what_a_job_leaves_and_ends_what_hangs(tmp_path: Path) -> None:
    """The end of a run is as sure as under ptrace.

    Method: a job that leaves a child; one that hangs; one that raises.
    """

    def leaves(fd: int) -> None:
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        forked.say(fd, str(pid))

    def raises(fd: int) -> None:
        raise ValueError("no")

    tracer = StraceDriver()
    run = tracer.run(leaves, top=str(tmp_path))
    check_equal(list(run.left), [f"process {run.said[0].text}"], "what it left")
    check(not is_alive(int(run.said[0].text)), "the child is alive")
    check(tracer.run(lambda fd: time.sleep(1000), top=str(tmp_path), limit_s=0.5).hung, "hung")
    check_equal(tracer.run(raises, top=str(tmp_path)).escaped, "ValueError: no", "what it raised")
