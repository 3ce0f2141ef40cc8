"""The driver by strace, for machines where this process may not trace, but that program may.

strace attaches to a forked job that waits for it, and its log says which calls were made. It
sends SIGKILL at the entry of a call that it finds by name and count; that is the only fault
(``error=`` and ``retval=`` do not execute the call, and nothing halves a write). The log of a
struck run must say that the job died there, at that very count, or the run proves nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from fault_injection.interrupt import uninterrupted
from fault_injection.tracing import children
from fault_injection.tracing.runs import LIMIT_S, Detail, Fault, Job, Run, Strike, TracedCall
from fault_injection.tracing.syscalls import SHAPES

_SET_TRACER: Final = 0x59616D61
_ANYBODY: Final = ctypes.c_ulong(-1)
_ATTACH_S: Final = 20.0
_PAUSE_S: Final = 0.001
_NAMES: Final = ",".join(sorted(f"?{shape.name}" for shape in SHAPES.values()))
_BEGUN: Final = re.compile(r"^(\d+) +(\w+)\((.*)$")
_RESULT: Final = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+).*= -1 (E[A-Z0-9]+) ")
_END: Final = re.compile(r"^(\d+) +\+\+\+ (killed by|exited with) (\w+)")
_FILE: Final = re.compile(r'(?:AT_FDCWD|\d+)<([^>]*)>(?:, "([^"]*)")?|"([^"]*)"')


class StraceDriver:
    """Runs jobs that are forked from this process under strace, and kills them at a call."""

    faults: tuple[Fault, ...] = ("kill-before",)

    def refusal(self) -> str | None:
        """Why this does not work here, or None."""
        if shutil.which("strace") is None:
            return "strace is not installed"
        try:
            run = self.run(lambda fd: os.stat("/"), top="/")
        except OSError as error:
            return f"strace cannot trace here ({error.strerror or error})"
        return None if run.calls else "strace shows no call here"

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
            OSError: strace cannot attach.
        """
        with tempfile.TemporaryDirectory(prefix="lastgood-strace-") as folder:
            log = Path(folder) / "log"
            reading, writing = os.pipe()
            pid = 0
            try:
                with uninterrupted():  # else a child that nobody knows of would stay
                    try:
                        pid = children.fork(job, writing=writing, limit_s=limit_s, ready=_wait)
                    finally:
                        os.close(writing)
                with _attached(pid, _command(pid, log, strike)):
                    os.kill(pid, signal.SIGCONT)
                    heard = children.hear(reading, pid)
                    run = children.ended(children.end(pid), heard)
                    pid = 0
            finally:
                if pid:
                    children.kill(pid)
                    children.end(pid)
                os.close(reading)
            return _read(log.read_text(errors="replace"), run, top=top, strike=strike)


def _wait() -> None:
    """Stop until strace has attached, whoever may be a tracer here by default (Yama)."""
    ctypes.CDLL(None).prctl(_SET_TRACER, _ANYBODY, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)


def _command(pid: int, log: Path, strike: Strike | None) -> list[str]:
    inject = []
    if strike is not None:
        inject = ["-e", f"inject={strike.call.name}:signal=SIGKILL:when={strike.call.count}"]
    return [
        "strace", "-f", "-qq", "-y", "-s", "0", "-o", str(log), "-e", f"trace={_NAMES}",
        "-e", "signal=KILL", *inject, "-p", str(pid),
    ]  # fmt: skip


@contextlib.contextmanager
def _attached(pid: int, command: list[str]) -> Iterator[None]:
    """strace holds process ``pid``, which is stopped, for the length of a block."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        raise OSError(errno.EPERM, "the job ended before it was traced")
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as strace:
        try:
            end_s = time.monotonic() + _ATTACH_S
            while not _is_traced(pid):
                if strace.poll() is not None or time.monotonic() > end_s:
                    raise OSError(errno.EPERM, _complaint(strace))
                time.sleep(_PAUSE_S)
            yield
            strace.wait(_ATTACH_S)
        finally:
            strace.kill()


def _is_traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "\nTracerPid:\t0\n" not in status


def _complaint(strace: subprocess.Popen[bytes]) -> str:
    strace.kill()
    said = strace.communicate()[1].decode("utf-8", "replace").strip()
    return said.rpartition("\n")[2] or "strace did not attach"


# --- its log ------------------------------------------------------------------------------


def _read(log: str, run: Run, *, top: str, strike: Strike | None) -> Run:
    calls: list[TracedCall] = []
    errors: dict[int, int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    under_way: dict[str, int] = {}
    ends: dict[str, str] = {}
    for line in log.split("\n"):
        begun, result, end = _BEGUN.match(line), _RESULT.match(line), _END.match(line)
        if begun:
            pid, name, rest = begun.groups()
            counts[pid, name] += 1
            under_way.pop(pid, None)
            call = _call(name, rest, top=top, number=len(calls), count=counts[pid, name])
            if call is not None:
                under_way[pid] = call.number
                calls.append(call)
        if result and result[1] in under_way:
            errors[under_way[result[1]]] = getattr(errno, result[3], errno.EIO)
        if end:
            ends[end[1]] = end[3]
    root = next(iter(counts), ("", ""))[0]
    return Run(
        calls,
        errors,
        run.said,
        escaped=run.escaped,
        signal=run.signal,
        status=run.status,
        hung=run.hung,
        left=[f"process {pid}" for pid, how in ends.items() if pid != root and how == "SIGKILL"],
        struck=strike is not None and calls[-1:] == [strike.call] and ends.get(root) == "SIGKILL",
    )


def _call(name: str, rest: str, *, top: str, number: int, count: int) -> TracedCall | None:
    arguments = rest.rpartition(") = ")[0] or rest
    files = [_absolute(*found) for found in _FILE.findall(arguments)]
    below = [file[len(top) :].strip("/") for file in files if f"{file}/".startswith(f"{top}/")]
    if not below:
        return None
    flags = [flag for flag in ("O_CREAT", "O_EXCL", "O_TRUNC") if flag in arguments]
    told = [f"from {path}" for path in below[:-1]] + flags
    return TracedCall(
        number, name, below[-1], " ".join(told), creates="O_CREAT" in flags, count=count
    )


def _absolute(folder: str, name: str, alone: str) -> str:
    return os.path.normpath(os.path.join(folder, name or alone) or ".")
