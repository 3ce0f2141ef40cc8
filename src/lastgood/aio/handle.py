"""A handle that is opened by ``await`` or ``async with``: its loop, its thread, its end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from lastgood.aio.worker import Worker, outcome
from lastgood.errors import LastgoodError, UsageError

T = TypeVar("T")
V = TypeVar("V")


class Closable(Protocol):
    """A synchronous handle."""

    def close(self) -> None:
        """Give it back."""
        ...


C = TypeVar("C", bound=Closable)


class Handle(Generic[C]):
    """One synchronous handle and the thread that all its calls are made in.

    Args:
        make: Makes the synchronous handle; called in the thread, when this one is opened.
    """

    def __init__(self, make: Callable[[], C]) -> None:
        self._make = make
        self._worker = Worker()
        self._mutex = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: Future[C] | None = None
        self._closing: Future[None] | None = None
        self._inner: C | None = None

    def __await__(self) -> Generator[Any, None, Self]:
        """Open it: ``handle = await …``; give it back by ``close``."""
        return self._open().__await__()

    async def __aenter__(self) -> Self:
        """Open it, if that was not done before."""
        return self if self._inner is not None and self._closing is None else await self._open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close; what that raises does not take the place of an error of the block."""
        try:
            await self.close()
        except LastgoodError:
            if error is None:
                raise

    async def close(self) -> None:
        """Give it back, behind every call that was asked for before; idempotent.

        On return the thread has ended. Calls that are asked for afterwards get ``UsageError``.
        Cancelled or not, it is carried through.

        Raises:
            UsageError: It belongs to another event loop, which is not closed.
            LastgoodError: As the synchronous ``close``. It is closed all the same.
        """
        is_first = self._closing is None
        closing = self._begin_to_close()
        try:
            await outcome(closing, withdraw=False)
        except LastgoodError:
            if is_first:
                raise
        finally:
            if closing.done():  # not so where this coroutine itself was thrown away
                self._worker.join()

    def _begin_to_close(self) -> Future[None]:
        """Ask for the last call; nothing is waited for."""
        with self._mutex:
            self._check_loop(allow_closed=True)
            if self._closing is None:
                self._closing = self._worker.finish(functools.partial(_end, self._opening))
            return self._closing

    async def _open(self) -> Self:
        with self._mutex:
            if self._closing is not None:
                raise UsageError("This handle is closed", do="Make a new one")
            if self._opening is not None:
                raise UsageError("This handle was opened already")
            self._loop = asyncio.get_running_loop()
            self._opening = self._worker.submit(self._make)
        try:
            self._inner = await outcome(self._opening)
        except (Exception, asyncio.CancelledError):
            # It may have been opened all the same: nobody would give it back.
            with contextlib.suppress(LastgoodError):
                await self.close()
            raise
        except BaseException:
            with contextlib.suppress(LastgoodError):
                self._begin_to_close()
            raise
        return self

    async def _call(self, call: Callable[[], T], *, withdraw: bool = True) -> T:
        """What ``call`` returns or raises, made in the thread; ``withdraw`` as ``outcome``."""
        self._ready()
        return await outcome(self._worker.submit(call), withdraw=withdraw)

    def _ready(self) -> C:
        """The synchronous handle, for a call of this loop.

        Raises:
            UsageError: It is not open, or belongs to another loop.
        """
        if self._closing is not None:
            raise UsageError("This handle is closed")
        self._check_loop(allow_closed=False)
        return self._opened()

    def _opened(self) -> C:
        """The synchronous handle, for what needs no call; it may be closed by now.

        Raises:
            UsageError: It was never open.
        """
        if self._inner is None:
            raise UsageError("This handle is not open", do="Use async with, or await it first")
        return self._inner

    def _check_loop(self, *, allow_closed: bool) -> None:
        mine = self._loop
        if mine is None or (allow_closed and mine.is_closed()):
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if running is not mine:
            raise UsageError(
                "This handle belongs to another event loop",
                do="Use it in the loop that opened it, or open one in this loop",
            )


def _end(opening: Future[C] | None) -> None:
    """Close what was opened; in the thread, so that opening has ended."""
    if opening is not None and not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def plain(function: T, *, what: str) -> T:
    """Return ``function`` if it can be called from a thread without an event loop.

    Raises:
        UsageError: It is a coroutine function: nobody would await what it returns.
    """
    call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async one
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
        raise UsageError(f"The {what} is a coroutine function", do="Give a plain function")
    return function


def as_it_is(values: Sequence[V]) -> Sequence[V]:
    """A caller's list as it is now: other tasks may go on changing theirs."""
    return tuple(values) if isinstance(values, list) else values
