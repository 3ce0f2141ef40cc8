"""A disk below the page cache: what is durable, and what a loss of power leaves of it.

``Platter`` lets every call reach real files, as the page cache does, and keeps beside them what a
disk would hold: bytes that were synced, under names whose directory was synced. What was not
synced is lost, all of it. A sync that is made to fail loses what it should have written, although
the files go on showing it: as Linux does, it marks the pages clean (F5).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from tests.crash.seam import Mortal

_Directory = dict[str, int]


class Platter(Mortal):
    """One disk below a store; it outlives every process that dies above it.

    Attributes:
        fails: How many syncs of a file are still to fail.
    """

    def __init__(self) -> None:
        super().__init__()
        self.fails = 0
        self._dirty: dict[int, list[tuple[int, bytes]]] = {}
        self._bytes: dict[int, bytearray] = {}
        self._names: dict[int, _Directory] = {}

    def load(self, place: Path) -> Platter:
        """Take everything below ``place`` for durable."""
        for path in (place, *place.rglob("*")):
            status = path.stat()
            if path.is_dir():
                self._names[status.st_ino] = {
                    entry.name: entry.stat().st_ino for entry in path.iterdir()
                }
            else:
                self._bytes[status.st_ino] = bytearray(path.read_bytes())
        return self

    def die_at(self, at: int | str | None) -> None:
        """Begin another process, which dies before call ``at``; None: it lives on."""
        self.is_dead = False
        self.begin()
        self.at = at

    def die(self) -> None:
        """The process is dead: its descriptors are closed, and nothing takes effect any more."""
        self._die()

    def lose_power(self, place: Path, target: Path) -> None:
        """Make at ``target`` what the disk holds of the store at ``place``."""
        made: dict[int, Path] = {}
        waiting = [(place.stat().st_ino, target)]
        while waiting:
            inode, path = waiting.pop()
            if inode in self._names:
                path.mkdir(mode=0o700)
                waiting += [(child, path / name) for name, child in self._names[inode].items()]
            elif inode in made:
                os.link(made[inode], path)
            else:
                path.touch(mode=0o600)
                path.write_bytes(self._bytes.get(inode, b""))
                made[inode] = path

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> Any:
        if name in ("fsync", "fdatasync"):
            return self._sync(args[0], name, call, args, options)
        at = os.lseek(args[0], 0, os.SEEK_CUR) if name == "writev" else 0
        result = super()._call(name, call, args, options)
        if name == "writev":
            self._write(args[0], at, b"".join(args[1])[: cast(int, result)])
        elif name == "pwrite":
            self._write(args[0], args[2], bytes(args[1])[: cast(int, result)])
        elif name == "mkdir":
            made = os.stat(args[0], dir_fd=options.get("dir_fd"), follow_symlinks=False)
            self._names.setdefault(made.st_ino, {})
        return result

    def _write(self, fd: int, offset: int, data: bytes) -> None:
        self._dirty.setdefault(os.fstat(fd).st_ino, []).append((offset, data))

    def _sync(self, fd: int, name: str, call: Callable, args: tuple, options: dict) -> None:
        inode, shown = os.fstat(fd).st_ino, f"/proc/self/fd/{fd}"
        if self.fails and self._dirty.get(inode):
            self.fails -= 1
            del self._dirty[inode]
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super()._call(name, call, args, options)
        if os.path.isdir(shown):
            self._names[inode] = {entry.name: entry.inode() for entry in os.scandir(shown)}
            return
        held = self._bytes.setdefault(inode, bytearray())
        for offset, data in self._dirty.pop(inode, []):
            held[len(held) :] = bytes(max(0, offset - len(held)))
            held[offset : offset + len(data)] = data
