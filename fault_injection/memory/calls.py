"""One system call as it is recorded, and what a hook may do to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

from fault_injection.memory.operations import Operation, is_sync

CallName = Literal[
    "open", "close", "read", "pread", "writev", "pwrite", "fsync", "fdatasync", "fstat", "stat",
    "fchmod", "ftruncate", "link", "rename", "unlink", "mkdir", "listdir", "flock", "write",
    "other",
]  # fmt: skip
SYNCS: Final = ("fsync", "fdatasync")
WRITES: Final = ("writev", "pwrite", "write")
CHANGES: Final = (*WRITES, *SYNCS, "fchmod", "ftruncate", "link", "rename", "unlink", "mkdir")
"""Calls that change a file, a name, or what is durable; an open that creates does, too."""


@dataclass(slots=True)
class Call:
    """One system call.

    Attributes:
        number: From 0, over all processes of a machine.
        process: Which process made it, from 1.
        name: Of the method of the seam; ``write`` and ``other`` are calls of a traced process that
            the seam does not have, the latter named in ``what``.
        what: The names, sizes and flags it is about, for people.
        path: Of the file it is about, without a leading slash; of a rename or link the new one.
        inode: Of the file it is about, 0 if there is none.
        fd: The descriptor it is about, of an open the one it gave; -1: none.
        creates: Whether it is an open that may create.
        operations: What it changed.
        error: Number of the error that it reported, 0: none.
        injected: What a hook did to it, for people; empty: nothing.
    """

    number: int
    process: int
    name: CallName
    what: str
    path: str = ""
    inode: int = 0
    fd: int = -1
    creates: bool = False
    operations: list[Operation] = field(default_factory=list)
    error: int = 0
    injected: str = ""

    @property
    def changes(self) -> bool:
        """Whether it is of a kind that changes something."""
        return self.name in CHANGES or self.creates

    @property
    def alters(self) -> bool:
        """Whether it did change what is seen; a sync does not."""
        return not all(map(is_sync, self.operations))


@dataclass(frozen=True, slots=True)
class Fail:
    """The call has no effect and reports an error; a sync loses what it should have written."""

    number: int


@dataclass(frozen=True, slots=True)
class FailAfter:
    """The call takes effect and reports an error (F7)."""

    number: int


@dataclass(frozen=True, slots=True)
class Short:
    """A write writes only half of what it was given, at least one byte (F8)."""


@dataclass(frozen=True, slots=True)
class Die:
    """The process ends here (F1): before the call, after it, or in the middle of a write."""

    when: Literal["before", "middle", "after"] = "before"


Injection = Fail | FailAfter | Short | Die
Hook = Callable[[Call], Injection | None]
"""Asked before each call."""


class Killed(BaseException):
    """The process is dead; no handler of the code under test may stop this."""
