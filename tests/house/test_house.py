"""The house rules that no linter can see."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
SEAM = "src/lastgood/storage/filesystem.py"

# Builtins: open is the seam's, eval and exec would run stored bytes.
BANNED_CALLS = {"__import__", "breakpoint", "compile", "eval", "exec", "open"}
# `splitlines` also splits at NEL, LS and form feed: two readers would see different lines.
# The rest read or write files through a path object.
BANNED_METHODS = {
    "splitlines", "read_bytes", "read_text", "write_bytes", "write_text", "iterdir", "rglob",
}  # fmt: skip


def violations(source: str) -> Iterator[str]:
    """Yield ``line: what`` for each construct that src must not contain."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Assert():
                yield f"{node.lineno}: assert (says nothing under -O; raise an error of the tree)"
            case ast.Call(func=ast.Name(id=name)) if name in BANNED_CALLS:
                yield f"{node.lineno}: {name}()"
            case ast.Attribute(attr=name) if name in BANNED_METHODS:
                yield f"{node.lineno}: .{name}"


def sources() -> list[Path]:
    found = sorted((TOP / "src").rglob("*.py"))
    check(found, "no source was found: this test would prove nothing")
    return found


def test_source_has_no_assert_no_splitlines_no_open() -> None:
    """No security check can vanish under -O, no line is split twice, no file opened past the seam.

    Method: walk the syntax tree of every file under src; the seam may open.
    """
    found = [
        f"{path.relative_to(TOP)}:{violation}"
        for path in sources()
        if path.relative_to(TOP).as_posix() != SEAM
        for violation in violations(path.read_text(encoding="utf-8"))
    ]
    check_equal(found, [], "banned constructs in src")


@pytest.mark.parametrize(
    "source",
    [
        "assert x",
        "def f(b):\n    return b.splitlines()",
        "split = bytes.splitlines",
        "open('x')",
        "eval('1')",
        "exec('1')",
        "p.read_text()",
    ],
)
def test_planted_violation_is_found(source: str) -> None:
    """The rule above is alive. Method: plant each construct in a source of one line."""
    check(list(violations(source)), f"not found: {source!r}")


def test_every_source_file_stays_readable_in_one_sitting() -> None:
    """No module exceeds 450 lines, so that a reviewer can hold one in mind."""
    long = {
        str(path.relative_to(TOP)): lines
        for folder in ("src", "tests", "fault_injection")
        for path in (TOP / folder).rglob("*.py")
        if (lines := path.read_bytes().count(b"\n")) > 450
    }
    check_equal(long, {}, "files over 450 lines")


def test_core_depends_on_two_packages() -> None:
    """What must be trusted at run time is cryptography, orjson and the standard library."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    names = [dependency.split(">")[0] for dependency in project["dependencies"]]
    check_equal(names, ["cryptography", "orjson"], "run-time dependencies")


def test_version_is_stated_once() -> None:
    """The installed package and its metadata agree on the version."""
    import lastgood

    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    check_equal(lastgood.__version__, project["version"], "lastgood.__version__")
