"""The driver by ptrace does to a call exactly what a fault's name says, and to that call alone."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection.tracing import children as forked
from fault_injection.tracing.runs import FAULTS, OF_WRITES, Detail, Fault, Run, Strike, TracedCall
from fault_injection.tracing.tracer import PtraceDriver
from tests.injection.leaks import nothing_left
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.needs_ptrace, pytest.mark.normal_only]

DATA = bytes(range(100))


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    with nothing_left():
        yield


class Place:
    """A directory that a job works in; ``run`` begins with an empty one each time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._count = 0
        self.top = folder

    def run(
        self,
        job: Callable[[Path, int], object],
        strike: Strike | None = None,
        *,
        detail: Detail = "all",
        limit_s: float = 20.0,
    ) -> Run:
        self._count += 1
        self.top = self._folder / str(self._count)
        self.top.mkdir()
        top = self.top
        return PtraceDriver().run(
            lambda fd: job(top, fd), top=str(top), strike=strike, detail=detail, limit_s=limit_s
        )

    def struck(self, job: Callable[[Path, int], object], name: str, fault: Fault) -> Run:
        """Run it, then strike the first call of that name."""
        calls = self.run(job).calls
        call = next(call for call in calls if call.name == name)
        return self.run(job, Strike(call, fault))

    def names(self) -> list[str]:
        return sorted(os.listdir(self.top))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path.resolve())


def said(run: Run) -> list[str]:
    return [line.text for line in run.said]


def attempt(fd: int, call: Callable[[], object]) -> None:
    """Make a call, and say what it returned."""
    try:
        result = call()
    except OSError as error:
        forked.say(fd, errno.errorcode[error.errno or 0])
    else:
        forked.say(fd, f"returned {result}")


def replaces(top: Path, fd: int) -> None:
    """Replace a file, as everybody does; every call of it is known."""
    folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    file = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder)
    os.write(file, DATA)
    os.fsync(file)
    forked.say(fd, "synced")
    os.close(file)
    os.rename("new", "file", src_dir_fd=folder, dst_dir_fd=folder)
    os.mkdir(top / "below")
    os.unlink("file", dir_fd=folder)
    os.write(fd, b"gone\n")
    os.close(folder)


def test_every_call_about_a_file_below_the_top_is_told_in_order_and_no_other(place: Place) -> None:
    """F1: crash points are all calls about the job's files, by descriptor or by name, and no more.

    Method: a job whose calls are known; what it says and what it does elsewhere is not among them.
    """

    def job(top: Path, fd: int) -> None:
        (place._folder / "elsewhere").write_bytes(b"x")
        replaces(top, fd)

    run = place.run(job)
    expected = [
        "openat .", "openat new O_CREAT O_EXCL", "write new 100 bytes", "fsync new", "close new",
        "renameat file from new", "mkdir below", "unlinkat file", "close .",
    ]  # fmt: skip
    check_equal([str(call) for call in run.calls], expected, "calls")
    check_equal([call.number for call in run.calls], list(range(9)), "their numbers")
    check_equal(
        [(line.calls, line.text) for line in run.said], [(4, "synced"), (8, "gone")], "said"
    )
    check_equal((run.status, run.signal, run.escaped, dict(run.errors)), (0, 0, "", {}), "its end")


