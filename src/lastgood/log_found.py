"""What one reading finds of an event log; ``log_reading`` makes it."""

from __future__ import annotations

from dataclasses import dataclass

from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.rules.tail import Torn


@dataclass(frozen=True, slots=True)
class Link:
    """A live segment: where it begins, and how much of it is the log's.

    Attributes:
        name: The segment.
        before: The log's end before its first line.
        until: Its valid length, as its successor names it; None for the last one.
    """

    name: str
    before: LogAnchor
    until: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFound:
    """What one reading found of a log.

    Attributes:
        end: The anchor of its last event.
        links: Its live segments, ascending, from the one that was asked for on.
        torn: What a crash left behind the end, or None.
        skipped: Newer segments without a whole first line.
        stray: Segments that no first line names, of an older epoch than what took over.
        damaged: Those of both that are damaged, where a person decided to go on without them.
        leftovers: Segments below the floor: an unfinished trimming; nothing needs them.
        behind: Segments with bytes behind the length that their successor names.
        epoch: The highest epoch in a segment's name; 0 without any.
        size_bytes: Of all live segments that were read, without reserved bytes.
    """

    end: LogAnchor = EMPTY
    links: tuple[Link, ...] = ()
    torn: Torn | None = None
    skipped: tuple[str, ...] = ()
    stray: tuple[str, ...] = ()
    damaged: tuple[str, ...] = ()
    leftovers: tuple[str, ...] = ()
    behind: tuple[str, ...] = ()
    epoch: int = 0
    size_bytes: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether a crash left nothing in it."""
        return self.torn is None and not self.skipped

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know of it."""
        skipped = (f"{name} holds no whole first line and is skipped" for name in self.skipped)
        stray = (f"{name} was written by a fenced owner and is not believed" for name in self.stray)
        torn = () if self.torn is None else (str(self.torn),)
        behind = (
            f"{name} holds bytes behind its valid length, which stay and are not believed"
            for name in self.behind
        )
        return (*torn, *skipped, *stray, *behind)
