"""Who may be inside a handle: threads wait, a signal handler is told, a child is refused.

Whoever closes the handle meanwhile, a signal handler or another thread, does not take its
directory from under the running call, which would then not know what it has done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from lastgood.errors import BusyError, FencedError, UsageError

_INSIDE: Final = "This thread is inside a call of the same handle already"
_LATER: Final = "Set a flag in the signal handler, and call it when that call has ended"


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
            raise BusyError(_INSIDE, do=_LATER)
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


class SharedHandle:
    """Lets many threads into a handle, each of them once.

    A signal handler that runs inside a call of the very thread gets ``BusyError`` at once, not a
    deadlock (C7-06). No lock is waited for in here, so a handler may come at any point of it.
    """

    def __init__(self) -> None:
        self._inside: set[int] = set()
        self._pid = os.getpid()
        self._finish: Callable[[], None] | None = None
        self._finishing = threading.Lock()

    @property
    def is_inherited(self) -> bool:
        """Whether this is a forked child, to which the handle does not belong."""
        return os.getpid() != self._pid

    @property
    def is_ended(self) -> bool:
        """Whether ``end`` was called."""
        return self._finish is not None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Be inside for one call.

        Raises:
            FencedError: This is a forked child: the session is its parent's (C5-02).
            BusyError: This thread is inside a call already.
            UsageError: The handle is closed.
        """
        me = threading.get_ident()
        if self.is_inherited:
            raise FencedError("This is a forked child; the handle belongs to its parent")
        if me in self._inside:
            raise BusyError(_INSIDE, do=_LATER)
        try:
            self._inside.add(me)
            if self.is_ended:  # asked once inside, so that whoever ends it sees us or we see that
                raise UsageError("This handle is closed")
            yield
        finally:
            self._inside.discard(me)
            self._finish_if_free()

    def end(self, finish: Callable[[], None]) -> None:
        """Let nobody in any more, and run ``finish`` once when nobody is inside; never waits.

        In a forked child nothing is run: the session is its parent's.
        """
        if self._finish is None and not self.is_inherited:
            self._finish = finish
            self._finish_if_free()

    def _finish_if_free(self) -> None:
        # Not free: whoever leaves last comes here next. The lock stays taken: finish runs once.
        if self._finish is None or self._inside:
            return
        if self._finishing.acquire(blocking=False):
            try:
                self._finish()
            except BaseException:  # a signal handler's: whoever comes next finishes
                self._finishing.release()
                raise


class Turn:
    """A lock for which one waits so long, and which an exception of a signal handler cannot keep.

    A plain lock that was acquired with a timeout is held before anybody knows it.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._free = threading.Condition(self._mutex)
        self._holder: object = None

    @contextmanager
    def held(self, wait_s: float) -> Iterator[None]:
        """Hold it.

        Raises:
            BusyError: Other threads held it all the time.
        """
        me = object()
        try:
            with self._mutex:
                if not self._free.wait_for(lambda: self._holder is None, wait_s):
                    raise BusyError(f"Other threads have been using this session for {wait_s:g} s")
                self._holder = me
            yield
        finally:
            with self._mutex:
                if self._holder is me:
                    self._holder = None
                    self._free.notify()  # broken off: who waits looks again when its time is up
