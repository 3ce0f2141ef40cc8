"""O10: what is acknowledged is on the medium, and no failed sync is tried again.

Jobs here are a few words long, each word one call; ``!`` behind a word: its error is ignored.
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from typing import Final

import pytest

from fault_injection.faults import discipline
from fault_injection.level import Plan
from fault_injection.levels.faults import LEVEL
from fault_injection.machine import Machine
from fault_injection.memory.calls import Call, Fail, FailAfter, Hook, Injection
from fault_injection.memory.disk import empty_tree
from fault_injection.memory.process import Process
from fault_injection.recording import Recording, record, record_on
from fault_injection.workload import Violation
from fault_injection.workloads import WORKLOADS
from fault_injection.world import Told, World
from lastgood.storage.filesystem import CREATE_NEW, DIRECTORY, READ, WRITE
from tests.support.check import check, check_equal

PUBLISHED: Final = "begin make write fsync close link unlink syncdir end"
OLD_OUTSIDE: Final = "make write fsync close rename:old mkdir:inner syncdir"
OLD_INSIDE: Final = "begin enter:inner make write fsync close rename:old"

WRITTEN: Final = "what is written for an act"
NAMED: Final = "a name that is given for an act"
FILE_AGAIN: Final = "a file whose sync failed is not synced again"
DIRECTORY_AGAIN: Final = "a directory whose sync failed is not synced again"


class Job:
    """One process that understands a few words."""

    def __init__(self, machine: Machine, world: World) -> None:
        self.system = machine.process()
        self.world = world
        self.folder = self.system.open("/", DIRECTORY)
        self.held: dict[str, int] = {}
        self.act = ""
        self.count = 0

    def does(self, words: str) -> None:
        """Every word, in order; an error ends it."""
        for word in words.split():
            name, _, subject = word.rstrip("!").partition(":")
            with suppress(*([OSError] if word.endswith("!") else [])):
                getattr(self, name)(subject or "new")

    def begin(self, name: str) -> None:
        self.count += 1
        self.act = f"{name}{self.count}"
        self.world.begin(self.act)

    def end(self, name: str) -> None:
        self.world.end(self.act, "acknowledged")

    def make(self, name: str) -> None:
        self.held[name] = self.system.open("tmp", CREATE_NEW, dir_fd=self.folder)

    def open(self, name: str) -> None:
        self.held[name] = self.system.open(name, WRITE, dir_fd=self.folder)

    def reads(self, name: str) -> None:
        self.held[name] = self.system.open(name, READ, dir_fd=self.folder)

    def write(self, name: str) -> None:
        self.system.writev(self.held[name], [b"data"])

    def chmod(self, name: str) -> None:
        self.system.fchmod(self.held[name], 0o640)

    def cut(self, name: str) -> None:
        self.system.ftruncate(self.held[name], 2)

    def fsync(self, name: str) -> None:
        self.system.fsync(self.held[name])

    def close(self, name: str) -> None:
        self.system.close(self.held[name])

    def link(self, name: str) -> None:
        self.system.link("tmp", name, source_fd=self.folder, target_fd=self.folder)

    def copy(self, name: str) -> None:
        self.system.link("new", name, source_fd=self.folder, target_fd=self.folder)

    def rename(self, name: str) -> None:
        self.system.rename("tmp", name, source_fd=self.folder, target_fd=self.folder)

    def unlink(self, name: str) -> None:
        self.system.unlink("tmp", dir_fd=self.folder)

    def remove(self, name: str) -> None:
        self.system.unlink(name, dir_fd=self.folder)

    def mkdir(self, name: str) -> None:
        self.system.mkdir(name, dir_fd=self.folder)

    def enter(self, name: str) -> None:
        self.folder = self.system.open(name, DIRECTORY, dir_fd=self.folder)

    def again(self, name: str) -> None:
        self.folder = self.system.open("/", DIRECTORY)

    def syncdir(self, name: str) -> None:
        self.system.fsync(self.folder)


def strikes(name: str, nth: int, injection: Injection) -> Hook:
    """Strike the ``nth`` call of that name, counted from 1; ``syncdir`` is one of a directory."""
    seen: Counter[str] = Counter()

    def hook(call: Call) -> Injection | None:
        word = "syncdir" if call.name == "fsync" and not call.path.strip("/") else call.name
        seen[word] += 1
        return injection if word == name and seen[word] == nth else None

    return hook


def recorded(words: str, hook: Hook | None = None) -> Recording:
    """A job of these words, in one process."""

    def work(machine: Machine, world: World) -> None:
        with suppress(OSError):
            Job(machine, world).does(words)

    return record_on(empty_tree(), Told(), work, hook=hook, seed="toy")


def found(recording: Recording, exempt: Collection[str] = ()) -> list[str]:
    """What is expected, of each breach."""
    marks = recording.world.marks
    breaches = discipline.breaches(recording.base, recording.calls, marks, exempt=exempt)
    return [breach.expected.removesuffix(" is synced before the act is acknowledged")
            for breach in breaches]  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        PUBLISHED,
        f"{PUBLISHED} {PUBLISHED.replace('link', 'link:other', 1)}",
        "begin make write fsync close rename syncdir end",
        "make write fsync close rename syncdir begin end",
        "begin make write fsync close unlink end",
        "begin make write unlink close end",
        "begin make write fsync cut close rename syncdir end",
        f"{PUBLISHED} begin remove end",
        "begin mkdir:empty end",
        "begin mkdir:inner syncdir enter:inner make fsync close rename syncdir end",
        "begin make write close link",
    ],
    ids=str,
)
def test_what_is_synced_before_it_is_acknowledged_is_right(words: str) -> None:
    """O10: files are synced after their last write, names with their directory; no more is asked.

    Method: small jobs that need no more; removals, sizes, and what has no name in the end.
    """
    check_equal(found(recorded(words)), [], words)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("begin make write close link unlink syncdir end", [WRITTEN]),
        ("begin make fsync write close link unlink syncdir end", [WRITTEN]),
        ("begin make write fsync chmod close link unlink syncdir end", [WRITTEN]),
        ("begin make close link unlink syncdir end", [WRITTEN]),
        ("begin make write fsync close link unlink end syncdir", [NAMED]),
        ("begin make write fsync close link syncdir unlink end", []),
        ("begin make write fsync close rename end", [NAMED]),
        ("begin make write fsync close syncdir rename end", [NAMED]),
        (f"{PUBLISHED} begin open write end", [WRITTEN]),
        (f"{PUBLISHED} begin copy:second end", [NAMED]),
        ("begin mkdir:inner enter:inner make fsync close rename syncdir end", [NAMED]),
        ("make write close rename syncdir begin chmod! syncdir end", [WRITTEN]),
    ],
    ids=str,
)
def test_what_is_acknowledged_before_it_is_synced_is_found(words: str, expected: list[str]) -> None:
    """O10: a missing sync of a file, of a directory or of a parent, or one that comes too early.

    Method: leave out or move one sync; an opening's work counts for the first act behind it.
    """
    check_equal(found(recorded(words)), expected, words)


EIO: Final = Fail(errno.EIO)
LATE: Final = FailAfter(errno.EIO)


@pytest.mark.parametrize(
    ("words", "hook", "expected"),
    [
        # The error ends it: nothing is acknowledged.
        (PUBLISHED, ("fsync", 1, EIO), []),
        (PUBLISHED, ("syncdir", 1, EIO), []),
        (PUBLISHED, ("close", 1, EIO), []),
        # The error is swallowed.
        (PUBLISHED.replace("fsync", "fsync!"), ("fsync", 1, EIO), [WRITTEN]),
        (PUBLISHED.replace("fsync", "fsync!"), ("fsync", 1, LATE), [WRITTEN]),
        (PUBLISHED.replace("syncdir", "syncdir!"), ("syncdir", 1, EIO), [NAMED]),
        (PUBLISHED.replace("close", "close!"), ("close", 1, EIO), [WRITTEN]),
        (PUBLISHED.replace("fsync close", "close!"), ("close", 1, EIO), [WRITTEN]),
        # It is tried again.
        (PUBLISHED.replace("fsync", "fsync! fsync"), ("fsync", 1, EIO), [FILE_AGAIN, WRITTEN]),
        ("begin make write fsync! fsync!", ("fsync", 1, EIO), [FILE_AGAIN]),
        (PUBLISHED.replace("syncdir", "syncdir! syncdir"), ("syncdir", 1, EIO),
         [DIRECTORY_AGAIN, NAMED]),
        (PUBLISHED.replace("syncdir", "syncdir! again syncdir"), ("syncdir", 1, EIO), [NAMED]),
        # By a new attempt.
        (PUBLISHED.replace("syncdir end", f"syncdir! begin syncdir {PUBLISHED[6:-4]}:2 end")
         .replace("link unlink syncdir:2", "link:2 unlink syncdir"), ("syncdir", 1, EIO), []),
        (f"make fsync close rename syncdir! again syncdir {PUBLISHED.replace('link', 'link:2', 1)}",
         ("syncdir", 1, EIO), []),
        (f"{PUBLISHED} begin open write fsync! begin open write fsync end", ("fsync", 2, EIO),
         [FILE_AGAIN]),
        # Nothing was written through it, or it has its name and is synced.
        (f"{PUBLISHED} begin reads close! end", ("close", 2, EIO), []),
        (f"{PUBLISHED} begin open write fsync close! end", ("close", 2, EIO), []),
        (f"{PUBLISHED} begin open write close! end", ("close", 2, EIO), [WRITTEN]),
        # A second name that was given up loses nothing; the only one does.
        (f"{PUBLISHED} begin copy:second! end", ("link", 2, LATE), []),
        (f"{PUBLISHED} begin copy:second syncdir! end", ("syncdir", 2, EIO), []),
        (PUBLISHED.replace("link", "link!").replace("syncdir ", ""), ("link", 1, LATE), [NAMED]),
        # What was to go and stays is not given for the act; another name is.
        ("begin make write fsync close unlink! end", ("unlink", 1, EIO), []),
        ("begin make write fsync close link unlink! end", ("unlink", 1, EIO), [NAMED]),
        (f"{OLD_OUTSIDE} {OLD_INSIDE} again remove:old! end", ("unlink", 1, EIO), [NAMED]),
        (f"{OLD_OUTSIDE} {OLD_INSIDE} remove:old! end", ("unlink", 1, EIO), []),
    ],
)  # fmt: skip
def test_what_rests_on_a_failed_sync_is_not_acknowledged(
    words: str, hook: tuple[str, int, Injection], expected: list[str]
) -> None:
    """O10, F5, F7, F9: an error of a sync or a close ends the act, and is not tried again.

    Method: let one call fail; heed it, ignore it, or try again, in the same act or in a new one.
    """
    check_equal(found(recorded(words, strikes(*hook))), expected, f"{words}, {hook}")


def test_two_processes_acts_are_told_apart() -> None:
    """O10: of two acts at once each rests on what its own process did.

    Method: a second process begins and ends an act in the middle of the first one's.
    """

    def work(machine: Machine, world: World) -> None:
        first, second = Job(machine, world), Job(machine, world)
        first.does("begin:a make write")
        second.does("begin:b mkdir:inner enter:inner make fsync close rename syncdir again")
        second.does("syncdir end")
        first.does("fsync close rename:a syncdir end")

    check_equal(found(record_on(empty_tree(), Told(), work, seed="toy")), [], "both are right")


def test_another_process_is_no_new_attempt() -> None:
    """O10, rule 2: that the world learnt something of others makes no failed sync good again.

    Method: a directory's sync fails; another process begins and ends an act; the first one syncs
    it again, in the same act and through the same descriptor. In an act of its own it may.
    """

    def work(machine: Machine, world: World) -> None:
        first, second = Job(machine, world), Job(machine, world)
        first.does("begin:a make write fsync close rename syncdir!")
        second.does("begin:b mkdir:inner enter:inner make fsync close rename syncdir again")
        second.does("syncdir end")
        first.does(then)

    hook = strikes("syncdir", 1, EIO)
    for then, expected in (("syncdir", [DIRECTORY_AGAIN]), ("begin:c syncdir", [])):
        made = record_on(empty_tree(), Told(), work, hook=hook, seed="toy")
        check_equal(found(made), expected, then)


def test_files_that_nobody_believes_are_exempt() -> None:
    """O10: a lock file's text is written and not synced, and nothing rests on it.

    Method: the same job with and without the exemption.
    """
    recording = recorded("make write close rename:lock begin end mkdir:x")
    check_equal(found(recording, exempt=("lock",)), [], "exempt")
    recording = recorded("make write close rename:lock begin mkdir:x end")
    check_equal(found(recording), [WRITTEN, NAMED], "not exempt")


def test_a_breach_is_a_violation_that_names_file_and_call() -> None:
    """O10: whoever reads the violation finds the file and the call.

    Method: forget one sync.
    """
    with pytest.raises(Violation) as raised:
        discipline.judge(recorded("begin:act make write close rename:kept syncdir end"))
    check_equal(raised.value.oracle, "O10", "oracle")
    for word in ("act1", "kept", "call 2"):
        check(word in raised.value.got, f"{word!r} is not in {raised.value.got!r}")


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_job_without_faults_keeps_the_discipline(workload: object) -> None:
    """O10: every workload's clean run, and so lastgood, syncs what it acknowledges.

    Method: record it; then forget each kind of sync in the recording, and it is found.
    """
    job = next(known for known in WORKLOADS if known is workload)
    recording = record(job)
    discipline.judge(recording, exempt=job.unread)
    forgotten: dict[str, Callable[[Call], bool]] = {
        "of files": lambda call: "." in call.path.rpartition("/")[2],
        "of directories": lambda call: "." not in call.path.rpartition("/")[2],
    }
    for what, is_forgotten in forgotten.items():
        calls = [
            replace(call, name="fstat", operations=[])
            if call.name in ("fsync", "fdatasync") and is_forgotten(call) else call
            for call in recording.calls
        ]  # fmt: skip
        marks = recording.world.marks
        breaches = list(discipline.breaches(recording.base, calls, marks, exempt=job.unread))
        check(len(breaches) > 0, f"syncs {what} were forgotten, and nobody saw it")


def test_the_level_asks_for_the_discipline(monkeypatch: pytest.MonkeyPatch) -> None:
    """L1 judges every run by O10.

    Method: a process whose directory syncs do nothing; the clean run alone shows it.
    """
    right = Process.fsync

    def fsync(self: Process, fd: int) -> None:
        if not self.fstat(fd).st_mode & 0o040000:
            right(self, fd)

    monkeypatch.setattr(Process, "fsync", fsync)
    clean = next(LEVEL.run(WORKLOADS[0], Plan()))
    check_equal([found.oracle for found in clean.violations], ["O10"], "oracles")
