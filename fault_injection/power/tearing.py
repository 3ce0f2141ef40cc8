"""What may become of one pending change: its fates, from ``LOST`` to ``persisted``.

A write arrives in pieces, blocks or sectors of the file, in any order; of more than four pieces
beginnings, ends, holes and single ones are tried, not every subset, and ``is_complete`` says so.
What of a file's growth persists is its size before the write, after it, or at the end of the last
piece that arrived; bytes that it gained and that did not arrive are zeros, or garbage.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise
from typing import Final, Literal

from fault_injection.memory.operations import Mode, Truncate, Write

Tearing = Literal["block", "sector"]
"""How finely a write is torn."""

PIECE_BYTES: Final[dict[Tearing, int]] = {"block": 4096, "sector": 512}
_ALL_SUBSETS: Final = 4
"""Up to so many pieces every subset of them may arrive; above, beginnings, ends and holes."""
_PIECES: Final = 64
"""A write of more pieces is torn at the first and last of them, and evenly between."""
_ZEROS: Final = 512
"""The same of zeros that a file gains: they have a fate a piece, and no more."""
_GARBAGE: Final = hashlib.shake_128(b"what lay on the disk before").digest(4096)

_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of one change.

    Attributes:
        told: ``persisted``, ``LOST`` or ``torn: …``, for people.
        arrived: Of a write: the ranges of its bytes that did; sorted.
        size_bytes: Of a write: the file is at least that long; 0: it did not grow.
        is_garbage: Whether the file's growth holds garbage where nothing arrived.
    """

    told: str
    arrived: tuple[_Range, ...] = ()
    size_bytes: int = 0
    is_garbage: bool = False


LOST: Final = Fate("LOST")
PERSISTED: Final = Fate("persisted")
WHOLE_OR_NOT: Final = (LOST, PERSISTED)


def fates(write: Write, *, grows_from: int, tearing: Tearing, garbage: bool) -> tuple[Fate, ...]:
    """All fates of a write: first ``LOST``, last the one in which all of it is there.

    Args:
        write: The write.
        grows_from: Size of the file that the writer saw.
        tearing: How finely it is torn.
        garbage: Whether what did not arrive may be anything.
    """
    end = write.offset + len(write.data)
    return _fates(
        write.offset,
        end,
        min(grows_from, end),
        piece_bytes=PIECE_BYTES[tearing],
        zeros=_is_zeros(write.data),
        garbage=garbage,
    )


def is_complete(write: Write, *, grows_from: int, tearing: Tearing) -> bool:
    """Whether ``fates`` has every subset of a write's pieces: of many pieces it has some."""
    cuts = len(_cuts(write.offset, write.offset + len(write.data), PIECE_BYTES[tearing]))
    if write.offset >= grows_from and _is_zeros(write.data):
        return cuts < _ZEROS
    return cuts < _ALL_SUBSETS


def written(data: bytes, write: Write, fate: Fate) -> bytes:
    """``data`` of a file after ``write`` had that fate."""
    held = bytearray(data)
    if fate.size_bytes > len(held):
        held += bytes(max(0, write.offset - len(held)))
        held += _fill(len(held), fate.size_bytes, garbage=fate.is_garbage)
    for start, end in fate.arrived:
        held[len(held) :] = bytes(max(0, write.offset + start - len(held)))
        held[write.offset + start : write.offset + end] = write.data[start:end]
    return bytes(held)


def changed(data: bytes, change: Write | Truncate | Mode, fate: Fate) -> bytes:
    """``data`` of a file after ``change`` had that fate."""
    if isinstance(change, Write):
        return written(data, change, fate)
    if isinstance(change, Truncate) and fate is PERSISTED:
        return data[: change.size_bytes] + bytes(max(0, change.size_bytes - len(data)))
    return data


