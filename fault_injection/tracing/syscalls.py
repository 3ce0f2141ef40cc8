"""Which system calls of x86_64 are about files, and which file each of them is about.

Left out are calls that neither change nor read what is on the disk: ``lseek``, ``fcntl``,
``ioctl``, ``dup``. Stores into a shared mapping, and io_uring, make no system call that could be
seen: a job that uses them is not tested by kills at its calls, and nothing here can tell.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Final

from fault_injection.tracing import ptrace
from fault_injection.tracing.runs import TracedCall

_HERE: Final = -100
"""AT_FDCWD."""
_DELETED: Final = " (deleted)"


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a system call's arguments says which files it is about.

    Attributes:
        name: The kernel's name of the call.
        files: For each file the place of its directory's descriptor, or its own, and of its path.
        size: Of a write: place of the number of bytes, or of pieces.
        pieces: Of a write of pieces: place of their list.
        flags: Of an open: place of its flags.
    """

    name: str
    files: tuple[tuple[int | None, int | None], ...]
    size: int | None = None
    pieces: int | None = None
    flags: int | None = None


_FD: Final = ((0, None),)
_PATH: Final = ((None, 0),)
_AT: Final = ((0, 1),)
_OF_DESCRIPTORS: Final = {
    0: "read", 3: "close", 5: "fstat", 17: "pread64", 19: "readv", 73: "flock", 74: "fsync",
    75: "fdatasync", 77: "ftruncate", 78: "getdents", 81: "fchdir", 91: "fchmod", 93: "fchown",
    138: "fstatfs", 190: "fsetxattr", 193: "fgetxattr", 196: "flistxattr", 199: "fremovexattr",
    217: "getdents64", 221: "fadvise64", 277: "sync_file_range", 285: "fallocate", 295: "preadv",
    306: "syncfs", 327: "preadv2",
}  # fmt: skip
_OF_PATHS: Final = {
    4: "stat", 6: "lstat", 21: "access", 76: "truncate", 80: "chdir", 83: "mkdir", 84: "rmdir",
    87: "unlink", 89: "readlink", 90: "chmod", 92: "chown", 94: "lchown", 132: "utime",
    133: "mknod", 137: "statfs", 188: "setxattr", 189: "lsetxattr", 191: "getxattr",
    192: "lgetxattr", 194: "listxattr", 195: "llistxattr", 197: "removexattr", 198: "lremovexattr",
    235: "utimes",
}  # fmt: skip
_OF_PATHS_BELOW: Final = {
    258: "mkdirat", 259: "mknodat", 260: "fchownat", 261: "futimesat", 262: "newfstatat",
    263: "unlinkat", 267: "readlinkat", 268: "fchmodat", 269: "faccessat", 280: "utimensat",
    332: "statx", 439: "faccessat2", 452: "fchmodat2",
}  # fmt: skip
SHAPES: Final[dict[int, Shape]] = {
    **{number: Shape(name, _FD) for number, name in _OF_DESCRIPTORS.items()},
    **{number: Shape(name, _PATH) for number, name in _OF_PATHS.items()},
    **{number: Shape(name, _AT) for number, name in _OF_PATHS_BELOW.items()},
    1: Shape("write", _FD, size=2),
    2: Shape("open", _PATH, flags=1),
    9: Shape("mmap", ((4, None),)),
    18: Shape("pwrite64", _FD, size=2),
    20: Shape("writev", _FD, size=2, pieces=1),
    40: Shape("sendfile", ((1, None), (0, None))),
    82: Shape("rename", ((None, 0), (None, 1))),
    85: Shape("creat", _PATH),
    86: Shape("link", ((None, 0), (None, 1))),
    88: Shape("symlink", ((None, 1),)),
    257: Shape("openat", _AT, flags=2),
    264: Shape("renameat", ((0, 1), (2, 3))),
    265: Shape("linkat", ((0, 1), (2, 3))),
    266: Shape("symlinkat", ((1, 2),)),
    275: Shape("splice", ((0, None), (2, None))),
    296: Shape("pwritev", _FD, size=2, pieces=1),
    316: Shape("renameat2", ((0, 1), (2, 3))),
    326: Shape("copy_file_range", ((0, None), (2, None))),
    328: Shape("pwritev2", _FD, size=2, pieces=1),
    437: Shape("openat2", _AT),
}
LEAVES_GROUP: Final = {109: "setpgid", 112: "setsid"}
"""Calls by which a process leaves the group in which it is waited for."""
WRITE: Final = 1
WATCHED: Final = (*SHAPES, *LEAVES_GROUP)
"""Calls that a job stops at."""
NUMBERS: Final = {shape.name: number for number, shape in SHAPES.items()}
"""The kernel's numbers of them, by name."""
SYNCS: Final = ("fsync", "fdatasync", "sync_file_range", "syncfs")
CHANGES: Final = (
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "sendfile", "splice", "copy_file_range",
    "creat", "truncate", "ftruncate", "fallocate", "link", "linkat", "symlink", "symlinkat",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "mknod",
    "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2",
)  # fmt: skip
"""Calls that change what every process sees."""


