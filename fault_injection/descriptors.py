"""What a process holds open, and where its names lead: open file descriptions and their locks."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import NoReturn

from fault_injection.disk import Disk, File, Folder
from fault_injection.operations import ROOT


@dataclass(slots=True, eq=False)
class Description:
    """An open file description."""

    inode: int
    path: str
    offset: int = 0
    writes: bool = False


class Locks:
    """Who holds which inode by flock, over all processes of a machine."""

    def __init__(self) -> None:
        self._held: dict[int, Description] = {}

    def take(self, held: Description) -> bool:
        """Take the lock of its inode, or say that somebody else has it."""
        return self._held.setdefault(held.inode, held) is held

    def give_back(self, held: Description) -> None:
        """Give it back, if it is held."""
        if self._held.get(held.inode) is held:
            del self._held[held.inode]


class Descriptors:
    """The descriptors of one process.

    Args:
        disk: Where names lead.

    Attributes:
        opened: Descriptions by number.
    """

    def __init__(self, disk: Disk) -> None:
        self.opened: dict[int, Description] = {}
        self._disk = disk
        self._next_fd = 3

    def add(self, held: Description) -> int:
        """Give a description a number."""
        fd, self._next_fd = self._next_fd, self._next_fd + 1
        self.opened[fd] = held
        return fd

    def full(self, path: str, dir_fd: int | None) -> str:
        """``path`` from the root of the disk, without a leading slash."""
        if path.startswith("/") or dir_fd is None:
            return os.path.normpath(path).strip("/").removeprefix(".")
        held = self.opened.get(dir_fd)
        prefix = held.path if held else "?"
        return os.path.normpath(f"{prefix}/{path}").strip("/").removeprefix("./")

    def find(self, full: str) -> int:
        inode = ROOT
        for name in filter(None, full.split("/")):
            node = self._disk.nodes[inode]
            if not isinstance(node, Folder):
                refuse(errno.ENOTDIR)
            if name not in node.entries:
                refuse(errno.ENOENT)
            inode = node.entries[name]
        return inode

    def parent(self, full: str) -> tuple[int, str]:
        parent, _, name = full.rpartition("/")
        folder = self.find(parent)
        if not isinstance(self._disk.nodes[folder], Folder):
            refuse(errno.ENOTDIR)
        return folder, name

    def held(self, fd: int) -> Description:
        held = self.opened.get(fd)
        if held is None:
            refuse(errno.EBADF)
        return held

    def file(self, held: Description) -> File:
        node = self._disk.nodes[held.inode]
        if not isinstance(node, File):
            refuse(errno.EISDIR)
        return node

    def name(self, fd: int) -> str:
        return shown(self.opened.get(fd))


def shown(held: Description | None) -> str:
    return held.path.rpartition("/")[2] or "/" if held else "a closed descriptor"


def refuse(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))
