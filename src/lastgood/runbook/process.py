"""A child process that cannot take the run down with it: bounded, and ended with all it started.

Whatever it prints, standard output and error together, is hashed and counted, and only the end of
it is kept. It has no input and a process group of its own. When it has ended, what it left running
in that group is ended, too; a pipe that somebody still holds open is waited for only shortly.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import selectors
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lastgood.clock import Clock
from lastgood.errors import printable

KEPT_BYTES: Final = 64 * 1024
TERM_GRACE_S: Final = 5.0
"""How long it may take to end when it is told to."""

_CHUNK_BYTES: Final = 64 * 1024
_LOOK_S: Final = 0.05
"""How often it is looked whether it ended while it prints nothing."""
_PIPE_GRACE_S: Final = 0.5


class NotStartedError(Exception):
    """It was not started: no such program, no such directory, no right to."""


@dataclass(slots=True)
class Output:
    """What was printed.

    Attributes:
        size_bytes: All of it.
        tail: The end of it, at most ``KEPT_BYTES``.
    """

    size_bytes: int = 0
    tail: bytearray = field(default_factory=bytearray)
    _digest: hashlib._Hash = field(default_factory=hashlib.sha256)

    def add(self, data: bytes) -> None:
        """Take in what was printed next."""
        self.size_bytes += len(data)
        self._digest.update(data)
        self.tail += data
        del self.tail[:-KEPT_BYTES]

    @property
    def sha256(self) -> str:
        """Of all of it."""
        return self._digest.hexdigest()

    @property
    def text(self) -> str:
        """The end of it; what is not UTF-8 is escaped."""
        return self.tail.decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended.

    Attributes:
        code: Its exit code; negative: the signal that ended it.
        is_late: Whether it was ended because its time was up.
        seconds: How long it ran.
        output: What it printed.
    """

    code: int
    is_late: bool
    seconds: float
    output: Output

    @property
    def name(self) -> str:
        """``Exit3``, ``Signal9`` or ``Timeout``."""
        if self.is_late:
            return "Timeout"
        return f"Exit{self.code}" if self.code >= 0 else f"Signal{-self.code}"

    def __str__(self) -> str:
        """For people."""
        if self.is_late:
            return f"was stopped after {self.seconds:.1f} s, its timeout"
        if self.code < 0:
            return f"was ended by signal {-self.code}"
        return f"exited with {self.code}"


def carry_out(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    timeout_s: float | None,
    clock: Clock,
    held: Sequence[int] = (),
    grace_s: float = TERM_GRACE_S,
) -> Ended:
    """Run a program to its end; on return, also by an exception, its process group was killed.

    Args:
        argv: The program, found on the PATH of ``env``, and its arguments.
        cwd: Where it runs.
        env: Its whole environment.
        timeout_s: When it is told to end; None: never.
        clock: Measures.
        held: Descriptors that it keeps open as long as it, or what it started, lives.
        grace_s: How long it may take to end when it is told to.

    Raises:
        NotStartedError: It was not started; nothing was done.
        KeyboardInterrupt: It was interrupted; the child was told to end, and then made to.
    """
    started_s = clock.monotonic_s()
    waiting: selectors.BaseSelector | None = None
    try:
        waiting = selectors.DefaultSelector()  # before: what cannot be watched is not started
        process = subprocess.Popen(  # a list of words, never a shell
            list(argv),
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            start_new_session=True,
            pass_fds=tuple(held),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        if waiting is not None:
            waiting.close()
        told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise NotStartedError(f"{printable(argv[0])} in {printable(cwd)}: {told}") from error
    child = _Child(process, waiting, clock)
    try:
        is_late = not child.follow(timeout_s)
        if is_late:
            child.stop(grace_s)
    except BaseException:
        child.stop(grace_s)
        raise
    finally:
        child.end()
    seconds = clock.monotonic_s() - started_s
    return Ended(process.returncode, is_late, seconds, child.output)


class _Child:
    """A running child and its pipe."""

    def __init__(
        self, process: subprocess.Popen[bytes], waiting: selectors.BaseSelector, clock: Clock
    ) -> None:
        self._process = process
        self._clock = clock
        self._pipe = process.stdout
        self._waiting = waiting
        if self._pipe is not None:
            self._waiting.register(self._pipe, selectors.EVENT_READ)
        self.output = Output()

    def follow(self, limit_s: float | None) -> bool:
        """Read until it has ended, at most so long; returns whether it has."""
        now_s = self._clock.monotonic_s
        end_s = None if limit_s is None else now_s() + limit_s
        while self._process.poll() is None:
            left_s = _LOOK_S if end_s is None else min(_LOOK_S, end_s - now_s())
            if left_s <= 0:
                return False
            self._read(left_s)
        return True

    def stop(self, grace_s: float) -> None:
        """Tell its group to end, and wait for that; it may still print meanwhile."""
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            self.follow(grace_s)

    def end(self) -> None:
        """Make its group end, and read what is left in the pipe, if that comes to an end."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        end_s = self._clock.monotonic_s() + _PIPE_GRACE_S
        while self._pipe is not None and (left_s := end_s - self._clock.monotonic_s()) > 0:
            self._read(left_s)
        self._close()

    def _read(self, wait_s: float) -> None:
        """Take in what it printed, or where that has come to an end, wait; at most so long."""
        if self._pipe is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(wait_s)
        elif self._waiting.select(wait_s):
            data = os.read(self._pipe.fileno(), _CHUNK_BYTES)
            self.output.add(data)
            if not data:
                self._close()

    def _close(self) -> None:
        self._waiting.close()
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _signal(self, number: signal.Signals) -> None:
        # Nobody may be left; macOS says so of zombies by the second of these.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)
