"""Disks by hand: a tree of few files, operations on it, and what each model leaves of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT, Entry, Make, Operation, Sync, Write
from fault_injection.power.cache import Cache
from fault_injection.power.choices import choices
from fault_injection.power.rules import Model
from fault_injection.power.tearing import Tearing

Found = frozenset[tuple[str, bytes | None]]
"""A disk: its paths with their bytes, of a directory None."""


def base(**files: bytes) -> Tree:
    """A disk whose root holds these files, all durable; the first is inode 2, and so on."""
    entries = tuple(sorted((name, inode) for inode, name in enumerate(files, 2)))
    nodes = {inode: Node(0o600, data) for inode, data in enumerate(files.values(), 2)}
    return Tree({ROOT: Node(0o755, None, entries), **nodes})


def created(inode: int, name: str, data: bytes, *, directory: int = ROOT) -> list[Operation]:
    """A file is made and written; nothing is synced."""
    made = Make(inode, is_directory=False, mode=0o600)
    return [made, Entry(directory, name, inode), Write(inode, 0, data)]


def saved(inode: int, name: str, data: bytes) -> list[Operation]:
    """As ``created``, and the file's bytes are synced; its name is not."""
    return [*created(inode, name, data), Sync(inode)]


def found(tree: Tree) -> Found:
    """What is on a disk."""
    return frozenset((path, tree.nodes[inode].data) for path, inode in tree.paths())


def fed(
    model: Model,
    operations: Sequence[Operation],
    *,
    on: Tree | None = None,
    tearing: Tearing = "block",
    unread: Collection[str] = (),
) -> Cache:
    """A cache after ``operations``, each a call of its own."""
    cache = Cache(on or base(), model, tearing=tearing, unread=unread)
    for call, operation in enumerate(operations):
        cache.feed(operation, call=call)
    return cache


def left(
    model: Model,
    operations: Sequence[Operation],
    *,
    on: Tree | None = None,
    tearing: Tearing = "block",
) -> set[Found]:
    """Every disk that ``operations`` may leave."""
    cache = fed(model, operations, on=on, tearing=tearing)
    tried = choices(cache)
    if not tried.is_exhaustive:
        raise ValueError("too many disks for a test that knows each of them")
    return {found(cache.tree(lost)) for lost in tried.lost}


def names(disks: set[Found]) -> set[tuple[str, ...]]:
    """Of each disk its paths alone."""
    return {tuple(sorted(path for path, _ in disk)) for disk in disks}


def contents(disks: set[Found], path: str) -> set[bytes | None]:
    """What a file holds on any of them; None: it is not there."""
    return {dict(disk).get(path) for disk in disks}
