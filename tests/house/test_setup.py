"""What a clone is given: set up once, without network the second time, and a clean wheel."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.check import check, check_equal
from tests.support.require import require_unshare

TOP = Path(__file__).resolve().parents[2]

# What setup.sh calls, beside the commands whose absence is under test.
SHELL_TOOLS = ("cat", "cksum", "dirname", "grep", "id", "sh", "sort", "tr")


def run_setup(
    clone: Path, stage: str, *, require_all: str = "0", python: str = ""
) -> tuple[int, str]:
    """Run setup.sh of ``clone`` on a PATH that holds only ``clone/bin``; return exit and text."""
    ran = subprocess.run(
        [clone / "scripts" / "setup.sh", stage],
        env={
            "PATH": str(clone / "bin"),
            "LASTGOOD_REQUIRE_ALL": require_all,
            "PYTHON": python,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stderr


@pytest.fixture
def bare_clone(tmp_path: Path) -> Path:
    """A clone on a machine that has a shell and nothing else."""
    for name in ("scripts", "requirements"):
        shutil.copytree(TOP / name, tmp_path / name)
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    (tmp_path / "bin").mkdir()
    for name in SHELL_TOOLS:
        found = shutil.which(name)
        check(found, f"{name} is not on PATH")
        (tmp_path / "bin" / name).symlink_to(str(found))
    return tmp_path


def add_command(folder: Path, name: str, line: str) -> None:
    """Put a stand-in for a command into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def test_machine_without_python_is_told_what_to_do(bare_clone: Path) -> None:
    """Nothing is changed and the remedy is named where no Python 3.11 is found."""
    code, text = run_setup(bare_clone, "install")
    check_equal(code, 1, "exit")
    check("no Python 3.11 or newer" in text and "PYTHON=" in text, text)
    check(not (bare_clone / ".venv").exists(), "something was made")


def test_interpreter_that_was_named_and_is_too_old_is_not_replaced_by_another(
    bare_clone: Path,
) -> None:
    """Who names an interpreter gets that one or none.

    Method: the named one refuses, as an old one would; ``python3`` would do.
    """
    add_command(bare_clone / "bin", "python3", "exit 0")
    add_command(bare_clone / "old", "python", "exit 1")
    named = str(bare_clone / "old" / "python")
    code, text = run_setup(bare_clone, "install", python=named)
    check_equal(code, 1, "exit")
    check(f"PYTHON={named}" in text, text)
    check(not (bare_clone / ".venv").exists(), "something was made")


@pytest.mark.parametrize(("require_all", "expected"), [("0", 0), ("1", 1)])
def test_missing_debian_package_is_named_and_fails_only_if_all_is_required(
    bare_clone: Path, require_all: str, expected: int
) -> None:
    """A tool that cannot be had is named with its remedy; only a run of everything stops there.

    Method: stand-ins for the interpreter, which succeeds, and for apt-get, which does not.
    """
    add_command(bare_clone / ".venv" / "bin", "python", "exit 0")
    add_command(bare_clone / "bin", "apt-get", "exit 100")
    code, text = run_setup(bare_clone, "tools", require_all=require_all)
    check_equal(code, expected, "exit")
    check("apt-get update && apt-get install strace util-linux" in text, text)


def test_second_setup_changes_nothing_and_needs_no_network() -> None:
    """A clone that was set up once goes on working offline.

    Method: the second run of setup in a name space without network; it must say nothing.
    """
    ran = subprocess.run(
        [require_unshare(), "--net", "scripts/setup.sh", "tools"],
        cwd=TOP,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    check_equal((ran.returncode, ran.stdout, ran.stderr), (0, "", ""), "setup")


def test_wheel_holds_the_library_and_nothing_else(tmp_path: Path) -> None:
    """Who installs lastgood gets its source, its type marker and its metadata; no tests, no tools.

    Method: build a wheel with the pinned back end and list it.
    """
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=TOP,
        env={**os.environ, "PYTHONOPTIMIZE": ""},
        capture_output=True,
        check=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    foreign = [name for name in names if not re.match(r"lastgood(-[0-9.]+\.dist-info)?/", name)]
    check_equal(foreign, [], "foreign files in the wheel")
    for name in ("lastgood/__init__.py", "lastgood/py.typed"):
        check(name in names, f"{name} is not in the wheel")
    check(any(name.endswith("licenses/LICENSE") for name in names), "no licence in the wheel")


def test_every_make_target_is_explained() -> None:
    """A contributor finds each target of the Makefile in CONTRIBUTING.md."""
    makefile = (TOP / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE)) - {"help"}
    guide = (TOP / "CONTRIBUTING.md").read_text(encoding="utf-8")
    explained = set(re.findall(r"^\| `make ([a-z-]+)`", guide, re.MULTILINE))
    check_equal(explained, targets, "targets in CONTRIBUTING.md")
