"""Which disks are tried at one crash point: all that the model permits, or a fair sample."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice, product
from typing import Final, Literal

from fault_injection.power.cache import Cache
from fault_injection.power.pending import EVERYTHING, Lost, Pending

CAP: Final = 4096
"""States of one crash point, above which a sample is taken."""

Extent = Literal["all", "few"]
"""``all``, or of each crash point only: nothing lost, all lost, one lost, one kept."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The disks to try.

    Attributes:
        lost: Each, by what is lost; the fewest losses first, none twice.
        is_exhaustive: Whether it is each that the model permits; never where a write is pending
            of which more pieces may be torn than are tried in every way.
        drawn: Those that only this seed finds again.
    """

    lost: tuple[Lost, ...]
    is_exhaustive: bool
    drawn: frozenset[Lost] = frozenset()


def choices(cache: Cache, *, extent: Extent = "all", seed: str = "", cap: int = CAP) -> Choices:
    """What to try of the disks that ``cache`` may leave.

    Args:
        cache: What is pending.
        extent: How many.
        seed: Decides on the sample, if there are more than ``cap``.
        cap: The most to try.
    """
    always = dict.fromkeys(few(cache))
    if extent == "few":
        return Choices(_in_order(always), is_exhaustive=False)
    found = dict.fromkeys(islice(every(cache), cap + 1))
    if len(found) <= cap:
        is_all = all(one.has_all_fates for one in cache.open)
        return Choices(_in_order(found), is_exhaustive=is_all)
    random_bits, drawn = random.Random(seed), dict[Lost, None]()
    for _ in range(2 * cap):
        if len(always) + len(drawn) >= cap:
            break
        lost = _drawn(cache, random_bits)
        if lost not in always:
            drawn[lost] = None
    return Choices(_in_order([*always, *drawn]), is_exhaustive=False, drawn=frozenset(drawn))


def is_permitted(cache: Cache, lost: Lost) -> bool:
    """Whether the model permits that ``lost`` is lost and the rest is there."""
    numbers = {number for number, _ in lost}
    gone = [number in numbers for number in cache.ordered]
    return gone == sorted(gone)


def _in_order(found: Iterable[Lost]) -> tuple[Lost, ...]:
    return tuple(sorted(found, key=lambda lost: (len(lost), lost)))


def every(cache: Cache) -> Iterator[Lost]:
    """Each state once: names first, then the bytes of the files that those leave a path to."""
    pending, ordered = cache.open, cache.ordered
    prefixes = [frozenset(ordered[kept:]) for kept in range(len(ordered), -1, -1)]
    names = [one.number for one in pending if one.names and one.number not in ordered]
    content = [one for one in pending if one.inode]
    for cut in prefixes:
        for kept in product((True, False), repeat=len(names)):
            free = (number for number, stays in zip(names, kept, strict=True) if not stays)
            gone = cut.union(free)
            reached = cache.reachable(tuple((number, 0) for number in gone))
            yield from _with_content(
                [one for one in content if one.inode in reached], gone, frozenset(ordered)
            )


def _with_content(
    content: list[Pending], gone: frozenset[int], ordered: frozenset[int]
) -> Iterator[Lost]:
    free = [one for one in content if one.number not in ordered]
    ranges = [range(len(one.fates) - 1, -1, -1) for one in free]
    base = [(number, 0) for number in gone]
    for fates in product(*ranges):
        torn = (
            (one.number, fate)
            for one, fate in zip(free, fates, strict=True)
            if fate < len(one.fates) - 1
        )
        yield tuple(sorted([*base, *torn]))


def few(cache: Cache) -> Iterator[Lost]:
    """None lost, all lost, one lost, one kept; with what the model's order adds to that."""
    numbers, ordered = [one.number for one in cache.open], cache.ordered
    yield EVERYTHING
    yield tuple((number, 0) for number in numbers)
    for number in numbers:
        behind = ordered[ordered.index(number) :] if number in ordered else [number]
        yield tuple((one, 0) for one in behind)
        before = ordered[: ordered.index(number) + 1] if number in ordered else [number]
        yield tuple((one, 0) for one in numbers if one not in before)


def _drawn(cache: Cache, bits: random.Random) -> Lost:
    pending, ordered = cache.open, cache.ordered
    kept = bits.choice((0.2, 0.5, 0.8))
    cut = ordered[bits.randrange(len(ordered) + 1) :]
    lost = [(number, 0) for number in cut]
    for one in pending:
        if one.number not in ordered and bits.random() > kept:
            lost.append((one.number, bits.randrange(len(one.fates) - 1)))
    return tuple(sorted(lost))
