"""A planted bug: a known mistake of such stores, what plants it, and what must find it.

A mistake is planted by patches of lastgood's own functions, in a process of its own and for the
length of a block; production code holds no switch for it. ``Plant`` counts how often the wrong
code was entered: a patch that nothing calls proves nothing about who fails to see it.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

from fault_injection.state_id import LevelName
from fault_injection.workload import Oracle
from lastgood.storage import posix
from lastgood.storage.filesystem import OsFileSystem

Patch = AbstractContextManager[object]
Where = LevelName | Literal["T"]
"""A level, or ``T``: a test of the suite, for paused readers and a caller's own objects."""
Standing = Literal["equivalent", "later"]


@dataclass(frozen=True, slots=True)
class Kill:
    """Where a mutant must be found, and by which judgement.

    Attributes:
        where: The level.
        oracles: One of these must fail; that anything else does is no proof. Empty for a test.
        first: Names of the workloads to look at first; of ``T``, the tests.
    """

    where: Where
    oracles: tuple[Oracle, ...]
    first: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        name: The mistake, as the list of mutants calls it.
        mistake: What the patched code does, in a sentence.
        planted: Plants it for the length of a block.
        killed_by: Where it must be found, the cheapest first; each of these kills it.
    """

    name: str
    mistake: str
    planted: Callable[[Plant], Patch]
    killed_by: tuple[Kill, ...]


@dataclass(frozen=True, slots=True)
class Unplanted:
    """A mistake of the list that is not planted.

    Attributes:
        name: The mistake, as the list of mutants calls it.
        standing: ``equivalent``: another line of defence makes it harmless; ``later``: its
            subject does not exist yet.
        reason: Why.
    """

    name: str
    standing: Standing
    reason: str


class Plant:
    """Plants one mistake."""

    def __init__(self) -> None:
        self._entered = mmap.mmap(-1, 8)  # shared with the processes that a level forks

    @property
    def calls(self) -> int:
        """How often the wrong code was entered, here and in every forked process."""
        return int.from_bytes(self._entered[:], "little")

    def over(self, place: Any, name: str, wrong: Callable[..., object]) -> Patch:
        """``wrong`` in place of the function ``name`` of a module or class.

        Raises:
            AttributeError: There is no such function (when the block is entered).
        """
        return mock.patch.object(place, name, self.counting(wrong))

    def uncounted(self, place: Any, name: str, wrong: Callable[..., object]) -> Patch:
        """As ``over``, where ``wrong`` does as it should but for what it counts itself."""
        return mock.patch.object(place, name, wrong)

    def altered(self, below: Any, **wrong: Callable[..., object]) -> Any:
        """The file system ``below``, with some of its calls done otherwise, and counted."""
        counted = {name: self.counting(function) for name, function in wrong.items()}
        return _Altered(below, counted)

    def uncounted_property(self, place: type, name: str, wrong: Callable[[Any], object]) -> Patch:
        """As ``uncounted``, of a property."""
        return mock.patch.object(place, name, property(wrong))

    def over_property(self, place: type, name: str, wrong: Callable[[Any], object]) -> Patch:
        """``wrong`` in place of the property ``name`` of a class."""

        return mock.patch.object(place, name, property(self.counting(wrong)))

    def over_calls(self, **wrong: Callable[..., object]) -> Patch:
        """System calls done otherwise: each is given the file system below, and its arguments."""
        right = posix.PosixRoot.__init__

        def init(self_: Any, *args: Any, filesystem: Any = None, **others: Any) -> None:
            below = self.altered(filesystem or OsFileSystem(), **wrong)
            right(self_, *args, filesystem=below, **others)

        return mock.patch.object(posix.PosixRoot, "__init__", init)

    def counting(self, wrong: Callable[..., object]) -> Callable[..., Any]:
        """``wrong``, counted."""

        @functools.wraps(wrong)
        def counted(*args: Any, **others: Any) -> object:
            self._entered[:] = (self.calls + 1).to_bytes(8, "little")
            return wrong(*args, **others)

        return counted


@contextmanager
def calling(directory: Any, **wrong: Callable[..., object]) -> Iterator[None]:
    """Let what is done with ``directory`` in this block make some calls otherwise."""
    right = directory.filesystem
    directory.filesystem = _Altered(right, wrong)
    try:
        yield
    finally:
        directory.filesystem = right


@contextmanager
def all_of(*patches: Patch) -> Iterator[None]:
    """Several patches at once."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


def nothing(*args: Any, **others: Any) -> None:
    """Left out."""


class _Altered:
    def __init__(self, below: Any, wrong: dict[str, Callable[..., object]]) -> None:
        self._below = below
        self._wrong = wrong

    def __getattr__(self, name: str) -> Any:
        wrong = self._wrong.get(name)
        if wrong is None:
            return getattr(self._below, name)
        return functools.partial(wrong, self._below)
