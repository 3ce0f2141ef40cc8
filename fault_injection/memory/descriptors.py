"""What a process holds open, and where its names lead: open file descriptions and their locks."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from typing import Final, NoReturn

from fault_injection.memory.disk import Disk, File, Folder
from fault_injection.memory.operations import ROOT
from fault_injection.memory.paths import leaf

_NOT_BUILT: Final = ("O_APPEND", "O_TRUNC", "O_SYNC", "O_DSYNC", "O_TMPFILE")
_NAME_BYTES: Final = 255
"""Longer names are refused, as by the file systems in use."""


@dataclass(slots=True, eq=False)
class Description:
    """An open file description.

    Attributes:
        inode: What it leads to, whatever becomes of the name.
        path: The name that it was opened by, for people.
        offset: Where the next read or writev begins.
        reads: Whether it may be read.
        writes: Whether it may be written.
    """

    inode: int
    path: str
    offset: int = 0
    reads: bool = True
    writes: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """A name that a call was given, and where it is looked up.

    Attributes:
        start: Inode of the directory that it is looked up from.
        name: As given, without a leading slash.
        path: From the root of the disk, for people.
        problem: Why it cannot be looked up, an error's number; 0: it can.
    """

    start: int
    name: str
    path: str
    problem: int = 0


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

    def place(self, path: str, dir_fd: int | None) -> Place:
        """What ``path`` means from the directory that ``dir_fd`` leads to."""
        if path.startswith("/") or dir_fd is None:
            full = os.path.normpath(f"/{path}").strip("/")
            return Place(ROOT, full, full)
        held = self.opened.get(dir_fd)
        if held is None:
            return Place(ROOT, path, path, errno.EBADF)
        return Place(held.inode, path, os.path.normpath(f"/{held.path}/{path}").strip("/"))

    def find(self, place: Place) -> int:
        """The inode that a name leads to."""
        if place.problem:
            refuse(place.problem)
        return self._walk(place.start, place.name)

    def parent(self, place: Place) -> tuple[int, str]:
        """The directory that a name is, or would be, in; and the name there, however long."""
        if place.problem:
            refuse(place.problem)
        above, _, name = place.name.rpartition("/")
        inode = self._walk(place.start, above)
        self._entries(inode)
        return inode, name

    def _walk(self, inode: int, path: str) -> int:
        for name in path.split("/"):
            if not name:
                continue
            entries = self._entries(inode)
            if name == ".":
                continue
            if name not in entries:
                check_name(name)
                refuse(errno.ENOENT)
            inode = entries[name]
        return inode

    def _entries(self, inode: int) -> dict[str, int]:
        node = self._disk.nodes[inode]
        if not isinstance(node, Folder):
            refuse(errno.ENOTDIR)
        return node.entries

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
    return leaf(held.path) or "/" if held else "a closed descriptor"


def refuse(number: int) -> NoReturn:
    raise OSError(number, os.strerror(number))


def check_flags(flags: int) -> None:
    """Refuse what this machine would pass over: who opens so would be tested for something else.

    Raises:
        NotImplementedError: Not an error of the system: no store is meant to go on with it.
    """
    for name in _NOT_BUILT:
        flag = getattr(os, name) & ~os.O_DIRECTORY
        if flags & flag == flag:
            raise NotImplementedError(
                f"a machine in memory has no {name}; make the call it stands for"
            )


def check_name(name: str) -> None:
    """Refuse what is too long to be a name."""
    if len(os.fsencode(name)) > _NAME_BYTES:
        refuse(errno.ENAMETOOLONG)
