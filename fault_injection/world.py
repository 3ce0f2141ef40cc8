"""What the outside world knows of a job: which acts it began, and what it was told of each.

A recovery is judged by this alone, never by what the code under test believed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

Outcome = Literal["open", "acknowledged", "refused"]
"""``open``: begun, and nobody was told how it ended; ``refused``: told that nothing happened."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that a job asked for.

    Attributes:
        name: Of its own in a job, one word.
        kind: What it does: ``save``, ``append``, or the workload's own word.
        outcome: What the world was told.
    """

    name: str
    kind: str
    outcome: Outcome = "open"


@dataclass(frozen=True, slots=True)
class Told:
    """All acts up to one instant, in the order in which they began."""

    acts: tuple[Act, ...] = ()

    def of(self, kind: str) -> Told:
        """Only those of one kind."""
        return Told(tuple(act for act in self.acts if act.kind == kind))

    def names(self, *outcomes: Outcome) -> list[str]:
        """Names of the acts with one of ``outcomes``; of all without."""
        return [act.name for act in self.acts if not outcomes or act.outcome in outcomes]

    def missing(self, found: Collection[str]) -> list[str]:
        """O1: what was acknowledged and is not in ``found``."""
        return [name for name in self.names("acknowledged") if name not in found]

    def unasked(self, found: Sequence[str]) -> list[str]:
        """O2: what is in ``found`` and was never asked for, was refused, or comes out of order."""
        waiting = self.names("acknowledged", "open")
        wrong = []
        for name in found:
            if name in waiting:
                del waiting[: waiting.index(name) + 1]
            else:
                wrong.append(name)
        return wrong

    def newest(self) -> str | None:
        """Of acts that replace each other: the last that was acknowledged."""
        known = self.names("acknowledged")
        return known[-1] if known else None

    def may_be_newest(self) -> list[str | None]:
        """Of acts that replace each other: all that may be found; None: none of them."""
        behind: list[str | None] = []
        for act in reversed(self.acts):
            if act.outcome == "acknowledged":
                return [act.name, *behind]
            if act.outcome == "open":
                behind.append(act.name)
        return [None, *behind]

    def settled(self, found: Collection[str]) -> Told:
        """After a recovery for writing: what was found stays, what was open and is not is over."""

        def outcome(act: Act) -> Outcome:
            if act.outcome != "open":
                return act.outcome
            return "acknowledged" if act.name in found else "refused"

        return Told(tuple(replace(act, outcome=outcome(act)) for act in self.acts))


@dataclass(frozen=True, slots=True)
class Mark:
    """The world learnt something.

    Attributes:
        calls: How many calls had returned by then.
        told: All that it knew from then on.
    """

    calls: int
    told: Told


class World:
    """Keeps what a job says while it runs.

    Args:
        told: What is known from before.
        calls: Counts the calls that have returned.
        say: Is given a line for each thing that is learnt; for jobs in another process.
    """

    def __init__(
        self,
        told: Told | None = None,
        *,
        calls: Callable[[], int] = lambda: 0,
        say: Callable[[str], object] | None = None,
    ) -> None:
        self.told = told or Told()
        self.marks: list[Mark] = []
        self._calls = calls
        self._say = say
        self._learn(self.told)

    @contextmanager
    def act(
        self, name: str, *, kind: str = "save", definite: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Begin an act; it is acknowledged when the block ends, and stays open if it raises.

        Args:
            name: Of its own in a job, one word.
            kind: What it does.
            definite: Errors that promise that nothing happened.
        """
        self.begin(name, kind=kind)
        try:
            yield
        except definite:
            self.end(name, "refused")
            raise
        self.end(name, "acknowledged")

    def begin(self, name: str, *, kind: str = "save") -> None:
        """An act begins; one that was refused may begin again."""
        if name in self.told.names("acknowledged", "open"):
            raise ValueError(f"there are two acts {name!r}")
        others = (act for act in self.told.acts if act.name != name)
        self._learn(Told((*others, Act(name, kind))))
        self._tell(f"begin {kind} {name}")

    def turn(self, name: str, *, kind: str) -> None:
        """An act is of another kind from now on, because of what others did meanwhile."""
        if name not in self.told.names():
            raise ValueError(f"there is no act {name!r}")
        acts = (replace(act, kind=kind) if act.name == name else act for act in self.told.acts)
        self._learn(Told(tuple(acts)))
        self._tell(f"turn {kind} {name}")

    def end(self, name: str, outcome: Outcome) -> None:
        """The world is told how an act ended."""
        self._learn(
            Told(
                tuple(
                    replace(act, outcome=outcome) if act.name == name else act
                    for act in self.told.acts
                )
            )
        )
        self._tell(f"{outcome} {name}")

    def settle(self, found: Collection[str]) -> None:
        """The job was opened for writing, and these acts are in what it found (O4)."""
        self._learn(self.told.settled(found))
        self._tell(" ".join(["found", *found]))

    def at(self, calls: int) -> Told:
        """What the world knew when ``calls`` calls had returned and no further one had begun."""
        known = self.marks[0].told
        for mark in self.marks:
            if mark.calls <= calls:
                known = mark.told
        return known

    def hear(self, line: str) -> None:
        """Learn what a job in another process said by ``say``."""
        word, _, rest = line.partition(" ")
        if word in ("begin", "turn"):
            kind, _, name = rest.partition(" ")
            (self.begin if word == "begin" else self.turn)(name, kind=kind)
        elif word == "found":
            self.settle(rest.split())
        elif word in ("acknowledged", "refused"):
            self.end(rest, "acknowledged" if word == "acknowledged" else "refused")
        else:
            raise ValueError(f"a job said {line[:80]!r}")

    def _learn(self, told: Told) -> None:
        self.told = told
        self.marks.append(Mark(self._calls(), told))

    def _tell(self, line: str) -> None:
        if self._say is not None:
            self._say(line)
