"""One store to test with, in memory or on a disk, and ways to look into it and to damage it.

What a test changes in the store by ``put``, ``drop`` or ``damaged`` is damage on purpose: the
store is not verified after it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lastgood import Checkpoint, CheckpointStore, Keyring, open_store
from lastgood.formats import names
from lastgood.inspection import Report
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.interface import Access, OwnedStorage, StorageRoot
from lastgood.storage.memory import MemoryRoot
from lastgood.storage.posix import PosixRoot
from tests.storage.places import in_child
from tests.support.check import check
from tests.support.records import fingerprint, keyring

Engine = Literal["memory", "posix"]
SESSION = "nightly"
MAX_BYTES = 1 << 26


def at(sequence: int, *effects: int, state: Any = None) -> Checkpoint:
    """A checkpoint whose state says its sequence, with the fingerprints of ``effects``."""
    value = {"n": sequence} if state is None else state
    return Checkpoint(sequence, value, [fingerprint(number) for number in effects])


def forked_handle(handle: CheckpointStore) -> str:
    """What a forked child is told when it saves with its parent's handle."""
    return in_child(lambda: handle.save(at(10**6)))


@dataclass
class World:
    """One store.

    Attributes:
        engine: What it is kept in.
        root: Its back end.
        path: Its directory; in memory a name that is never made.
        outside: Where nothing may be touched.
        keys: Its keys.
        damaged: Whether a test damaged it on purpose.
    """

    engine: Engine
    root: StorageRoot
    path: Path
    outside: Path
    keys: Keyring = field(default_factory=keyring)
    damaged: bool = False
    _handles: list[CheckpointStore] = field(default_factory=list)

    def open(self, session: str = SESSION, **options: Any) -> CheckpointStore:
        """A handle, closed when the test ends."""
        options = {"keys": self.keys, **options}
        handle = CheckpointStore(options.pop("root", self.root), session, **options)
        self._handles.append(handle)
        return handle

    def reader(self, session: str = SESSION, **options: Any) -> CheckpointStore:
        """A handle that only reads."""
        return self.open(session, mode="read", **options)

    def saved(self, *sequences: int, session: str = SESSION, **options: Any) -> None:
        """Save at each of ``sequences``, by one opening."""
        with self.open(session, **options) as handle:
            for sequence in sequences:
                handle.save(at(sequence))

    def report(self, session: str = SESSION) -> Report:
        """What ``check`` finds."""
        with self.reader(session) as handle:
            return handle.check()

    @contextlib.contextmanager
    def storage(self, session: str = SESSION, *, access: Access = "read") -> Iterator[OwnedStorage]:
        """The session's directory, without its lock."""
        opened = self.root.session(names.directory(names.session_id(session)), access=access)
        try:
            yield opened
        finally:
            opened.close()

    def listed(self, session: str = SESSION, *, prefix: str = "") -> list[str]:
        """The names in the session's directory but its lock, sorted."""
        with self.storage(session) as directory:
            return sorted(name for name in directory.list(prefix) if name != names.LOCK)

    def files(self, session: str = SESSION) -> dict[str, bytes]:
        """Name and bytes of every record, those of the archive too."""
        with self.storage(session) as directory:
            every = [*directory.list(), *directory.list(names.archived(""))]
            return {n: directory.read(n, max_bytes=MAX_BYTES) for n in every if n != names.LOCK}

    def put(self, name: str, data: bytes, *, session: str = SESSION) -> None:
        """Give ``name`` other bytes, or make it; damage on purpose."""
        self.damaged = True
        with self.storage(session, access="write") as directory:
            directory.delete(name)
            directory.create(name, [data])

    def drop(self, name: str, *, session: str = SESSION) -> None:
        """Remove ``name``; damage on purpose."""
        self.damaged = True
        with self.storage(session, access="write") as directory:
            directory.delete(name)

    def directory(self, session: str = SESSION) -> Path:
        """The session's directory on the disk."""
        return self.path / names.directory(names.session_id(session))

    def on(self, filesystem: FileSystem) -> PosixRoot:
        """The same store, through another file system."""
        return PosixRoot(self.path, filesystem=filesystem)

    def close(self) -> None:
        """Close every handle that a test left open."""
        for handle in self._handles:
            handle.close()

    def verify(self) -> None:
        """Fail unless every session of the store is whole."""
        with open_store(self.root, keys=self.keys) as store:
            sessions = list(store.sessions())
        for entry in sessions:
            check(entry.problem is None, f"session record of {entry.directory}: {entry.problem}")
            if entry.record is None:
                continue
            report = self.report(entry.record.session)
            check(report.error is None, f"{entry.record.session}: {report.findings}")
            check(report.verdict != "stopped", f"{entry.record.session}: {report.verdict}")


def make_world(engine: Engine, top: Path) -> World:
    """A store in memory, or in ``top``; beside it a place that must stay as it is."""
    outside = top / "outside"
    outside.mkdir()
    (outside / "bystander").write_bytes(b"mine")
    path = top / "inside" / "store"
    root = MemoryRoot("test") if engine == "memory" else PosixRoot(path)
    return World(engine, root, path, outside)
