"""The levels themselves, with every workload, once; and the numbers that documents quote of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from fault_injection.state_id import LEVELS
from fault_injection.workloads import WORKLOADS
from tests.injection.quote import EVERYWHERE_THE_SAME, LAST_RUN, NUMBERS, README, placed, quoted
from tests.support import require
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]

# A bound that a busy machine keeps.
pytestmark = [pytest.mark.slow, pytest.mark.normal_only, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``python -m fault_injection run --budget ci`` says, from one run of all of it."""
    path = tmp_path_factory.mktemp("crash") / "report.json"
    begun = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "fault_injection", "run", "--budget", "ci", "--json", str(path)],
        cwd=TOP,
        env={**os.environ, "PYTHONOPTIMIZE": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"{time.monotonic() - begun:.0f} s\n{ran.stdout}")
    check(path.exists(), f"no report: {ran.stdout} {ran.stderr}")
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    absent = [entry for entry in document["not_run"] if entry["ending"] == "not run"]
    if ran.returncode == 3 and absent:
        entry = absent[0]
        require.missing(f"{entry['level']}: {entry['reason']}", remedy=entry["remedy"])
    check_equal(ran.returncode, 0, f"exit code: {ran.stdout} {ran.stderr}")
    return document


def test_every_level_recovers_every_state_of_every_workload(report: dict[str, Any]) -> None:
    """O1 to O13 hold in every state that the levels come to, in the budget of every change.

    Method: the whole command once; each level must have tried each workload.
    """
    check_equal(report["outcome"], "recovered", "outcome")
    violations = [found["id"] for row in report["rows"] for found in row["violations"]]
    check_equal(violations, [], "violations")
    states = dict.fromkeys(
        [(level, workload.name) for level in LEVELS for workload in WORKLOADS], 0
    )
    for row in report["rows"]:
        states[row["level"], row["workload"]] += row["distinct"]
    check_equal([pair for pair, count in states.items() if count == 0], [], "not tried at all")


def test_documents_quote_the_numbers_of_this_run(report: dict[str, Any]) -> None:
    """No document claims a state more than was tried, or a violation fewer.

    Method: the numbers of the run against those that are kept, exactly; never seconds. L2 counts
    what a kernel is asked, so that its states are another number on another machine.
    """
    last = json.loads(LAST_RUN.read_text("utf-8"))
    check_equal(last["command"], report["command"], "the command that is quoted")
    for level, kept in last["levels"].items():
        names = NUMBERS if level in EVERYWHERE_THE_SAME else ("workloads", "violations")
        found = {name: report["totals"][level][name] for name in names}
        check_equal(found, {name: kept[name] for name in names}, f"{level}; make crash-quote")


def test_readme_says_what_is_kept() -> None:
    """README.md quotes the last run word for word. Method: the paragraph made again."""
    text = README.read_text("utf-8")
    last = json.loads(LAST_RUN.read_text("utf-8"))
    check_equal(placed(text, quoted(last)), text, "README.md; make crash-quote")
