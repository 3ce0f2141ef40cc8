"""The harness as a distribution of its own: what is in it, and that it works where it is put."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import lastgood
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
HARNESS = TOP / "fault_injection"

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The distribution, built with the pinned back end."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=HARNESS,
        env={**os.environ, "PYTHONOPTIMIZE": ""},
        capture_output=True,
        check=True,
    )
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where it was installed: on nobody's path, beside nothing of this clone."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "--no-index", "--no-deps", "--target", str(folder), str(wheel)],
        capture_output=True,
        check=True,
    )
    return folder


def run(installed: Path, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PYTHON"))}
    return subprocess.run(
        command,
        cwd=folder,
        env={**kept, "PYTHONPATH": str(installed)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_wheel_holds_every_module_of_the_package_and_nothing_else(wheel: Path) -> None:
    """Who installs it gets what this folder holds, typed and documented; no tests, no bytecode.

    Method: list the wheel and the folder.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        described = {name.rpartition("/")[2] for name in archive.namelist()} - names
    expected = {path.relative_to(TOP).as_posix() for path in HARNESS.rglob("*.py")}
    expected |= {"fault_injection/README.md", "fault_injection/py.typed"}
    check_equal(sorted(names), sorted(expected), "content")
    check({"METADATA", "entry_points.txt", "LICENSE"} <= described, f"{described}")


def test_distribution_goes_with_exactly_this_lastgood() -> None:
    """Planted bugs patch the insides of one version. Method: both projects' metadata."""
    project = tomllib.loads((HARNESS / "pyproject.toml").read_text("utf-8"))["project"]
    check_equal(project["version"], lastgood.__version__, "version")
    check_equal(project["dependencies"], [f"lastgood=={lastgood.__version__}"], "dependencies")
    check_equal(
        (HARNESS / "LICENSE").read_bytes(), (TOP / "LICENSE").read_bytes(), "the same licence"
    )


def test_installed_command_and_fixtures_work(installed: Path, tmp_path: Path) -> None:
    """A user's pytest finds the fixtures by itself, and the command is on PATH.

    Method: install the wheel into a folder of its own; its command, and a test with its fixture.
    """
    script = installed / "bin" / "lastgood-fault-injection"
    ran = run(installed, tmp_path, sys.executable, str(script), "list")
    check_equal(ran.returncode, 0, ran.stderr)
    check("  L3  builds every disk" in ran.stdout, ran.stdout)
    (tmp_path / "test_theirs.py").write_text(
        "import fault_injection\nfrom fault_injection.examples.notes import NOTES\n"
        f"def test_place(): assert fault_injection.__file__.startswith({str(installed)!r})\n"
        "def test_notes(crash_test): assert crash_test(NOTES)\n",
        encoding="utf-8",
    )
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path))
    for named in ((), ("-p", "fault_injection.pytest_plugin")):
        ran = run(installed, tmp_path, sys.executable, *words, *named)
        check_equal(ran.returncode, 0, ran.stdout + ran.stderr)
        check("2 passed" in ran.stdout, ran.stdout)


def test_planted_bug_that_only_a_test_of_the_clone_finds_is_not_run(
    installed: Path, tmp_path: Path
) -> None:
    """Where the tests are not there, nothing is said of what they would find.

    Method: the installed command, with a planted bug that a test alone is declared for.
    """
    words = ("-m", "fault_injection", "mutants", "--mutant", "empty fing", "--workers", "1")
    ran = run(installed, tmp_path, sys.executable, *words)
    check_equal(ran.returncode, 3, ran.stdout + ran.stderr)
    check("NOT RUN: empty fingerprint accepted" in ran.stdout, ran.stdout)
    check("there is no tests/" in ran.stdout and "remedy: take a clone" in ran.stdout, ran.stdout)
    check("0 of 1 killed, 1 not run" in ran.stdout, ran.stdout)
