"""File systems that do something at a chosen call: the crash points and pauses of these tests.

They stand at the seam that production code has anyway. ``Seam`` numbers the calls and asks a
hook before each; ``Mortal`` is one whose process dies at a call, within this process: from there
on nothing takes effect any more, whatever clean-up the code attempts, and the descriptors, with
their locks, are given back as the kernel would.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Literal, cast

from lastgood.storage.filesystem import FileSystem, OsFileSystem

Hook = Callable[[int, str], None]
"""Called with the number of a call, and its name with the names of files it is about."""
Locks = Literal["kept", "broken"]
When = Literal["before", "middle", "after"]

_NO_CALLS = ("getpid", "geteuid", "realpath")
WRITES = ("writev", "pwrite")
CHANGES = (
    *WRITES, "fsync", "fdatasync", "link", "rename", "unlink", "mkdir", "fchmod", "ftruncate",
    "flock",
)  # fmt: skip
"""Calls that change a file, a name, or what is durable; an open that creates one does, too."""


class Seam:
    """Numbers the calls from 0, and asks ``before`` each.

    Args:
        before: Called before the call is executed.
        locks: ``broken`` makes flock succeed for everybody, as some network file systems do.
    """

    def __init__(self, *, before: Hook | None = None, locks: Locks = "kept") -> None:
        self.made: list[str] = []
        self.before = before
        self._locks = locks
        self._inner: FileSystem = OsFileSystem()

    def begin(self, before: Hook | None = None) -> None:
        """Count from 0 again, and ask ``before`` from now on."""
        self.made.clear()
        self.before = before

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name in _NO_CALLS:
            return call
        return lambda *args, **options: self._call(name, call, args, options)

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        made = " ".join([name, *(part for part in args if isinstance(part, str))])
        number = len(self.made)
        self.made.append(made)
        if self.before is not None:
            self.before(number, made)
        if name == "flock" and self._locks == "broken":
            return None
        return call(*args, **options)


def once(at: int | str, action: Callable[[], object]) -> Hook:
    """A hook that runs ``action`` at call number ``at``, or the first that begins with it."""
    waiting = [action]

    def hook(number: int, made: str) -> None:
        if waiting and (number == at if isinstance(at, int) else made.startswith(at)):
            waiting.pop()()

    return hook


class Killed(BaseException):
    """The process is dead; no handler of the code under test may stop this."""


class Mortal(Seam):
    """A file system of a process that dies at call ``at``, counted from the last ``begin``.

    Args:
        at: Number of the call, or how it begins; None: it lives on.
        when: ``before`` the call takes effect, ``after`` it did, or, of a write, in the
            ``middle``: half of the bytes are written.
        locks: As in ``Seam``.
    """

    def __init__(
        self, at: int | str | None = None, when: When = "before", *, locks: Locks = "kept"
    ) -> None:
        super().__init__(locks=locks)
        self.is_dead = False
        self.at = at
        self.when: When = when
        self._open: set[int] = set()

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        if self.is_dead:
            raise Killed(f"{name} after death")
        if not self._is_due(name, args):
            return self._followed(name, args, super()._call(name, call, args, options))
        if self.when == "after":
            with contextlib.suppress(OSError):  # a call that fails by itself has been made, too
                result = self._followed(name, args, super()._call(name, call, args, options))
                if name == "listdir":
                    list(cast(Iterator, result))  # one that nobody reads to its end is a leak
        elif self.when == "middle":
            write_half(name, args)
        self._die()
        raise Killed(f"{self.when} {name}, call {self.at}")

    def _is_due(self, name: str, args: tuple) -> bool:
        if isinstance(self.at, str):
            made = " ".join([name, *(part for part in args if isinstance(part, str))])
            return made.startswith(self.at)
        return len(self.made) == self.at

    def _followed(self, name: str, args: tuple, result: object) -> object:
        if name == "open":
            self._open.add(cast(int, result))
        elif name == "close":
            self._open.discard(args[0])
        return result

    def _die(self) -> None:
        """What the kernel does for a dead process: every descriptor is closed."""
        self.is_dead = True
        for fd in self._open:
            with contextlib.suppress(OSError):
                os.close(fd)


def write_half(name: str, args: tuple) -> None:
    """Half of a write."""
    if name == "writev":
        data = b"".join(args[1])
        os.write(args[0], data[: len(data) // 2])
    else:
        data = bytes(args[1])
        os.pwrite(args[0], data[: len(data) // 2], args[2])


def system(seam: Seam) -> FileSystem:
    """``seam`` as what it stands in for."""
    return cast(FileSystem, seam)
