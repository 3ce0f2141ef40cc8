"""The thread of one handle, and how its calls are waited for.

A call is a future of the thread's: *asked for*, *running* or *ended*. Cancelling the task that
waits withdraws it only while it is asked for. One that runs cannot be stopped, so it is waited
for: a thread that was left alone with it could write after whatever comes next (C7-04).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from lastgood.errors import StorageError, UsageError

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741 - an item


class Worker:
    """One thread that makes the calls of one handle, in the order in which they were asked for.

    The thread begins with the first call and ends after ``finish``, or with the interpreter.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lastgood")
        self._mutex = threading.Lock()
        self._group: list[Any] | None = None
        self._is_last = False

    def submit(self, call: Callable[[], T]) -> Future[T]:
        """Ask for ``call``, in a copy of the context of whoever asks.

        Raises:
            UsageError: ``finish`` was called.
            StorageError: The system has no thread.
        """
        context = contextvars.copy_context()
        with self._mutex:
            return self._start(lambda: context.run(call))

    def gather(self, item: I, run: Callable[[list[I]], None]) -> None:
        """Ask for one call of ``run``, which raises nothing, with ``item`` and those that follow.

        Only those that directly follow, before the thread comes to it.

        Raises:
            UsageError, StorageError: As ``submit``.
        """
        with self._mutex:
            if self._group is None:
                group: list[I] = []
                self._start(lambda: run(self._closed(group)))
                self._group = group
            self._group.append(item)

    def finish(self, call: Callable[[], T]) -> Future[T]:
        """Ask for the last call; the thread ends behind it.

        Raises:
            UsageError, StorageError: As ``submit``.
        """
        with self._mutex:
            job = self._start(call)
            self._is_last = True
        self._pool.shutdown(wait=False)
        return job

    def join(self) -> None:
        """Wait until the thread has ended; at once, where the last call has."""
        self._pool.shutdown(wait=True)

    def _start(self, call: Callable[[], T]) -> Future[T]:
        if self._is_last:
            raise UsageError("This handle is closed")
        self._group = None  # what is asked for after this comes after this
        try:
            return self._pool.submit(call)
        except RuntimeError as error:
            raise StorageError(
                "The system has no thread for this handle",
                do="Let other work end, and run it again",
            ) from error

    def _closed(self, group: list[I]) -> list[I]:
        with self._mutex:
            if self._group is group:
                self._group = None
        return group


async def outcome(job: Future[T], *, withdraw: bool = True) -> T:
    """Wait for a call to end; what it returned, or raised.

    A cancellation, however often it comes, is raised when the call has ended, or at once where
    it was withdrawn.

    Args:
        job: The call.
        withdraw: Whether a cancellation may withdraw it.

    Raises:
        asyncio.CancelledError: From what the call raised, if it did.
    """
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def tell(_: Future[T]) -> None:
        with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits
            loop.call_soon_threadsafe(_wake, ended)

    job.add_done_callback(tell)
    cancelled: asyncio.CancelledError | None = None
    while not ended.done():
        try:
            await asyncio.wait([ended])
        except asyncio.CancelledError as error:
            if withdraw and job.cancel():
                raise
            cancelled = error
    if cancelled is not None:
        raise cancelled from job.exception()
    return job.result()


def _wake(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)
