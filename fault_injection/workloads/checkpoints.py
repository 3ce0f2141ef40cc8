"""Jobs that keep checkpoints alone, and the judge of what is left of their store.

Each act saves one checkpoint that replaces the one before; its name is its sequence, and its
state, its padding and its fingerprints follow from that, so that a judge knows every byte of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Violation
from fault_injection.workloads import roots
from fault_injection.workloads.judging import NOTHING, Aside
from fault_injection.workloads.keys import KEYS
from fault_injection.workloads.systems import Below, contents
from fault_injection.world import Told, World
from lastgood import Checkpoint, CheckpointStore
from lastgood.errors import (
    BusyError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    LockedError,
)
from lastgood.formats import names
from lastgood.inspection import Report
from lastgood.storage.filesystem import FileSystem

SESSION: Final = "nightly"
_STEP: Final = 10
_MAYBE: Final = (DurabilityUnknownError, FencedError)


def checkpoint(sequence: int) -> Checkpoint:
    """What is saved at ``sequence``."""
    known = [f"fx:v1:{number:064x}" for number in range(1, sequence // _STEP + 1)]
    state = {"act": str(sequence), "items": [sequence] * 3, "pad": "x" * 900}
    return Checkpoint(sequence, state, known)


@contextmanager
def opened(
    machine: Machine,
    *,
    mode: Literal["write", "read"] = "write",
    system: FileSystem | None = None,
) -> Iterator[CheckpointStore]:
    """The store, in a process of its own."""
    with (
        roots.root(machine, system=system) as root,
        CheckpointStore(
            root, SESSION, keys=KEYS, mode=mode, clock=machine.clock, entropy=machine.entropy
        ) as store,
    ):
        yield store


def save(
    store: CheckpointStore, world: World, sequence: int, *, kind: Literal["save", "late"] = "save"
) -> None:
    """One act; ``late``: of an owner that another one fenced (F13)."""
    world.begin(str(sequence), kind=kind)
    try:
        store.save(checkpoint(sequence))
    except _MAYBE:
        raise
    except LastgoodError:
        world.end(str(sequence), "refused")
        raise
    world.end(str(sequence), "acknowledged")


class Checkpoints:
    """A job that opens a store and saves.

    Args:
        name: One word.
        before: Sequences that are saved before, durably; without any, not even the root's parent
            is there.
        work: What is done.
        aside: What may be left in the archive.
    """

    unread: Collection[str] = (names.LOCK,)

    def __init__(
        self,
        name: str,
        *,
        before: tuple[int, ...],
        work: Callable[[Machine, World], None],
        aside: Aside = NOTHING,
    ) -> None:
        self.name = name
        self._aside = aside
        self._before = before
        self._work = work

    def prepare(self, machine: Machine, world: World) -> None:
        """Save what lies there before."""
        if self._before:
            with opened(machine) as store:
                for sequence in self._before:
                    save(store, world, sequence)

    def run(self, machine: Machine, world: World) -> None:
        """Do the job."""
        self._work(self._at(machine), world)

    def go_on(self, machine: Machine, world: World) -> None:
        """Recover, and save twice."""
        with opened(self._at(machine)) as store:
            found = _name(store.load_latest())
            world.settle([found] if found else [])
            last = max([0, *map(int, world.told.names())])
            save(store, world, last + _STEP)
            save(store, world, last + 2 * _STEP)

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        """What a stranger believes is what may be; then it is owned, and work goes on."""
        late, told = told.of("late").names("acknowledged"), told.of("save")
        if late:
            raise Violation("O2", expected="a fenced owner that is told so", got=f"{late} saved")
        place = self._at(machine)
        try:
            with opened(place, mode="read") as store:
                report = store.check()
                _judge_names(place, report)  # before a load stops at the same, which would be O1
                found = _believed(store.load_latest(), told)
                rule = _judge_report(report, told)
            with opened(place) as store:
                again = _name(store.load_latest())
                _expect("O4", found, again, "the same checkpoint to whoever opens it for writing")
            if depth == "whole":
                self._judge_going_on(machine, told, found)
        except (LockedError, BusyError) as error:
            raise Violation("O9", expected="no lock that is stuck", got=f"{error}") from error
        except LastgoodError as error:
            raise Violation(
                "O1",
                expected=f"one of {told.may_be_newest()}",
                got=f"{type(error).__name__}: {error}",
            ) from error
        return Recovered(rule, f"checkpoint {found or 'none'}")

    def _at(self, machine: Machine) -> Machine:
        return machine if self._before else Below(machine, "jobs/first")

    def _judge_going_on(self, machine: Machine, told: Told, found: str | None) -> None:
        place = self._at(machine)
        with opened(place) as store:
            _expect("O4", found, _name(store.load_latest()), "the same checkpoint the second time")
        world = World(told)
        self.go_on(machine, world)
        last = world.told.newest()
        with opened(place, mode="read") as store:
            _expect("O9", last, _name(store.load_latest()), "the last of two further saves")
            report = store.check()
            if report.findings or report.verdict != "good":
                raise Violation("O9", expected="a good store", got=f"{report.findings}")
        if left := self._aside.beyond(report):
            raise Violation("O9", expected="no leftovers after two saves", got=f"{left}")


def _judge_names(place: Machine, report: Report) -> None:
    """O7: what a checkpoint's name leads to is whole, whether a load needs it or not."""
    bad = {row.name: row.problem for row in report.rows if row.problem}
    if bad:
        there = contents(place, f"{place.root}/{names.directory(names.session_id(SESSION))}")
        if bad.keys() & there.keys():  # a name that is missing is no half record
            raise Violation("O7", expected="whole records under their names", got=f"{bad}")