@lru_cache(maxsize=1024)
def _fates(
    start: int, end: int, size: int, *, piece_bytes: int, zeros: bool, garbage: bool
) -> tuple[Fate, ...]:
    """``start`` and ``end`` in the file, which had ``size`` bytes, at most ``end``."""
    length = end - start
    if not length:
        return WHOLE_OR_NOT
    found: dict[tuple[tuple[_Range, ...], int, bool], None] = {}
    is_plain = zeros and start >= size
    pieces = _pieces(start, end, piece_bytes, most=_ZEROS if is_plain else _PIECES)
    # Zeros that arrived are zeros that did not: only the size tells beginnings apart.
    for subset in _beginnings(pieces) if is_plain else _subsets(pieces):
        arrived = _joined(subset)
        for grown in _sizes(start, end, size, arrived):
            if not (is_plain and grown == end):
                found[arrived, grown, False] = None
            if garbage and _is_bare(max(0, size - start), grown - start, arrived):
                found[arrived, grown, True] = None
    if start < size < end:
        found[((0, size - start),), 0, False] = None  # what it overwrote, and no growth
    whole = ((0, length),)
    torn = [
        Fate(_told(arrived, grown, dirty, start=start, length=length), arrived, grown, dirty)
        for arrived, grown, dirty in found
        if arrived != whole and (arrived or grown)
    ]
    return (LOST, *torn, Fate("persisted", whole, end if end > size else 0))


def _sizes(start: int, end: int, size: int, arrived: tuple[_Range, ...]) -> tuple[int, ...]:
    """Sizes that the file may have grown to when ``arrived`` did; 0: it did not."""
    if end <= size:
        return (0,)
    last = start + arrived[-1][1] if arrived else 0
    return (last if last > size else 0, end)


def _is_bare(start: int, end: int, arrived: tuple[_Range, ...]) -> bool:
    """Whether not all of the range ``start`` to ``end`` arrived."""
    for begin, last in arrived:
        if begin > start:
            break
        start = max(start, last)
    return start < end


def _pieces(start: int, end: int, piece_bytes: int, *, most: int) -> list[_Range]:
    """A write's ranges between boundaries of pieces in its file, counted from its beginning."""
    cuts = list(_cuts(start, end, piece_bytes))
    if len(cuts) >= most:
        edge, middle = most // 4, len(cuts) // (most // 2)
        cuts = [*cuts[:edge], *cuts[edge:-edge:middle], *cuts[-edge:]]
    bounds = [0, *(cut - start for cut in cuts), end - start]
    return list(pairwise(bounds))


def _cuts(start: int, end: int, piece_bytes: int) -> range:
    """Boundaries of pieces within a write, in its file."""
    return range((start // piece_bytes + 1) * piece_bytes, end, piece_bytes)


def _is_zeros(data: bytes) -> bool:
    return data.count(0) == len(data)


def _beginnings(pieces: list[_Range]) -> Iterator[tuple[_Range, ...]]:
    return (tuple(pieces[:kept]) for kept in range(len(pieces) + 1))


def _subsets(pieces: list[_Range]) -> Iterator[tuple[_Range, ...]]:
    """Which pieces may have arrived, the fewest first; never twice the same."""
    count = len(pieces)
    if count <= _ALL_SUBSETS:
        for size in range(count + 1):
            yield from combinations(pieces, size)
        return
    yield ()
    for kept in range(1, count):
        yield tuple(pieces[:kept])
        yield tuple(pieces[kept:])
    for lost in range(1, count - 1):
        yield (*pieces[:lost], *pieces[lost + 1 :])
    yield from ((piece,) for piece in pieces[1:-1])
    yield tuple(pieces)


def _joined(pieces: tuple[_Range, ...]) -> tuple[_Range, ...]:
    joined: list[_Range] = []
    for start, end in pieces:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return tuple(joined)


def _told(arrived: tuple[_Range, ...], grown: int, dirty: bool, *, start: int, length: int) -> str:
    if not arrived:
        what = f"none of {length} bytes"
    elif arrived == ((0, arrived[0][1]),):
        what = f"first {arrived[0][1]} of {length} bytes"
    elif arrived == ((arrived[0][0], length),):
        what = f"last {length - arrived[0][0]} of {length} bytes"
    else:
        ranges = ", ".join(f"{begin} to {end}" for begin, end in arrived)
        what = f"bytes {ranges} of {length}"
    if grown > start + (arrived[-1][1] if arrived else 0):
        what += ", size grown"
    return f"torn: {what}" + (", the rest garbage" if dirty else "")


def _fill(start: int, end: int, *, garbage: bool) -> bytes:
    if not garbage:
        return bytes(end - start)
    first = start % len(_GARBAGE)
    repeated = _GARBAGE * ((end - start + first) // len(_GARBAGE) + 1)
    return repeated[first : first + end - start]
