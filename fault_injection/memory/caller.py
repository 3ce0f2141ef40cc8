"""A process in memory as it makes calls, whatever those do: numbered, recorded, struck by a hook.

What a call changes is recorded as operations. A hook may let it fail, do half of it, let it happen
and report an error, or end the process there. A dead process changes nothing any more, whatever its
code attempts, and its descriptors and locks are gone, as the kernel would have it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import NoReturn, TypeVar

from fault_injection.memory.calls import (
    SYNCS,
    Call,
    CallName,
    Die,
    Fail,
    FailAfter,
    Hook,
    Injection,
    Killed,
    Short,
)
from fault_injection.memory.descriptors import Description, Descriptors, Locks, refuse
from fault_injection.memory.disk import Disk
from fault_injection.memory.operations import SyncFailed

_T = TypeVar("_T")


class Caller:
    """One process, as far as a hook and a recording see it.

    Args:
        disk: What it sees.
        locks: Those of all processes on this disk.
        number: From 1; its process id is 4000 and this.
        calls: All calls of the machine; each of this process is added.
        hook: Asked before each call.

    Attributes:
        hook: The same; it may be another one from any call on.
        is_dead: Whether it was killed.
    """

    def __init__(
        self,
        disk: Disk,
        *,
        locks: Locks,
        number: int,
        calls: list[Call],
        hook: Hook | None = None,
    ) -> None:
        self.hook = hook
        self.is_dead = False
        self._disk = disk
        self._locks = locks
        self._number = number
        self._calls = calls
        self._fds = Descriptors(disk)

    def kill(self) -> None:
        """End it here: descriptors and locks go, and nothing it attempts takes effect."""
        self.is_dead = True
        for held in self._fds.opened.values():
            self._locks.give_back(held)
        self._fds.opened.clear()

    @property
    def open_paths(self) -> list[str]:
        """What it holds open."""
        return [held.path for held in self._fds.opened.values()]

    def _call(
        self,
        name: CallName,
        what: str,
        perform: Callable[..., _T],
        *,
        path: str = "",
        fd: int | None = None,
        held: Description | None = None,
        creates: bool = False,
        size_bytes: int = 0,
    ) -> _T:
        if self.is_dead:
            raise Killed(f"{name} after death")
        held = held or (self._fds.opened.get(fd) if fd is not None else None)
        call = Call(len(self._calls), self._number, name, what, path, creates=creates)
        if held is not None and fd is not None:
            call.path, call.inode, call.fd = held.path, held.inode, fd
        injection = self.hook(call) if self.hook is not None else None
        self._calls.append(call)
        try:
            if injection is None:
                return perform(call)
            return self._injected(injection, call, perform, size_bytes)
        except OSError as error:
            call.error = error.errno or 0
            raise

    def _injected(
        self, injection: Injection, call: Call, perform: Callable[..., _T], size_bytes: int
    ) -> _T:
        match injection:
            case Fail(number):
                self._fail(call, perform, number)
            case FailAfter(number):
                self._fail_after(call, perform, number)
            case Short():
                some = min(size_bytes, max(1, size_bytes // 2))
                call.injected = f"{some} of {size_bytes} bytes"
                return perform(call, some)
            case Die(when):
                call.injected = f"killed {when}"
                if when == "middle":
                    perform(call, size_bytes // 2)
                elif when == "after":
                    try:
                        perform(call)
                    except OSError as error:
                        call.error = error.errno or 0
        self.kill()
        raise Killed(f"{call.injected}: {call.name} {call.what}")

    def _fail(self, call: Call, perform: Callable[..., object], number: int) -> NoReturn:
        call.injected = f"fails: {errno.errorcode[number]}"
        if call.name in SYNCS and call.inode:
            call.operations.append(SyncFailed(call.inode))
        if call.name == "close":
            perform(call)  # the descriptor is gone, whatever close says
        refuse(number)

    def _fail_after(self, call: Call, perform: Callable[..., object], number: int) -> NoReturn:
        call.injected = f"takes effect, reports {errno.errorcode[number]}"
        perform(call)
        if call.name == "open":
            self._fds.opened.pop(call.fd)  # the kernel gives no descriptor with an error
        refuse(number)
