"""Where a job runs: processes above one disk, a clock and a source of bytes for names.

``MemoryMachine`` is deterministic: the same job makes the same calls with the same bytes in every
run, so that a state has an identity. ``RealMachine`` makes real calls on real files.
"""

from __future__ import annotations

import datetime
import hashlib
from typing import Protocol

from fault_injection.memory import operations
from fault_injection.memory.calls import Call, Hook
from fault_injection.memory.descriptors import Locks
from fault_injection.memory.disk import Disk, Tree
from fault_injection.memory.operations import Entry, Make
from fault_injection.memory.process import Process
from lastgood.clock import Clock
from lastgood.entropy import Entropy
from lastgood.storage.filesystem import FileSystem, OsFileSystem

ROOT: str = "/disk/state"
"""Where stores lie in memory; ``/disk`` is there before every job."""


class Machine(Protocol):
    """What a workload is given."""

    root: str
    """Path of the store, which need not exist."""
    clock: Clock
    entropy: Entropy

    def process(self) -> FileSystem:
        """Begin a process, and return the system that it calls."""
        ...


class SteadyClock:
    """A clock that goes on by itself: a second for each look at the time of day."""

    def __init__(self) -> None:
        self._looks = 0
        self._now_s = 0.0

    def now(self) -> datetime.datetime:
        """A second later than last time."""
        self._looks += 1
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(
            seconds=self._looks
        )

    def monotonic_s(self) -> float:
        """A millisecond later than last time."""
        self._now_s += 0.001
        return self._now_s

    def sleep(self, duration_s: float) -> None:
        """The time goes by at once."""
        self._now_s += duration_s


class Counter:
    """Bytes that are the same in every run, and never twice in one; for names, not for keys.

    Args:
        seed: Another seed, other bytes.
    """

    def __init__(self, seed: str) -> None:
        self._seed = seed
        self._count = 0

    def __call__(self, size_bytes: int, /) -> bytes:
        """The next bytes."""
        self._count += 1
        return hashlib.shake_128(f"{self._seed} {self._count}".encode()).digest(size_bytes)


class MemoryMachine:
    """Processes above a disk in memory.

    Args:
        tree: What is on the disk; None: a directory ``/disk`` and nothing else.
        seed: Of the bytes for names; another for each machine that goes on with the same disk.
        hook: Asked before each call of every process.

    Attributes:
        calls: All calls of all its processes, in order.
        disk: What they see.
        processes: Those that were begun.
    """

    def __init__(
        self, tree: Tree | None = None, *, seed: str = "first", hook: Hook | None = None
    ) -> None:
        self.root = ROOT
        self.clock: Clock = SteadyClock()
        self.entropy: Entropy = Counter(seed)
        self.calls: list[Call] = []
        self.disk = Disk(tree)
        self.processes: list[Process] = []
        self._locks = Locks()
        self.hook = hook
        if tree is None:
            inode = self.disk.number()
            self.disk.apply(Make(inode, is_directory=True, mode=0o755))
            self.disk.apply(Entry(operations.ROOT, "disk", inode))

    def process(self) -> Process:
        """Begin a process."""
        made = Process(
            self.disk,
            locks=self._locks,
            number=len(self.processes) + 1,
            calls=self.calls,
            hook=self.hook,
        )
        self.processes.append(made)
        return made

    def end(self) -> None:
        """Kill every process."""
        for process in self.processes:
            process.kill()


class RealMachine:
    """Processes of this machine; as deterministic, so that a run makes the same calls again.

    Args:
        root: Path of the store.
        seed: Of the bytes for names; another for each process.
    """

    def __init__(self, root: str, *, seed: str = "first") -> None:
        self.root = root
        self.clock: Clock = SteadyClock()
        self.entropy: Entropy = Counter(seed)

    def process(self) -> FileSystem:
        """This process."""
        return OsFileSystem()
