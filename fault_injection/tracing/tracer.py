"""The driver by ptrace: a forked job stops at its system calls, and one of them is struck.

Each process and thread of the job is followed. It stops before each system call that may be about
a file; those about files below the top are numbered there, in the order in which they are seen,
and the one whose number the strike names is struck. Behind a call it stops only where somebody
wants to know: in a recording, and of a struck run behind what changes something. Most of the time
of a run goes into stops. Where the struck call alone is looked at, the job stops at calls of that
name, and where it says something.

=================  ==============================================================================
``kill-before``    the call is taken back, everything of the job is killed
``kill-after``     killed at its exit; the code behind it has not run
``kill-middle``    a write is halved at its entry, killed at its exit
``short-write``    a write is halved, and says so; the job goes on
``failed-after``   it takes effect, its result becomes EIO (F7)
``EIO`` …          it is taken back, its result becomes that error; a close takes effect all the
                   same, because the kernel gives the descriptor back whatever it reports (F9)
=================  ==============================================================================

Whoever waits for the job waits for its process group alone, so that no other child of this
process is taken from whoever owns it. A process that would leave that group ends the run.
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter
from collections.abc import Collection, Iterator
from functools import partial
from typing import Final

from fault_injection.interrupt import uninterrupted
from fault_injection.tracing import children, ptrace, seccomp, syscalls
from fault_injection.tracing.runs import (
    FAULTS,
    LIMIT_S,
    Detail,
    Fault,
    Heard,
    Job,
    Run,
    Strike,
    TracedCall,
)

_AT_A_CALL: Final = signal.SIGTRAP | 0x80
_NO_CALL: Final = -1
_ERRORS: Final[dict[Fault, int]] = {
    "failed-after": errno.EIO,
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EINTR": errno.EINTR,
}
_PREVENTED: Final = ("EIO", "ENOSPC", "EINTR")


class PtraceDriver:
    """Runs jobs that are forked from this process, and strikes them at any call about files."""

    faults: tuple[Fault, ...] = FAULTS

    def refusal(self) -> str | None:
        """Why this does not work here, or None."""
        unsupported = ptrace.unsupported()
        if unsupported is not None:
            return unsupported
        try:
            run = self.run(lambda fd: os.stat("/"), top="/")
        except OSError as error:
            return f"ptrace is refused ({error.strerror or error})"
        if run.escaped:
            return f"ptrace works, and its filter is refused ({run.escaped})"
        return None if run.calls else "ptrace shows no call here"

    def run(
        self,
        job: Job,
        *,
        top: str,
        strike: Strike | None = None,
        detail: Detail = "all",
        limit_s: float = LIMIT_S,
    ) -> Run:
        """Run ``job`` in a process of its own; none of its processes is left when this returns.

        Raises:
            OSError: It cannot be traced.
        """
        sought = strike if detail == "struck" else None
        ready = partial(_wait_for_tracer, syscalls.WATCHED if sought is None else _seeking(sought))
        reading, writing = os.pipe()
        traced: _Traced | None = None
        try:
            os.set_blocking(reading, False)
            with uninterrupted():  # else a child that nobody knows of would stay
                try:
                    pid = children.fork(job, writing=writing, limit_s=limit_s, ready=ready)
                    traced = _Traced(pid, top=top, strike=strike, detail=detail, reading=reading)
                finally:
                    os.close(writing)
            return traced.run()
        finally:
            if traced is not None:
                traced.end()
            os.close(reading)


def _seeking(strike: Strike) -> set[int]:
    return {syscalls.NUMBERS[strike.call.name], syscalls.WRITE, *syscalls.LEAVES_GROUP}


def _wait_for_tracer(watched: Collection[int]) -> None:
    ptrace.trace_me()
    os.kill(os.getpid(), signal.SIGSTOP)
    seccomp.stop_at(watched)


class _Traced:
    """One run."""

    def __init__(
        self, root: int, *, top: str, strike: Strike | None, detail: Detail, reading: int
    ) -> None:
        self._root = root
        self._top = top
        self._strike = strike
        self._detail = detail
        self._reading = reading
        self._heard = Heard()
        self._is_saying = False
        self._calls: list[TracedCall] = []
        self._counts = Counter[int]()
        self._errors: dict[int, int] = {}
        self._under_way: dict[int, TracedCall] = {}
        self._restore: dict[int, tuple[int, int]] = {}
        self._known = {root}
        self._names: dict[int, str] = {}
        self._left: list[str] = []
        self._status: int | None = None
        self._hung = self._struck = self._over = False

    def run(self) -> Run:
        """Drive the job to its end."""
        _, status = os.waitpid(self._root, ptrace.WALL)
        if not os.WIFSTOPPED(status):
            self._status = status
            self._known.clear()
            self._hear()
            raise OSError(errno.EPERM, f"the job could not be traced: {self._heard.escaped}")
        ptrace.follow(self._root)
        self._go_on(self._root)
        for pid, status in self._stops():
            self._known.add(pid)
            if not os.WIFSTOPPED(status):
                self._ended(pid, status)
            elif self._over:
                self._kill()
            else:
                self._stopped(pid, status)
        return self._result()

    def end(self) -> None:
        """Kill and reap all that is left, also when this process was interrupted."""
        for pid in self._known:
            _signal(pid)
        for pid in sorted(self._known, key=lambda pid: pid == self._root):
            while True:  # a stop may still be told before the death
                try:
                    _, status = os.waitpid(pid, ptrace.WALL)
                except ChildProcessError:
                    break
                if not os.WIFSTOPPED(status):
                    break
        self._known.clear()

    def _stops(self) -> Iterator[tuple[int, int]]:
        while True:
            try:
                yield os.waitpid(-self._root, ptrace.WALL)
            except ChildProcessError:
                return

    def _ended(self, pid: int, status: int) -> None:
        self._known.discard(pid)
        self._under_way.pop(pid, None)
        if pid == self._root:
            self._status = status
            if self._known and not self._over:
                # Whatever outlives the job is found here: it is traced.
                self._names = {left: _command(left) for left in self._known if _leads(left)}
                self._kill()
        elif (
            pid in self._names and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        ):
            self._left.append(self._names[pid])

    def _stopped(self, pid: int, status: int) -> None:
        number, event = os.WSTOPSIG(status), status >> 16
        if number == _AT_A_CALL or event == ptrace.EVENT_SECCOMP:
            self._at_a_call(pid)
        elif event in (ptrace.EVENT_FORK, ptrace.EVENT_VFORK, ptrace.EVENT_CLONE):
            self._known.add(ptrace.message(pid))
            self._go_on(pid)
        elif event:
            self._go_on(pid)
        elif number == signal.SIGALRM and pid == self._root:
            self._hung = True
            self._kill()
        else:
            # A process that is new stands at a SIGSTOP of the kernel's; nobody sends others.
            self._go_on(pid, 0 if number == signal.SIGSTOP else number)

    def _at_a_call(self, pid: int) -> None:
        try:
            stop = ptrace.look(pid)
        except ProcessLookupError:
            return  # somebody killed it; its end is told next
        if stop.is_entry:
            self._entry(pid, stop)
        else:
            self._exit(pid, stop)
        if not self._over:
            self._go_on(pid, to_exit=pid in self._under_way)

    def _entry(self, pid: int, stop: ptrace.Stop) -> None:
        if stop.number in syscalls.LEAVES_GROUP:
            self._left.append(f"{_command(pid)}, by {syscalls.LEAVES_GROUP[stop.number]}")
            self._kill()
            return
        if self._is_saying:
            self._hear()
        call = self._described(pid, stop)
        self._is_saying = call is None and stop.number == syscalls.WRITE
        if call is None:
            return
        self._calls.append(call)
        is_meant = self._strike is not None and self._strike.call.number == call.number
        if self._strike is None or is_meant or syscalls.changes(call):
            self._under_way[pid] = call
        if self._strike is not None and is_meant:
            if self._strike.call == call:
                self._strike_entry(pid, stop, call, self._strike.fault)
            else:
                self._kill()  # another job than the one that was recorded

    def _described(self, pid: int, stop: ptrace.Stop) -> TracedCall | None:
        """The call, if it is one to be looked at."""
        self._counts[stop.number] += 1
        number, count = len(self._calls), self._counts[stop.number]
        if self._strike is not None and self._detail == "struck":
            sought = self._strike.call
            if (stop.number, count) != (syscalls.NUMBERS[sought.name], sought.count):
                return None
            number = sought.number
        return syscalls.described(pid, stop, top=self._top, number=number, count=count)

    def _strike_entry(self, pid: int, stop: ptrace.Stop, call: TracedCall, fault: Fault) -> None:
        self._struck = True
        if fault == "kill-before":
            ptrace.set_register(pid, ptrace.SYSTEM_CALL, _NO_CALL)
            self._kill()
        elif fault in _PREVENTED and call.name != "close":
            ptrace.set_register(pid, ptrace.SYSTEM_CALL, _NO_CALL)
        elif fault in ("kill-middle", "short-write"):
            self._halve(pid, stop, call)

    def _halve(self, pid: int, stop: ptrace.Stop, call: TracedCall) -> None:
        half = call.size_bytes // 2
        shape = syscalls.SHAPES[stop.number]
        for place, (address, length) in enumerate(syscalls.pieces(pid, stop.arguments, shape)):
            if length >= half:
                ptrace.set_word(pid, address, half)
                ptrace.set_register(pid, ptrace.THIRD_ARGUMENT, place + 1)
                self._restore[pid] = (address, length)
                return
            half -= length
        ptrace.set_register(pid, ptrace.THIRD_ARGUMENT, half)

    def _exit(self, pid: int, stop: ptrace.Stop) -> None:
        call = self._under_way.pop(pid, None)
        if call is None:
            return
        if pid in self._restore:
            ptrace.set_word(pid, *self._restore.pop(pid))
        if stop.result < 0:
            self._errors[call.number] = -stop.result
        if self._strike is not None and self._strike.call == call:
            self._strike_exit(pid, call, self._strike.fault)

    def _strike_exit(self, pid: int, call: TracedCall, fault: Fault) -> None:
        if fault in _ERRORS:
            ptrace.set_register(pid, ptrace.RESULT, -_ERRORS[fault])
            self._errors[call.number] = _ERRORS[fault]
        elif fault in ("kill-after", "kill-middle"):
            self._kill()

    def _kill(self) -> None:
        self._over = True
        for pid in self._known:
            _signal(pid)

    def _go_on(self, pid: int, number: int = 0, *, to_exit: bool = False) -> None:
        try:
            if to_exit:
                ptrace.finish_call(pid)
            else:
                ptrace.go_on(pid, number)
        except ProcessLookupError:
            pass  # it was killed while it stood; its end is told next

    def _hear(self) -> None:
        """Read what was said, before the next call: nobody waits for a reader."""
        self._heard.take(children.drain(self._reading), calls=len(self._calls))

    def _result(self) -> Run:
        self._hear()
        status = self._status if self._status is not None else 0
        return Run(
            self._calls,
            self._errors,
            self._heard.lines,
            escaped=self._heard.escaped,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
            status=os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
            hung=self._hung,
            left=self._left,
            struck=self._struck,
        )


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended


def _leads(pid: int) -> bool:
    """Whether it is a process, or the thread that stands for one."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            return b"\nTgid:\t%d\n" % pid in file.read()
    except OSError:
        return False


def _command(pid: int) -> str:
    """What a process is, for people."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(200).replace(b"\0", b" ")
    except OSError:
        words = b""
    return f"process {pid} ({words.decode('utf-8', 'replace').strip() or '?'})"
