"""Whoever asks a command to end gets one line and exit code 130, from its first import on.

It imports nothing of the harness, and little else: until this is at work, an interrupt is a
traceback.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

EXIT_INTERRUPTED = 130


def interruptible(command: Callable[[], int]) -> int:
    """Run a command and return its exit code.

    Ctrl-C, SIGTERM and a terminal that goes end it alike, with a ``KeyboardInterrupt`` inside:
    what it started and made is cleaned up on the way out.
    """
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # nohup
                signal.signal(number, _interrupt)
        return command()
    except KeyboardInterrupt:
        print("fault_injection: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt
