"""Changes by hand: every tree that somebody can make of a session with an editor and old copies.

The second of the two sets of which the one rule speaks: *every state a crash can leave is
recovered, every other state stops*. ``tamperings`` yields one kind of change at a time, each as
edits of the tree that a job left, so that a report can say which file was changed how. Nothing
here knows what lastgood makes of it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Final, Literal

from fault_injection.damage import byte_changes
from fault_injection.damage.byte_changes import ByteKind, Sample
from fault_injection.damage.files import (
    Files,
    gathered,
    is_alike,
    kind_of,
    leaf,
    other_names,
)
from fault_injection.damage.history import History, Instant
from fault_injection.damage.subsets import shown, subsets, takes_all
from fault_injection.memory.disk import Node, Tree
from lastgood.formats import names
from lastgood.formats.names import Kind

FileKind = Literal[
    "mode", "kind", "delete", "older", "other", "renamed", "returned", "rolled-back", "swapped",
    "foreign-session", "foreign-store", "foreign-key", "newer-schema", "unbelieved",
]  # fmt: skip
"""Kinds of change of whole files, in the order in which they are tried:

``mode``             others may read or write it, or its owner may not write it
``kind``             a directory stands in the place of a file, a file in that of the directory
``delete``           files are gone, at any instant of the job
``older``            an earlier version of the same file
``other``            another record of the same session, of any time, under this name
``renamed``          a file has another name, or a second one
``returned``         files that were pruned are there again
``rolled-back``      files are as they were at an earlier instant
``swapped``          two files have changed names
``foreign-session``  records of another session of this store
``foreign-store``    records of another store under the same key
``foreign-key``      records of a store with the same id under another key
``newer-schema``     what a newer program saved behind the last state
``unbelieved``       what nobody believes: the lock, foreign names, temporaries
"""
TamperKind = ByteKind | FileKind

BYTE_KINDS: Final[tuple[ByteKind, ...]] = (
    "flip", "reserve", "nul", "insert", "drop", "cut", "blank", "sector", "double", "extend",
)  # fmt: skip
FILE_KINDS: Final[tuple[FileKind, ...]] = (
    "mode", "kind", "delete", "older", "other", "renamed", "returned", "rolled-back", "swapped",
    "foreign-session", "foreign-store", "foreign-key", "newer-schema", "unbelieved",
)  # fmt: skip
KINDS: Final[tuple[TamperKind, ...]] = (*BYTE_KINDS, *FILE_KINDS)
WITH_COPIES: Final[frozenset[TamperKind]] = frozenset({"older", "returned", "rolled-back"})
"""Kinds that need bytes which were once the truth under that very name."""

Edits = Mapping[str, Node | None]
"""What is put where; None: it is gone, with all below it."""


@dataclass(frozen=True, kw_only=True)
class Tampering:
    """One changed tree.

    Attributes:
        kind: The kind of change.
        point: Number of the file, or of the choice of files, among those of its kind.
        base: What it was made of.
        edits: What was changed.
        what: The same in a few words.
    """

    kind: TamperKind
    point: int
    base: Instant
    edits: Edits
    what: str

    @cached_property
    def files(self) -> Files:
        """What is there now, by path."""
        gone = tuple(f"{path}/" for path, node in self.edits.items() if node is None)
        now = {
            path: node
            for path, node in self.base.files.items()
            if path not in self.edits and not path.startswith(gone)
        }
        return now | {path: node for path, node in self.edits.items() if node is not None}

    @cached_property
    def tree(self) -> Tree:
        """What is on the disk now."""
        return gathered(self.files)

    @property
    def only_deletes(self) -> bool:
        """Whether nothing was put anywhere."""
        return all(node is None for node in self.edits.values())


@dataclass(frozen=True, slots=True)
class Thinning:
    """How much of a kind is tried.

    Attributes:
        places: Of bytes of a file chosen by chance, beside those always tried; None: all.
        again: The same, of a file that is changed under one of its two names alone, or as it was
            while its owner was alive: its bytes were changed already.
        choices: Of whole-file changes, those of one file not counted; None: all.
        seed: Decides the chance.
    """

    places: int | None = None
    again: int | None = None
    choices: int | None = None
    seed: str = ""

    def few(self, found: Sequence[Tampering]) -> list[Tampering]:
        """As many as are to be tried, in their order."""
        if self.choices is None or len(found) <= self.choices:
            return list(found)
        return sorted(
            random.Random(f"{self.seed} {len(found)}").sample(list(found), self.choices),
            key=lambda one: one.point,
        )


ALL: Final = Thinning()


class Tamperer:
    """Makes the changes of one job's session.

    Args:
        history: What the job left, and what was there before.
    """

    def __init__(self, history: History) -> None:
        self._history = history

    @cached_property
    def believed(self) -> tuple[str, ...]:
        """Paths of the final tree whose bytes somebody believes, sorted."""
        return self._history.believed(self._final)

    @property
    def _final(self) -> Instant:
        return self._history.instants[-1]

    def tamperings(self, kind: TamperKind, thinning: Thinning = ALL) -> Iterator[Tampering]:
        """Every change of one kind, or a sample of them; the same ones in every process."""
        for known in BYTE_KINDS:
            if kind == known:
                yield from self._of_bytes(known, thinning)
        for chosen in FILE_KINDS:
            if kind == chosen:
                yield from thinning.few(list(self._of_files(chosen)))

    @cached_property
    def size_bytes(self) -> int:
        """Of all files whose bytes somebody believes, reserved zeros not counted."""
        held = (self._final.files[path].data or b"" for path in self.believed)
        return sum(len(data.rstrip(b"\0")) for data in held)

    def is_all(self, kind: TamperKind, thinning: Thinning) -> bool:
        """Whether ``tamperings`` leaves nothing of this kind out, and no subset of files."""
        for known in BYTE_KINDS:
            if kind == known:
                return all(
                    byte_changes.is_all(
                        known, self._bytes(point), self._sample(known, point, thinning)
                    )
                    for point in range(len(self._places))
                )
        sets = (found for chosen in FILE_KINDS if kind == chosen for found in self._sets(chosen))
        return thinning.choices is None and all(map(takes_all, sets))

    # --- bytes of one file ----------------------------------------------------------------

    def _of_bytes(self, kind: ByteKind, thinning: Thinning) -> Iterator[Tampering]:
        for point, (base, paths) in enumerate(self._places):
            mode, sample = base.files[paths[0]].mode, self._sample(kind, point, thinning)
            for what, data in byte_changes.changes(kind, self._bytes(point), sample):
                edits = dict.fromkeys(paths, Node(mode, data))
                yield Tampering(kind=kind, point=point, base=base, edits=edits, what=what)

    def _bytes(self, point: int) -> bytes:
        base, paths = self._places[point]
        return base.files[paths[0]].data or b""

    def _sample(self, kind: ByteKind, point: int, thinning: Thinning) -> Sample:
        base, paths = self._places[point]
        is_again = base is not self._final or any(set(paths) < set(of) for of in self._names())
        places = thinning.again if is_again else thinning.places
        return Sample(places, f"{thinning.seed} {kind} {point}")

    @cached_property
    def _places(self) -> list[tuple[Instant, tuple[str, ...]]]:
        """Files of the final tree, and segments as they were while their owner was alive."""
        found = [(self._final, paths) for paths in self._names()]
        for instant in self._alive:
            for path in sorted(instant.files):
                node = instant.files[path]
                if kind_of(path) is Kind.SEGMENT and node != self._final.files.get(path):
                    found.append((instant, (path,)))
        return found

    @property
    def _alive(self) -> list[Instant]:
        """The last instant but one, and the one with the most events behind its checkpoint."""
        found = self._history.instants[-2:-1]
        ends = [
            max(one.belief.end - one.belief.sequence for one in instant.honest.values())
            for instant in self._history.instants[:-1]
        ]
        if ends:
            found = (*found, self._history.instants[ends.index(max(ends))])
        return list({instant.number: instant for instant in found}.values())

    def _names(self) -> list[tuple[str, ...]]:
        """Each file by all its names; one with two by each of them alone as well (a copy)."""
        together: dict[tuple[str, bytes | None], list[str]] = {}
        for path in self.believed:
            owner, _, name = path.rpartition("/")
            twin = kind_of(name) in (Kind.POINTER, Kind.MANIFEST)
            key = (owner, self._final.files[path].data) if twin else (path, None)
            together.setdefault(key, []).append(path)
        alone = [(path,) for paths in together.values() if len(paths) > 1 for path in paths]
        return [*map(tuple, together.values()), *alone]

    # --- whole files ----------------------------------------------------------------------

    def _of_files(self, kind: FileKind) -> Iterator[Tampering]:
        made = {
            "mode": self._modes,
            "kind": self._kinds,
            "delete": self._deletions,
            "older": self._older,
            "other": self._other,
            "renamed": self._renamed,
            "returned": self._returned,
            "rolled-back": self._rolled_back,
            "swapped": self._swapped,
            "foreign-session": lambda: self._foreign("foreign-session"),
            "foreign-store": lambda: self._foreign("foreign-store"),
            "foreign-key": lambda: self._foreign("foreign-key"),
            "newer-schema": self._newer,
            "unbelieved": self._unbelieved,
        }[kind]
        for point, (base, edits, what) in enumerate(made()):
            yield Tampering(kind=kind, point=point, base=base, edits=edits, what=what)

    def _modes(self) -> Iterator[Change]:
        for path in self.believed:
            node = self._final.files[path]
            for mode in (0o644, 0o620, 0o604, 0o400):
                yield self._final, {path: Node(mode, node.data)}, f"mode {mode:04o}"

    def _kinds(self) -> Iterator[Change]:
        for path in (*self.believed, *self._folders()):
            node = self._final.files[path]
            if node.data is None:
                file = Node(0o600, b"")
                yield self._final, self._gone_below(path) | {path: file}, "a file in its place"
            else:
                yield self._final, {path: Node(0o700)}, "a directory in its place"

    def _deletions(self) -> Iterator[Change]:
        for base in self._history.instants:
            for chosen in subsets(self._history.believed(base)):
                yield base, dict.fromkeys(chosen), f"gone: {shown(chosen)}"
            for folder in sorted(self._folders(base)):
                yield base, {folder: None}, "the directory is gone"

    def _older(self) -> Iterator[Change]:
        for path in self.believed:
            for node, when in self._history.versions(path):
                if node != self._final.files[path]:
                    yield self._final, {path: node}, f"as after call {when}"

    def _other(self) -> Iterator[Change]:
        for path in self.believed:
            for node, source in self._history.records():
                if node not in [known for known, _ in self._history.versions(path)]:
                    yield self._final, {path: node}, f"holds {source}"

    def _renamed(self) -> Iterator[Change]:
        for path in self.believed:
            folder, _, name = path.rpartition("/")
            for other in dict.fromkeys(other_names(name)):
                target = f"{folder}/{other}"
                if target not in self._final.files:
                    node = self._final.files[path]
                    yield self._final, {target: node}, f"is there as {other} as well"
                    yield self._final, {path: None, target: node}, f"is called {other}"

    def _sets(self, kind: FileKind) -> Iterator[Sequence[str]]:
        """The files of which a kind takes subsets."""
        if kind == "delete":
            yield from map(self._history.believed, self._history.instants)
        elif kind == "returned":
            yield sorted(self._pruned)
        elif kind == "rolled-back":
            yield from map(self._differing, self._history.instants[:-1])
        elif kind in ("foreign-session", "foreign-store", "foreign-key"):
            yield [path for path in self.believed if path in self._history.foreign(kind)]

    @cached_property
    def _pruned(self) -> dict[str, Node]:
        return {
            path: instant.files[path]
            for instant in self._history.instants
            for path in self._history.believed(instant)
            if path not in self._final.files
        }

    def _differing(self, then: Instant) -> list[str]:
        both = {*self._history.believed(then), *self.believed}
        return [p for p in sorted(both) if then.files.get(p) != self._final.files.get(p)]

    def _returned(self) -> Iterator[Change]:
        pruned = self._pruned
        for chosen in subsets(sorted(pruned)):
            edits = {path: pruned[path] for path in chosen}
            yield self._final, edits, f"there again: {shown(chosen)}"

    def _rolled_back(self) -> Iterator[Change]:
        now = self._final
        for then in self._history.instants[:-1]:
            for chosen in subsets(self._differing(then)):
                edits = {path: then.files.get(path) for path in chosen}
                folders = {p: n for p, n in then.files.items() if n.data is None}
                missing = {p: n for p, n in folders.items() if p not in now.files}
                yield now, missing | edits, f"as after call {then.calls}: {shown(chosen)}"

    def _swapped(self) -> Iterator[Change]:
        for one, other in combinations(self.believed, 2):
            first, second = self._final.files[one], self._final.files[other]
            if first != second:
                what = f"{leaf(one)} and {leaf(other)} swapped"
                yield self._final, {one: second, other: first}, what

    def _foreign(self, kind: FileKind) -> Iterator[Change]:
        theirs = self._history.foreign(kind)
        names_of = [path for path in self.believed if path in theirs]
        for path in self.believed:
            for source in sorted(theirs):
                if theirs[source].data is not None and is_alike(path, source):
                    yield self._final, {path: theirs[source]}, f"holds their {leaf(source)}"
        for chosen in subsets(names_of):
            edits = {path: theirs[path] for path in chosen}
            yield self._final, edits, f"theirs: {shown(chosen)}"
        whole: Edits = dict.fromkeys(self.believed) | dict(theirs)
        yield self._final, whole, "all of it is theirs"

    def _newer(self) -> Iterator[Change]:
        for files in self._history.newer():
            edits: Edits = dict.fromkeys(self.believed) | dict(files)
            yield self._final, edits, "a newer program saved behind it"

    def _unbelieved(self) -> Iterator[Change]:
        private = Node(0o600, b"not a record\n")
        for folder in self._folders():
            lock = f"{folder}/{names.LOCK}"
            yield self._final, {lock: Node(0o600, b"pid 1 on nowhere\n")}, "another text in it"
            yield self._final, {lock: None}, "the lock is gone"
            for name in ("notes.txt", "checkpoint-000099.json.bak", "checkpoint-99.json"):
                yield self._final, {f"{folder}/{name}": private}, "a foreign name"
            for path in self.believed:
                if path.startswith(f"{folder}/"):
                    copy = names.temporary(leaf(path), bytes(names.TOKEN_BYTES))
                    edits = {f"{folder}/{copy}": self._final.files[path]}
                    yield self._final, edits, "a temporary, as a kill leaves it"

    def _folders(self, instant: Instant | None = None) -> list[str]:
        files = (instant or self._final).files
        kept = {f"{subject.store}/{subject.directory}" for subject in self._history.subjects}
        return [path for path in sorted(files) if path in kept]

    def _gone_below(self, folder: str) -> dict[str, Node | None]:
        return {path: None for path in self._final.files if path.startswith(f"{folder}/")}


Change = tuple[Instant, Edits, str]
