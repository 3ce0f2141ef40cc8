"""Which of many exit codes a command leaves with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lastgood.errors import EXIT_GOOD, EXIT_LIMITED, LastgoodError

_WORST_FIRST: Final = (2, 3, 4, 5, 9, 10, 8, 7, 1, EXIT_LIMITED, EXIT_GOOD)
"""Altered data, then what cannot be understood or believed, then what could not be looked at."""


def worst(errors: Iterable[LastgoodError | None]) -> LastgoodError | None:
    """The error that weighs most, the first of equals; None if there is none."""
    found = [error for error in errors if error is not None]
    return min(found, key=lambda error: _rank(error.exit_code), default=None)


def worst_code(codes: Iterable[int]) -> int:
    """The exit code that weighs most."""
    return min(codes, key=_rank, default=EXIT_GOOD)


def _rank(code: int) -> int:
    return _WORST_FIRST.index(code) if code in _WORST_FIRST else 0
