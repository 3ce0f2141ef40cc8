"""Code that a person names: said before it runs, never from the store, one error if it fails."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lastgood.cli.program import load_program, running_program
from lastgood.errors import ConfigurationError, LastgoodError, UsageError
from tests.support.check import check, check_equal

PROGRAM: Final = """
def apply(state, event):
    return state

PROGRAM = {"reducer": apply, "initial": {}, "schema_version": 3}

class Jobs:
    nightly = PROGRAM
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory; what is imported from it is forgotten behind the test."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)
    yield folder
    for name in set(sys.modules) - known:
        if name.startswith("job_"):
            del sys.modules[name]


def written(folder: Path, name: str, text: str = PROGRAM) -> Path:
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def refused(spec: str, kind: type[LastgoodError], *, store: str = "") -> str:
    with pytest.raises(kind) as caught:
        load_program(spec, store=store)
    return str(caught.value)


@pytest.mark.parametrize("name", ["PROGRAM", "Jobs.nightly"])
def test_object_of_a_module_in_the_current_directory_is_loaded(name: str, here: Path) -> None:
    """What was named is what comes back, as with ``python -m``."""
    written(here, "job_plain")
    found = load_program(f"job_plain:{name}")
    check_equal(sorted(found), ["initial", "reducer", "schema_version"], "arguments")
    check_equal(found["schema_version"], 3, "schema version")


def test_each_file_is_said_before_its_code_runs(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who reads the terminal sees what ran even if it never ends; standard output stays empty.

    Method: a package and a module in it, each of which prints when it is run.
    """
    package = written(here, "job_package/__init__", "print('one')\n")
    module = written(here, "job_package/inner", "print('two')\n" + PROGRAM)
    load_program("job_package.inner:PROGRAM")
    told = capsys.readouterr()
    check_equal(told.out, "", "standard output")
    expected = [
        f"lastgood: Importing job_package from {package}",
        "one",
        f"lastgood: Importing job_package.inner from {module}",
        "two",
        "",
    ]
    check_equal(told.err.split("\n"), expected, "standard error")


FAILING: Final = {
    "raise ValueError('a\\x1b[31m')": "ValueError: a\\x1b[31m",
    "import sys; sys.exit(0)": "SystemExit",
    "x = (": "SyntaxError",
    "import job_that_is_not_there": "ModuleNotFoundError",
    "import lastgood; lastgood.CheckpointPolicy(events=-1)": "UsageError",
}


@pytest.mark.parametrize("text", FAILING)
def test_import_that_fails_is_one_error_that_says_where(text: str, here: Path) -> None:
    """One line, escaped, with file and line; a program that exits ends nothing."""
    path = written(here, "job_failing", "\n" + text + "\n")
    said = refused("job_failing:PROGRAM", ConfigurationError)
    check(FAILING[text] in said and "\x1b" not in said and "\n" not in said, said)
    check(f"{path} line 2 " in said or "CheckpointPolicy" in text, said)


@pytest.mark.parametrize(
    "spec",
    ["", "job", "job:", ":PROGRAM", "job_absent:a b", "../job:P", "job-x:P", "a..b:P", "job:P:Q"],
)
def test_text_that_names_no_object_is_refused_before_anything_is_imported(
    spec: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 1, with the form that it should have. Method: the module would print."""
    written(here, "job", "print('imported')")
    check("MODULE:OBJECT" in refused(spec, UsageError), "the form")
    check_equal(capsys.readouterr().err, "", "what was said")


@pytest.mark.parametrize("spec", ["job_absent:PROGRAM", "job_plain.inner:PROGRAM"])
def test_module_that_is_not_there_is_named(spec: str, here: Path) -> None:
    """A misspelt module is one error. Method: no such file; a plain module as a package."""
    written(here, "job_plain")
    said = refused(spec, ConfigurationError)
    check(spec.partition(":")[0] in said and "ModuleNotFoundError" in said, said)


WRONG: Final = {
    "[]": "is a list",
    "None": "is a NoneType",
    "{}": "lacks reducer, initial",
    "{'reducer': 1}": "lacks initial",
    "{'reducer': 1, 'initial': 2, 'session': 'x', 'polcy': 3, 4: 5}": "unknown 4, polcy, session",
    "{'reducer': 1, 'initial': 2, 'self': 3}": "unknown self",
}


@pytest.mark.parametrize("text", WRONG)
def test_object_that_is_no_program_is_told_from_one(text: str, here: Path) -> None:
    """Every key is an argument of ``Store.session``; a misspelt one is never dropped."""
    written(here, "job_wrong", f"PROGRAM = {text}\n")
    check(WRONG[text] in refused("job_wrong:PROGRAM", UsageError), "what is wrong")
    check("no_such" in refused("job_wrong:no_such", UsageError), "an absent object")


@pytest.mark.parametrize("way", ["directory", "link to it", "link to the file", "package path"])
def test_code_is_never_taken_from_the_store(way: str, here: Path) -> None:
    """T1: who can write into the store cannot run code through a command.

    Method: the module in the store, found from the current directory in four ways; it would
    leave a file.
    """
    store = here.parent / "state"
    ran = here / "ran"
    written(store / ("job_deep" if way == "package path" else ""), "job_stored", (
        f"open({str(ran)!r}, 'x').close()\n{PROGRAM}"
    ))  # fmt: skip
    spec = "job_stored:PROGRAM"
    if way == "directory":
        sys.path.insert(0, str(store))
    elif way == "link to it":
        (here / "linked").symlink_to(store)
        sys.path.insert(0, str(here / "linked"))
    elif way == "link to the file":
        (here / "job_stored.py").symlink_to(store / "job_stored.py")
    else:
        (here / "job_deep").symlink_to(store / "job_deep")
        spec = "job_deep.job_stored:PROGRAM"
    check("store" in refused(spec, ConfigurationError, store=str(store)), "the reason")
    check(not ran.exists(), "code of the store ran")
    load_program(spec)
    check(ran.exists(), "without a store to stay out of, the same code runs")


@pytest.mark.parametrize("name", ["state", "link"])
def test_search_path_that_leads_into_the_store_is_refused(
    name: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T1: nor can the store give what a program imports in its turn.

    Method: the current directory is inside the store, the program is not; the store is named
    directly, and by a link.
    """
    inside = here.parent / "state" / "inside"
    inside.mkdir(parents=True)
    (here.parent / "link").symlink_to("state")
    written(here, "job_plain")
    sys.path.insert(0, str(here))
    monkeypatch.chdir(inside)
    said = refused("job_plain:PROGRAM", ConfigurationError, store=str(here.parent / name))
    check("search path" in said, said)


def test_store_that_does_not_exist_holds_no_code(here: Path) -> None:
    """A store that is yet to be made refuses nothing."""
    written(here, "job_plain")
    load_program("job_plain:PROGRAM", store=str(here / "absent"))


def test_program_that_leaves_while_it_runs_is_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A reducer that calls ``sys.exit(0)`` never gives a command the exit code 0."""

    def run() -> None:
        with running_program():
            print("said")
            sys.exit(0)

    with pytest.raises(ConfigurationError):
        run()
    told = capsys.readouterr()
    check_equal((told.out, told.err), ("", "said\n"), "what was printed")
