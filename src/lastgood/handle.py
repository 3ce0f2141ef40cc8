"""One call at a time on a handle: threads wait, a signal handler is told, a child is refused."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
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
