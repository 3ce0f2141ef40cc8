"""A disk's content in memory: inodes and the names that lead to them.

``Disk`` is what every process sees, the page cache. ``Tree`` is one such content, frozen: what
a crash may leave, and what a recovery begins with. What of a disk is durable is not known here;
that is what the persistence models say.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from fault_injection.memory.operations import (
    ROOT,
    Entry,
    Make,
    Mode,
    Operation,
    Removal,
    Rename,
    Sync,
    SyncFailed,
    Truncate,
    Write,
)

_DIRECTORY_MODE: Final = 0o755


@dataclass(frozen=True, slots=True)
class Node:
    """One inode, frozen.

    Attributes:
        mode: Permission bits.
        data: Bytes of a file; None: it is a directory.
        entries: Of a directory: names and inodes, sorted by name.
    """

    mode: int
    data: bytes | None = None
    entries: tuple[tuple[str, int], ...] = ()

    @property
    def is_directory(self) -> bool:
        """Whether it holds names, not bytes."""
        return self.data is None


@dataclass(frozen=True, slots=True)
class Tree:
    """One possible content of a disk; inodes without a name may be in it and do not count.

    Attributes:
        nodes: By inode; ``operations.ROOT`` is there.
    """

    nodes: Mapping[int, Node]

    def paths(self) -> Iterator[tuple[str, int]]:
        """Each path below the root, without a leading slash, with its inode; sorted, parents first.

        A file with two names comes twice. An entry whose inode is not there is not in a tree.
        """
        waiting = [("", ROOT)]
        while waiting:
            prefix, inode = waiting.pop()
            entries = self.nodes[inode].entries
            for name, child in reversed(entries):
                if self.nodes[child].is_directory:
                    waiting.append((f"{prefix}{name}/", child))
            for name, child in entries:
                yield f"{prefix}{name}", child

    def digest(self, *, unread: Collection[str] = ()) -> str:
        """Identity: 32 hex characters of every path, kind, mode, link and byte.

        Args:
            unread: Names of files whose bytes nobody believes; those do not count.
        """
        told = hashlib.blake2b(digest_size=16)
        first: dict[int, str] = {}
        for path, inode in self.paths():
            node = self.nodes[inode]
            same = first.setdefault(inode, path)
            told.update(f"{path}\0{node.mode:o}\0{'' if same == path else same}\0".encode())
            if node.data is not None and path.rpartition("/")[2] not in unread:
                told.update(_digest(node.data))
        return told.hexdigest()


@lru_cache(maxsize=4096)
def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


def empty_tree() -> Tree:
    """A disk with nothing on it."""
    return Tree({ROOT: Node(_DIRECTORY_MODE)})


@dataclass(slots=True)
class Folder:
    """A directory that may change."""

    mode: int
    entries: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class File:
    """A file that may change."""

    mode: int
    data: bytearray = field(default_factory=bytearray)


class Disk:
    """What every process of a machine sees.

    Args:
        tree: What is on it to begin with.

    Attributes:
        nodes: By inode, those without a name too as long as the disk lasts.
    """

    def __init__(self, tree: Tree | None = None) -> None:
        self.nodes: dict[int, File | Folder] = {}
        self._links = Counter[int]()
        for inode, node in (tree or empty_tree()).nodes.items():
            if node.data is None:
                self.nodes[inode] = Folder(node.mode, dict(node.entries))
                self._links.update(child for _, child in node.entries)
            else:
                self.nodes[inode] = File(node.mode, bytearray(node.data))
        self._next = max(self.nodes) + 1

    def number(self) -> int:
        """An inode that was never used."""
        self._next += 1
        return self._next - 1

    def file(self, inode: int) -> File:
        """A file by its inode."""
        node = self.nodes[inode]
        if not isinstance(node, File):
            raise TypeError(f"inode {inode} is a directory")
        return node

    def folder(self, inode: int) -> Folder:
        """A directory by its inode."""
        node = self.nodes[inode]
        if not isinstance(node, Folder):
            raise TypeError(f"inode {inode} is a file")
        return node

    def links(self, inode: int) -> int:
        """How many names lead to an inode."""
        return self._links[inode]

    def apply(self, operation: Operation) -> None:
        """Let ``operation`` take effect on what is seen."""
        match operation:
            case Make(inode, is_directory, mode):
                self.nodes[inode] = Folder(mode) if is_directory else File(mode)
                self._next = max(self._next, inode + 1)
            case Write(inode, offset, data):
                held = self.file(inode).data
                held[len(held) :] = bytes(max(0, offset - len(held)))
                held[offset : offset + len(data)] = data
            case Truncate(inode, size_bytes):
                held = self.file(inode).data
                held[size_bytes:] = bytes(max(0, size_bytes - len(held)))
            case Mode(inode, mode):
                self.nodes[inode].mode = mode
            case Entry(directory, name, inode):
                self._give(directory, name, inode)
            case Removal(directory, name):
                self._take(directory, name)
            case Rename(source_directory, source, target_directory, target, inode):
                self._take(source_directory, source)
                self._give(target_directory, target, inode)
            case Sync() | SyncFailed():
                pass

    def _give(self, directory: int, name: str, inode: int) -> None:
        entries = self.folder(directory).entries
        self._links[entries.get(name, inode)] -= name in entries
        self._links[inode] += 1
        entries[name] = inode

    def _take(self, directory: int, name: str) -> None:
        was = self.folder(directory).entries.pop(name, None)
        if was is not None:
            self._links[was] -= 1

    def tree(self) -> Tree:
        """What is seen, frozen; inodes without a name are left out."""
        nodes: dict[int, Node] = {}
        waiting = [ROOT]
        while waiting:
            inode = waiting.pop()
            if inode in nodes:
                continue
            node = self.nodes[inode]
            if isinstance(node, File):
                nodes[inode] = Node(node.mode, bytes(node.data))
            else:
                nodes[inode] = Node(node.mode, None, tuple(sorted(node.entries.items())))
                waiting.extend(node.entries.values())
        return Tree(nodes)
