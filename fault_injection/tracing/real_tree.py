"""A directory of this machine read as a tree, and a tree made into a directory.

Inodes are numbered in the order of paths, so that two directories with the same content are the
same tree, whatever numbers the file system gave them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT
from fault_injection.workload import BadWorkloadError


def read_tree(top: Path) -> Tree:
    """What is in ``top``: names, modes, hard links and bytes.

    Raises:
        BadWorkloadError: Something in it is neither a file nor a directory.
    """
    nodes: dict[int, Node] = {}
    numbers: dict[tuple[int, int], int] = {}
    waiting = [(top, ROOT)]
    last = ROOT
    while waiting:
        place, number = waiting.pop()
        entries: list[tuple[str, int]] = []
        for name in sorted(os.listdir(place)):
            status = os.lstat(place / name)
            inode = numbers.setdefault((status.st_dev, status.st_ino), last + 1)
            entries.append((name, inode))
            if inode == last + 1:
                last = inode
                if stat.S_ISDIR(status.st_mode):
                    waiting.append((place / name, inode))
                else:
                    nodes[inode] = _file(place / name, status)
        nodes[number] = Node(stat.S_IMODE(os.lstat(place).st_mode), None, tuple(entries))
    return Tree(nodes)


def write_tree(tree: Tree, top: Path) -> None:
    """Make ``tree`` in ``top``, which is not there yet."""
    made: dict[int, Path] = {}
    os.mkdir(top, 0o700)
    folders = [(top, ROOT)]
    for path, inode in tree.paths():
        node, place = tree.nodes[inode], top / path
        if node.data is None:
            os.mkdir(place, 0o700)
            folders.append((place, inode))
        elif inode in made:
            os.link(made[inode], place)
        else:
            made[inode] = place
            _write(place, node.data, node.mode)
    for place, inode in reversed(folders):
        os.chmod(place, tree.nodes[inode].mode)


def _file(place: Path, status: os.stat_result) -> Node:
    if not stat.S_ISREG(status.st_mode):
        raise BadWorkloadError(f"the job made {place.name!r}, neither a file nor a directory")
    return Node(stat.S_IMODE(status.st_mode), place.read_bytes())


def _write(place: Path, data: bytes, mode: int) -> None:
    fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        # Reserved zeros are a hole here: a log segment is mostly that, and no call tells.
        pending = memoryview(data.rstrip(b"\0"))
        while pending:
            pending = pending[os.write(fd, pending) :]
        os.ftruncate(fd, len(data))
        os.fchmod(fd, mode)
    finally:
        os.close(fd)
