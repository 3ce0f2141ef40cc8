"""Tasks in forked processes, some at a time: what they patch, leave open or hang in is theirs.

A task that dies or hangs takes no other with it. Whatever ends the work, its processes, what they
started, and what all of them left in temporary files are gone.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final, Generic, TypeVar

from fault_injection.failure import one_line, place
from fault_injection.interrupt import uninterrupted
from fault_injection.this_process import be_silent, processor_s

_T = TypeVar("_T")

_FORK: Final = get_context("fork")  # tasks hold code, which a process begun anew would not have
_ENDS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_GRACE_S: Final = 3.0
_TICK_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Ended(Generic[_T]):
    """How a task ended.

    Attributes:
        value: What it returned; None: it did not.
        failure: Why not, in one line.
        seconds: Of a processor, its own and of whoever it started and waited for.
    """

    value: _T | None
    failure: str = ""
    seconds: float = 0.0


def ended(
    tasks: Sequence[Callable[[], _T]], *, workers: int, limit_s: float, within: Path | None = None
) -> Generator[tuple[int, Ended[_T]], None, None]:
    """Run every task in a process of its own; yields each task's number when it has ended.

    When this returns or is closed, none of the processes is left. They say nothing: what they
    print is lost.

    Args:
        tasks: What to run, in that order; what they return must be picklable.
        workers: How many at a time.
        limit_s: What one may take.
        within: Where their temporary files are put; None: where those of all programs are.
    """
    waiting = list(enumerate(tasks))
    at_work: list[_Worker] = []
    with temporary_folder(within) as folder:
        try:
            while waiting or at_work:
                while waiting and len(at_work) < workers:
                    _begin(*waiting.pop(0), folder, at_work)
                connection.wait([worker.pipe for worker in at_work], timeout=_TICK_S)
                for worker in list(at_work):
                    found: Ended[_T] | None = _looked_at(worker, limit_s)
                    if found is not None:
                        with uninterrupted():
                            worker.end()
                            at_work.remove(worker)
                        yield worker.at, found
        finally:
            _end(at_work)


@contextlib.contextmanager
def temporary_folder(within: Path | None = None) -> Iterator[Path]:
    """A folder as long as the block lasts."""
    made: Path | None = None
    try:
        with uninterrupted():
            made = Path(tempfile.mkdtemp(prefix="fault_injection.", dir=within))
        yield made
    finally:
        if made is not None:
            with uninterrupted():  # it may be in main memory, which nobody else gives back
                shutil.rmtree(made, ignore_errors=True)


def in_memory() -> Path | None:
    """Where files are in main memory alone, or None: there a sync waits for no disk."""
    place = Path("/dev/shm")
    return place if place.is_dir() and os.access(place, os.W_OK | os.X_OK) else None


@contextlib.contextmanager
def temporary_files(folder: Path) -> Iterator[None]:
    """Let whatever this process and its children put into temporary files land in ``folder``."""
    before, there = tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before
        os.environ.pop("TMPDIR")
        if there is not None:
            os.environ["TMPDIR"] = there


# --- this side ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Worker:
    """A process that does one task, and leads a group of whatever it starts."""

    at: int
    process: BaseProcess
    pipe: connection.Connection
    begun_s: float = field(default_factory=time.monotonic)

    def has_ended(self, *, within_s: float = 0.0) -> bool:
        """Whether it has; no signal may come between the kernel's answer and its being noted."""
        with uninterrupted():
            self.process.join(timeout=within_s)
            return self.process.exitcode is not None

    def end(self) -> None:
        """Kill what is left of it, and of what it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        self.process.close()
        self.pipe.close()


def _begin(at: int, task: Callable[[], object], folder: Path, at_work: list[_Worker]) -> None:
    mine, theirs = _FORK.Pipe(duplex=False)
    own = Path(tempfile.mkdtemp(dir=folder))
    process = _FORK.Process(target=_be_worker, args=(task, own, theirs))
    with uninterrupted():
        process.start()
        with contextlib.suppress(OSError):  # it does so, too; whoever is first
            os.setpgid(process.pid or 0, process.pid or 0)
        at_work.append(_Worker(at, process, mine))
    theirs.close()


def _looked_at(worker: _Worker, limit_s: float) -> Ended[_T] | None:
    passed_s = time.monotonic() - worker.begun_s
    is_over = worker.has_ended()  # first: what it said before, is in the pipe
    if worker.pipe.poll():
        try:
            found = worker.pipe.recv()
        except (EOFError, OSError):
            is_over = worker.has_ended(within_s=_GRACE_S)  # the pipe is broken off; so will it be
        else:
            return found if isinstance(found, Ended) else Ended(None, "it said something else")
    if is_over:
        return Ended(None, f"its process ended with exit code {worker.process.exitcode}")
    if passed_s > limit_s:
        return Ended(None, f"it took longer than {limit_s:g} s")
    return None


def _end(at_work: list[_Worker]) -> None:
    """End whoever is still at work: asked first, so that they can clean up, then killed."""
    with uninterrupted():
        for worker in at_work:
            if not worker.has_ended():
                os.kill(worker.process.pid or 0, signal.SIGTERM)
        until_s = time.monotonic() + _GRACE_S
        for worker in at_work:
            connection.wait([worker.process.sentinel], max(0.0, until_s - time.monotonic()))
            worker.end()
        at_work.clear()


# --- the other side -------------------------------------------------------------------------


def _be_worker(task: Callable[[], object], folder: Path, pipe: connection.Connection) -> None:
    """Do the task; a signal that asks for its end lets it clean up, and is no news."""
    status = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        for number in _ENDS:
            signal.signal(number, _raise_interrupt)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDS)
        be_silent()  # thousands of faults make the code under test say a lot
        with temporary_files(folder):
            pipe.send(_done(task))
        status = 0
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        os._exit(status)  # nothing of the parent's is to be finished here


def _done(task: Callable[[], _T]) -> Ended[_T]:
    try:
        return Ended(task(), seconds=processor_s())
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - it is a result like the rest
        return Ended(None, f"{place(error)}: {one_line(error)}", processor_s())


def _raise_interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