def changes(call: TracedCall) -> bool:
    """Whether it is of a kind that changes what every process sees."""
    return call.creates or call.name in CHANGES


def described(
    pid: int, stop: ptrace.Stop, *, top: str, number: int, count: int
) -> TracedCall | None:
    """The call at whose entry a process stands, if it is about a file below ``top``."""
    shape = SHAPES.get(stop.number)
    if shape is None:
        return None
    files = [_file(pid, stop.arguments, *places) for places in shape.files]
    below = [_below(file, top) for file in files]
    if all(path is None for path in below):
        return None
    shown = [path if path is not None else file for path, file in zip(below, files, strict=True)]
    size_bytes = _size(pid, stop.arguments, shape)
    flags = _flags(pid, stop.arguments, shape)
    return TracedCall(
        number,
        shape.name,
        shown[-1],
        " ".join(_details(shape, stop.arguments, shown[:-1], size_bytes, flags)),
        size_bytes=size_bytes,
        creates=bool(flags & os.O_CREAT),
        count=count,
    )


def pieces(pid: int, arguments: tuple[int, ...], shape: Shape) -> list[tuple[int, int]]:
    """Of a write of pieces: where the length of each is kept, and that length."""
    if shape.pieces is None or shape.size is None:
        return []
    start, count = arguments[shape.pieces], arguments[shape.size]
    raw = ptrace.read(pid, start, 16 * count) if count else b""
    lengths = [length for _, length in struct.iter_unpack("=QQ", raw)]
    return [(start + 16 * place + 8, length) for place, length in enumerate(lengths)]


def _file(pid: int, arguments: tuple[int, ...], fd: int | None, path: int | None) -> str:
    """The file that arguments lead to, absolute if it is one, names not followed."""
    name = ptrace.read_text(pid, arguments[path]) if path is not None else ""
    if name.startswith("/"):
        return os.path.normpath(name)
    number = _signed(arguments[fd]) if fd is not None else _HERE
    opened = "cwd" if number == _HERE else f"fd/{number}"
    try:
        folder = os.readlink(f"/proc/{pid}/{opened}").removesuffix(_DELETED)
    except OSError:
        return "?"
    return os.path.normpath(f"{folder}/{name}") if name else folder


def _below(file: str, top: str) -> str | None:
    if file == top:
        return ""
    return file[len(top) + 1 :] if file.startswith(f"{top}/") else None


def _size(pid: int, arguments: tuple[int, ...], shape: Shape) -> int:
    if shape.pieces is not None:
        return sum(length for _, length in pieces(pid, arguments, shape))
    return arguments[shape.size] if shape.size is not None else 0


def _flags(pid: int, arguments: tuple[int, ...], shape: Shape) -> int:
    if shape.name == "creat":
        return os.O_CREAT | os.O_TRUNC | os.O_WRONLY
    if shape.name == "openat2":
        return int.from_bytes(ptrace.read(pid, arguments[2], 8), "little")
    return arguments[shape.flags] if shape.flags is not None else 0


def _details(
    shape: Shape, arguments: tuple[int, ...], others: list[str], size_bytes: int, flags: int
) -> list[str]:
    told = [f"from {other}" for other in others]
    if shape.size is not None:
        told.append(f"{size_bytes} bytes")
    match shape.name:
        case "pwrite64":
            told.append(f"at {arguments[3]}")
        case "read" | "pread64":
            told.append(f"{arguments[2]} bytes")
        case "ftruncate" | "truncate":
            told.append(f"to {arguments[1]} bytes")
        case "fchmod" | "chmod":
            told.append(f"{arguments[1]:04o}")
        case "flock":
            told.append("unlock" if arguments[1] & 8 else "lock")
        case _:
            told += [name for name in ("O_CREAT", "O_EXCL", "O_TRUNC") if flags & getattr(os, name)]
    return told


def _signed(argument: int) -> int:
    """A descriptor as the kernel reads it: 32 bits, signed."""
    return int.from_bytes((argument & 0xFFFF_FFFF).to_bytes(4, "little"), "little", signed=True)
