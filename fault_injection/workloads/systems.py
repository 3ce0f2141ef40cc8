"""What stands between a job and its machine: another root, a death by intent, locks that fail.

Workloads know a machine by its ``process()`` alone; what they need beyond that is built on it, so
that it is the same in memory and on real files.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from fault_injection.machine import Machine
from fault_injection.memory.calls import Killed
from lastgood.storage import filesystem
from lastgood.storage.filesystem import FileSystem

_MAX_BYTES: Final = 1 << 24
_NO_CALLS: Final = ("geteuid", "getpid", "realpath")


class Below:
    """A machine whose store lies deeper.

    Args:
        machine: The machine.
        path: Relative to its root; no directory of it need exist.
    """

    def __init__(self, machine: Machine, path: str) -> None:
        self.root = f"{machine.root}/{path}"
        self.clock = machine.clock
        self.entropy = machine.entropy
        self._machine = machine

    def process(self) -> FileSystem:
        """Begin a process."""
        return self._machine.process()


class Watched:
    """A process that something happens to at one of its calls.

    Args:
        inner: What it calls.
    """

    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner
        self._at: list[str] = []
        self._action: Callable[[str, tuple[Any, ...]], object] | None = None

    def at(self, *calls: str, action: Callable[[str, tuple[Any, ...]], object]) -> None:
        """Once, before the last of ``calls``, each of them the first one behind the one before.

        Args:
            calls: How a call's name, and the names of files that it is given, begin.
            action: Is given the call's name and its arguments.
        """
        self._at, self._action = list(calls), action

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name in _NO_CALLS:
            return call

        def made(*args: Any, **options: Any) -> Any:
            text = " ".join([name, *(arg for arg in args if isinstance(arg, str))])
            if self._at and text.startswith(self._at[0]):
                del self._at[0]
                if not self._at and self._action is not None:
                    self._action(name, args)
            return self._followed(name, args, call(*args, **options))

        return made

    def _followed(self, name: str, args: tuple[Any, ...], result: Any) -> Any:
        return result


def watched(inner: FileSystem) -> tuple[Watched, FileSystem]:
    """A process that can be watched, and the same as what it stands in for."""
    made = Watched(inner)
    return made, cast(FileSystem, made)


class Doomed(Watched):
    """A process that is killed at a call, once it is told so.

    What it holds open is given back, as the kernel would, and nothing that it attempts afterwards
    takes effect.
    """

    def __init__(self, inner: FileSystem) -> None:
        super().__init__(inner)
        self.is_dead = False
        self._open: list[int] = []

    def kill_at(self, call: str) -> None:
        """Die at the next call whose name and names of files begin so; in the middle of a write."""
        self.at(call, action=self._die)

    def __getattr__(self, name: str) -> Any:
        if self.is_dead:
            raise Killed(f"{name} after death")
        return super().__getattr__(name)

    def _followed(self, name: str, args: tuple[Any, ...], result: Any) -> Any:
        if name == "open":
            self._open.append(result)
        elif name == "close":
            self._open.remove(args[0])
        return result

    def _die(self, name: str, args: tuple[Any, ...]) -> None:
        self.is_dead = True
        if name == "pwrite":
            fd, data, offset = args
            self._inner.pwrite(fd, data[: len(data) // 2], offset)
        for fd in self._open:
            self._inner.close(fd)
        raise Killed(f"killed at {name}")


def doomed(machine: Machine) -> tuple[Doomed, FileSystem]:
    """A process that can be killed, and the same as what it stands in for."""
    made = Doomed(machine.process())
    return made, cast(FileSystem, made)


class _Unlocked:
    """A process whose locks exclude nobody, as on some network file systems (F13)."""

    def __init__(self, inner: FileSystem) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def flock(self, fd: int, operation: int) -> None:
        """Succeed, whoever holds it."""


def unlocked(machine: Machine) -> FileSystem:
    """A process whose locks exclude nobody."""
    return cast(FileSystem, _Unlocked(machine.process()))


@contextmanager
def killed(system: Doomed) -> Iterator[None]:
    """What is done here is broken off by the death of ``system``."""
    with suppress(Killed):
        yield
    if not system.is_dead:
        raise RuntimeError("the job came to its end without the call that it was to die at")


def contents(machine: Machine, path: str) -> dict[str, bytes]:
    """The regular files of a directory, by name; none if it is not there."""
    system = machine.process()
    try:
        folder = system.open(path, filesystem.DIRECTORY)
    except FileNotFoundError:
        return {}
    try:
        listed = sorted(name for name, _ in system.listdir(folder))
        found = {name: _read(system, folder, name) for name in listed}
    finally:
        system.close(folder)
    return {name: data for name, data in found.items() if data is not None}


def overwrite(machine: Machine, path: str, data: bytes, *, offset: int = 0) -> None:
    """Change bytes of a file in place, durably."""
    system = machine.process()
    fd = system.open(path, filesystem.WRITE)
    try:
        system.pwrite(fd, data, offset)
        system.fsync(fd)
    finally:
        system.close(fd)


def _read(system: FileSystem, folder: int, name: str) -> bytes | None:
    if not stat.S_ISREG(system.stat(name, dir_fd=folder).st_mode):
        return None
    fd = system.open(name, filesystem.READ, dir_fd=folder)
    try:
        pieces: Sequence[bytes] = list(iter(lambda: system.read(fd, _MAX_BYTES), b""))
    finally:
        system.close(fd)
    return b"".join(pieces)
