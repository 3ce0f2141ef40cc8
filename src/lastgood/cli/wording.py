"""Texts, made harmless for a terminal (T12) and exact for who must act on them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from lastgood.errors import (
    DamagedError,
    LastgoodError,
    LimitError,
    UnknownSchemaError,
    printable,
)

AFTER_VERIFY_DO: Final = (
    "Put back a copy of the session, or begin a new one from what still verifies, shown by: "
    "lastgood list SESSION"
)
"""What to do about damage for who has asked ``verify`` already."""

_BEYOND_ASCII: Final = re.compile(r"[^\x20-\x7e]+")
_MAX_CELL_CHARS: Final = 1_000
_MAX_TYPED_CHARS: Final = 200
_COMMAND: Final = re.compile(
    r"(?<=lastgood )(?:"
    r"(?:(?P<verb>verify|effects list|list|load) SESSION|(?P<whole>sessions))\b(?! --)"
    r"|(?P<more>show|repair|migrate|effects resolve) SESSION\b(?P<which> FINGERPRINT\b)?"
    r"(?P<behind>(?: --[a-z-]+(?: [A-Z0-9]+(?::[A-Z]+)?\b)?)*))"
)


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


def fill(
    error: LastgoodError, *, session: str | None, verb: str = "", place: Sequence[str] = ()
) -> LastgoodError:
    """Make ``error`` say what helps on the command line; returns it."""
    if isinstance(error, UnknownSchemaError) and error.do == UnknownSchemaError.default_do:
        error.do = (
            "If you know that schema, name it with --schema-version, otherwise run the program "
            "version that knows it"
        )
    if isinstance(error, LimitError) and error.do == LimitError.default_do:
        error.do = (
            "Make it smaller, or raise the limit for all who read it, here with --raise-limit"
        )
    if verb == "verify" and error.do == DamagedError.default_do:
        error.do = AFTER_VERIFY_DO
    error.do = named(error.do, session=session, place=place)
    return error


def named(text: str, *, session: str | None, place: Sequence[str] = ()) -> str:
    """``text`` with its commands made such that, pasted, they do what is meant.

    Pasted without the ``place``, a command would look at the store that the environment names.
    Commands that name both already are left alone; some are followed by options of their own.

    Args:
        text: What is said.
        session: Stands in place of ``SESSION``, if it can be typed as it is printed.
        place: Options that lead to the store; ``…`` stands for one that cannot be typed so.
    """
    word = "SESSION"
    if session and _can_be_typed(session):
        word = ("-- " if session.startswith("-") else "") + shlex.quote(session)
    options = "".join(f" {shlex.quote(o) if _can_be_typed(o) else '…'}" for o in place)

    def command(found: re.Match[str]) -> str:
        if found["whole"]:
            return found["whole"] + options
        verb, behind = found["verb"] or found["more"], found["behind"] or ""
        which = found["which"] or ""
        if word.startswith("-"):  # behind its two hyphens, nothing is an option any more
            return f"{verb}{options}{behind} {word}{which}"
        return f"{verb}{options} {word}{which}{behind}"

    return _COMMAND.sub(command, text)


def _can_be_typed(word: str) -> bool:
    return harmless(word) == word and len(word) <= _MAX_TYPED_CHARS


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
