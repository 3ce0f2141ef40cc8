"""A tree as its paths: what a person with an editor sees, and changes.

``spread`` and ``gathered`` are inverse but for the numbers of inodes. The pointer and the number
of its revision are one file where a writer made them; they become one again wherever they hold
the same bytes, so that a change by hand and a crash that leave the same have one digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT
from lastgood.formats import names
from lastgood.formats.names import Kind

Files = Mapping[str, Node]
"""Nodes by path, without a leading slash; of a directory the mode alone counts."""

_ROOT_MODE: Final = 0o755


def spread(tree: Tree) -> dict[str, Node]:
    """Every path of a tree with what is there."""
    return {
        path: Node(tree.nodes[inode].mode, tree.nodes[inode].data) for path, inode in tree.paths()
    }


def gathered(files: Files) -> Tree:
    """The tree with these paths; what lies below a path that is not there is left out."""
    nodes: dict[int, Node] = {}
    entries: dict[int, list[tuple[str, int]]] = {ROOT: []}
    folders = {"": ROOT}
    shared: dict[tuple[str, bytes, int], int] = {}
    for path in sorted(files, key=lambda path: (path.count("/"), path)):
        parent, _, name = path.rpartition("/")
        if parent not in folders:
            continue
        node, inode = files[path], len(nodes) + 2
        if node.data is None:
            folders[path] = inode
            entries[inode] = []
        elif is_manifest(name):
            inode = shared.setdefault((parent, node.data, node.mode), inode)
        entries[folders[parent]].append((name, inode))
        nodes[inode] = node
    for inode, held in entries.items():
        mode = _ROOT_MODE if inode == ROOT else nodes[inode].mode
        nodes[inode] = Node(mode, None, tuple(sorted(held)))
    return Tree(nodes)


def is_manifest(name: str) -> bool:
    """Whether it is the pointer's name or that of a revision."""
    return _kind(name) in (Kind.POINTER, Kind.MANIFEST)


def leaf(path: str) -> str:
    """The last name of a path."""
    return path.rpartition("/")[2]


def kind_of(path: str) -> Kind | None:
    """What the last name of a path stands for; None: it is foreign."""
    return _kind(leaf(path))


def other_names(name: str) -> Iterator[str]:
    """Names of the grammar that a file might have been given, and one that is foreign."""
    parsed = names.parse(name)
    if parsed is None:
        return
    near = [n for n in (1, parsed.number - 1, parsed.number + 1, parsed.number + 10) if n > 0]
    if parsed.kind is Kind.SEGMENT:
        yield from (names.segment(parsed.number, parsed.epoch + step) for step in (1, 7))
        yield from (names.segment(number, parsed.epoch) for number in near)
    elif parsed.kind in (Kind.MANIFEST, Kind.POINTER):
        yield from (names.manifest(number) for number in near)
    elif parsed.kind is Kind.CHECKPOINT:
        yield from (names.checkpoint(number) for number in near)
    yield f"{name}.bak"


def is_alike(path: str, source: str) -> bool:
    """Whether two names stand for the same kind of record."""
    alike = (Kind.POINTER, Kind.MANIFEST)
    one, other = kind_of(path), kind_of(source)
    return one == other or (one in alike and other in alike)


@lru_cache(maxsize=1 << 14)
def _kind(name: str) -> Kind | None:
    parsed = names.parse(name)
    return None if parsed is None else parsed.kind
