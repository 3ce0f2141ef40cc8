"""Forked processes: they do one thing, say lines on a pipe, and never come back into the parent.

Each leads a session of its own, so that whatever it starts is found and ended with it, and has
a timer of the kernel's that ends it if it hangs.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import select
import signal
import warnings
from collections.abc import Callable
from typing import Final, NoReturn

from fault_injection.failure import one_line
from fault_injection.interrupt import uninterrupted
from fault_injection.this_process import be_silent
from fault_injection.tracing.runs import ESCAPED, LIMIT_S, Heard, Job, Run

_CHUNK_BYTES: Final = 65536
_SET_PARENT_DEATH_SIGNAL: Final = 1
RAISED: Final = 70
"""Exit status of a process whose job raised."""


def say(fd: int, line: str) -> None:
    """Write a line, at once: what is in no buffer does not die with its process."""
    os.write(fd, f"{line}\n".encode())


def fork(job: Job, *, writing: int, limit_s: float, ready: Callable[[], None]) -> int:
    """Fork a process that runs ``job`` and ends; returns its id.

    Args:
        job: What it does; is given ``writing``.
        writing: Descriptor it says lines on.
        limit_s: SIGALRM ends it after that time.
        ready: Called in it before the job.
    """
    with warnings.catch_warnings():
        # Of forks from a process with threads: the child runs the job and nothing else, and a
        # warning that became an error would lose it.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        _be_child(job, writing, limit_s, ready)
    return pid


def _be_child(job: Job, writing: int, limit_s: float, ready: Callable[[], None]) -> NoReturn:
    status = RAISED
    try:
        os.setsid()
        be_silent()
        _die_with_parent()
        gc.freeze()  # what was there before is not looked through, and so not copied
        os.umask(0o022)
        for number in (signal.SIGALRM, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        ready()
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        job(writing)
        status = 0
    except BaseException as error:  # noqa: BLE001 - it must not come back into the parent's code
        with contextlib.suppress(OSError):
            say(writing, ESCAPED + one_line(error))
    finally:
        os._exit(status)


def run(job: Job, *, limit_s: float = LIMIT_S) -> Run:
    """Run ``job`` in a process of its own, untraced; nothing of it is left when this returns."""
    reading, writing = os.pipe()
    pid = status = 0
    try:
        with uninterrupted():  # else a child that nobody knows of would stay
            try:
                pid = fork(job, writing=writing, limit_s=limit_s, ready=lambda: None)
            finally:
                os.close(writing)
        heard = hear(reading, pid)
    except BaseException:
        if pid:
            kill(pid)
        raise
    finally:
        if pid:
            status = end(pid)
        os.close(reading)
    return ended(status, heard)


def ended(status: int, heard: bytes) -> Run:
    """What became of an untraced process."""
    said = Heard()
    said.take(heard)
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
    return Run(
        (),
        {},
        said.lines,
        escaped=said.escaped,
        signal=number,
        status=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        hung=number == signal.SIGALRM,
    )


def hear(reading: int, pid: int) -> bytes:
    """What process ``pid`` says until its end, whoever else may hold the pipe open then."""
    heard = b""
    os.set_blocking(reading, False)
    over = os.pidfd_open(pid)
    try:
        poll = select.poll()
        for fd in (reading, over):
            poll.register(fd, select.POLLIN)
        while over not in {fd for fd, _ in poll.poll()}:
            chunk = os.read(reading, _CHUNK_BYTES)
            if not chunk:
                poll.unregister(reading)
            heard += chunk
        return heard + drain(reading)
    finally:
        os.close(over)


def drain(reading: int) -> bytes:
    """What can be read of a pipe that does not block, without waiting."""
    heard = b""
    with contextlib.suppress(BlockingIOError):
        while chunk := os.read(reading, _CHUNK_BYTES):
            heard += chunk
    return heard


def kill(pid: int) -> None:
    """Kill a process that was forked here, and all of its session."""
    for send in (os.kill, os.killpg):  # it may not lead a group yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            send(pid, signal.SIGKILL)


def end(pid: int) -> int:
    """Wait for a process, end all of its session that outlives it, and return its status.

    It is reaped last: until then its number, which is its group's, is nobody else's.
    """
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def _die_with_parent() -> None:
    """Be killed when whoever forked this process dies: nobody else would end it."""
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
