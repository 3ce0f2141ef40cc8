"""The name of one state, from which it can be built again.

``v1.L3.saves.weak.81.3f9c0a12b4d5``: version, level, workload, variant (a persistence model, a
fault, a kind of damage), crash point (a number of calls), and the choice at that point. Every part
is ASCII letters, digits and ``-_+@``. What a variant and a choice mean is the level's business;
it builds the state from the source of the workload, never from stored bytes. A change of code
that changes the calls makes another state of it, or none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, Self

VERSION: Final = "v1"
"""Raised whenever the same id would name another state."""

LevelName = Literal["L1", "L2", "L3", "L5"]
LEVELS: Final[tuple[LevelName, ...]] = ("L1", "L2", "L3", "L5")
_PART: Final = re.compile(r"[A-Za-z0-9_+@-]+")


class BadStateIdError(ValueError):
    """No state has this name; the message is one line for people."""


@dataclass(frozen=True, slots=True)
class StateId:
    """One state.

    Attributes:
        level: Which level found it.
        workload: Name of the workload.
        variant: Persistence model, fault, or kind of damage.
        point: How many calls had returned, or which call is struck.
        choice: Which of the states at that point.
    """

    level: LevelName
    workload: str
    variant: str
    point: int
    choice: str

    def __str__(self) -> str:
        """The name that ``parse`` reads."""
        parts = (VERSION, self.level, self.workload, self.variant, str(self.point), self.choice)
        return ".".join(parts)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a name.

        Raises:
            BadStateIdError: It is of another version, or no name at all.
        """
        parts = text.split(".")
        if parts[0] != VERSION and re.fullmatch(r"v[0-9]+", parts[0]):
            raise BadStateIdError(
                f"{text!r} was found by version {parts[0]} of the harness, this is {VERSION}; "
                "run it again to find the state's present name"
            )
        whole = parts[0] == VERSION and len(parts) == 6 and all(map(_PART.fullmatch, parts))
        if not whole or not _is_number(parts[4]):
            raise BadStateIdError(
                f"{text!r} is not the name of a state: v1.LEVEL.WORKLOAD.VARIANT.N.CHOICE"
            )
        for level in LEVELS:
            if parts[1] == level:
                return cls(level, parts[2], parts[3], int(parts[4]), parts[5])
        raise BadStateIdError(f"{text!r} names no level of {', '.join(LEVELS)}")


def is_part(text: str) -> bool:
    """Whether ``text`` may be a part of a name."""
    return _PART.fullmatch(text) is not None


def _is_number(text: str) -> bool:
    return re.fullmatch(r"0|[1-9][0-9]{0,8}", text) is not None
