"""Jobs of a few calls, right ones and wrong ones, whose every state can be told by hand.

Each act puts a number into one file, ``value``, a hundred lines of it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Violation
from fault_injection.world import Told, World
from lastgood.errors import StorageError

Put = Callable[[Path, int], None]
LINES = 100


def content(number: int) -> bytes:
    """What the file holds after act ``number``."""
    return b"%d\n" % number * LINES


def replaced(top: Path, number: int) -> None:
    """Write a new file, and rename it over the old one: right, whatever strikes it."""
    try:
        _replace(top, number)
    except OSError as error:
        raise StorageError("Putting a number", errno=error.errno or 0) from error


def replaced_without_a_type(top: Path, number: int) -> None:
    """The same, but errors of the system come out as they are."""
    _replace(top, number)


def replaced_once(top: Path, number: int) -> None:
    """The same, but what a write did not take is forgotten."""
    try:
        _replace(top, number, write=os.write)
    except OSError as error:
        raise StorageError("Putting a number", errno=error.errno or 0) from error


def overwritten(top: Path, number: int) -> None:
    """Empty the file, and write it again."""
    try:
        fd = os.open(top / "value", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        _write(fd, content(number))
        os.close(fd)
    except OSError as error:
        raise StorageError("Putting a number", errno=error.errno or 0) from error


def hanging_after_an_error(top: Path, number: int) -> None:
    """The same as ``replaced``, but it waits for ever for a full disk to have room."""
    try:
        _replace(top, number)
    except OSError:
        time.sleep(1000)


def leaving_after_an_error(top: Path, number: int) -> None:
    """The same, but a process stays behind."""
    try:
        _replace(top, number)
    except OSError as error:
        if os.fork() == 0:
            time.sleep(1000)
        raise StorageError("Putting a number", errno=error.errno or 0) from error


def _replace(top: Path, number: int, write: Callable[[int, bytes], object] | None = None) -> None:
    fd = os.open(top / "new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    (write or _write)(fd, content(number))
    os.fsync(fd)
    os.close(fd)
    os.rename(top / "new", top / "value")


def _write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data) :]


@dataclass(frozen=True)
class Small:
    """A job that puts 1, 2 and 3; 0 is there before.

    Attributes:
        name: One word.
        put: How.
        before: What is done first.
        behind: What is done last.
        judging: What is done before a judgement.
    """

    name: str
    put: Put = replaced
    before: Callable[[Path, World], object] = lambda top, world: None
    behind: Callable[[Path], object] = lambda top: None
    judging: Callable[[], object] = lambda: None
    unread: Collection[str] = ()

    def prepare(self, machine: Machine, world: World) -> None:
        os.mkdir(machine.root)
        with world.act("0"):
            _replace(Path(machine.root), 0)

    def run(self, machine: Machine, world: World) -> None:
        top = Path(machine.root)
        self.before(top, world)
        for number in (1, 2, 3):
            with world.act(str(number)):
                self.put(top, number)
        self.behind(top)

    def go_on(self, machine: Machine, world: World) -> None:
        raise NotImplementedError("it is never gone on with")

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        self.judging()
        found = (Path(machine.root) / "value").read_bytes()
        for name in told.may_be_newest():
            if name is not None and found == content(int(name)):
                return Recovered("read", name)
        raise Violation("O3", expected=f"{told.may_be_newest()}", got=f"{found[:9]!r}")
