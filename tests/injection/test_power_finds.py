"""L3 finds what is wrong with a store: each way to lose power has mistakes that only it shows.

Every planted mistake is a patch of lastgood, or of the machine below it, for the length of a test.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final
from unittest import mock

import pytest

from fault_injection.level import Case, Counterexample, Plan, Tally
from fault_injection.levels.power import LEVEL
from fault_injection.machine import Machine
from fault_injection.memory.process import Process
from fault_injection.workload import Violation, Workload
from fault_injection.workloads import checkpoints
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.world import World
from lastgood import saving
from lastgood.errors import DurabilityUnknownError
from lastgood.formats import names
from lastgood.storage import posix
from lastgood.storage.directory import Directory
from lastgood.storage.posix import PosixStorage
from tests.injection.jobs import job
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.slow, pytest.mark.normal_only, pytest.mark.usefixtures("quiet")]

Patch = AbstractContextManager[object]
AT_FIRST: Final = Plan(stop_at_first=True)
FSYNC: Final = Process.fsync
SAVE: Final = saving.save


def _found(workload: Workload, variant: str) -> list[Counterexample]:
    """What one variant finds."""
    tally = LEVEL.tally(workload, variant, AT_FIRST)
    _check_sum(tally)
    return tally.violations


def _check_sum(tally: Tally) -> None:
    check_equal(tally.recovered + len(tally.violations), tally.distinct, f"{tally.variant}: sum")


def _fsync_skipping(skips: Callable[[Process, int], bool]) -> Patch:
    def fsync(self: Process, fd: int) -> None:
        if not skips(self, fd):
            FSYNC(self, fd)

    return mock.patch.object(Process, "fsync", fsync)


def _path(process: Process, fd: int) -> str:
    return process._fds.opened[fd].path


def _of_a_checkpoint(process: Process, fd: int) -> bool:
    return "/.checkpoint-" in _path(process, fd)


def _of_a_session(process: Process, fd: int) -> bool:
    return len(_path(process, fd).rpartition("/")[2]) == 40


def _of_disk(process: Process, fd: int) -> bool:
    return _path(process, fd) == "disk"


def _nothing(*_: object, **__: object) -> None: ...


def _r1_does_nothing() -> Patch:
    return mock.patch.object(PosixStorage, "persist", _nothing)


def _session_made_in_any_store() -> Patch:
    """The root is not fsynced before a session's directory is made in it."""

    def make(root: Directory, name: str) -> None:
        try:
            root.filesystem.mkdir(name, dir_fd=root.fd)
        except FileExistsError:
            return
        root.sync()

    return mock.patch.object(posix, "make_session", make)


def _fsync_again(self: Process, fd: int) -> None:
    try:
        FSYNC(self, fd)
    except OSError:
        FSYNC(self, fd)


def _saves_on_top(lease: Any, *args: Any, **others: Any) -> object:
    try:
        return SAVE(lease, *args, **others)
    except DurabilityUnknownError:
        lease.over = False
        raise


def _unchanged() -> Patch:
    return nullcontext()


