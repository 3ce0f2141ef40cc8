r"""The state that ``save`` is given: JSON text, read once, bounded, and taken strictly.

The same value comes back from ``load``; white space and the spelling of numbers and texts do
not. What another reader of the same text could take for another value is refused instead:

* a key that stands twice in one object, however it is spelled
* ``NaN``, ``Infinity``, and numbers beyond IEEE 754 double precision, such as ``1e999``
* integers beyond 64 bits, which many readers round
* bytes that are not UTF-8, a byte order mark, anything behind the value

A number with a fraction or an exponent means the nearest IEEE double, as everywhere in JSON:
``1.0000000000000000001`` is ``1.0``, ``1e-999`` is ``0.0``; ``-0`` is ``-0.0``. Half of a
surrogate pair and too deep a nesting are refused by ``formats.state``, as for any caller.
"""

from __future__ import annotations

import errno as errnos
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from typing import Final

from lastgood import private_file
from lastgood.errors import LimitError, StateError, StorageError, UsageError, printable
from lastgood.formats.canonical import JSON
from lastgood.formats.limits import Limits
from lastgood.storage.filesystem import FileSystem, OsFileSystem

STDIN: Final = "-"
_STDIN_FD: Final = 0
# Unlike a store's files this one is the caller's own business: a link or a pipe will do.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOCTTY", 0)

_BOM: Final = "\ufeff"
_INTEGERS: Final = range(-(2**63), 2**64)
_MAX_INTEGER_CHARS: Final = 20
_CONSTANTS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_TOKEN: Final = re.compile(
    r'(?P<text>"(?:[^"\\]++|\\.)*+")(?P<colon>[ \t\n\r]*:)?'
    r'|(?P<mark>[{}\[\],])|(?P<word>[^ \t\n\r"{}\[\]:,]++)',
    re.DOTALL,
)


def read(name: str, *, limits: Limits, filesystem: FileSystem | None = None) -> JSON:
    """Read the state from the file ``name``, or from standard input if that is ``-``.

    Raises:
        UsageError: There is no such file, or standard input is a terminal or closed.
        StorageError: It cannot be read.
        LimitError: It is larger than a payload may be; no more than that was read.
        StateError: It is not JSON, or would not come back as it is; names line and column.
    """
    filesystem = OsFileSystem() if filesystem is None else filesystem
    limit_bytes = limits.payload_bytes
    try:
        data = _bytes(name, max_bytes=limit_bytes, filesystem=filesystem)
    except OSError as error:
        raise _unreadable(name, error) from error
    if len(data) > limit_bytes:
        raise LimitError(f"{_shown(name)} has more than {limit_bytes} bytes")
    return parse(data)


def parse(data: bytes) -> JSON:
    """The one value that ``data`` means.

    Raises:
        StateError: It means none, or not surely one; names line and column.
    """
    text = _decoded(data)
    try:
        return json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=_constant,
        )
    except json.JSONDecodeError as error:
        reason = error.msg.removesuffix(" at").lower() if text.strip() else "it is empty"
        raise _refusal(f"not JSON ({reason})", text, error.pos) from None
    except _RefusedError as refused:
        raise _refusal(str(refused), text, _first_refused(text)) from None
    except RecursionError:
        raise StateError("it is nested too deep") from None


class _RefusedError(Exception):
    """JSON that two readers could take for two values; the place is found afterwards."""


def _object(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RefusedError("a key stands twice in one object")
    return found


def _integer(digits: str) -> int | float:
    if digits == "-0":
        return -0.0
    # The length first: Python itself refuses to read one of 5,000 digits.
    if len(digits) > _MAX_INTEGER_CHARS or int(digits) not in _INTEGERS:
        raise _RefusedError("an integer beyond 64 bits")
    return int(digits)


def _fraction(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _RefusedError("a number beyond double precision")
    return value


def _constant(word: str) -> JSON:
    raise _RefusedError(f"JSON has no {word}")


def _bytes(name: str, *, max_bytes: int, filesystem: FileSystem) -> bytes:
    if name == STDIN:
        if sys.stdin is None:
            raise UsageError("Standard input is closed", do="Name a file with --state FILE")
        if os.isatty(_STDIN_FD):
            raise UsageError(
                "The state would be read from standard input, which is a terminal",
                do="Name a file with --state FILE, or pipe the state in",
            )
        return private_file.read_to_end(_STDIN_FD, max_bytes=max_bytes, filesystem=filesystem)
    fd = filesystem.open(name, _FLAGS)
    try:
        return private_file.read_to_end(fd, max_bytes=max_bytes, filesystem=filesystem)
    finally:
        filesystem.close(fd)


def _unreadable(name: str, error: OSError) -> UsageError | StorageError:
    if error.errno in (errnos.ENOENT, errnos.ENOTDIR, errnos.EISDIR):
        what = "is a directory" if error.errno == errnos.EISDIR else "does not exist"
        return UsageError(f"{_shown(name)} {what}", do="Name the file that holds the state")
    return StorageError(
        f"{_shown(name)} cannot be read",
        errno=error.errno or 0,
        safe="Nothing was changed",
    )


def _shown(name: str) -> str:
    return "Standard input" if name == STDIN else f"The state file {printable(name)}"


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        before = data[: error.start].decode()
        raise _refusal("not UTF-8", before, len(before)) from None
    if text.startswith(_BOM):
        raise _refusal("a byte order mark", text, 0)
    return text


def _refusal(reason: str, text: str, at: int) -> StateError:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return StateError(
        reason, path=f"line {line} column {column}", do="Mend the JSON text and save it again"
    )


def _first_refused(text: str) -> int:
    """Where the first refused token begins; the text is JSON up to there."""
    return next(_refused(text), 0)


def _refused(text: str) -> Iterator[int]:
    keys: list[set[str]] = []
    for token in _TOKEN.finditer(text):
        if token["mark"] in ("{", "["):
            keys.append(set())
        elif token["mark"] in ("}", "]"):
            keys.pop()
        elif token["colon"]:
            key = json.loads(token["text"])
            if key in keys[-1]:
                yield token.start()
            keys[-1].add(key)
        elif token["word"] and _is_refused(token["word"]):
            yield token.start()


def _is_refused(word: str) -> bool:
    if word in _CONSTANTS:
        return True
    try:
        _fraction(word) if set(word) & set(".eE") else _integer(word)
    except _RefusedError:
        return True
    except ValueError:
        return False  # true, false, null
    return False