WRITE_LEAVES: dict[Fault, tuple[int, list[str]]] = {
    "kill-before": (0, []),
    "kill-after": (100, []),
    "kill-middle": (50, []),
    "short-write": (50, ["returned 50"]),
    "failed-after": (100, ["EIO"]),
    "EIO": (0, ["EIO"]),
    "ENOSPC": (0, ["ENOSPC"]),
    "EINTR": (100, ["returned 100"]),  # Python repeats it (PEP 475)
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_struck_write_leaves_what_its_fault_says(place: Place, fault: Fault) -> None:
    """F1, F6, F7, F8: nothing, all or half of it is there, and the job is told what it must be.

    Method: strike the one write of a job that says what its call returned.
    """

    def job(top: Path, fd: int) -> None:
        file = os.open(top / "file", os.O_WRONLY | os.O_CREAT)
        attempt(fd, lambda: os.write(file, DATA))
        os.close(file)

    run = place.struck(job, "write", fault)
    size, lines = WRITE_LEAVES[fault]
    check_equal((place.top / "file").read_bytes(), DATA[:size], "what is there")
    check_equal(said(run), lines, "what the job was told")
    check(run.struck, "the strike took place")
    check_equal(run.signal, 9 if fault.startswith("kill") else 0, "signal")
    if fault.startswith("kill"):
        check_equal(run.calls[-1].name, "write", "the call at which it died")
    if fault == "EINTR":
        check_equal([call.name for call in run.calls].count("write"), 2, "writes")


@pytest.mark.parametrize("sizes", [(100,), (1, 99), (50, 50), (30, 30, 40), (0, 60, 40), (99, 1)])
def test_half_of_a_write_of_pieces_is_half_of_its_bytes(
    place: Place, sizes: tuple[int, ...]
) -> None:
    """F8: a short writev ends within a piece, and the pieces are as before when it returns.

    Method: write pieces in one call, and write again what is missing from the very same ones.
    """

    def job(top: Path, fd: int) -> None:
        file = os.open(top / "file", os.O_WRONLY | os.O_CREAT)
        pieces = [memoryview(DATA)[sum(sizes[:at]) :][:size] for at, size in enumerate(sizes)]
        attempt(fd, lambda: os.writev(file, pieces))
        attempt(fd, lambda: os.writev(file, pieces))

    killed = place.struck(job, "writev", "kill-middle")
    check_equal((place.top / "file").read_bytes(), DATA[:50], "killed in the middle")
    check_equal(said(killed), [], "what was said")
    short = place.struck(job, "writev", "short-write")
    check_equal((place.top / "file").read_bytes(), DATA[:50] + DATA, "a short write")
    check_equal(said(short), ["returned 50", "returned 100"], "what was said")


NAMES: dict[str, tuple[Callable[[Path], object], list[str], list[str]]] = {
    "linkat": (lambda top: os.link(top / "a", top / "b", follow_symlinks=False), ["a"], ["a", "b"]),
    "rename": (lambda top: os.rename(top / "a", top / "b"), ["a"], ["b"]),
    "unlink": (lambda top: os.unlink(top / "a"), ["a"], []),
    "mkdir": (lambda top: os.mkdir(top / "b"), ["a"], ["a", "b"]),
    "symlink": (lambda top: os.symlink("a", top / "b"), ["a"], ["a", "b"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_struck_change_of_names_is_there_or_not(place: Place, name: str) -> None:
    """F1, F6, F7: killed before and failed without effect leave the old names, the others the new.

    Method: each fault at each call that changes a name.
    """
    change, before, after = NAMES[name]

    def job(top: Path, fd: int) -> None:
        (top / "a").touch()
        attempt(fd, lambda: change(top))

    for fault in FAULTS:
        if fault in ("kill-middle", "short-write"):
            continue
        run = place.struck(job, name, fault)
        there = after if fault in ("kill-after", "failed-after") else before
        check_equal(place.names(), there, f"names after {fault}")
        told = {"failed-after": ["EIO"], "EIO": ["EIO"], "ENOSPC": ["ENOSPC"], "EINTR": ["EINTR"]}
        check_equal(said(run), told.get(fault, []), f"what the job was told: {fault}")


def test_a_close_that_fails_gives_the_descriptor_back(place: Place) -> None:
    """F9: whatever close reports, the descriptor is gone, as the kernel has it.

    Method: fail a close, and look at the descriptor.
    """

    def job(top: Path, fd: int) -> None:
        file = os.open(top / "file", os.O_WRONLY | os.O_CREAT)
        attempt(fd, lambda: os.close(file))
        attempt(fd, lambda: os.fstat(file))

    check_equal(said(place.struck(job, "close", "EIO")), ["EIO", "EBADF"], "what it was told")


def test_a_job_that_makes_another_call_there_is_not_struck(place: Place) -> None:
    """A run that parts from its recording proves nothing, and says so.

    Method: strike a call that is not the one that the job makes at that place.
    """
    recorded = place.run(replaces).calls
    for call in (
        replace(recorded[5], name="linkat"),
        replace(recorded[5], path="other"),
        replace(recorded[2], size_bytes=99),
    ):
        run = place.run(replaces, Strike(call, "kill-after"))
        check(not run.struck, f"{call} was struck")
        check_equal(len(run.calls), call.number + 1, "calls until its end")
    past = TracedCall(len(recorded), "close", "", "")
    check(not place.run(replaces, Strike(past, "EIO")).struck, "what never came was struck")


def test_a_call_is_struck_in_the_same_way_where_no_other_is_looked_at(place: Place) -> None:
    """Who looks at the struck call alone sees the same disk, and hears the same.

    Method: each fault at some calls, with calls of the same name elsewhere; both ways.
    """

    def job(top: Path, fd: int) -> None:
        (place._folder / "elsewhere").write_bytes(b"x")
        replaces(top, fd)
        (place._folder / "elsewhere").write_bytes(b"x")
        (top / "below" / "file").write_bytes(b"xy")

    for call in place.run(job).calls:
        for at, fault in enumerate(FAULTS):
            if fault in OF_WRITES and not call.size_bytes:
                continue
            if call.name not in ("write", "renameat") and (at + call.number) % 4:
                continue
            left = []
            for detail in ("all", "struck"):
                run = place.run(job, Strike(call, fault), detail=detail)
                check(run.struck, f"{fault} at {call}: {detail}")
                ended = (run.signal, run.status, run.escaped.partition(":")[0], said(run))
                left.append((ended, place.names(), run.calls[call.number :][:1] or run.calls))
            check_equal(left[1], left[0], f"{fault} at {call}")
            check_equal(left[1][2], [call], f"{fault} at {call}: what was looked at")


def test_another_call_at_that_count_is_not_struck(place: Place) -> None:
    """A run that parts from its recording proves nothing, also where little is looked at.

    Method: another file, another size, a count that is never reached, or reached elsewhere.
    """
    recorded = place.run(replaces).calls
    for call in (
        replace(recorded[5], path="other"),
        replace(recorded[2], size_bytes=99),
        replace(recorded[2], count=99),
        replace(recorded[2], count=recorded[2].count + 1),
    ):
        run = place.run(replaces, Strike(call, "kill-after"), detail="struck")
        check(not run.struck, f"{call} was struck")


def test_an_ended_job_says_how(place: Place) -> None:
    """An exception, an exit status and a signal of its own are told apart.

    Method: one job each.
    """

    def raises(top: Path, fd: int) -> None:
        forked.say(fd, "one")
        raise ValueError("two\nlines")

    run = place.run(raises)
    check_equal((said(run), run.escaped), (["one"], "ValueError: two lines"), "an exception")
    check_equal(place.run(lambda top, fd: os._exit(3)).status, 3, "exit status")
    check_equal(place.run(lambda top, fd: os.kill(os.getpid(), 15)).signal, 15, "signal")


def test_what_a_job_prints_is_in_no_report(place: Place, capfd: pytest.CaptureFixture[str]) -> None:
    """Reports on standard output stay readable by machines, whatever a job writes there.

    Method: a job that writes to both descriptors, by itself and by a program.
    """

    def job(top: Path, fd: int) -> None:
        os.write(1, b"out")
        os.write(2, b"err")
        subprocess.run(["/bin/sh", "-c", "echo out; echo err >&2"], check=True)

    check_equal(place.run(job).status, 0, "exit status")
    check_equal(tuple(capfd.readouterr()), ("", ""), "what was printed")


def test_a_job_may_say_more_than_a_pipe_holds(place: Place) -> None:
    """What is said is read while the job runs, so that it never waits for a reader.

    Method: a job that says a megabyte, without and with calls about files in between.
    """

    def job(top: Path, fd: int) -> None:
        for number in range(1000):
            forked.say(fd, f"{number} {'x' * 1000}")
            if number % 100 == 0:
                os.mkdir(top / str(number))

    run = place.run(job, limit_s=60.0)
    check_equal([int(line.split()[0]) for line in said(run)], list(range(1000)), "lines")
    last = Strike(run.calls[-1], "EIO")
    run = place.run(job, last, detail="struck", limit_s=60.0)
    check_equal([int(line.split()[0]) for line in said(run)], list(range(901)), "lines")


def test_runs_of_a_small_job_are_fast_enough_to_try_every_call(place: Place) -> None:
    """Every call of a job can be struck in each way within a CI run.

    Method: strike each call of a job of nine calls in each way, and count.
    """
    recorded = place.run(replaces).calls
    begun, cpu = time.monotonic(), os.times()
    count = 0
    for call in recorded:
        for fault in FAULTS:
            place.run(replaces, Strike(call, fault))
            count += 1
    spent = os.times()
    seconds = sum(spent[:4]) - sum(cpu[:4])
    print(
        f"{count} runs: {count / (time.monotonic() - begun):.0f} a second, "
        f"{1000 * seconds / count:.1f} ms of processors a run"
    )
    check(seconds / count < 1.0, "a run takes more than a second of processors")


def test_other_children_of_this_process_are_left_to_whoever_owns_them(place: Place) -> None:
    """A run waits for its own processes, and takes no other's end from its owner.

    Method: a child ends while a job is traced; its status is still there afterwards.
    """
    other = subprocess.Popen(["/bin/sh", "-c", "exit 5"])
    try:
        place.run(lambda top, fd: time.sleep(0.1))
    finally:
        check_equal(other.wait(10), 5, "its exit status")


def test_a_job_with_threads_is_followed(place: Place) -> None:
    """Calls of every thread are crash points, and a death takes all of them.

    Method: a job whose calls are made in threads, one after the other.
    """

    def job(top: Path, fd: int) -> None:
        for name in ("a", "b"):
            thread = threading.Thread(target=os.mkdir, args=(top / name,))
            thread.start()
            thread.join()

    run = place.run(job)
    check_equal([str(call) for call in run.calls], ["mkdir a", "mkdir b"], "calls")
    check_equal(list(run.left), [], "what it left")
    killed = place.run(job, Strike(run.calls[1], "kill-before"))
    check_equal((killed.signal, place.names()), (9, ["a"]), "killed before the second")
