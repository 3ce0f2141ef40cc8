"""Texts, made harmless for a terminal (T12) and exact for who must act on them."""

from __future__ import annotations

import re
import shlex
from typing import Final

from lastgood.errors import LastgoodError, UnknownSchemaError, printable

_BEYOND_ASCII: Final = re.compile(r"[^\x20-\x7e]+")
_MAX_CELL_CHARS: Final = 1_000
_MAX_TYPED_CHARS: Final = 200
_PLACEHOLDER: Final = re.compile(r"(?<=lastgood )(verify|list|load) SESSION\b")


def cell(value: object) -> str:
    """``value`` as it may stand in a line: escaped; ``-`` for nothing."""
    return "-" if value is None or value == "" else printable(value, limit_chars=_MAX_CELL_CHARS)


def harmless(text: str) -> str:
    """``text`` without what a terminal could act on; backslashes stay as they are.

    For texts whose parts were escaped when they were put together: a second escape would
    double their backslashes.
    """
    return "\\".join(printable(part, limit_chars=len(part)) for part in text.split("\\"))


def harmless_json(data: bytes) -> bytes:
    r"""The same JSON, with every character that a terminal could act on as ``\uXXXX``.

    Outside of texts JSON is printable ASCII, so only texts change, and only in their spelling.
    """
    if data.isascii() and b"\x7f" not in data:
        return data
    return _BEYOND_ASCII.sub(_escaped_run, data.decode()).encode()


def fill(error: LastgoodError, *, session: str | None) -> LastgoodError:
    """Make ``error`` say what helps on the command line; returns it."""
    if isinstance(error, UnknownSchemaError) and error.do == UnknownSchemaError.default_do:
        error.do = (
            "If you know that schema, name it with --schema-version, otherwise run the program "
            "version that knows it"
        )
    error.do = named(error.do, session=session)
    return error


def named(text: str, *, session: str | None) -> str:
    """``text`` with the session in place of ``SESSION`` in the commands that it names.

    A session that cannot be typed as it is printed is left out.
    """
    if not session or harmless(session) != session or len(session) > _MAX_TYPED_CHARS:
        return text
    word = ("-- " if session.startswith("-") else "") + shlex.quote(session)
    return _PLACEHOLDER.sub(lambda found: f"{found[1]} {word}", text)


def _escaped_run(run: re.Match[str]) -> str:
    text = run[0]
    if printable(text, limit_chars=len(text)) == text:
        return text
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if printable(character) == character:
        return character
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
