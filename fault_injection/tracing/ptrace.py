"""ptrace by ctypes, for x86_64: the few requests that a driver needs, one method each.

All requests for a process must come from the thread that forked it, which the kernel calls its
tracer. A request for a process that has died meanwhile is ``ProcessLookupError``.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from dataclasses import dataclass
from typing import Final

_TRACEME: Final = 0
_POKEDATA: Final = 5
_POKEUSER: Final = 6
_CONT: Final = 7
_SYSCALL: Final = 24
_SETOPTIONS: Final = 0x4200
_GETEVENTMSG: Final = 0x4201
_GET_SYSCALL_INFO: Final = 0x420E

_TRACESYSGOOD: Final = 1
_TRACEFORK: Final = 1 << 1
_TRACEVFORK: Final = 1 << 2
_TRACECLONE: Final = 1 << 3
_TRACEEXEC: Final = 1 << 4
_TRACESECCOMP: Final = 1 << 7
_EXITKILL: Final = 1 << 20
_OPTIONS: Final = (
    _TRACESYSGOOD | _TRACEFORK | _TRACEVFORK | _TRACECLONE | _TRACEEXEC | _TRACESECCOMP | _EXITKILL
)

WALL: Final = 0x40000000
"""Of waitpid: threads, too."""
EVENT_FORK: Final = 1
EVENT_VFORK: Final = 2
EVENT_CLONE: Final = 3
EVENT_SECCOMP: Final = 7
"""The filter stops it: it stands before a system call."""
_AT_EXIT: Final = 2
_X86_64: Final = 0xC000003E
_PAGE_BYTES: Final = 4096
_PATH_BYTES: Final = 8192

# Offsets in x86_64's struct user_regs_struct.
RESULT: Final = 80
THIRD_ARGUMENT: Final = 96
SYSTEM_CALL: Final = 120


class _Info(ctypes.Structure):
    """struct ptrace_syscall_info: of an entry number and arguments, of an exit the result."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("instruction_pointer", ctypes.c_uint64),
        ("stack_pointer", ctypes.c_uint64),
        ("first", ctypes.c_uint64),
        ("arguments", ctypes.c_uint64 * 6),
        ("rest", ctypes.c_uint64 * 2),
    )


class _Piece(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_uint64), ("size_bytes", ctypes.c_uint64))


@dataclass(frozen=True, slots=True)
class Stop:
    """A process stands at a system call.

    Attributes:
        is_entry: Before it, else behind it.
        number: Of the system call, at its entry.
        arguments: Its six arguments, at its entry.
        result: What it returns, at its exit; an error is negative.
    """

    is_entry: bool
    number: int = 0
    arguments: tuple[int, ...] = ()
    result: int = 0


def unsupported() -> str | None:
    """Why nothing can be traced from here on a machine of this kind, or None."""
    if not sys.platform.startswith("linux"):
        return f"ptrace is driven on Linux only, this is {sys.platform}"
    if platform.machine() != "x86_64":
        return f"ptrace is driven on x86_64 only, this is {platform.machine()}"
    return None


def trace_me() -> None:
    """Let the parent trace this process."""
    _request(_TRACEME, 0)


def follow(pid: int) -> None:
    """Obey filters, trace new processes too, and have all killed if this process dies."""
    _request(_SETOPTIONS, pid, 0, _OPTIONS)


def go_on(pid: int, signal: int = 0) -> None:
    """Let a stopped process run until its filter stops it."""
    _request(_CONT, pid, 0, signal)


def finish_call(pid: int) -> None:
    """Let a process that stands before a system call run to the end of that."""
    _request(_SYSCALL, pid)


def message(pid: int) -> int:
    """Of a process that made another: the id of that one."""
    value = ctypes.c_ulong()
    _request(_GETEVENTMSG, pid, 0, ctypes.addressof(value))
    return value.value


def look(pid: int) -> Stop:
    """Where a process that is stopped at a system call stands."""
    info = _Info()
    _request(_GET_SYSCALL_INFO, pid, ctypes.sizeof(info), ctypes.addressof(info))
    if info.arch != _X86_64:
        raise OSError(f"process {pid} makes calls of another architecture")
    if info.op != _AT_EXIT:
        return Stop(True, number=info.first, arguments=tuple(info.arguments))
    return Stop(False, result=ctypes.c_int64(info.first).value)


def set_register(pid: int, register: int, value: int) -> None:
    """Change one of ``RESULT``, ``THIRD_ARGUMENT``, ``SYSTEM_CALL``."""
    _request(_POKEUSER, pid, register, value)


def set_word(pid: int, address: int, value: int) -> None:
    """Change 8 bytes of a process's memory."""
    _request(_POKEDATA, pid, address, value)


def read(pid: int, address: int, size_bytes: int) -> bytes:
    """Bytes of a process's memory: as many as can be read, up to ``size_bytes``."""
    buffer = ctypes.create_string_buffer(size_bytes)
    here = _Piece(ctypes.addressof(buffer), size_bytes)
    there = _Piece(address, size_bytes)
    got = _library().process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return buffer.raw[:got]


def read_text(pid: int, address: int) -> str:
    """A path in a process's memory; what cannot be read is an empty one."""
    text = b""
    while len(text) < _PATH_BYTES:
        # Up to the end of the page only: the next one may not be there.
        at = address + len(text)
        try:
            piece = read(pid, at, min(256, _PAGE_BYTES - at % _PAGE_BYTES))
        except OSError:
            return ""
        text += piece.partition(b"\0")[0]
        if b"\0" in piece:
            break
    return os.fsdecode(text)


def _request(request: int, pid: int, address: int = 0, data: int = 0) -> None:
    mask = 0xFFFF_FFFF_FFFF_FFFF
    if _library().ptrace(request, pid, address & mask, data & mask) == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"ptrace request {request:#x}")


@functools.cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    library.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    library.ptrace.restype = ctypes.c_long
    library.process_vm_readv.argtypes = (
        ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong,
        ctypes.c_ulong,
    )  # fmt: skip
    library.process_vm_readv.restype = ctypes.c_ssize_t
    return library
