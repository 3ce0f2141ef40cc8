"""Jobs on several processes: order, deaths, limits, and nothing left."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path

import pytest

from fault_injection.level import Plan
from fault_injection.runner import Job, Result, run
from tests.injection.toys import Toy, ToyLevel, ended
from tests.support.check import check, check_equal

# A worker of pytest-xdist has threads; what is forked here uses none of what they hold.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def jobs(*names: str) -> list[Job]:
    return [Job(ToyLevel("L1"), Toy(name)) for name in names]


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_results_are_the_same_and_in_order_on_any_number_of_processes(workers: int) -> None:
    """Who compares two runs compares results. Method: the same jobs on one, two and five."""
    given = [Job(level, toy.workload) for level in (ToyLevel("L1"), ToyLevel("L3"))
             for toy in jobs("fine", "violates", "absent", "unfit", "raises")]  # fmt: skip
    heard: list[Result] = []
    results = run(given, Plan(), workers=workers, say=heard.append)
    names = [(result.level, result.workload, result.ending) for result in results]
    endings = ["done", "done", "not run", "bad workload", "died"]
    expected = [
        (job.level.name, job.workload.name, ending)
        for job, ending in zip(given, endings * 2, strict=True)
    ]
    check_equal(names, expected, "results")
    check_equal(len(heard), len(given), "results that were told as they came")
    check_equal([result.violations for result in results], [0, 1, 0, 0, 0] * 2, "violations")
    check_equal(results[0].tallies[0].distinct, 600, "states")
    check_equal((results[2].reason, results[2].remedy), ("no such thing here", "install it"), "why")
    check("TypeError" in results[4].reason and "toys.py" in results[4].reason, results[4].reason)
    check("\n" not in results[4].reason, "a reason of two lines")


def test_worker_that_dies_is_one_result_and_takes_no_other_with_it() -> None:
    """A crash of the harness is never mistaken for success. Method: SIGKILL in a job."""
    results = run(jobs("fine", "dies", "fine"), Plan(), workers=2)
    check_equal([r.ending for r in results], ["done", "died", "done"], "endings")
    check_equal(results[1].reason, "its process ended with exit code -9", "reason")


def test_job_that_hangs_is_ended_with_all_that_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run ends. Method: a job that sleeps, with a child and temporary files; a short limit."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TOYS_BEGUN", str(tmp_path / "begun"))
    begun = time.monotonic()
    results = run(jobs("hangs", "fine"), Plan(), workers=2, limit_s=1.5)
    check(time.monotonic() - begun < 60, "it hung")
    check_equal([r.ending for r in results], ["died", "done"], "endings")
    check_equal(results[0].reason, "it took longer than 1.5 s", "reason")
    pid, folder = (tmp_path / "begun").read_text("utf-8").split()
    check(ended(int(pid)), "a child is left")
    check(not Path(folder).exists(), "a temporary folder is left")
    check_equal(os.listdir(tmp_path), ["begun"], "what is left")


@pytest.mark.parametrize("workers", [1, 2])
def test_first_violation_stops_a_run_that_asks_for_it(workers: int) -> None:
    """``--fail-fast`` does not wait for the rest. Method: a violation before what sleeps."""
    given = jobs("violates", "hangs", "hangs")
    results = run(given, Plan(), workers=workers, fail_fast=True)
    check_equal([r.ending for r in results], ["done", "stopped", "stopped"], "endings")


def test_job_of_a_level_that_stops_half_way_keeps_what_it_tried() -> None:
    """What was tried counts, and what was not is told. Method: a level that gives up."""
    (result,) = run(jobs("half"), Plan(), workers=1)
    check_equal((result.ending, len(result.tallies)), ("not run", 2), "result")


def test_temporary_files_of_this_process_land_where_they_did_before(tmp_path: Path) -> None:
    """A run in this process changes nothing of it. Method: the settings before and after."""
    before = (tempfile.gettempdir(), os.environ.get("TMPDIR"))
    run(jobs("fine"), Plan(), workers=1)
    check_equal((tempfile.gettempdir(), os.environ.get("TMPDIR")), before, "settings")