def _believed(found: Checkpoint | None, told: Told) -> str | None:
    """O1, O2, O3: the name of what is believed, if it may be."""
    name, allowed = _name(found), told.may_be_newest()
    if name not in allowed:
        old = name is None or name in told.names("acknowledged")
        raise Violation("O1" if old else "O2", expected=f"one of {allowed}", got=f"{name}")
    if found is not None:
        wanted: Any = checkpoint(found.sequence)
        if (found.state, found.known) != (wanted.state, wanted.known):
            raise Violation("O3", expected=f"the bytes of {name}", got=f"{found.state!r}"[:200])
    return name


def _judge_report(report: Report, told: Told) -> str:
    """O6, O7, O11: all that is stored verifies, two generations are there; the rule."""
    if report.error is not None or report.selection is None:
        raise Violation("O7", expected="records that verify", got=f"{report.error}")
    selection = report.selection
    verified = {row.sequence for row in report.rows if row.is_verified}
    kept = {entry.sequence for entry in selection.kept()}
    if not kept <= verified or (len(told.names("acknowledged")) > 1 and len(kept) < 2):
        raise Violation(
            "O6", expected="two complete generations", got=f"kept {kept}, verified {verified}"
        )
    rules = {
        "rolled forward": selection.rolled_forward,
        "number linked": selection.number_missing,
        "pointer moved up": selection.pointer_behind > 0,
        "nothing yet": selection.current is None,
    }
    return ", ".join(rule for rule, holds in rules.items() if holds) or "newest revision"


def _name(found: Checkpoint | None) -> str | None:
    if found is None:
        return None
    state: Any = found.state
    return str(state["act"])


def _expect(oracle: Any, expected: object, got: object, what: str) -> None:
    if expected != got:
        raise Violation(oracle, expected=f"{what}, {expected}", got=f"{got}")


# --- the jobs -----------------------------------------------------------------------------


def _saves(*sequences: int) -> Callable[[Machine, World], None]:
    def work(machine: Machine, world: World) -> None:
        with opened(machine) as store:
            for sequence in sequences:
                save(store, world, sequence)

    return work


def _reopens(machine: Machine, world: World) -> None:
    for sequence in (30, 40):
        with opened(machine) as store:
            save(store, world, sequence)


WORKLOADS: Final = (
    Checkpoints("first", before=(), work=_saves(10)),
    Checkpoints("saves", before=(10,), work=_saves(20, 30, 40, 50, 60)),
    Checkpoints("reopens", before=(10, 20), work=_reopens),
)
