"""What a job's store has been through: what a kill behind any call would have left.

Who puts an older copy back puts back one of these, or a mixture of them. A mixture in which
nothing is newer than one of them can be told from that by nobody who looks at the store alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from fault_injection.damage import belief
from fault_injection.damage.belief import Belief, Subject
from fault_injection.damage.files import Files, kind_of, spread
from fault_injection.damage.honest import Honest, honest_of
from fault_injection.memory.disk import Disk, Tree
from fault_injection.recording import Recording
from fault_injection.world import Told
from lastgood.formats.names import Kind

NOT_RECORDS = (None, Kind.LOCK, Kind.TEMPORARY, Kind.ARCHIVE)
"""Kinds of names whose bytes nobody believes."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the trees.

    Attributes:
        calls: How many calls of the job had returned; of what lay there before it, how many were
            missing, as a negative number.
        tree: What was there.
        told: What the world knew.
    """

    calls: int
    tree: Tree
    told: Told


@dataclass(frozen=True, slots=True)
class Known:
    """What a session was at a moment.

    Attributes:
        calls: As of ``Moment``.
        files: What was there.
        told: What the world knew.
        honest: What was made of it.
    """

    calls: int
    files: Files
    told: Told
    honest: Honest

    @property
    def belief(self) -> Belief:
        """What was believed."""
        return self.honest.belief


class Past:
    """All moments of one run, and of the one that made what lay there before it.

    Args:
        before: The run before.
        recording: The run.
    """

    def __init__(self, before: Recording, recording: Recording) -> None:
        self._before = before
        self._recording = recording
        self._known: dict[tuple[int, Subject], Known | None] = {}

    @cached_property
    def moments(self) -> list[Moment]:
        """In their order; only a call that changes what is seen makes a new one."""
        before = _moments(self._before, first=self.first)
        return [*before, *_moments(self._recording, first=0)]

    def known(self, subject: Subject, *, until: int) -> Iterator[Known]:
        """What is believed at each moment up to so many calls, if it does not stop."""
        for moment in self.moments:
            if moment.calls <= until:
                found = self._known_at(moment, subject)
                if found is not None:
                    yield found

    def born(self, path: str, data: bytes) -> int:
        """After how many calls a file's bytes are first seen; more than all: never.

        Of a log segment: those that somebody believes, which later ones may follow.
        """
        if kind_of(path) is Kind.SEGMENT:
            found = (calls for calls, held in self._segments.get(path, ()) if held.startswith(data))
            return next(found, self._never)
        return self._births.get(data, self._never)

    @property
    def first(self) -> int:
        """When the oldest moment was, as of ``Moment``."""
        return -len(self._before.calls)

    @property
    def _never(self) -> int:
        return len(self._recording.calls) + 1

    @cached_property
    def _births(self) -> dict[bytes | None, int]:
        found: dict[bytes | None, int] = {}
        for moment in self.moments:
            for path, inode in moment.tree.paths():
                if kind_of(path) not in NOT_RECORDS:
                    found.setdefault(moment.tree.nodes[inode].data, moment.calls)
        return found

    @cached_property
    def _segments(self) -> dict[str, list[tuple[int, bytes]]]:
        """Every content of each segment, with the calls that it is first seen after."""
        found: dict[str, list[tuple[int, bytes]]] = {}
        for moment in self.moments:
            for path, inode in moment.tree.paths():
                data = moment.tree.nodes[inode].data
                if kind_of(path) is Kind.SEGMENT and data is not None:
                    known = found.setdefault(path, [])
                    if not known or known[-1][1] != data:
                        known.append((moment.calls, data))
        return found

    def _known_at(self, moment: Moment, subject: Subject) -> Known | None:
        key = moment.calls, subject
        if key not in self._known:
            honest = honest_of(belief.read(moment.tree, subject))
            files = spread(moment.tree)
            self._known[key] = (
                None if honest is None else Known(moment.calls, files, moment.told, honest)
            )
        return self._known[key]


def _moments(recording: Recording, *, first: int) -> Iterator[Moment]:
    disk = Disk(recording.base)
    yield Moment(first, disk.tree(), recording.told_after(0))
    for call in recording.calls:
        for operation in call.operations:
            disk.apply(operation)
        if call.alters:
            calls = call.number + 1
            yield Moment(first + calls, disk.tree(), recording.told_after(calls))
