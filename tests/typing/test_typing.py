"""The types of the public names: right uses check strictly, wrong ones are found (py.typed)."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

PROGRAM = Path(__file__).with_name("program.py")


def checked(program: Path, cache: Path) -> tuple[int, str]:
    """Exit code and output of a strict check of ``program``, as a user's own project has it."""
    command = ["--strict", "--warn-unused-ignores", "--no-error-summary", f"--cache-dir={cache}"]
    ran = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", *command, str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=program.parent,
        timeout=110,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.normal_only
def test_a_user_s_program_checks_strictly_and_wrong_uses_are_found(tmp_path: Path) -> None:
    """py.typed: a project outside this one sees the types of what is installed."""
    program = tmp_path / "program.py"
    program.write_bytes(PROGRAM.read_bytes())
    cache = REPOSITORY / ".mypy_cache" / "typing-test"
    check_equal(checked(program, cache), (0, ""), "the program")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text().replace("  # type: ignore", "  # ignored: "))
    code, output = checked(wrong, cache)
    lines = {line.split(":")[1] for line in output.split("\n") if ": error:" in line}
    expected = PROGRAM.read_text().count("# type: ignore[")
    check_equal((code, len(lines)), (1, expected), f"wrong uses that are found in\n{output}")


def test_the_package_says_that_it_is_typed() -> None:
    """PEP 561: the marker is part of what is installed."""
    check(files("lastgood").joinpath("py.typed").is_file(), "py.typed is there")
