"""Whoever asks a command to end gets one line and exit code 130, from its first import on.

Ctrl-C, SIGTERM and a terminal that goes are alike here; who is told to ignore one (nohup) does.
This imports nothing of the harness, and little else: before it is at work, an interrupt is a
traceback.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator

EXIT_INTERRUPTED = 130
_LINE = "fault_injection: interrupted"
_ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def leave_at_once() -> None:
    """From now on an interrupt ends this process, there and then: it has begun nothing yet.

    An exception would come through whatever is being imported, also where that is not Python.
    """
    _handle(_leave)


def interruptible(command: Callable[[], int]) -> int:
    """Run a command and return its exit code.

    An interrupt is a ``KeyboardInterrupt`` inside: what the command started and made is cleaned
    up on the way out. Afterwards signals are handled as they were before.
    """
    before = {number: signal.getsignal(number) for number in _ENDS}
    try:
        _handle(_interrupt)
        return command()
    except KeyboardInterrupt:
        print(_LINE, file=sys.stderr)
        # One that came through such text is remembered as unhandled, and would be the exit code.
        exec("")  # noqa: S102
        return EXIT_INTERRUPTED
    finally:
        for number, handler in before.items():
            if handler is not None:  # set by what is not Python, which cannot be put back
                signal.signal(number, handler)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """No interrupt comes between two steps that belong together; it comes behind the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _handle(handler: Callable[[int, object], None]) -> None:
    for number in _ENDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)


def _leave(number: int, frame: object) -> None:
    os.write(2, f"{_LINE}\n".encode())
    os._exit(EXIT_INTERRUPTED)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
