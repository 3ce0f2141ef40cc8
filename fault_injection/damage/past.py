"""What a job's store has been through: what a kill behind any call would have left.

Who puts an older copy back puts back one of these, or a mixture of them. A mixture in which
nothing is newer than one of them can be told from that by nobody who looks at the store alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from fault_injection.damage import belief
from fault_injection.damage.belief import Belief, Subject
from fault_injection.damage.files import kind_of
from fault_injection.memory.disk import Disk, Tree
from fault_injection.recording import Recording
from lastgood.errors import LastgoodError
from lastgood.formats.names import Kind

NOT_RECORDS = (None, Kind.LOCK, Kind.TEMPORARY, Kind.ARCHIVE)
"""Kinds of names whose bytes nobody believes."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One of the trees.

    Attributes:
        calls: How many calls had returned.
        tree: What was there.
    """

    calls: int
    tree: Tree


class Past:
    """All moments of one run.

    Args:
        recording: The run.
        subjects: The sessions that are asked for.
    """

    def __init__(self, recording: Recording, subjects: Sequence[Subject]) -> None:
        self._recording = recording
        self._subjects = subjects
        self._beliefs: dict[tuple[int, Subject], Belief | None] = {}

    @cached_property
    def moments(self) -> list[Moment]:
        """In their order; only a call that changes what is seen makes a new one."""
        disk = Disk(self._recording.base)
        found = [Moment(0, disk.tree())]
        for call in self._recording.calls:
            for operation in call.operations:
                disk.apply(operation)
            if call.alters:
                found.append(Moment(call.number + 1, disk.tree()))
        return found

    def beliefs(self, subject: Subject, *, until: int) -> Iterator[tuple[int, Belief]]:
        """What is believed at each moment up to so many calls, with their number."""
        for moment in self.moments:
            if moment.calls <= until:
                known = self._believed(moment, subject)
                if known is not None:
                    yield moment.calls, known

    def born(self, path: str, data: bytes) -> int:
        """After how many calls a file's bytes are first seen; more than all: never.

        Of a log segment: those that somebody believes, which later ones may follow.
        """
        if kind_of(path) is Kind.SEGMENT:
            found = (calls for calls, held in self._segments.get(path, ()) if held.startswith(data))
            return next(found, self._never)
        return self._births.get(data, self._never)

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

    def _believed(self, moment: Moment, subject: Subject) -> Belief | None:
        key = moment.calls, subject
        if key not in self._beliefs:
            found = belief.read(moment.tree, subject).belief
            self._beliefs[key] = None if isinstance(found, LastgoodError) else found
        return self._beliefs[key]
