"""What a job may do after a sync has failed, and what it may acknowledge (O10): a pure judge.

It reads a recording, call by call, and knows nothing of lastgood:

1. **No failed file is synced again** (F5). Once a sync of a file has reported an error in a
   process, that process never syncs that inode again, whatever the second sync says.
2. **No directory is synced again in the same breath.** A file system that cannot commit its
   metadata is expected to turn read-only, so a directory may be synced again by a new attempt
   (R1), and only by one: an act of that process has ended or begun since, or it opened the
   directory anew.
3. **What is acknowledged is on the medium.** When an act is acknowledged, each file that was made,
   written or given a mode for it, and that has a name, was synced after that; each name that was
   given for it, and still leads there, was synced with its directory; and none of these syncs
   failed. A directory's second sync does not help within the act whose first sync it failed in.
4. **A close that reports an error is a failed sync** (F9) of a file that was written to for this
   act through this descriptor: of what was not synced since, and of all of it if the file gets a
   name afterwards. One that has its name, and was synced after its last write, lost nothing by it.

*For an act* is what the process that asked for it did since its beginning, and what it did before,
outside acts, since its last one ended: an opening's work belongs to the first act that rests on
it. An act that raised is over when its process begins the next one. Which process asks for an
act is told by the first call that follows its beginning, and by the last before its end.

Not asked for: removals (what is back after a loss of power was there), sizes alone (zeros that
are cut, or are back), what the act itself removed again or tried to, files without a name, names
that the workload calls unread, the name of a directory that holds nothing, and a second name, of
which an error was reported, of a file whose first name is on the medium: nothing is lost with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from fault_injection.memory.calls import SYNCS, Call
from fault_injection.memory.disk import Tree
from fault_injection.memory.operations import (
    ROOT,
    Entry,
    Make,
    Mode,
    Operation,
    Removal,
    Rename,
    Write,
)
from fault_injection.memory.paths import leaf
from fault_injection.recording import Recording
from fault_injection.workload import Violation
from fault_injection.world import Mark, Told

_SYNCED: Final = "is synced before the act is acknowledged"

_Name = tuple[int, str, int]
"""A directory, a name in it, and the inode that it leads to."""


@dataclass(frozen=True, slots=True)
class Breach:
    """A rule that was broken.

    Attributes:
        calls: How many calls had been made by then.
        expected: The rule.
        got: What was done.
    """

    calls: int
    expected: str
    got: str


def judge(recording: Recording, *, exempt: Collection[str] = ()) -> None:
    """Return only if a recording keeps all four rules.

    Args:
        recording: One run, with or without faults.
        exempt: Names of files whose bytes nobody believes.

    Raises:
        Violation: O10, the first breach.
    """
    marks = recording.world.marks
    for breach in breaches(recording.base, recording.calls, marks, exempt=exempt):
        raise Violation("O10", expected=breach.expected, got=breach.got)


def breaches(
    base: Tree, calls: Sequence[Call], marks: Sequence[Mark], *, exempt: Collection[str] = ()
) -> Iterator[Breach]:
    """Every breach, in the order in which they came.

    Args:
        base: What was on the disk before, all of it durable.
        calls: All calls, of every process.
        marks: What the world learnt, and when; the first is what it knew before.
        exempt: Names of files whose bytes nobody believes.
    """
    witness = _Witness(base, exempt)
    waiting = list(marks)
    told = waiting.pop(0).told if waiting else Told()
    for number, call in enumerate(calls):
        while waiting and waiting[0].calls <= number:
            mark = waiting.pop(0)
            yield from witness.learns(told, mark.told, number)
            told = mark.told
        yield from witness.sees(call)
    for mark in waiting:
        yield from witness.learns(told, mark.told, len(calls))
        told = mark.told


@dataclass(slots=True)
class _Work:
    """What one process did for the act under way and is not on the medium, with the call's number.

    Attributes:
        files: Written and not synced, by inode.
        names: Given and not synced: directory and name, with the inode.
        failed_files: Their sync failed, or a close that they rest on.
        failed_closes: Files whose close through a writing descriptor failed.
        failed_names: The sync of their directory failed.
        doubted: Names that came although the call that gives them reported an error (F7).
        writing: Descriptors through which something was written.
    """

    files: dict[int, int] = field(default_factory=dict)
    names: dict[_Name, int] = field(default_factory=dict)
    failed_files: dict[int, int] = field(default_factory=dict)
    failed_names: dict[_Name, int] = field(default_factory=dict)
    failed_closes: dict[int, int] = field(default_factory=dict)
    doubted: set[_Name] = field(default_factory=set)
    writing: set[int] = field(default_factory=set)

    def synced(self, inode: int) -> None:
        """What was asked of ``inode`` before is on the medium."""
        self.files.pop(inode, None)
        for entry in [entry for entry in self.names if entry[0] == inode]:
            del self.names[entry]

    def failed(self, inode: int, number: int) -> None:
        """What was asked of ``inode`` before may or may not be, for good."""
        if self.files.pop(inode, None) is not None:
            self.failed_files[inode] = number
        for entry in [entry for entry in self.names if entry[0] == inode]:
            del self.names[entry]
            self.failed_names[entry] = number

    def forgiven(self, directory: int) -> None:
        """A new attempt synced a directory whose sync had failed in an earlier one."""
        for entry in [entry for entry in self.failed_names if entry[0] == directory]:
            del self.failed_names[entry]


class _Witness:
    """Follows a recording."""

    def __init__(self, base: Tree, exempt: Collection[str]) -> None:
        self._folders = {
            inode: dict(node.entries) for inode, node in base.nodes.items() if node.is_directory
        }
        self._exempt = exempt
        self._works: dict[int, _Work] = {}
        self._last: int | None = None  # who made the last call since the world learnt something
        self._begun: set[str] = set()  # acts without a call
        self._acting: dict[int, set[str]] = {}  # acts of whose end nobody was told, by process
        self._marks = Counter[int]()  # how often acts of a process began or ended
        self._failed: dict[tuple[int, int], tuple[int, int]] = {}  # call and marks by then
        self._opened: dict[tuple[int, int], int] = {}

    # --- what the world learns -----------------------------------------------------------

    def learns(self, before: Told, now: Told, calls: int) -> Iterator[Breach]:
        """An act begins, or its end is told, or a recovery tells what it found."""
        known = {act.name: act.outcome for act in before.acts}
        ended = [act for act in now.acts if known.get(act.name, act.outcome) != act.outcome]
        names = {act.name for act in ended}
        if ended and self._last is not None:
            acknowledged = [act.name for act in ended if act.outcome == "acknowledged"]
            if acknowledged:
                yield from self._unsettled(self._work(self._last), ", ".join(acknowledged), calls)
            self._works.pop(self._last, None)  # told: nothing more rests on it
            self._marks[self._last] += 1
        for acts in (self._begun, *self._acting.values()):
            acts.difference_update(names)
        self._begun |= {act.name for act in now.acts if act.name not in known}
        self._last = None

    def _unsettled(self, work: _Work, act: str, calls: int) -> Iterator[Breach]:
        """Rules 3 and 4."""
        told = f"{act} is acknowledged after {calls} calls"
        for inode, number in sorted((work.files | work.failed_files).items()):
            paths = [path for path in self._paths(inode) if leaf(path) not in self._exempt]
            if paths:
                how = "failed to be kept" if inode in work.failed_files else "was written"
                yield Breach(
                    calls, f"what is written for an act {_SYNCED}", f"{told}, {paths[0]} {how} by "
                    f"call {number}"
                )  # fmt: skip
        for entry, number in sorted((work.names | work.failed_names).items()):
            if self._is_missed(work, entry):
                how = "failed to be synced" if entry in work.failed_names else "was given"
                yield Breach(
                    calls, f"a name that is given for an act {_SYNCED}", f"{told}, the name "
                    f"{entry[1]} {how} by call {number}"
                )  # fmt: skip

    def _is_missed(self, work: _Work, entry: _Name) -> bool:
        """Whether something would be lost with a name."""
        directory, name, inode = entry
        if name in self._exempt or self._folders[directory].get(name) != inode:
            return False
        if inode in self._folders:
            return bool(self._folders[inode])
        is_told = entry in work.failed_names or entry in work.doubted
        return not (is_told and self._has_durable_name(inode))

    def _has_durable_name(self, inode: int) -> bool:
        pending = {e for work in self._works.values() for e in (*work.names, *work.failed_names)}
        return any(
            child == inode and (folder, name, inode) not in pending
            for folder, names in self._folders.items()
            for name, child in names.items()
        )

    # --- what is called ------------------------------------------------------------------

    def sees(self, call: Call) -> Iterator[Breach]:
        """One call."""
        self._last = call.process
        if self._begun:
            if self._acting.get(call.process):
                self._works.pop(call.process, None)  # what raised is given up
            self._acting[call.process], self._begun = self._begun, set()
            self._marks[call.process] += 1
        work = self._work(call.process)
        for operation in call.operations:
            self._changes(work, operation, call)
        if call.name == "unlink" and call.error:  # what was to go is not given for an act
            removed = (self._folder_of(call.path), leaf(call.path))
            work.names = {e: at for e, at in work.names.items() if e[:2] != removed}
        if call.name == "open" and not call.error:
            self._opened[call.process, call.fd] = call.number
        elif call.name in SYNCS and call.inode:
            yield from self._syncs(call)
        elif call.name == "close" and call.error and call.fd in work.writing:
            work.failed_closes[call.inode] = call.number
            if call.inode in work.files:
                work.failed(call.inode, call.number)

    def _syncs(self, call: Call) -> Iterator[Breach]:
        failure = self._failed.get((call.process, call.inode))
        if failure is not None and not self._is_new_attempt(call, failure):
            what = "directory" if call.inode in self._folders else "file"
            yield Breach(
                call.number,
                f"a {what} whose sync failed is not synced again",
                f"call {failure[0]} failed, call {call.number} syncs {call.path or '/'} again",
            )
        marks = self._marks[call.process]
        later = failure is not None and failure[1] < marks
        if call.error:
            self._failed[call.process, call.inode] = (call.number, marks)
        for work in self._works.values():
            if call.error:
                work.failed(call.inode, call.number)
                continue
            work.synced(call.inode)
            if failure is not None and (not self._acting.get(call.process) or later):
                work.forgiven(call.inode)

    def _is_new_attempt(self, call: Call, failure: tuple[int, int]) -> bool:
        """Rules 1 and 2."""
        if call.inode not in self._folders:
            return False
        number, marks = failure
        return (
            marks < self._marks[call.process]
            or self._opened.get((call.process, call.fd), -1) > number
        )

    def _changes(self, work: _Work, operation: Operation, call: Call) -> None:
        match operation:
            case Make(inode, is_directory):
                if is_directory:
                    self._folders[inode] = {}
                else:
                    work.files[inode] = call.number
            case Write(inode):
                work.files[inode] = call.number
                work.writing.add(call.fd)
            case Mode(inode) if inode not in self._folders:
                work.files[inode] = call.number
            case Entry(directory, name, inode):
                self._gives(work, directory, name, inode, call)
            case Removal(directory, name):
                self._folders[directory].pop(name, None)
            case Rename(source_directory, source, target_directory, target, inode):
                self._folders[source_directory].pop(source, None)
                self._gives(work, target_directory, target, inode, call)
            case _:
                pass

    def _gives(self, work: _Work, directory: int, name: str, inode: int, call: Call) -> None:
        self._folders[directory][name] = inode
        entry = (directory, name, inode)
        work.names[entry] = call.number
        work.failed_names.pop(entry, None)
        if call.error:
            work.doubted.add(entry)
        if inode in work.failed_closes:
            work.failed_files[inode] = work.failed_closes[inode]

    def _work(self, process: int) -> _Work:
        return self._works.setdefault(process, _Work())

    def _folder_of(self, path: str) -> int:
        """The directory that holds the last name of a path; 0: there is none."""
        folder = ROOT
        for name in path.split("/")[:-1]:
            folder = self._folders.get(folder, {}).get(name, 0)
        return folder

    def _paths(self, inode: int) -> list[str]:
        """Every path that leads to an inode."""
        found = []
        waiting = [("", ROOT)]
        while waiting:
            prefix, folder = waiting.pop()
            for name, child in self._folders[folder].items():
                if child == inode:
                    found.append(f"{prefix}{name}")
                if child in self._folders:
                    waiting.append((f"{prefix}{name}/", child))
        return sorted(found)
