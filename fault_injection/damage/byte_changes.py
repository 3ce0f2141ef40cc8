"""What damage makes of the bytes of one file: each change with a few words about it (F14).

A file is looked at as a person would: its data, and the reserved zeros behind them, of which
only log segments have any. In the data every place is tried, or a sample, half of which lies where
a line, the file or its data begins or ends. Of more than 1,600 bytes some 512 places at least are
tried, evenly, and all at those edges; of reserved zeros, which are all alike, always a sample.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

ByteKind = Literal[
    "flip", "reserve", "nul", "insert", "drop", "cut", "blank", "sector", "double", "extend"
]
"""Kinds of damage, in the order in which they are tried:

``flip``     one byte of the data becomes another
``reserve``  one reserved zero becomes another byte
``nul``      one byte of the data becomes NUL, as a sector that never arrived
``insert``   a byte comes in
``drop``     a byte goes
``cut``      the file ends earlier
``blank``    from some place on there are zeros, up to the old length
``sector``   512 bytes at a multiple of 512 are zeros
``double``   a line, or all of it, is there twice
``extend``   something comes behind the end
"""

INSERTED: Final = (b"\x00", b"\n", b"\r", b" ", b"0", b"}", b'"', b"\xff")
SECTOR_BYTES: Final = 512
_FEED: Final = 0x0A
_NEAR: Final = 2
_STRIDE: Final = 4096
_LARGE_BYTES: Final = 1600
_LARGE_PLACES: Final = 512
_LAST_FEEDS: Final = 3


@dataclass(frozen=True, slots=True)
class Sample:
    """How many places of a file are tried.

    Attributes:
        places: So many of all, and so many of those near an edge; None: all.
        seed: Decides the chance.
    """

    places: int | None
    seed: str

    def of(self, data: bytes, *, ends: bool = False) -> list[int]:
        """Places in the data, ascending; with ``ends`` the place behind it as well."""
        size = len(data.rstrip(b"\0")) + ends
        near = sorted({place for place in _near(data) if place < size})
        step = size // _LARGE_PLACES if size > _LARGE_BYTES else 1
        return sorted({*self.few(range(0, size, step)), *self.few(near)})

    def few(self, found: Sequence[int]) -> list[int]:
        """So many of these places, in their order."""
        if self.places is None or len(found) <= self.places:
            return list(found)
        return sorted(random.Random(f"{self.seed} {len(found)}").sample(found, self.places))


def changes(kind: ByteKind, data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    """Every change of one kind that makes other bytes, or a sample of them."""
    for what, changed in _CHANGES[kind](data, sample):
        if changed != data:
            yield what, changed


def is_all(kind: ByteKind, data: bytes, sample: Sample) -> bool:
    """Whether ``changes`` tries every place."""
    if kind == "reserve":
        tried, zeros = len(list(_reserved(data))), len(data) - len(data.rstrip(b"\0"))
        return tried == zeros and (sample.places is None or zeros <= sample.places)
    return sample.places is None and len(data.rstrip(b"\0")) <= _LARGE_BYTES


def _near(data: bytes) -> Iterator[int]:
    """Places where a line, the file or its data begins or ends."""
    feeds = [place for place, byte in enumerate(data) if byte == _FEED]
    for edge in (0, *feeds, len(data.rstrip(b"\0"))):
        yield from range(max(0, edge - _NEAR), edge + _NEAR + 1)


def _put(data: bytes, place: int, byte: int) -> bytes:
    return b"%b%c%b" % (data[:place], byte, data[place + 1 :])


def _flip(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.of(data):
        yield (
            f"bit {place % 8} of byte {place} flipped",
            _put(data, place, data[place] ^ 1 << place % 8),
        )


def _reserved(data: bytes) -> Iterator[int]:
    """Some of the zeros behind the data: the first and last, and one of each page."""
    first, last = len(data.rstrip(b"\0")), len(data)
    near = {*range(first, min(first + 8, last)), *range(max(first, last - 8), last)}
    yield from sorted(near | set(range(first - first % -_STRIDE, last, _STRIDE)))


def _reserve(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.few(list(_reserved(data))):
        byte = INSERTED[1 + place % (len(INSERTED) - 1)]
        yield f"reserved byte {place} is {byte!r}", _put(data, place, byte[0])


def _nul(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    # Always the last line feeds: what stands behind one that never arrived must be found.
    feeds = [place for place, byte in enumerate(data) if byte == _FEED]
    for place in sorted({*sample.of(data), *feeds[-_LAST_FEEDS:]}):
        yield f"byte {place} is NUL", _put(data, place, 0)


def _insert(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.of(data, ends=True):
        byte = INSERTED[place % len(INSERTED)]
        yield f"{byte!r} comes in at {place}", data[:place] + byte + data[place:]


def _drop(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.of(data):
        yield f"byte {place} goes", data[:place] + data[place + 1 :]


def _cut(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for size in sample.of(data, ends=True):
        yield f"ends after {size} bytes", data[:size]


def _blank(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.of(data):
        yield f"zeros from byte {place} on", data[:place] + bytes(len(data) - place)


def _sector(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    for place in sample.few(range(0, len(data.rstrip(b"\0")), SECTOR_BYTES)):
        zeros = bytes(len(data[place : place + SECTOR_BYTES]))
        yield f"the sector at {place} is zeros", data[:place] + zeros + data[place + len(zeros) :]


def _double(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    lines = data.split(b"\n")
    for number in sample.few(range(len(lines) - 1)):
        line = lines[number]
        before = b"".join(text + b"\n" for text in lines[: number + 1])
        yield f"line {number + 1} is there twice", before + line + b"\n" + data[len(before) :]
    yield "all of it is there twice", data * 2


def _extend(data: bytes, sample: Sample) -> Iterator[tuple[str, bytes]]:
    behind = (b"\n", b" ", b"\0", bytes(SECTOR_BYTES), b"{}\n", b"\xff", data[-40:])
    for more in (behind[number] for number in sample.few(range(len(behind)))):
        yield f"{more[:8]!r} comes behind it", data + more


_CHANGES: Final[dict[ByteKind, Callable[[bytes, Sample], Iterator[tuple[str, bytes]]]]] = {
    "flip": _flip,
    "reserve": _reserve,
    "nul": _nul,
    "insert": _insert,
    "drop": _drop,
    "cut": _cut,
    "blank": _blank,
    "sector": _sector,
    "double": _double,
    "extend": _extend,
}
