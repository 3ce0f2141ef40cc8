"""A small store of notes, and the job that puts it to the test.

``Notes`` keeps one text. Each ``save`` makes a file of its own, ``note-1``, ``note-2``, …, with the
text behind its SHA-256, and makes file and directory durable; ``read`` takes the newest that is
whole. It calls the system through the seam alone (``FileSystem``), so that every call of it can be
struck, recorded and lost.

``Job`` is what the harness asks of a user: what to do, what to tell the world, and how to judge
what is left. ``NOTES`` is the job with the store as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from typing import Final, Literal

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Violation
from fault_injection.world import Told, World
from lastgood.storage.filesystem import CREATE_NEW, DIRECTORY, READ, FileSystem

_SIZE: Final = 1 << 20


class Notes:
    """One text, kept in a directory of its own.

    Args:
        system: Makes the calls.
        path: The directory; its parent is there.
    """

    def __init__(self, system: FileSystem, path: str) -> None:
        self._system = system
        above, _, name = path.rpartition("/")
        with self._opened(above, DIRECTORY) as parent:
            try:
                system.mkdir(name, dir_fd=parent)
            except FileExistsError:
                pass
            system.fsync(parent)  # also where it was there: who made it may have been killed
        self._folder = system.open(path, DIRECTORY)

    def save(self, text: str) -> None:
        """Keep ``text``: it survives whatever comes when this returns."""
        data = hashlib.sha256(text.encode()).hexdigest().encode() + text.encode()
        name = f"note-{max([0, *self._numbers()]) + 1}"
        with self._opened(name, CREATE_NEW, dir_fd=self._folder) as file:
            while data:
                data = data[self._system.writev(file, [data]) :]
            self.make_durable(file)

    def read(self) -> str | None:
        """The newest text that is whole, made durable before anybody builds on it."""
        for number in sorted(self._numbers(), reverse=True):
            with self._opened(f"note-{number}", READ, dir_fd=self._folder) as file:
                data = self._system.read(file, _SIZE)
                if hashlib.sha256(data[64:]).hexdigest().encode() == data[:64]:
                    self.make_durable(file)
                    return data[64:].decode()
        return None

    def make_durable(self, file: int) -> None:
        """Let a file and its name survive a loss of power."""
        self._system.fsync(file)
        self._system.fsync(self._folder)

    def close(self) -> None:
        """Let go of the directory."""
        self._system.close(self._folder)

    @contextmanager
    def _opened(self, path: str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
        file = self._system.open(path, flags, dir_fd=dir_fd)
        try:
            yield file
        finally:
            self._system.close(file)

    def _numbers(self) -> list[int]:
        names = (name for name, _ in self._system.listdir(self._folder))
        return [int(name[5:]) for name in names if name.startswith("note-")]


class Job:
    """Saves three notes.

    Args:
        make: Opens the store; for stores with a mistake.
    """

    name = "notes"
    unread: Collection[str] = ()

    def __init__(self, make: Callable[[FileSystem, str], Notes] = Notes) -> None:
        self._make = make

    def prepare(self, machine: Machine, world: World) -> None:
        """Nothing lies there before."""

    def run(self, machine: Machine, world: World) -> None:
        """Save one after the other; a failed call ends the job, and nobody knows how."""
        try:
            with closing(self._make(machine.process(), machine.root)) as notes:
                for name in ("one", "two", "three"):
                    with world.act(name):
                        notes.save(name)
        except OSError:
            return

    def go_on(self, machine: Machine, world: World) -> None:
        """A fresh process tells what it found, and saves twice."""
        with closing(self._make(machine.process(), machine.root)) as notes:
            found = notes.read()
            world.settle([found] if found else [])
            for number in (1, 2):
                name = f"later-{len(world.told.acts)}-{number}"
                with world.act(name):
                    notes.save(name)

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        """What is read was asked for, and is not older than what was acknowledged."""
        for _ in range(2):
            with closing(self._make(machine.process(), machine.root)) as notes:
                found = notes.read()
            if found not in told.may_be_newest():
                raise Violation("O1", expected=f"one of {told.may_be_newest()}", got=f"{found}")
        return Recovered("newest whole note" if found else "nothing yet", f"note {found}")


NOTES: Final = Job()
