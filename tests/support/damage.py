"""Damage: every record that one small change can make of another (T2, C12-08)."""

from __future__ import annotations

import random
from collections.abc import Iterator

INSERTED = (b"\x00", b"\n", b"\r", b" ", b"0", b"}", b'"', b"\xff")


def flips(data: bytes, *, bits: tuple[int, ...] = tuple(range(8))) -> Iterator[tuple[str, bytes]]:
    """Each byte with each of ``bits`` flipped."""
    for place in range(len(data)):
        for bit in bits:
            changed = bytes([data[place] ^ 1 << bit])
            yield f"bit {bit} of byte {place} flipped", data[:place] + changed + data[place + 1 :]


def deletions(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each byte left out."""
    for place in range(len(data)):
        yield f"byte {place} deleted", data[:place] + data[place + 1 :]


def duplicates(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each byte twice."""
    for place in range(len(data)):
        yield f"byte {place} doubled", data[:place] + data[place : place + 1] + data[place:]


def insertions(data: bytes) -> Iterator[tuple[str, bytes]]:
    """One of ``INSERTED`` before each byte and at the end, in turn."""
    for place in range(len(data) + 1):
        byte = INSERTED[place % len(INSERTED)]
        yield f"{byte!r} inserted at {place}", data[:place] + byte + data[place:]


def truncations(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Each prefix, the empty one included, the whole not."""
    for size in range(len(data)):
        yield f"cut to {size} bytes", data[:size]


def extensions(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Something behind the record: padding, a second object, a tail, the record again (C2-04)."""
    lines = data.split(b"\n")
    for more in (
        b"\n", b"\n\n", b"\r\n", b" ", b"\x00", b"\x00" * 4096, b'"}', b"{}", b"{}\n", b"\n{}\n",
        lines[2] + b"\n", data[-40:], data, b"\xff", b"\xef\xbb\xbf",
    ):  # fmt: skip
        yield f"extended by {more[:12]!r}", data + more


def misreadings(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What editors, transfers and disks do to a whole file (C2-01, C2-02)."""
    first, header, payload, _ = data.split(b"\n")
    yield "CRLF", data.replace(b"\n", b"\r\n")
    yield "CR", data.replace(b"\n", b"\r")
    yield "CRLF at the end", data[:-1] + b"\r\n"
    yield "no last line feed", data[:-1]
    yield "BOM", b"\xef\xbb\xbf" + data
    yield "UTF-16", data.decode().encode("utf-16")
    yield "empty", b""
    yield "line feeds", b"\n" * 4
    yield "zeros", bytes(len(data))
    yield "zeros from the middle", data[: len(data) // 2] + bytes(len(data) - len(data) // 2)
    yield "zeros to the middle", bytes(len(data) // 2) + data[len(data) // 2 :]
    yield "blank line before", b"\n" + data
    yield "blank line between", first + b"\n\n" + header + b"\n" + payload + b"\n"
    yield "lines swapped", first + b"\n" + payload + b"\n" + header + b"\n"
    yield "no payload", first + b"\n" + header + b"\n"
    yield "empty payload", first + b"\n" + header + b"\n\n"
    yield "no seal", header + b"\n" + payload + b"\n"
    yield "twice", data * 2
    yield "pretty printed", data.replace(b",", b", ").replace(b":", b": ")
    yield "one line", first + header + payload + b"\n"


def chunkings(data: bytes, *, seed: int) -> Iterator[tuple[str, list[bytes]]]:
    """``data`` cut into chunks in every way that has ever mattered; joined they are ``data``."""
    yield "whole", [data]
    yield "bytes", [data[i : i + 1] for i in range(len(data))]
    yield "empty chunks", [b"", data[:7], b"", b"", data[7:], b""]
    for size in (2, 3, 16, 255, 256, 257, 512, 4096):
        yield f"by {size}", [data[i : i + size] for i in range(0, len(data), size)]
    yield "at line feeds", data.replace(b"\n", b"\n\x00cut").split(b"\x00cut")
    yield "seeded", seeded_chunks(data, seed=seed)


def seeded_chunks(data: bytes, *, seed: int) -> list[bytes]:
    """``data`` cut at places that ``seed`` chooses."""
    chance = random.Random(seed)
    places = sorted(chance.randint(0, len(data)) for _ in range(chance.randint(0, 6)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]
