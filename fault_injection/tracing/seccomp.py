"""A filter of the kernel's: a traced process stops at the system calls that are asked for alone.

Without it a process stops twice at each of its calls, whatever they are about; most of the time of
a run would go into stops that nobody looks at. It is inherited by whatever the process starts. It
needs ``no_new_privs``, so a job cannot gain rights by executing a set-user-id program.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Collection
from typing import Final

_SET_NO_NEW_PRIVILEGES: Final = 38
_SET_SECCOMP: Final = 22
_FILTER: Final = 2

# Instructions of the filter: load a word, jump if it is equal, return.
_LOAD: Final = 0x20
_JUMP_IF_EQUAL: Final = 0x15
_RETURN: Final = 0x06
_NUMBER_AT: Final = 0
_ARCHITECTURE_AT: Final = 4
_X86_64: Final = 0xC000003E
_LET_PASS: Final = 0x7FFF0000
_STOP: Final = 0x7FF00000
_MOST: Final = 250
"""A jump is told in one byte."""


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def stop_at(numbers: Collection[int]) -> None:
    """Have this process, which is traced, stop at these system calls from now on.

    Calls of another architecture stop, too: their numbers mean other calls.

    Raises:
        OSError: The kernel refuses it.
    """
    library = ctypes.CDLL(None, use_errno=True)
    code = _program(sorted(numbers))
    program = _Program(len(code) // 8, code)
    calls = (
        (_SET_NO_NEW_PRIVILEGES, 1, None),
        (_SET_SECCOMP, _FILTER, ctypes.byref(program)),
    )
    for option, value, pointer in calls:
        if library.prctl(option, ctypes.c_ulong(value), pointer, None, None) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), "a filter of system calls")


def _program(numbers: list[int]) -> bytes:
    if len(numbers) > _MOST:
        raise ValueError(f"{len(numbers)} system calls are too many for one filter")
    behind = len(numbers)
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_JUMP_IF_EQUAL, 0, behind + 2, _X86_64),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    lines += [(_JUMP_IF_EQUAL, behind - place, 0, number) for place, number in enumerate(numbers)]
    lines += [(_RETURN, 0, 0, _LET_PASS), (_RETURN, 0, 0, _STOP)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
