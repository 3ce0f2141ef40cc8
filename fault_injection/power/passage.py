"""All calls above one disk between two times at which everything was durable.

Mostly that is one run of a job. It may be two: a process that was killed or gave up, and the next
one that goes on with what the first left visible (F11, F12). The disk below knows no processes:
what the first did not sync is pending while the second works.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fault_injection.failure import one_line
from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Disk, Tree
from fault_injection.memory.operations import (
    Entry,
    Make,
    Operation,
    Removal,
    Rename,
    SyncFailed,
    Write,
    is_sync,
)
from fault_injection.power.cache import Cache
from fault_injection.recording import Recording, Work, record_on
from fault_injection.workload import Violation
from fault_injection.world import Mark, Told


@dataclass(frozen=True, slots=True)
class Passage:
    """Calls above one disk.

    Attributes:
        base: What was on the disk before, all of it durable.
        calls: Every call, numbered from 0.
        parts: The recordings that it is made of, each with the number of its first call.
        first: How many calls had returned where it becomes interesting.
    """

    base: Tree
    calls: list[Call]
    parts: tuple[tuple[int, Recording], ...]
    first: int = 0

    def told_after(self, calls: int) -> Told:
        """What the world knew once ``calls`` calls had returned."""
        begun, part = next(one for one in reversed(self.parts) if one[0] <= calls)
        return part.told_after(calls - begun)

    @property
    def marks(self) -> tuple[Mark, ...]:
        """When the world learnt what, counted in ``calls``."""
        ends = [begun for begun, _ in self.parts[1:]] + [len(self.calls)]
        return tuple(
            Mark(begun + mark.calls, mark.told)
            for (begun, part), end in zip(self.parts, ends, strict=True)
            for mark in part.world.marks
            if begun + mark.calls <= end
        )


@dataclass(frozen=True, slots=True)
class Moment:
    """One crash point: power is lost while the next call is under way.

    Attributes:
        point: How many calls had returned.
        cache: What is pending, what the next call changes with it; goes on with the passage.
        told: What the world knew.
    """

    point: int
    cache: Cache
    told: Told


def of(recording: Recording) -> Passage:
    """The passage of one run."""
    return Passage(recording.base, recording.calls, ((0, recording),))


def moments(passage: Passage, cache: Cache) -> Iterator[Moment]:
    """Each crash point at which something differs from the one before.

    Args:
        passage: The calls.
        cache: Above the passage's base, nothing pending.
    """
    told, is_new = passage.told_after(0), True
    for point in range(len(passage.calls) + 1):
        operations = _operations(passage.calls[point]) if point < len(passage.calls) else []
        is_new |= told != (told := passage.told_after(point))
        for operation in operations:
            if not is_sync(operation):
                cache.feed(operation, call=point)
                is_new = True
        if is_new and point >= passage.first:
            yield Moment(point, cache, told)
            is_new = False
        for operation in operations:
            if is_sync(operation):
                cache.feed(operation, call=point)
                is_new = True


def at(passage: Passage, cache: Cache, point: int) -> Moment | None:
    """The crash point at which ``point`` calls had returned; None: it is none."""
    found = (moment for moment in moments(passage, cache) if moment.point == point)
    return next(found, None)


def _operations(call: Call) -> list[Operation]:
    if call.name == "close" and call.error and call.inode:
        return [SyncFailed(call.inode)]  # a delayed error of a write (F9)
    return call.operations


def followed(first: Recording, work: Work, *, cut: int, halved: bool = False) -> Passage:
    """``first`` up to a call, and a fresh process that goes on with what it left visible.

    Args:
        first: The run that was stopped.
        work: What the next process does.
        cut: How many calls of it returned.
        halved: The call after those was a write, and did half of its work.

    Raises:
        Violation: Nothing struck the second, and it did not come to its end.
    """
    calls = first.calls[:cut]
    if halved:
        calls = [*calls, _halved(first.calls[cut])]
    disk = Disk(first.base)
    last = max(first.base.nodes)
    for call in calls:
        for operation in call.operations:
            disk.apply(operation)
            last = max(last, operation.inode if isinstance(operation, Make) else 0)
    seen = disk.tree()
    second = undisturbed(record_on(seen, first.told_after(cut), work, seed="after"))
    shift = last - max(seen.nodes)
    processes = max((call.process for call in calls), default=0)
    behind = [
        replace(
            call,
            number=call.number + len(calls),
            process=call.process + processes,
            operations=[_renumbered(one, seen, shift) for one in call.operations],
        )
        for call in second.calls
    ]
    parts = ((0, first), (len(calls), second))
    return Passage(first.base, [*calls, *behind], parts, first=len(calls))


def undisturbed(recording: Recording) -> Recording:
    """The recording of a recovery that nothing struck, if it went on to its end.

    Raises:
        Violation: It did not (O9).
    """
    error = recording.error
    if error is not None:
        raise Violation(
            "O9",
            expected="a recovery that nothing strikes, and what is done after it",
            got=one_line(error),
        )
    return recording


def _halved(call: Call) -> Call:
    """The process died in the middle of a write."""
    halves = [
        replace(one, data=one.data[: len(one.data) // 2]) if isinstance(one, Write) else one
        for one in call.operations
    ]
    return replace(call, operations=halves, injected="killed middle")


def _renumbered(operation: Operation, seen: Tree, shift: int) -> Operation:
    """The second run's own inodes get numbers that no file of the first run ever had."""

    def number(inode: int) -> int:
        return inode if inode in seen.nodes else inode + shift

    match operation:
        case Entry(directory, name, inode):
            return Entry(number(directory), name, number(inode))
        case Rename(from_directory, source, to_directory, target, inode):
            return Rename(
                number(from_directory), source, number(to_directory), target, number(inode)
            )
        case Removal(directory, name):
            return Removal(number(directory), name)
        case _:
            return replace(operation, inode=number(operation.inode))
