"""What ``import lastgood`` offers: these names, no others, each loaded when it is used."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import lastgood
from lastgood import errors
from tests.support.check import check, check_equal

PUBLIC = [
    "Checkpoint", "CheckpointPolicy", "CheckpointStore", "Effect", "Event", "Keyring",
    "LastgoodError", "Limits", "Program", "Report", "Resumed", "Retention", "SaveReceipt",
    "Session", "Store", "__version__", "errors", "open_store", "should_replay",
]  # fmt: skip


def run(program: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return ran.stdout.strip()


def test_the_public_names_are_these_and_no_others() -> None:
    """A name is promised once it is here; this list is changed on purpose only."""
    check_equal(sorted(lastgood.__all__), PUBLIC, "lastgood.__all__")
    check_equal(dir(lastgood), PUBLIC, "dir(lastgood)")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name: str) -> None:
    """Each has a docstring that says more than its name."""
    found = getattr(lastgood, name)
    if name == "__version__":
        check(isinstance(found, str) and found[0].isdigit(), f"a version: {found!r}")
        return
    text = inspect.getdoc(found) or ""
    check(len(text) > 30, f"its documentation: {text!r}")


@pytest.mark.parametrize("name", ["nothing", "Sessions", "_HOME_", "checkpoint", "sys"])
def test_another_name_is_an_attribute_error(name: str) -> None:
    """hasattr works, and a typing error is told at once."""
    with pytest.raises(AttributeError, match=name):
        getattr(lastgood, name)


def test_importing_loads_neither_cryptography_nor_the_store() -> None:
    """Lazy: a program that asks for the version pays for nothing else."""
    heavy = ("cryptography", "orjson", "lastgood.checkpoints", "lastgood.errors")
    program = (
        "import sys, lastgood; lastgood.__version__;"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    check_equal(run(program), "[]", "what was loaded")


def test_a_name_loads_what_it_needs_and_stays_the_same_object() -> None:
    """``from lastgood import …`` and the module of its home give one object."""
    program = (
        "from lastgood import CheckpointStore as a; import lastgood;"
        "from lastgood.checkpoints import CheckpointStore as b; print(a is b is"
        " lastgood.CheckpointStore, lastgood.errors.StateError.__name__)"
    )
    check_equal(run(program), "True StateError", "identity")


def test_everything_can_be_imported_at_once() -> None:
    """``from lastgood import *`` gives the public names."""
    program = "from lastgood import *; print(CheckpointStore.__name__, should_replay.__name__)"
    check_equal(run(program), "CheckpointStore should_replay", "names")


def test_the_test_suite_runs_against_the_optimized_code_under_dash_o() -> None:
    """The product raises its errors explicitly, so that ``-O`` takes nothing away."""
    program = (
        "import lastgood\n"
        "try:\n"
        "    lastgood.Checkpoint(0, {})\n"
        "except lastgood.errors.UsageError as error:\n"
        "    print(error.exit_code)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-O", "-c", program], capture_output=True, text=True, check=True
    )
    check_equal(ran.stdout.strip(), "1", "the exit code")


def test_every_error_is_one_tree_under_the_public_root() -> None:
    """``except LastgoodError`` takes every error that lastgood raises on purpose."""
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass)]
    ours = [c for c in classes if c.__module__ == "lastgood.errors"]
    check(len(ours) > 25, f"error classes: {len(ours)}")
    check(all(issubclass(c, lastgood.LastgoodError) for c in ours), "one tree")
