"""Canonical bytes: PAE, and JSON in exactly one form.

PAE (pre-authentication encoding) makes one byte string of many, so that no two
different lists give the same bytes: an 8-byte little-endian count, then for each
item its 8-byte little-endian length and its bytes. Text is UTF-8, a number is its
8-byte little-endian form.

JSON is UTF-8 without spaces, fields in the order in which they were put in, and
one form per value. ``decode`` accepts only that form: it encodes what it read
again and compares. This refuses in one stroke what a parser would let pass
silently: duplicate keys, integers beyond 64 bits read as floats, ``1e999``,
escapes that nobody here writes, white space, a byte order mark.

One thing may differ: how a float is spelled. orjson 3.11.6 wrote ``1e16`` where
3.11.7 writes ``1e+16``, and a store must outlive an upgrade. So two spellings of
one float are the same form; a float and an integer never are.
"""

from __future__ import annotations

import errno
import re
from typing import Any, Final

import orjson

from lastgood.errors import DamagedError, StorageError

JSON = Any
"""Plain JSON data: dict with str keys, list, str, int (64 bits), float (finite), bool, None."""

_PLAIN = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)

_NO_MEMORY: Final = "Not enough memory"
_TEXT_OR_NUMBER: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"|-?[0-9][0-9.eE+-]*+')


def pae(*items: bytes | str | int) -> bytes:
    """Return the pre-authentication encoding of ``items``.

    Raises:
        OverflowError: A number is negative or does not fit into 8 bytes.
    """
    parts = [_number(len(items))]
    for item in items:
        data = _number(item) if isinstance(item, int) else item
        data = data.encode() if isinstance(data, str) else data
        parts += (_number(len(data)), data)
    return b"".join(parts)


def _number(value: int) -> bytes:
    return value.to_bytes(8, "little")


def encode(value: JSON) -> bytes:
    """Return the canonical JSON of ``value``, fields in their own order.

    Raises:
        TypeError: ``value`` cannot be JSON (``orjson.JSONEncodeError`` is a TypeError). What is
            silently changed instead (NaN, tuples) is refused earlier, by ``formats.state``.
    """
    return orjson.dumps(value, option=_PLAIN)


def decode(data: bytes, *, name: str = "") -> JSON:
    """Parse ``data``, which was authenticated before, if it is canonical JSON.

    Args:
        data: The very bytes that were verified.
        name: File they came from, for the message.

    Raises:
        DamagedError: It is not JSON, or not in its one canonical form.
        StorageError: There is not enough memory to tell: that is no damage.
    """
    try:
        value = _parsed(data, name=name)
        again = encode(value)
    except (orjson.JSONDecodeError, TypeError, RecursionError) as error:
        raise DamagedError("a verified part is not JSON that lastgood writes", name=name) from error
    if again != data and _floats_respelled(again) != _floats_respelled(data):
        raise DamagedError("a verified part is not in canonical form", name=name)
    return value


def _parsed(data: bytes, *, name: str) -> JSON:
    """Parse; the parser reports its want of memory as if the text were wrong."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        if not error.msg.startswith(_NO_MEMORY):
            raise
        what = f"Parsing {name}" if name else "Parsing a record"
        do = "Give the process more memory and run the command again"
        raise StorageError(what, errno=errno.ENOMEM, do=do) from error


def _floats_respelled(data: bytes) -> bytes:
    """JSON with every float in Python's spelling; only asked for when two forms differ."""
    return _TEXT_OR_NUMBER.sub(_respelled, data)


def _respelled(token: re.Match[bytes]) -> bytes:
    text_or_integer = token[0][:1] == b'"' or not set(b".eE") & set(token[0])
    return token[0] if text_or_integer else repr(float(token[0])).encode()
