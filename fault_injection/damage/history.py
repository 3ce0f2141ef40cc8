"""What a job left at each quiet instant, and what an attacker can have beside it.

An instant is quiet when the world has just learnt something: then no call is under way. Its tree
is what a copy taken there would hold. Records of other sessions, other stores and newer programs
are made here as well, by the very programs that make such records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from fault_injection.damage import belief, neighbours, segments
from fault_injection.damage.belief import NOBODY, Belief, Subject
from fault_injection.damage.files import Files, gathered, is_manifest, kind_of, leaf, spread
from fault_injection.damage.honest import Honest, honest_of
from fault_injection.damage.past import NOT_RECORDS, Past
from fault_injection.level import NotRunError
from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Node, Tree
from fault_injection.recording import Recording, check_testable, record_on
from fault_injection.workload import BadWorkloadError, Workload
from fault_injection.world import Told
from lastgood.errors import EXIT_GOOD, EXIT_LIMITED, LastgoodError
from lastgood.formats import names
from lastgood.formats.names import Kind

_SOUND: Final = (EXIT_GOOD, EXIT_LIMITED)


@dataclass(frozen=True, slots=True)
class Instant:
    """One quiet instant.

    Attributes:
        number: From 0, the oldest.
        calls: How many calls had returned.
        told: What the world knew.
        files: What was there.
        honest: What is made of each session.
    """

    number: int
    calls: int
    told: Told
    files: Files
    honest: Mapping[Subject, Honest]

    def tree(self) -> Tree:
        """What was on the disk."""
        return gathered(self.files)


@dataclass(frozen=True)
class History:
    """A job, seen from outside.

    Attributes:
        workload: The job.
        recording: Its run.
        instants: Quiet instants with differing trees, the last one after the job's end.
        subjects: The sessions that it made.
    """

    workload: Workload
    recording: Recording
    instants: tuple[Instant, ...]
    subjects: tuple[Subject, ...]
    _foreign: dict[str, Files] = field(default_factory=dict, repr=False)

    @property
    def final(self) -> Instant:
        """After the job's end."""
        return self.instants[-1]

    def believed(self, instant: Instant) -> tuple[str, ...]:
        """Paths of the files whose bytes somebody believes, sorted: records, no lock."""
        roots = {f"{subject.store}/{names.STORE}" for subject in self.subjects}
        folders = tuple(f"{subject.store}/{subject.directory}/" for subject in self.subjects)
        return tuple(
            path
            for path, node in sorted(instant.files.items())
            if node.data is not None
            and (path in roots or (path.startswith(folders) and kind_of(path) not in NOT_RECORDS))
        )

    def versions(self, path: str) -> list[tuple[Node, int]]:
        """Every content that this path ever had, with the calls that it is first seen after.

        The pointer had that of every revision.
        """
        found: dict[Node, int] = {}
        for instant in self.instants:
            for other in self.believed(instant):
                owner, mine = other.rpartition("/")[0], path.rpartition("/")[0]
                is_its = kind_of(path) is Kind.POINTER and is_manifest(leaf(other))
                if other == path or (is_its and owner == mine):
                    found.setdefault(instant.files[other], instant.calls)
        return list(found.items())

    def is_known(self, subject: Subject, found: Belief) -> bool:
        """Whether every byte of a belief was once the truth: its checkpoint, and each event."""
        bases, events = self._truth[subject]
        return (found.sequence, found.base) in bases and events.issuperset(found.events)

    @cached_property
    def _truth(self) -> dict[Subject, tuple[set[tuple[int, str]], set[tuple[int, str]]]]:
        truth = {}
        for subject in self.subjects:
            known = bases, events = {(0, NOBODY)}, set[tuple[int, str]]()
            for instant in self.instants:
                for path in self.believed(instant):
                    data = instant.files[path].data or b""
                    if kind_of(path) is Kind.SEGMENT:
                        events.update(belief.said(*event) for event in segments.events(data))
                    elif kind_of(path) is Kind.CHECKPOINT:
                        bases.add(belief.stored(data, subject))
            truth[subject] = known
        return truth

    @cached_property
    def past(self) -> Past:
        """What was there between the instants."""
        return Past(preparation(self.workload), self.recording)

    def records(self) -> list[tuple[Node, str]]:
        """Every content of every record at any instant, with where it comes from."""
        found: dict[Node, str] = {}
        for instant in self.instants:
            for path in self.believed(instant):
                found.setdefault(instant.files[path], f"{leaf(path)} of call {instant.calls}")
        return list(found.items())

    def foreign(self, kind: str) -> Files:
        """Files that a stranger to this store or session has under these very paths."""
        if kind not in self._foreign:
            self._foreign[kind] = {
                path: node
                for subject in self.subjects
                for path, node in neighbours.foreign(kind, self.final.tree(), subject).items()
            }
        return self._foreign[kind]

    def newer(self) -> Iterator[Files]:
        """The session as a program of the next schema version leaves it, behind the last state."""
        for subject in self.subjects:
            yield spread(neighbours.newer(self.final.tree(), subject))


def preparation(workload: Workload) -> Recording:
    """The run that makes what lies there before the job."""
    empty = MemoryMachine(seed="before").disk.tree()
    return record_on(empty, Told(), workload.prepare, seed="before")


def history_of(workload: Workload) -> History:
    """Run a job, and look at it at every quiet instant at which its session can be opened.

    A job may damage its own store, to have it mended; what is believed meanwhile is nobody's.

    Raises:
        NotRunError: It leaves no session of lastgood's that is sealed with the workloads' key.
        BadWorkloadError: It cannot be tested.
    """
    recording = check_testable(workload)
    final = recording.seen_after(len(recording.calls))
    subjects = _subjects(workload, final)
    ends = {mark.calls for mark in recording.world.marks} | {len(recording.calls)}
    instants: list[Instant] = []
    seen: set[str] = set()
    for calls in sorted(ends):
        tree = recording.seen_after(calls)
        digest = tree.digest(unread=workload.unread)
        honest = None if digest in seen else _honest(tree, subjects)
        if honest is not None:
            seen.add(digest)
            told, files = recording.told_after(calls), spread(tree)
            instants.append(Instant(len(instants), calls, told, files, honest))
    if not instants or instants[-1].files != spread(final):
        raise BadWorkloadError(f"{workload.name} leaves a session that cannot be opened")
    return History(workload, recording, tuple(instants), subjects)


def _subjects(workload: Workload, final: Tree) -> tuple[Subject, ...]:
    try:
        found = belief.subjects(final)
    except LastgoodError as error:
        raise BadWorkloadError(
            f"{workload.name} leaves a session that stops: {error.happened}"
        ) from error
    if not found:
        raise NotRunError(
            f"{workload.name} leaves no session",
            remedy="save into a store at the machine's root, with the keys of the workloads",
        )
    return found


def _honest(tree: Tree, subjects: tuple[Subject, ...]) -> dict[Subject, Honest] | None:
    """What is believed of each session if nobody changes anything; None: one stops."""
    found = {}
    for subject in subjects:
        looked = belief.read(tree, subject)
        honest = honest_of(looked)
        if honest is None or looked.reported not in _SOUND:
            return None
        found[subject] = honest
    return found
