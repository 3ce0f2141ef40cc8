"""Proof that the suite can fail: the canaries must die, also under ``python -O``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.check import check

TOP = Path(__file__).resolve().parents[2]

CANARIES = """
import pytest
from tests.support.check import check, check_equal

@pytest.fixture
def broken_fixture():
    check(False, "canary fixture")

@pytest.fixture
def broken_oracle():
    yield
    check_equal(1, 2, "canary oracle")

def test_check(): check(False, "canary check")
def test_check_equal(): check_equal(1, True, "canary equal")
def test_raises():
    with pytest.raises(ValueError): pass
def test_fixture(broken_fixture): pass
def test_oracle(broken_oracle): pass
def test_alive(): check(True, "never shown")
"""

SKIPS = """
import unittest
import pytest

@pytest.mark.skip(reason="canary mark")
def test_mark(): pass
def test_call(): pytest.skip("canary call")
def test_unittest(): raise unittest.SkipTest("canary unittest")
@pytest.mark.xfail(reason="canary expected", raises=ValueError)
def test_expected(): raise ValueError
def test_part(subtests):
    with subtests.test("part"): pytest.skip("canary part")
@pytest.fixture
def absent(): pytest.skip("canary fixture")
def test_fixture(absent): pass
"""


def run_pytest(folder: Path, source: str, *options: str, require_all: str = "0") -> str:
    """Run ``source`` as a test module under this suite's own conftest; return what was printed.

    The run has an interpreter, a configuration and an environment of its own.
    """
    (folder / "test_generated.py").write_text(source, encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
    environment["LASTGOOD_REQUIRE_ALL"] = require_all
    command = [sys.executable, *options, "-m", "pytest", "-p", "tests.conftest"]
    command += ["-p", "no:cacheprovider", "-c", str(TOP / "pyproject.toml")]
    ran = subprocess.run(
        [*command, "--rootdir", str(folder), str(folder)],
        cwd=TOP,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{ran.stdout}\n{ran.stderr}\nexit {ran.returncode}"


@pytest.mark.parametrize("options", [(), ("-O",)], ids=["normal", "optimized"])
def test_broken_guarantee_fails_the_run(tmp_path: Path, options: tuple[str, ...]) -> None:
    """A check, a fixture or an oracle that fails is seen, with and without -O.

    Method: run canaries that must fail in a fresh interpreter and count them.
    """
    printed = run_pytest(tmp_path, CANARIES, *options)
    check("3 failed, 2 passed, 2 errors" in printed, printed)
    check(printed.endswith("exit 1"), printed)
    for name in ("check", "equal", "fixture", "oracle"):
        check(f"canary {name}" in printed, f"canary {name} did not die:\n{printed}")


def test_skip_when_all_is_required_fails_however_it_was_made(tmp_path: Path) -> None:
    """A run that must cover everything cannot pass by leaving something out.

    Method: skip by mark, call, unittest, subtest, fixture and expected failure.
    """
    printed = run_pytest(tmp_path, SKIPS, require_all="1")
    check(not re.search(r"\d+ (passed|skipped|xfailed)", printed), printed)
    check(printed.endswith("exit 1"), printed)
    for name in ("mark", "call", "unittest", "part", "fixture", "expected"):
        check(
            f"but skipped: canary {name}" in printed, f"canary {name} was let through:\n{printed}"
        )


def test_module_skip_when_all_is_required_fails(tmp_path: Path) -> None:
    """A whole module cannot be left out either."""
    source = "import pytest\npytest.importorskip('no_such_module', reason='canary module')\n"
    printed = run_pytest(tmp_path, source, require_all="1")
    check("but skipped: canary module" in printed, printed)
    check(not printed.endswith("exit 0"), printed)


def test_skip_otherwise_is_listed_with_its_remedy(tmp_path: Path) -> None:
    """What a machine cannot test is named at the end of the run, with what would mend it."""
    source = """
from tests.support.require import missing

def test_one(): missing("canary tool is not installed", remedy="install canary")
def test_two(): missing("canary tool is not installed", remedy="install canary")
"""
    printed = run_pytest(tmp_path, source)
    check("not covered by this run" in printed, printed)
    check("2 x canary tool is not installed; remedy: install canary" in printed, printed)
    check(printed.endswith("exit 0"), printed)
