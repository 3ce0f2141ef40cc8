"""One call at a time on a handle: threads wait, a signal handler is told, a child is refused.

Whoever closes the handle meanwhile, a signal handler or another thread, does not take its
directory from under the running call, which would then not know what it has done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lastgood.errors import BusyError, FencedError


class HandleLock:
    """Excludes the threads of one process from each other.

    It is not reentrant on purpose: a signal handler that saves while the very thread it
    interrupted is saving gets ``BusyError`` at once, not a deadlock (C7-06).

    Args:
        wait_s: How long another thread waits for its turn.
    """

    def __init__(self, *, wait_s: float) -> None:
        self._wait_s = wait_s
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._pid = os.getpid()
        self._finish: Callable[[], None] | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the handle for one call.

        Raises:
            FencedError: This is a forked child: the session is its parent's (C5-02).
            BusyError: This thread is in a call already, or another one is for too long.
        """
        if os.getpid() != self._pid:
            raise FencedError("This is a forked child; the handle belongs to its parent")
        if self._holder == threading.get_ident():
            raise BusyError("This thread is inside a call of the same handle already")
        if not self._lock.acquire(timeout=self._wait_s):
            raise BusyError(f"Another thread has been using this handle for {self._wait_s:g} s")
        try:
            self._holder = threading.get_ident()
            yield
        finally:
            self._holder = None
            self._lock.release()
            self._finish_if_free()

    def end(self, finish: Callable[[], None]) -> None:
        """Run ``finish``, idempotent, when no call is running: now, or right after that call.

        Never waits, so that a signal handler may end the handle inside any call.
        """
        self._finish = finish
        self._finish_if_free()

    def _finish_if_free(self) -> None:
        # Not free: whoever holds it comes here next.
        if self._finish is not None and self._lock.acquire(blocking=False):
            try:
                self._finish()
            finally:
                self._lock.release()