PLANTED: Final[dict[str, tuple[Callable[[], Patch], str, str]]] = {
    "no fsync of a checkpoint": (lambda: _fsync_skipping(_of_a_checkpoint), "saves", "weak"),
    "no fsync of a checkpoint, in order": (
        lambda: _fsync_skipping(_of_a_checkpoint), "saves", "journal",
    ),
    "no fsync of a directory": (lambda: _fsync_skipping(_of_a_session), "saves", "posix"),
    "no fsync of a new store's parent": (lambda: _fsync_skipping(_of_disk), "first", "alice"),
    "R1 makes nothing durable": (_r1_does_nothing, "saves", "killed-weak"),
    "a session in a store that is not durable": (
        _session_made_in_any_store, "first", "killed-weak",
    ),
    "the same, behind a failure": (_session_made_in_any_store, "first", "failed-weak"),
    "fsync once more": (
        lambda: mock.patch.object(Process, "fsync", _fsync_again), "saves", "failed-weak",
    ),
    "a save on top of a failed one": (
        lambda: mock.patch.object(saving, "save", _saves_on_top), "insists", "failed-weak",
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_a_mistake_is_found_by_the_variant_that_shows_it(planted: str) -> None:
    """F2 to F5, F11, F12: each variant finds what it is there for, and the state is built again.

    Method: plant a mistake, run until the variant's first violation, replay that from its name.
    """
    patch, name, variant = PLANTED[planted]
    workload = job(name)
    with patch():
        violations = _found(workload, variant)
        check(violations, f"{variant} finds nothing wrong with: {planted}")
        for shown in violations:
            case = LEVEL.case(workload, shown.id)
            check_equal(_oracle(case), shown.oracle, f"replay of {shown.id}")
            check(case.fates and set(case.fates) <= {call.number for call in case.calls}, "fates")


def test_a_recovery_that_syncs_nothing_is_found_when_it_is_struck() -> None:
    """O5, F10: a crash of the recovery finds what is wrong with recovering alone.

    Method: R1 and the owner's own saves are right in the job, and sync no file in the recovery.
    """
    workload = _Forgetful("saves")
    violations = _found(workload, "nested-weak")
    check(violations, "nothing found")
    check(str(violations[0].id).startswith("v1.L3.saves.nested-weak@"), str(violations[0].id))
    check_equal(_oracle(LEVEL.case(workload, violations[0].id)), violations[0].oracle, "replay")


def test_an_act_that_is_acknowledged_too_early_is_found_and_shown_small() -> None:
    """O1: told before the manifest is durable; the smallest state loses nothing but time.

    Method: a job that tells the world before it saves; look at what the counterexample lost.
    """

    def work(machine: Machine, world: World) -> None:
        with checkpoints.opened(machine) as store:
            for sequence in (20, 30):
                world.begin(str(sequence))
                world.end(str(sequence), "acknowledged")
                store.save(checkpoints.checkpoint(sequence))

    workload = Checkpoints("early", before=(10,), work=work)
    shown = _found(workload, "weak")[0]
    case = LEVEL.case(workload, shown.id)
    check_equal(shown.oracle, "O1", "judgement")
    check_equal([fate for fate in case.fates.values() if fate != "persisted"], ["LOST"], "fates")
    unread = {call.number for call in case.calls if call.path.endswith(names.LOCK)}
    lost = [number for number, fate in case.fates.items() if fate == "LOST"]
    check(set(lost) <= unread, "the only thing lost is what nobody reads")


def test_a_job_that_finds_a_violation_itself_is_a_counterexample() -> None:
    """A recovery that cannot go on is told, with a name that says where.

    Method: a workload whose next process always raises a violation.
    """
    workload = _Hopeless("saves")
    for variant in ("killed-weak", "nested-weak"):
        shown = _found(workload, variant)[0]
        check_equal((shown.id.choice, shown.oracle), ("job", "O9"), variant)
        check_equal(_oracle(LEVEL.case(workload, shown.id)), "O9", "replay")


def _oracle(case: Case) -> str:
    try:
        LEVEL.replay(case)
    except Violation as violation:
        return violation.oracle
    return "recovered"


class _Like:
    """The workload of that name."""

    def __init__(self, name: str) -> None:
        self.right = job(name)
        self.name = name
        self.unread = self.right.unread

    def __getattr__(self, name: str) -> Any:
        return getattr(self.right, name)

    def prepare(self, machine: Machine, world: World) -> None:
        self.right.prepare(machine, world)

    def run(self, machine: Machine, world: World) -> None:
        self.right.run(machine, world)

    def go_on(self, machine: Machine, world: World) -> None:
        self.right.go_on(machine, world)

    def judge(self, machine: Machine, told: Any, *, depth: Any) -> Any:
        return self.right.judge(machine, told, depth=depth)


class _Forgetful(_Like):
    """Who goes on syncs no checkpoint."""

    def go_on(self, machine: Machine, world: World) -> None:
        with _fsync_skipping(_of_a_checkpoint):
            self.right.go_on(machine, world)


class _Hopeless(_Like):
    """Who goes on finds that it cannot."""

    def go_on(self, machine: Machine, world: World) -> None:
        raise Violation("O9", expected="a session", got="none")
