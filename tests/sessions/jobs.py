"""Dataclasses of every kind that a state may have."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from lastgood.typed_state import state_type


class Status(enum.Enum):
    OPEN = "open"
    PAID = "paid"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Colour(enum.StrEnum):
    RED = "red"


@dataclass(frozen=True, slots=True)
class Money:
    cents: int
    currency: str = "EUR"


@dataclass(frozen=True, slots=True)
class Node:
    name: str
    parent: Node | None = None
    children: tuple[Node, ...] = ()


@dataclass
class Base:
    KINDS: ClassVar[int] = 3
    ident: int = 0


@dataclass
class Job(Base):
    title: str = ""
    ratio: float = 0.5
    done: bool = False
    nothing: None = None
    status: Status = Status.OPEN
    level: Level = Level.LOW
    colour: Colour = Colour.RED
    mode: Literal["a", 1, True, None] = "a"
    money: Money | None = None
    tags: list[str] = field(default_factory=list)
    prices: dict[str, Money] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    pair: tuple[int, str] = (0, "")
    either: int | str | list[int] | None = None
    free: Any = None
    tree: Node | None = None
    count: int = field(init=False, default=7)


JOB = state_type(Job)


def job(**changes: Any) -> Job:
    count = changes.pop("count", 7)
    made = Job(**changes)
    made.count = count
    return made


@dataclass
class Ring:
    next: Ring | None = None


def named(value: Any) -> str:
    """A test's id: the same in every process, where ``repr`` shows an address."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
