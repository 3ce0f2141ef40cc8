"""An error, for people: what it says in one line, and where it was raised."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_LIMIT_CHARS: Final = 300


def one_line(error: BaseException) -> str:
    """Its type and its text, however many lines that has."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_LIMIT_CHARS]


def place(error: BaseException, *, within: str | None = None) -> str:
    """File and line: the last on its way that is in the file ``within``, or that at its origin."""
    frames = traceback.extract_tb(error.__traceback__)
    frame = next((one for one in reversed(frames) if one.filename == within), frames[-1])
    return f"{Path(frame.filename).name}:{frame.lineno}"
