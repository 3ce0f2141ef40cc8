"""One mutant on trial: the levels are run on the patched code until one of them finds it.

It is found by a violation of one of the judgements that it is declared for. Any other violation
is remembered and proves nothing: patched code that merely breaks is broken anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from fault_injection.level import NotRunError, Plan, Tally
from fault_injection.levels.registry import Registry
from fault_injection.planted_bugs.mutant import Kill, Mutant, Plant, Where
from fault_injection.state_id import LEVELS
from fault_injection.workload import BadWorkloadError, Oracle, Workload
from lastgood.errors import LastgoodError

REPOSITORY: Final = Path(__file__).resolve().parents[2]
_HONEST: Final = ("AssertionError", "Failed", "LastgoodError")
"""What a test fails with where a promise is broken; anything else is an error of the patch."""
_MISUSE: Final = re.compile(
    r"UsageError|TypeError|AttributeError|NameError|LookupError|KeyError|IndexError|ValueError"
)
"""What no disk brings about: who is told that was called in a wrong way."""
_ANY: Final[tuple[Oracle, ...]] = ("O1", "O2", "O3", "O4", "O6", "O8", "O9", "O10", "O12")
_WRITERS: Final = ("writers", "writers-overtaken", "writers-log")
"""Judgements and workloads for what a test alone is declared for."""


@dataclass(frozen=True, slots=True)
class Death:
    """Where a mutant was found.

    Attributes:
        where: The level.
        workload: Of what; of ``T``, the test.
        variant: Persistence model, fault or kind of damage; of ``T`` empty.
        oracle: The judgement; of ``T``, the test's error.
        state: Name of the state; of ``T`` empty.
        got: What was seen.
    """

    where: Where
    workload: str
    variant: str
    oracle: str
    state: str
    got: str


@dataclass(slots=True)
class Trial:
    """What came of one mutant.

    Attributes:
        deaths: Where it was found, by level.
        missed: Levels that it is declared for, which were asked and did not find it.
        elsewhere: Violations of other judgements, and what could not be run, for people.
        not_run: What it is declared for and cannot be asked here, with the remedy.
        broken: An error that says that the patch, not lastgood, is wrong.
        calls: How often the wrong code was entered.
    """

    deaths: dict[Where, Death] = field(default_factory=dict)
    missed: list[Where] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    not_run: str = ""
    broken: str = ""
    calls: int = 0


def tried(mutant: Mutant, registry: Registry, plan: Plan, *, everywhere: bool) -> Trial:
    """Plant a mutant here and look for it; this process is patched meanwhile.

    Args:
        mutant: The mistake.
        registry: Levels and workloads.
        plan: How much each level tries.
        everywhere: Look with every level, not only with those that it is declared for. Levels
            that are not look at few workloads.
    """
    plan = replace(plan, stop_at_first=True)
    plant, trial = Plant(), Trial()
    others = _others(mutant) if everywhere else ()
    with mutant.planted(plant):
        for kill in (*mutant.killed_by, *others):
            workloads = _workloads(kill, registry, all_of_them=kill not in others)
            try:
                death = _found(kill, registry, workloads, plan, trial)
            except NotRunError as error:
                trial.not_run = str(error)
                continue
            if death is not None:
                trial.deaths[kill.where] = death
            elif kill not in others:
                trial.missed.append(kill.where)
            if trial.broken:
                break
    trial.calls = plant.calls
    return trial


def sound(where: Where, name: str, variants: Sequence[str], registry: Registry, plan: Plan) -> str:
    """The same run without a patch: empty if nothing is found in it, else what.

    Args:
        where: The level.
        name: The workload, or the test.
        variants: Those in which a mutant was found; none behind them is run.
        registry: Levels and workloads.
        plan: As the mutants had it.
    """
    if where == "T":
        death, told = _tested(name)
        return told if death is None else f"{death.oracle}: {death.got}"
    left = set(variants)
    for tally in _level(registry, where).run(_workload(registry, name), plan):
        if tally.violations:
            return f"{tally.violations[0].id}: {tally.violations[0].got}"
        left.discard(tally.variant)
        if not left:
            return ""
    return f"there are no variants {sorted(left)}"


def _others(mutant: Mutant) -> tuple[Kill, ...]:
    """The levels that it is not declared for, with what they might find."""
    declared = {kill.where for kill in mutant.killed_by}
    kills = [kill for kill in mutant.killed_by if kill.where != "T"]
    oracles = tuple(dict.fromkeys(oracle for kill in kills for oracle in kill.oracles))
    first = tuple(dict.fromkeys(name for kill in kills for name in kill.first))
    return tuple(
        Kill(level, oracles or _ANY, first or _WRITERS) for level in LEVELS if level not in declared
    )


def _workloads(kill: Kill, registry: Registry, *, all_of_them: bool) -> list[Workload]:
    """First those that are known to show it."""
    if kill.where == "T":
        return []
    first = [_workload(registry, name) for name in kill.first]
    rest = [workload for workload in registry.workloads if workload not in first]
    return first + (rest if all_of_them else [])


def _found(
    kill: Kill, registry: Registry, workloads: Sequence[Workload], plan: Plan, trial: Trial
) -> Death | None:
    if kill.where == "T":
        return _found_by_tests(kill, trial)
    for workload in workloads:
        try:
            for tally in _level(registry, kill.where).run(workload, plan):
                death = _told(kill, tally, trial)
                if death is not None or trial.broken:
                    return death
        except (BadWorkloadError, NotRunError, LastgoodError) as error:
            trial.elsewhere.append(f"{kill.where} {workload.name}: {error}")
    return None


def _told(kill: Kill, tally: Tally, trial: Trial) -> Death | None:
    """What the violations of a tally say of the mutant."""
    for found in tally.violations:
        if _MISUSE.search(found.got):
            trial.broken = f"{found.id}: {found.got}"
            return None
        if found.oracle in kill.oracles:
            name = found.id
            return Death(
                kill.where, name.workload, tally.variant, found.oracle, str(name), found.got
            )
        trial.elsewhere.append(f"{found.id} {found.oracle}: {found.got}")
    return None


def _found_by_tests(kill: Kill, trial: Trial) -> Death | None:
    for test in kill.first:
        path = test.partition("::")[0]
        if not (REPOSITORY / path).is_file():  # what is installed has no tests
            raise NotRunError(f"there is no {path}", remedy="take a clone of lastgood")
        death, told = _tested(test)
        if death is not None and death.oracle in _HONEST:
            return death
        if death is not None:
            trial.broken = f"{test}: {death.oracle}: {death.got}"
        trial.elsewhere.append(f"{test}: {told}")
    return None


def _level(registry: Registry, name: Where) -> Any:
    found = next((level for level in registry.levels if level.name == name), None)
    if found is None:
        raise LookupError(f"there is no level {name}")
    return found


def _workload(registry: Registry, name: str) -> Workload:
    found = registry.workload(name)
    if found is None:
        raise LookupError(f"there is no workload {name}")
    return found


# --- tests of the suite -------------------------------------------------------------------


class _Watch:
    """Notes what each test of a run came to."""

    def __init__(self) -> None:
        self.passed = 0
        self.failed: list[tuple[str, str]] = []
        self.skipped: list[str] = []

    def pytest_exception_interact(self, call: Any) -> None:
        """A test, or something before it, raised."""
        error = call.excinfo.value
        kinds = [kind.__name__ for kind in type(error).__mro__]
        honest = next((kind for kind in kinds if kind in _HONEST), kinds[0])
        if any(map(_MISUSE.fullmatch, kinds)):
            honest = kinds[0]  # also a LastgoodError
        self.failed.append((honest, " ".join(str(error).split())[:200]))

    def pytest_runtest_logreport(self, report: Any) -> None:
        """A part of a test is over."""
        self.passed += report.when == "call" and report.passed
        if report.skipped:
            self.skipped.append(str(report.longrepr))


def _tested(test: str) -> tuple[Death | None, str]:
    """Run one test here: where it failed, or why it cannot be taken for passed."""
    import pytest

    watch = _Watch()
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={REPOSITORY}"]
    words += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # the harness is imported already
    code = pytest.main([*words, f"{REPOSITORY}/{test}"], plugins=[watch])
    if watch.failed:
        kind, text = watch.failed[0]
        return Death("T", test, "", kind, "", text), ""
    if code == 0 and watch.passed:
        return None, ""
    return None, f"it was not run: pytest ended with {int(code)}, {watch.skipped[:1]}"
