"""Fixtures and a marker for crash tests of anybody's store.

``memory_machine``
    A machine in memory: ``memory_machine.process()`` is the system that a store calls.

``crash_test``
    A function that takes a workload, runs levels with it, and fails the test with an explanation
    of the first state of each level that broke a promise. It returns the tallies.

``@pytest.mark.fault_injection(levels=("L1", "L3"), budget="ci", seed=0)``
    Says which levels ``crash_test`` runs, and how much it tries; these are the defaults. L2 and L5
    ask more of a workload than a seam: L2 runs it on real files, L5 needs to know what it may say
    of damage.

A level that cannot be run here skips the test, with its reason and remedy, and fails it with
``LASTGOOD_REQUIRE_ALL=1``. All of it runs in the process of the test.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from lastgood.errors import printable

if TYPE_CHECKING:
    from fault_injection.level import Counterexample, Level, Plan, Tally
    from fault_injection.machine import MemoryMachine
    from fault_injection.workload import Workload

MARKER = "fault_injection"
_DEFAULTS: dict[str, Any] = {"levels": ("L1", "L3"), "budget": "ci", "seed": 0}

CrashTest = Callable[["Workload"], "list[Tally]"]
"""What ``crash_test`` is."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line(
        "markers",
        f'{MARKER}(levels=("L1", "L3"), budget="ci", seed=0): what the fixture crash_test runs',
    )


@pytest.fixture
def memory_machine() -> MemoryMachine:
    """A machine in memory, with an empty disk."""
    from fault_injection.machine import MemoryMachine

    return MemoryMachine()


@pytest.fixture
def crash_test(request: pytest.FixtureRequest) -> CrashTest:
    """Runs levels with a workload, and fails with an explanation; a mistake in the marker, too."""
    levels, plan = _asked(request.node.get_closest_marker(MARKER))

    def test(workload: Workload) -> list[Tally]:
        from fault_injection.own_workloads import lack

        why = lack(workload)
        if why:
            pytest.fail(f"crash_test takes a workload: {why}", pytrace=False)
        tallies: list[Tally] = []
        not_run: list[str] = []
        for level in levels:
            _try(level, workload, plan, tallies, not_run)
        if not not_run and not sum(tally.distinct for tally in tallies):
            pytest.fail(f"{workload.name} came through no state at all", pytrace=False)
        found = [(tally, one) for tally in tallies for one in tally.violations]
        if found:
            pytest.fail(_told(found, workload, levels, request.node.nodeid), pytrace=False)
        if not_run:
            pytest.skip("; ".join(not_run))
        return tallies

    return test


def _asked(marker: pytest.Mark | None) -> tuple[list[Level], Plan]:
    from fault_injection.level import Plan
    from fault_injection.levels.registry import built

    given = marker.kwargs if marker is not None else {}
    if marker is not None and (marker.args or given.keys() - _DEFAULTS.keys()):
        unknown = ", ".join([*map(repr, marker.args), *sorted(given.keys() - _DEFAULTS.keys())])
        _refuse(f"it takes levels=, budget= and seed=, not {unknown}")
    asked = {**_DEFAULTS, **given}
    known = {level.name: level for level in built().levels}
    names, budget, seed = asked["levels"], asked["budget"], asked["seed"]
    are_known = isinstance(names, tuple | list) and all(name in [*known] for name in names)
    if not are_known or not names:
        _refuse(f"levels={names!r}: give a tuple or list of {', '.join(known)}")
    if budget not in ("ci", "exhaustive"):
        _refuse(f'budget={budget!r} is neither "ci" nor "exhaustive"')
    if type(seed) is not int or seed < 0:
        _refuse(f"seed={seed!r} is not a number from 0")
    return [known[name] for name in names], Plan(budget=budget, seed=seed)


def _refuse(text: str) -> NoReturn:
    pytest.fail(f"the marker {MARKER} is wrong: {text}", pytrace=False)


def _try(
    level: Level, workload: Workload, plan: Plan, tallies: list[Tally], not_run: list[str]
) -> None:
    """Add a level's tallies, those before it cannot go on, too; or why it cannot be run."""
    from fault_injection.level import NotRunError
    from fault_injection.workload import BadWorkloadError

    wrong = ""
    try:
        for tally in level.run(workload, plan):
            tallies.append(tally)
    except NotRunError as error:
        if os.environ.get("LASTGOOD_REQUIRE_ALL") == "1":
            wrong = f"LASTGOOD_REQUIRE_ALL=1, but {level.name}: {error}"
        not_run.append(f"{level.name}: {error}")
    except BadWorkloadError as error:
        wrong = f"the workload cannot be tested: {error}"
    if wrong:  # not above: pytest would show the error that this one is about, too
        pytest.fail(printable(wrong, limit_chars=1000), pytrace=False)


def _told(
    found: list[tuple[Tally, Counterexample]], workload: Workload, levels: list[Level], node: str
) -> str:
    """How many each level found, and its first state in full."""
    from fault_injection.explain import explain, judged

    parts = []
    for level in levels:
        mine = [one for tally, one in found if tally.level == level.name]
        if mine:
            case = level.case(workload, mine[0].id)
            shown = explain(case, judged(level, case), again=f"pytest {node}")
            parts.append(f"{level.name}: {len(mine)} violations, the first of them\n\n{shown}")
    return "\n\n".join(parts)
