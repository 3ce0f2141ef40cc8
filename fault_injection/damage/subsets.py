"""Which choices of several files are changed together, and how people are told of one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Final

from fault_injection.damage.files import leaf

_SMALL: Final = 8
"""Of so many files every subset is taken; of more, those of one, of two, all but those, and all."""


def subsets(found: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Choices of files: each not empty, and the smaller ones first."""
    if takes_all(found):
        for size in range(1, len(found) + 1):
            yield from combinations(found, size)
        return
    few = [chosen for size in (1, 2) for chosen in combinations(found, size)]
    yield from few
    for chosen in reversed(few):
        yield tuple(path for path in found if path not in chosen)
    yield tuple(found)


def takes_all(found: Sequence[str]) -> bool:
    """Whether ``subsets`` leaves none out."""
    return len(found) <= _SMALL


def shown(chosen: Sequence[str]) -> str:
    """Names of files, for people."""
    return ", ".join(map(leaf, chosen))
