"""Other people's crash tests: the fixtures and the marker, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.documents import blocks
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
PLUGIN = ("-p", "fault_injection.pytest_plugin")


def pytest_of(
    folder: Path, source: str, *options: str, require_all: str = "0"
) -> subprocess.CompletedProcess[str]:
    """Run ``source`` as somebody's test, without anything of this suite."""
    (folder / "test_theirs.py").write_text(source, encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
    strict = ["-q", "-W", "error", "--strict-markers", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *strict, "--rootdir", str(folder)],
        cwd=folder,
        env={**kept, "PYTHONPATH": str(TOP), "LASTGOOD_REQUIRE_ALL": require_all},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def example(job: str) -> str:
    """The test that the harness's README shows, with a job of ours."""
    text = (TOP / "fault_injection" / "README.md").read_text("utf-8")
    bodies = [block.body for block in blocks(text) if ("file", "test_diary.py") in block.orders]
    check_equal(len(bodies), 1, "examples in the README")
    check("from diary import JOB" in bodies[0], "the example is another by now")
    return bodies[0].replace("from diary import JOB", f"{job} as JOB")


def test_store_that_forgets_one_fsync_fails_with_an_explanation(tmp_path: Path) -> None:
    """The missing fsync of a directory is found by L3 and shown call by call.

    Method: the README's example with a store that has this one mistake, at L3 alone.
    """
    source = example("from tests.injection.bad_notes import FORGETFUL")
    source = source.replace('("L1", "L3")', '("L3",)')
    check('("L3",)' in source, "the example is another by now")
    ran = pytest_of(tmp_path, source, *PLUGIN)
    check_equal(ran.returncode, 1, ran.stdout + ran.stderr)
    for part in (
        "violations, the first of them\n\nv1.L3.notes.weak.",
        " note-1 O_CREAT O_EXCL [LOST]",
        "VIOLATION of O1: what is recovered is not older than what was acknowledged",
        "again: pytest test_theirs.py::test_diary",
    ):
        check(part in ran.stdout, f"{part!r} is not in\n{ran.stdout}")


def test_store_that_does_not_listen_to_errors_is_found_by_faults(tmp_path: Path) -> None:
    """A failed fsync that is passed over is found by L1. Method: such a store, at L1 alone."""
    source = (
        "import pytest\nfrom tests.injection.bad_notes import DEAF\n"
        '@pytest.mark.fault_injection(levels=["L1"])\n'
        "def test_deaf(crash_test): crash_test(DEAF)\n"
    )
    ran = pytest_of(tmp_path, source, *PLUGIN)
    check_equal(ran.returncode, 1, ran.stdout + ran.stderr)
    check("VIOLATION of O10" in ran.stdout, ran.stdout)


def test_machine_in_memory_holds_what_a_store_writes(tmp_path: Path) -> None:
    """A store runs on it as on the system. Method: the example's store; its calls, its file."""
    source = """
from fault_injection.examples.notes import Notes
def test_note(memory_machine):
    notes = Notes(memory_machine.process(), memory_machine.root)
    notes.save("one")
    assert notes.read() == "one"
    assert [path for path, _ in memory_machine.disk.tree().paths()][-1] == "disk/state/note-1"
    assert "fsync" in [call.name for call in memory_machine.calls]
def test_each_test_has_its_own(memory_machine):
    assert memory_machine.calls == []
"""
    ran = pytest_of(tmp_path, source, *PLUGIN)
    check_equal(ran.returncode, 0, ran.stdout + ran.stderr)


LEVELS = "give a tuple or list of L1, L2, L3, L5"
MISTAKES = {
    'levels=("L9",)': f"levels=('L9',): {LEVELS}",
    'levels=("L1", "L4")': f"levels=('L1', 'L4'): {LEVELS}",
    'levels="L1"': f"levels='L1': {LEVELS}",
    "levels=()": f"levels=(): {LEVELS}",
    "levels=3": f"levels=3: {LEVELS}",
    "levels=[[]]": f"levels=[[]]: {LEVELS}",
    'budget="all"': 'budget=\'all\' is neither "ci" nor "exhaustive"',
    'seed="1"': "seed='1' is not a number from 0",
    "seed=-1": "seed=-1 is not a number from 0",
    'level=("L1",)': "it takes levels=, budget= and seed=, not level",
    '("L1",)': "it takes levels=, budget= and seed=, not ('L1',)",
}


def test_marker_that_asks_for_what_there_is_not_is_one_line(tmp_path: Path) -> None:
    """A mistyped marker does not run less than was meant, and nobody sees the plugin's source.

    Method: a test with each kind of mistake; every line of every failure.
    """
    source = "import pytest\nfrom fault_injection.examples.notes import NOTES\n"
    for number, arguments in enumerate(MISTAKES):
        source += (
            f"@pytest.mark.fault_injection({arguments})\n"
            f"def test_{number}(crash_test): crash_test(NOTES)\n"
        )
    ran = pytest_of(tmp_path, source, *PLUGIN)
    check_equal(ran.returncode, 1, ran.stdout)
    failures = ran.stdout.partition("= ERRORS =")[2].partition("short test summary")[0]
    lines = [line for line in failures.splitlines() if line.strip("_= ") and line[:3] != "___"]
    expected = [f"the marker fault_injection is wrong: {said}" for said in MISTAKES.values()]
    check_equal(lines, expected, ran.stdout)


def test_what_is_no_workload_is_one_line(tmp_path: Path) -> None:
    """A class in place of its object shows no source of the harness. Method: the example's."""
    source = (
        "from fault_injection.examples.notes import Job\n"
        "def test_notes(crash_test): crash_test(Job)\n"
    )
    ran = pytest_of(tmp_path, source, *PLUGIN)
    check_equal(ran.returncode, 1, ran.stdout)
    check("crash_test takes a workload: it is the class Job; name an obj" in ran.stdout, ran.stdout)
    check("fault_injection/" not in ran.stdout, ran.stdout)


STAND_IN = """
import pytest
from fault_injection.levels import registry
from tests.injection.toys import Toy, ToyLevel
@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    found = registry.Registry((ToyLevel("L1"), ToyLevel("L3")), ())
    monkeypatch.setattr(registry, "built", lambda: found)
def test_it(crash_test): crash_test(Toy("{name}"))
"""


@pytest.mark.parametrize(
    ("name", "require_all", "code", "said"),
    [
        ("fine", "0", 0, "1 passed"),
        ("violates", "0", 1, "v1.L1.violates.weak.6.c0ffee"),
        ("absent", "0", 0, "L1: no such thing here; remedy: install it"),
        ("absent", "1", 1, "LASTGOOD_REQUIRE_ALL=1, but L1: no such thing here"),
        ("unfit", "0", 1, "the workload cannot be tested: unfit acknowledges nothing"),
        ("mistaken", "0", 1, "cannot be tested: mine.py:12: NameError: name 'x' is not defined"),
    ],
)
def test_what_levels_say_is_what_the_test_says(
    tmp_path: Path, name: str, require_all: str, code: int, said: str
) -> None:
    """A level that is not run is a visible skip, never a pass. Method: levels that behave so."""
    ran = pytest_of(tmp_path, STAND_IN.format(name=name), *PLUGIN, "-rs", require_all=require_all)
    check_equal(ran.returncode, code, ran.stdout + ran.stderr)
    check(said in ran.stdout, ran.stdout)
    check("another exception occurred" not in ran.stdout, ran.stdout)
