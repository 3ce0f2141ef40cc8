"""Whatever a job does, a run of it ends, and none of its processes is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_injection.level import NotRunError
from fault_injection.tracing import children as forked
from fault_injection.tracing import driver, ptrace
from fault_injection.tracing.runs import LIMIT_S, Run, Strike
from fault_injection.tracing.strace import StraceDriver
from fault_injection.tracing.tracer import PtraceDriver
from tests.injection.leaks import is_alive, nothing_left
from tests.support.check import check, check_equal
from tests.support.require import require_strace

pytestmark = [pytest.mark.needs_ptrace, pytest.mark.normal_only]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


def traced(job: Callable[[int], object], top: Path, *, limit_s: float = LIMIT_S) -> Run:
    return PtraceDriver().run(job, top=str(top.resolve()), limit_s=limit_s)


def pids(run: Run) -> list[int]:
    """Ids of processes, as the job said them."""
    return [int(line.text) for line in run.said]


def sleeping_child(fd: int, *, before: Callable[[], object] = lambda: None) -> None:
    """Start a child that sleeps for ever, and say who it is."""
    pid = os.fork()
    if pid == 0:
        before()
        while True:
            time.sleep(10)
    forked.say(fd, str(pid))


def test_a_child_that_outlives_its_job_is_found_and_killed(tmp_path: Path) -> None:
    """Processes that a job leaves are no secret, and not left.

    Method: a job that starts two children that never end, one of them with two threads, and ends.
    """

    def threads() -> None:
        threading.Thread(target=time.sleep, args=(1000,)).start()

    def job(fd: int) -> None:
        sleeping_child(fd)
        sleeping_child(fd, before=threads)

    run = traced(job, tmp_path)
    check_equal(run.status, 0, "exit status")
    check_equal(len(run.left), 2, "processes that it left")
    for pid, told in zip(pids(run), sorted(run.left), strict=True):
        check(str(pid) in told, f"{pid} is not in {told!r}")
        check(not is_alive(pid), f"{pid} is alive")


@pytest.mark.parametrize("call", [os.setsid, lambda: os.setpgid(0, 0)], ids=["setsid", "setpgid"])
def test_a_child_that_hides_in_another_group_is_found_and_killed(
    tmp_path: Path, call: Callable[[], object]
) -> None:
    """A daemon is a process that its job leaves, even while the job goes on.

    Method: a child that leads a group of its own; its job then waits for it.
    """

    def job(fd: int) -> None:
        sleeping_child(fd, before=call)
        os.wait()

    begun = time.monotonic()
    run = traced(job, tmp_path)
    check(time.monotonic() - begun < 15, "it was noticed only when the job hung")
    check_equal((len(run.left), run.signal), (1, signal.SIGKILL), "what it left, and its end")
    check(str(pids(run)[0] if run.said else "process") in run.left[0], f"{run.left}")
    for pid in pids(run):
        check(not is_alive(pid), f"{pid} is alive")


def test_children_that_are_waited_for_are_not_left_and_their_calls_count(tmp_path: Path) -> None:
    """A job may have processes: what they do to its files is a crash point, too.

    Method: a job that runs a program which makes a directory; then it is killed there.
    """
    top = tmp_path.resolve()

    def job(fd: int) -> None:
        subprocess.run([sys.executable, "-S", "-c", f"import os; os.mkdir({str(top / 'a')!r})"],
                       check=True)  # fmt: skip
        os.rmdir(top / "a")

    run = traced(job, tmp_path)
    check_equal(list(run.left), [], "processes that it left")
    check_equal([str(call) for call in run.calls], ["mkdir a", "rmdir a"], "calls")
    killed = PtraceDriver().run(job, top=str(top), strike=Strike(run.calls[0], "kill-after"))
    check_equal((killed.struck, killed.signal, os.listdir(top)), (True, 9, ["a"]), "killed there")


def test_a_job_that_is_another_program_is_followed(tmp_path: Path) -> None:
    """Any program can be a job.

    Method: a job that executes a shell, which says a line and makes a file.
    """
    top = tmp_path.resolve()

    def job(fd: int) -> None:
        os.set_inheritable(fd, True)
        script = f"echo ack 1 > /dev/fd/{fd}; : > {top}/file"
        os.execv("/bin/sh", ["/bin/sh", "-c", script])  # noqa: S606 - a shell is what is wanted

    run = traced(job, tmp_path)
    check_equal([line.text for line in run.said], ["ack 1"], "what it said")
    check_equal(
        [(call.name, call.path, call.creates) for call in run.calls][:1],
        [("openat", "file", True)],
        "calls",
    )


@pytest.mark.parametrize("where", ["the job", "its child"])
def test_a_job_that_hangs_is_ended(tmp_path: Path, where: str) -> None:
    """A hang is told as one after the limit, and nothing of it goes on.

    Method: a job that sleeps for ever, or waits for a child that does.
    """

    def job(fd: int) -> None:
        if where == "its child":
            sleeping_child(fd)
            os.wait()
        time.sleep(1000)

    begun = time.monotonic()
    run = traced(job, tmp_path, limit_s=0.3)
    check(run.hung, "it was not told")
    check(0.25 < time.monotonic() - begun < 15, "it took another time than its limit")
    for pid in pids(run):
        check(not is_alive(pid), f"{pid} is alive")


def test_an_untraced_process_that_hangs_or_leaves_another_is_ended() -> None:
    """Judgements run in forked processes, which are bounded in the same way.

    Method: a process that hangs; one that leaves a child which holds the pipe open.
    """
    check(forked.run(lambda fd: time.sleep(1000), limit_s=0.3).hung, "it was not told")
    run = forked.run(sleeping_child)
    check_equal((run.status, len(run.said)), (0, 1), "its end")
    for _ in range(1000):
        if not is_alive(pids(run)[0]):
            break
        time.sleep(0.01)
    check(not is_alive(pids(run)[0]), "the child is alive")


@pytest.mark.parametrize("after", [0, 1, 7])
def test_an_interrupted_run_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    """Ctrl-C in a run takes the job with it.

    Method: an interrupt at a stop of the job, at its first, second and eighth.
    """
    looks = 0
    right = ptrace.look

    def interrupted(pid: int) -> ptrace.Stop:
        nonlocal looks
        looks += 1
        if looks > after:
            raise KeyboardInterrupt
        return right(pid)

    def job(fd: int) -> None:
        sleeping_child(fd)
        while True:
            os.stat(tmp_path)

    monkeypatch.setattr(ptrace, "look", interrupted)
    with pytest.raises(KeyboardInterrupt):
        traced(job, tmp_path)


def test_the_death_of_the_driver_is_the_death_of_the_job(tmp_path: Path) -> None:
    """Nobody is left to end a job whose driver was killed: the kernel does (EXITKILL).

    Method: kill a process that drives a job which sleeps.
    """
    note = tmp_path / "pid"

    def job(fd: int) -> None:
        note.write_text(f"{os.getpid()}\n")
        time.sleep(1000)

    pid = os.fork()
    if pid == 0:
        try:
            traced(job, tmp_path / "no")
        finally:
            os._exit(0)
    while not (note.exists() and note.read_text().endswith("\n")):
        time.sleep(0.005)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for _ in range(1000):
        if not is_alive(int(note.read_text())):
            break
        time.sleep(0.01)
    check(not is_alive(int(note.read_text())), "the job is alive")


# --- what this machine permits --------------------------------------------------------------


def refuse_ptrace(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(ptrace, "trace_me", refused)


def test_ptrace_is_preferred_and_strace_taken_where_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What cannot be traced by ourselves is traced by strace, where that may.

    Method: refuse ptrace; then be of another architecture.
    """
    require_strace()
    check(isinstance(driver(), PtraceDriver), "ptrace is not preferred")
    refuse_ptrace(monkeypatch)
    check(isinstance(driver(), StraceDriver), "strace is not taken")
    monkeypatch.undo()
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    check(isinstance(driver(), StraceDriver), "strace is not taken on another architecture")


def test_where_nothing_may_trace_that_is_said_with_what_would_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A level that cannot be run says why, and never passes by itself.

    Method: refuse ptrace, and find no strace.
    """
    refuse_ptrace(monkeypatch)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NotRunError) as caught:
        driver()
    check("ptrace is refused" in caught.value.reason, caught.value.reason)
    check("strace is not installed" in caught.value.reason, caught.value.reason)
    check("strace" in caught.value.remedy, caught.value.remedy)
