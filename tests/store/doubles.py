"""Doubles: a clock that says what it is told, listings in any order, a file system with a hook."""

from __future__ import annotations

import datetime
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from lastgood.storage.filesystem import FileSystem, OsFileSystem
from lastgood.storage.interface import Access, OwnedStorage, StorageRoot


@dataclass
class ToldClock:
    """A wall clock that gives ``times`` in turn, the last for ever; waiting is real."""

    times: list[datetime.datetime] = field(default_factory=list)

    def now(self) -> datetime.datetime:
        """The next of the times."""
        return self.times.pop(0) if len(self.times) > 1 else self.times[0]

    def monotonic_s(self) -> float:
        """The machine's."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Really."""
        time.sleep(duration_s)


def at_noon(year: int, *, day: int = 1) -> datetime.datetime:
    """A time of day in January of ``year``."""
    return datetime.datetime(year, 1, day, 12, tzinfo=datetime.UTC)


class _ShuffledStorage:
    """Lists in an order that ``order`` chooses, and remembers which prefixes were listed."""

    def __init__(self, inner: OwnedStorage, order: random.Random, listed: list[str]) -> None:
        self._inner = inner
        self._order = order
        self._listed = listed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """The same names, in another order each time."""
        self._listed.append(prefix)
        found = [*self._inner.list(prefix)]
        self._order.shuffle(found)
        return tuple(found)


class ShuffledRoot:
    """A back end whose listings come in another order each time.

    Attributes:
        listed: The prefix of every listing that was asked for.
    """

    def __init__(self, inner: StorageRoot, *, seed: int) -> None:
        self._inner = inner
        self._order = random.Random(seed)
        self.listed: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def directories(self) -> Iterator[str]:
        """The same names, in another order each time."""
        found = [*self._inner.directories()]
        self._order.shuffle(found)
        return iter(found)

    def session(self, directory: str, *, access: Access) -> OwnedStorage:
        """The same directory, listed in any order."""
        opened = self._inner.session(directory, access=access)
        return cast(OwnedStorage, _ShuffledStorage(opened, self._order, self.listed))


class _Watched:
    def __init__(self, before: Callable[[str], None]) -> None:
        self._before = before
        self._inner = OsFileSystem()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)

        def watched(*args: Any, **options: Any) -> Any:
            self._before(name)
            return call(*args, **options)

        return watched


def watched(before: Callable[[str], None]) -> FileSystem:
    """The operating system, with ``before`` called with the name of each call first."""
    return cast(FileSystem, _Watched(before))
