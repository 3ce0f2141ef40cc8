"""A page cache above a disk: which changes are durable, which are pending, which are in limbo."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from fault_injection.memory.disk import Node, Tree
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
from fault_injection.power.pending import Lost, NameChange, Pending, name_changes
from fault_injection.power.rules import Model
from fault_injection.power.tearing import LOST, PERSISTED, Tearing, changed, fates, is_complete

_Names = Mapping[int, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class _Held:
    """One change and how sure it is.

    ``durable`` is one that cannot be lost any more but stands behind one on the same bytes or
    name that still can; ``limbo`` one whose sync failed: no later sync makes it durable (F5).
    """

    pending: Pending
    state: Literal["pending", "limbo", "durable"] = "pending"


class Cache:
    """Follows what is asked of a disk, and builds what a loss of power may leave of it.

    Args:
        base: What is on the disk, all of it durable.
        model: What the file system promises of the rest.
        tearing: How finely writes are torn.
        unread: Names of files whose bytes nobody believes; what is pending of those is lost.
    """

    def __init__(
        self, base: Tree, model: Model, *, tearing: Tearing = "block", unread: Collection[str] = ()
    ) -> None:
        self.model: Final = model
        self._tearing: Final = tearing
        self._unread: Final = frozenset(unread)
        self._nodes: dict[int, Node] = dict(base.nodes)
        self._folders: dict[int, dict[str, int]] = {}
        self._sizes: dict[int, int] = {}
        self._held: list[_Held] = []
        self._count = 0
        self._built_nodes: dict[tuple[int, Lost], Node] = {}
        self._built_names: dict[Lost, _Names] = {}
        self._unread_now: set[int] | None = None
        for inode, node in base.nodes.items():
            if node.data is None:
                self._folders[inode] = dict(node.entries)
            else:
                self._sizes[inode] = len(node.data)
        self._seen = {inode: dict(names) for inode, names in self._folders.items()}

    # --- what happens ------------------------------------------------------------------------

    def feed(self, operation: Operation, *, call: int) -> None:
        """``operation`` took effect on what processes see; a sync also below that."""
        match operation:
            case Make(inode, is_directory, mode):
                # Without a name it is nothing that a crash could leave; its names are pending.
                self._nodes[inode] = Node(mode, None if is_directory else b"")
                if is_directory:
                    self._folders[inode], self._seen[inode] = {}, {}
                else:
                    self._sizes[inode] = 0
            case Write() | Truncate() | Mode():
                self._change(operation, call)
            case Entry() | Removal() | Rename():
                self._rename(operation, call)
            case Sync(inode):
                self._settle(inode)
            case SyncFailed(inode):
                self._give_up(inode)

    def _change(self, operation: Write | Truncate | Mode, call: int) -> None:
        inode = operation.inode
        pending = Pending(self._count, call, inode=inode, change=operation)
        if isinstance(operation, Write):
            size = self._sizes[inode]
            self._sizes[inode] = max(size, operation.offset + len(operation.data))
            possible = fates(
                operation,
                grows_from=size,
                tearing=self._tearing,
                garbage=self.model.has_garbage,
            )
            is_all = is_complete(operation, grows_from=size, tearing=self._tearing)
            pending = replace(pending, fates=possible, has_all_fates=is_all)
        elif isinstance(operation, Truncate):
            self._sizes[inode] = operation.size_bytes
        self._hold(pending)

    def _rename(self, operation: Entry | Removal | Rename, call: int) -> None:
        replaces = (
            isinstance(operation, Rename)
            and operation.target in self._seen[operation.target_directory]
        )
        for names in name_changes(operation, self.model, replaces=replaces):
            _rename(self._seen, names)
            self._hold(Pending(self._count, call, names=names))

    def _hold(self, pending: Pending) -> None:
        self._held.append(_Held(pending))
        self._count += 1
        self._unread_now = None
        self._built_names.clear()

    def _settle(self, inode: int) -> None:
        """A sync returned: what was pending of ``inode`` is durable, and what the model adds."""
        self._held = [
            replace(held, state="durable")
            if held.state == "pending" and self._is_synced(held.pending, inode)
            else held
            for held in self._held
        ]
        self._fold()

    def _is_synced(self, pending: Pending, inode: int) -> bool:
        if self.model.is_ordered and pending.is_metadata:
            return True
        if pending.inode:
            return pending.inode == inode
        return any(directory == inode for directory, _, _ in pending.names)

    def _give_up(self, inode: int) -> None:
        """F5. A directory's changes stay pending: they are metadata, which a file system that
        stays writable does commit later (the assumption in this package's README)."""
        self._held = [
            replace(held, state="limbo")
            if held.state == "pending" and held.pending.inode == inode
            else held
            for held in self._held
        ]

    def _fold(self) -> None:
        """Let what is durable, and behind nothing that is not, become the base."""
        kept: list[_Held] = []
        blocked: set[tuple[int, str]] = set()
        for held in self._held:
            pending = held.pending
            if held.state == "durable" and blocked.isdisjoint(pending.touched):
                if pending.inode:
                    self._nodes[pending.inode] = _after(self._nodes[pending.inode], [(pending, -1)])
                else:
                    _rename(self._folders, pending.names)
            else:
                kept.append(held)
                blocked.update(pending.touched)
        self._held = kept
        self._unread_now = None
        self._built_nodes.clear()
        self._built_names.clear()

    # --- what may be left --------------------------------------------------------------------

    @property
    def open(self) -> list[Pending]:
        """What may or may not be there, oldest first; not bytes that nobody would believe."""
        return [
            held.pending
            for held in self._held
            if held.state != "durable" and not self._is_unread(held.pending)
        ]

    @property
    def ordered(self) -> list[int]:
        """Numbers of the changes of which, if one is lost, all later ones are lost, too."""
        if not self.model.is_ordered:
            return []
        return [
            held.pending.number
            for held in self._held
            if held.state == "pending"
            and held.pending.is_metadata
            and not self._is_unread(held.pending)
        ]

    def reachable(self, lost: Lost) -> set[int]:
        """Inodes that have a path once ``lost`` is lost; of ``lost``, names alone count."""
        return set(_walk(self._names(dict(lost))))

    def tree(self, lost: Lost) -> Tree:
        """The disk that is left once ``lost`` is lost."""
        which = dict(lost)
        which |= {held.pending.number: 0 for held in self._held if self._is_unread(held.pending)}
        names = self._names(which)
        changes: dict[int, list[Pending]] = {}
        for held in self._held:
            if held.pending.inode:
                changes.setdefault(held.pending.inode, []).append(held.pending)
        nodes: dict[int, Node] = {}
        for inode in _walk(names):
            node = self._nodes[inode]
            if inode in changes:
                node = self._node(inode, changes[inode], which)
            if inode in names:
                node = Node(node.mode, None, tuple(sorted(names[inode].items())))
            nodes[inode] = node
        return Tree(nodes)

    def fates(self, lost: Lost) -> dict[int, list[tuple[Pending, str]]]:
        """What became of each change that may be lost, by call; of all others it is sure."""
        which, told = dict(lost), dict[int, list[tuple[Pending, str]]]()
        for held in self._held:
            one = held.pending
            index = 0 if self._is_unread(one) else which.get(one.number, -1)
            fate = PERSISTED if held.state == "durable" else one.fates[index]
            told.setdefault(one.call, []).append((one, fate.told))
        return told

    @property
    def changes(self) -> int:
        """How many changes there were; the next one's number."""
        return self._count

    def unsettled(self, below: int) -> bool:
        """Whether of the first ``below`` changes one may still make a difference."""
        named = {inode for _, inode in self._every_name()}
        return any(
            one.number < below and (not one.inode or one.inode in named) for one in self.open
        )

    def _names(self, which: Mapping[int, int]) -> _Names:
        changes = [held.pending for held in self._held if held.pending.names]
        gone = tuple((one.number, 0) for one in changes if one.number in which)
        if gone not in self._built_names:
            folders = {inode: dict(names) for inode, names in self._folders.items()}
            for one in changes:
                if one.number not in which:
                    _rename(folders, one.names)
            self._built_names[gone] = folders
        return self._built_names[gone]

    def _node(self, inode: int, mine: list[Pending], which: Mapping[int, int]) -> Node:
        key = inode, tuple((pending.number, which.get(pending.number, -1)) for pending in mine)
        if key not in self._built_nodes:
            chosen = [(pending, which.get(pending.number, -1)) for pending in mine]
            self._built_nodes[key] = _after(self._nodes[inode], chosen)
        return self._built_nodes[key]

    def _is_unread(self, pending: Pending) -> bool:
        """Whether it changes bytes of a file all of whose names are unread."""
        if not self._unread or not isinstance(pending.change, Write | Truncate):
            return False
        if self._unread_now is None:
            named: dict[int, set[str]] = {}
            for name, inode in self._every_name():
                named.setdefault(inode, set()).add(name)
            self._unread_now = {one for one, names in named.items() if names <= self._unread}
        return pending.inode in self._unread_now

    def _every_name(self) -> Iterator[tuple[str, int]]:
        for names in self._folders.values():
            yield from names.items()
        for held in self._held:
            yield from ((name, inode) for _, name, inode in held.pending.names)


def _rename(folders: dict[int, dict[str, int]], names: tuple[NameChange, ...]) -> None:
    for directory, name, inode in names:
        if inode:
            folders[directory][name] = inode
        else:
            folders[directory].pop(name, None)


def _after(node: Node, chosen: list[tuple[Pending, int]]) -> Node:
    """``node`` after each change had the fate of that index."""
    mode, data = node.mode, node.data
    for pending, index in chosen:
        fate = pending.fates[index]
        if isinstance(pending.change, Mode):
            mode = mode if fate is LOST else pending.change.mode
        elif data is not None and pending.change is not None:
            data = changed(data, pending.change, fate)
    return Node(mode, data, node.entries)


def _walk(names: _Names) -> Iterator[int]:
    waiting, seen = [ROOT], {ROOT}
    while waiting:
        inode = waiting.pop()
        yield inode
        for child in names.get(inode, {}).values():
            if child not in seen:
                seen.add(child)
                waiting.append(child)
