"""One side effect, awaited: ``lastgood.Effect``, its calls made in the session's thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

from lastgood import effect as synchronous
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import Fingerprint


class Call(Protocol):
    """Makes a call in the session's thread."""

    def __call__(self, call: Callable[[], Any], *, withdraw: bool = True) -> Awaitable[Any]:
        """Not ``withdraw``: it is made even if who waits is cancelled."""
        ...


class Effect:
    """One side effect, in an ``async with`` block; made by ``Session.effect``.

    Guarantees and errors are those of ``lastgood.Effect``. Cancelled in the block, it is recorded
    as raised: nobody knows whether it was done (C7-03).

    Args:
        inner: The synchronous one.
        call: Makes a call in the session's thread.
    """

    def __init__(self, inner: synchronous.Effect, call: Call) -> None:
        self._inner = inner
        self._call = call

    @property
    def fingerprint(self) -> Fingerprint:
        """The identity of the exact action."""
        return self._inner.fingerprint

    @property
    def idempotency_key(self) -> str:
        """What the outside is to be given, so that it can tell a repetition: the fingerprint."""
        return self._inner.idempotency_key

    @property
    def should_run(self) -> bool:
        """Whether it is still to be done."""
        return self._inner.should_run

    async def result(self) -> JSON:
        """The result that is stored; as ``lastgood.Effect.result``."""
        return await self._call(lambda: self._inner.result)

    async def done(self, result: JSON = None, *, event: tuple[str, JSON] | None = None) -> None:
        """It was done; as ``lastgood.Effect.done``."""
        await self._call(partial(self._inner.done, result, event=event))

    async def not_done(self, reason: str) -> None:
        """It definitely was not done; as ``lastgood.Effect.not_done``."""
        await self._call(partial(self._inner.not_done, reason))

    async def __aenter__(self) -> Self:
        """As ``lastgood.Effect.__enter__``."""
        try:
            await self._call(self._inner.__enter__)
        except BaseException as error:
            if self._inner.is_entered:  # it came that far before the cancellation did
                await self._leave(error)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """As ``lastgood.Effect.__exit__``."""
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        kind = None if error is None else type(error)
        await self._call(partial(self._inner.__exit__, kind, error, None), withdraw=False)
