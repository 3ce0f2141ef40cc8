"""The longest that one run of work in memory, or one judgement, may take: what hangs is ended.

A job that makes calls for ever is ended by their number; one that computes, or sleeps, for ever
makes none. A timer of the kernel's ends that.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

LIMIT_S: Final = 60.0
"""What one run, or one judgement, may take."""
_AGAIN_S: Final = 1.0
"""Who handles every exception, and goes on, is ended again."""
_LEAST_S: Final = 0.001


class Overdue(BaseException):
    """It took too long; no handler of the code under test may stop this.

    Attributes:
        where: What was done then: a file and a line.
    """

    def __init__(self, where: str, limit_s: float) -> None:
        super().__init__(f"did not end within {limit_s:g} s, at {where}")
        self.where = where


@contextmanager
def limited(limit_s: float | None = None) -> Iterator[None]:
    """End the block if it takes too long; ``LIMIT_S`` if nothing else is said.

    Whoever had set the timer has it again afterwards, with what is left of its time. In a thread
    other than the main one, and where there is no such timer, nothing is ended.

    Raises:
        Overdue: It took too long.
    """
    most_s = LIMIT_S if limit_s is None else limit_s
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGALRM"):
        yield
        return

    def end(number: int, frame: FrameType | None) -> NoReturn:
        where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}" if frame else "?"
        raise Overdue(where, most_s)

    handler: Any = signal.SIG_DFL
    begun_s, left_s, interval_s = time.monotonic(), 0.0, 0.0
    try:
        handler = signal.signal(signal.SIGALRM, end) or signal.SIG_DFL
        left_s, interval_s = signal.setitimer(signal.ITIMER_REAL, most_s, _AGAIN_S)
        yield
    finally:
        with _no_alarm():  # else one that comes now would leave the timer, or its handler, behind
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # what is pending is dropped by that
            signal.signal(signal.SIGALRM, handler)
            if left_s:
                left_s = max(_LEAST_S, left_s - (time.monotonic() - begun_s))
                signal.setitimer(signal.ITIMER_REAL, left_s, interval_s)


@contextmanager
def _no_alarm() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
