"""A file system that records every call and lies about one of them.

It stands at the seam that production code has anyway, so that no failpoint is needed in it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from lastgood.storage.filesystem import FileSystem, OsFileSystem

_NEVER_FAIL = ("getpid", "geteuid", "realpath")

When = Literal["instead", "after"]
Repeats = Literal["once", "for ever"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    Attributes:
        at: Number of the call that fails, counted from 0 over all recorded calls.
        error: Makes the exception.
        when: ``instead``: the call is not executed. ``after``: it is, and is reported failed.
        repeats: ``for ever``: every later call of the same name fails alike.
        then: Calls of this name fail too, once the fault has come.
    """

    at: int
    error: Callable[[], BaseException]
    when: When = "instead"
    repeats: Repeats = "once"
    then: str = ""


def system_error(number: int) -> Callable[[], OSError]:
    """Makes the exception that the system raises for ``number``."""
    return lambda: OSError(number, os.strerror(number))


@dataclass
class Calls:
    """What was called since ``begin``.

    Attributes:
        made: Names of the calls, in order.
        subjects: The same with the names of files they were about.
        failed: Names of the calls that the fault made fail.
        synced_again: Inodes that were fsynced after an fsync of theirs had failed (C6-04).
        longest_write_bytes: Writes are cut to this.
    """

    fault: Fault | None = None
    longest_write_bytes: int | None = None
    made: list[str] = field(default_factory=list)
    subjects: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    synced_again: list[tuple[int, int]] = field(default_factory=list)
    failed_syncs: set[tuple[int, int]] = field(default_factory=set)

    def begin(self, fault: Fault | None = None) -> None:
        """Forget what was called; ``fault`` counts from here."""
        self.fault = fault
        for seen in (self.made, self.subjects, self.failed, self.synced_again, self.failed_syncs):
            seen.clear()

    def fails(self, name: str) -> bool:
        """Whether the call that is being made fails; counts it."""
        fault, number = self.fault, len(self.made)
        self.made.append(name)
        if fault is None:
            return False
        again = fault.repeats == "for ever" and name in self.failed
        if number == fault.at or again or (self.failed and name == fault.then):
            self.failed.append(name)
            return True
        return False


class _Faulty:
    def __init__(self, calls: Calls, inner: FileSystem) -> None:
        self._calls = calls
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name in _NEVER_FAIL:
            return call
        return lambda *args, **options: self._call(name, call, args, options)

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        calls = self._calls
        calls.subjects.append(" ".join([name, *(part for part in args if isinstance(part, str))]))
        fails = calls.fails(name)
        if name in {"fsync", "fdatasync"}:
            self._note_sync(args[0], fails=fails)
        args = self._shortened(name, args)
        if not fails:
            return call(*args, **options)
        fault = cast(Fault, calls.fault)
        if fault.when == "instead" and name != "close":  # a failed close has closed, as on Linux
            raise fault.error()
        try:
            result = call(*args, **options)
        except OSError as error:
            raise fault.error() from error
        if name == "open":
            self._inner.close(result)  # opened, but nobody was told the descriptor
        if name == "listdir":
            return _broken_off(result, fault.error())
        raise fault.error()

    def _note_sync(self, fd: int, *, fails: bool) -> None:
        status = self._inner.fstat(fd)
        inode = (status.st_dev, status.st_ino)
        if inode in self._calls.failed_syncs:
            self._calls.synced_again.append(inode)
        if fails:
            self._calls.failed_syncs.add(inode)

    def _shortened(self, name: str, args: tuple) -> tuple:
        limit = self._calls.longest_write_bytes
        if limit is None or name not in {"writev", "pwrite"}:
            return args
        if name == "pwrite":
            return (args[0], bytes(args[1])[:limit], *args[2:])
        return (args[0], [b"".join(args[1])[:limit]])


def _broken_off(entries: Iterator, error: BaseException) -> Iterator:
    yield from entries
    raise error


def faulty(calls: Calls, inner: FileSystem | None = None) -> FileSystem:
    """A file system that reports to ``calls`` and fails as it says."""
    return cast(FileSystem, _Faulty(calls, inner or OsFileSystem()))
