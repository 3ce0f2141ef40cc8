"""One traced run of a job: which calls it made, which of them was struck and how, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

Fault = Literal[
    "kill-before", "kill-after", "kill-middle", "short-write", "failed-after", "EIO", "ENOSPC",
    "EINTR",
]  # fmt: skip
FAULTS: Final[tuple[Fault, ...]] = (
    "kill-before", "kill-after", "kill-middle", "short-write", "failed-after", "EIO", "ENOSPC",
    "EINTR",
)  # fmt: skip
KILLS: Final[tuple[Fault, ...]] = ("kill-before", "kill-after", "kill-middle")
"""Those that the job does not survive (F1)."""
OF_WRITES: Final[tuple[Fault, ...]] = ("kill-middle", "short-write")
"""Those that half of a write is done of; a write of one byte has no half."""

LIMIT_S: Final = 20.0
"""A run that takes longer hangs."""

Job = Callable[[int], object]
"""What is run in a forked process; it is given a descriptor to say lines on."""

ESCAPED: Final = "!escaped "
"""Begins the last line of a process whose job raised."""


@dataclass(frozen=True, slots=True)
class TracedCall:
    """One system call about a file below the top of a run.

    Attributes:
        number: From 0, over all processes of the job: the crash point.
        name: The kernel's name of it.
        path: Of the file, from the top, without a leading slash; of a link or rename the new one.
        what: Further names, sizes and flags, for people.
        size_bytes: How many bytes a write was given, 0 for all else.
        creates: Whether it is an open that may create.
        count: How many calls of that name had been made by then, this one included, about files
            anywhere; a call is found by that, and no part of what it is.
    """

    number: int
    name: str
    path: str
    what: str
    size_bytes: int = 0
    creates: bool = False
    count: int = field(default=0, compare=False)

    def __str__(self) -> str:
        return " ".join(part for part in (self.name, self.path or ".", self.what) if part)


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault at one call of a recorded run.

    Attributes:
        call: As it was recorded. A run that makes another one in its place is not struck.
        fault: What is done to it.
    """

    call: TracedCall
    fault: Fault


@dataclass(frozen=True, slots=True)
class Line:
    """What a job said.

    Attributes:
        calls: How many calls had begun by then.
        text: Without its end.
    """

    calls: int
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """What a run did.

    Attributes:
        calls: Every call below the top that was begun, in order.
        errors: By number of a call the error that it reported, injected ones too.
        said: The lines that the job said, whole ones.
        escaped: The exception that ended the job, ``Type: message``; empty: none did.
        signal: What ended its process, 0: it ended by itself.
        status: Its exit status, where it ended by itself.
        hung: Whether it was ended because it took too long.
        left: Processes that outlived it, and were ended.
        struck: Whether the strike took place, at that very call.
    """

    calls: Sequence[TracedCall]
    errors: dict[int, int]
    said: Sequence[Line]
    escaped: str = ""
    signal: int = 0
    status: int = 0
    hung: bool = False
    left: Sequence[str] = ()
    struck: bool = False


Detail = Literal["all", "struck"]
"""What is seen of a run: all calls, or the struck one alone, which is found by its count."""


class Driver(Protocol):
    """What runs a job and strikes it at a system call."""

    @property
    def faults(self) -> tuple[Fault, ...]:
        """Those that it can bring."""
        ...

    def run(
        self,
        job: Job,
        *,
        top: str,
        strike: Strike | None = None,
        detail: Detail = "all",
        limit_s: float = LIMIT_S,
    ) -> Run:
        """Run ``job`` in a process of its own; none of its processes is left when this returns.

        Args:
            job: What is done.
            top: Real path of the directory whose calls are crash points.
            strike: What is done to which of them.
            detail: With ``struck`` a run is several times as fast, its ``calls`` hold the struck
                one at most, and what was said is in order but for its number of calls.
            limit_s: How long it may take.
        """
        ...


class Heard:
    """Takes lines from the bytes that come through a pipe."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.escaped = ""
        self._rest = b""

    def take(self, data: bytes, *, calls: int = 0) -> None:
        """Take what was read when ``calls`` calls had begun; half a line waits for its end."""
        *whole, self._rest = (self._rest + data).split(b"\n")
        for line in whole:
            text = line.decode("utf-8", "replace")
            if text.startswith(ESCAPED):
                self.escaped = text.removeprefix(ESCAPED)
            else:
                self.lines.append(Line(calls, text))
