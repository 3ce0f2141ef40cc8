"""C13 for sessions: schemas, unknown fields and programs that do not fit, however they are met."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lastgood import CheckpointPolicy, Program, Session, open_store
from lastgood.errors import ProgramMismatchError, UnknownSchemaError
from tests.cases.harness import SESSION, inside
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_corpora

NEVER = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())


def append_to(state: list[Any], event: Any) -> list[Any]:
    return [*state, event.data]


def opened(place: Path, **how: Any) -> Session[Any]:
    program: dict[str, Any] = {"reducer": append_to, "initial": [], "policy": NEVER}
    with open_store(place, keys=trees.KEYS) as store:
        return store.session(SESSION, **(program | how))


@pytest.fixture
def newer(tmp_path: Path) -> Path:
    """A session whose newest checkpoint has schema 2, the older one schema 1."""
    place = tmp_path / "store"
    with opened(place) as session:
        session.append("x", 1)
        session.save()
    with opened(place, schema_version=2, migrations={1: lambda state: state}) as session:
        session.append("x", 2)
        session.save()
        session.append("x", 3)
    return place


def test_c13_01_older_program_stops_at_a_newer_checkpoint_and_changes_nothing(newer: Path) -> None:
    """C13-01 a: never falls back past a newer schema; says which version is needed.

    Method: schema 1 on a session whose newest checkpoint is of schema 2 and whose older is its own.
    """
    before = trees.picture(newer)
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match="schema version 2") as refused:
            opened(newer)
        check_equal(refused.value.exit_code, 4, "exit code")
    check_equal(trees.picture(newer), before, "the tree")


def test_c13_01_older_generation_of_another_schema_is_fine_while_not_needed(newer: Path) -> None:
    """C13-01 d: only what is chosen must be known. Method: schema 2 without a migration from 1."""
    with opened(newer, schema_version=2) as session:
        check_equal(session.state, [1, 2, 3], "the state")


def test_c13_02_nothing_of_a_session_is_lost_by_opening_and_saving_it(newer: Path) -> None:
    """C13-02: a program that does not touch a key of the state keeps it.

    Method: events of every shape; save, open, save; all of them come back.
    """
    odd = [{"x": 1, "schemaVersion": 9, "log": None}, {"": []}, [None, 1.5, "\u2028"]]
    with opened(newer, schema_version=2) as session:
        session.append_many([("odd", value) for value in odd])
        session.save()
    with opened(newer, schema_version=2) as session:
        session.save()
        check_equal(session.state, [1, 2, 3, *odd], "the state")


@pytest.mark.parametrize("how", ["context manager", "output ignored"])
def test_c13_05_a_mismatch_is_an_exit_code_and_never_a_fresh_session(newer: Path, how: str) -> None:
    """C13-05: whoever does not look is stopped all the same; no session begins anew.

    Method: a process whose program is of schema 1, with and without a look at its output.
    """
    script = (
        "import sys\nfrom tests.cases.test_c13_session import opened\nfrom pathlib import Path\n"
        "with opened(Path(sys.argv[1])) as session:\n    session.append('x', 9)\n"
    )
    listed = sorted(path.name for path in newer.iterdir())
    before = trees.picture(newer)
    ran = subprocess.run(
        [sys.executable, "-c", script, str(newer)],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL if how == "output ignored" else subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    check(ran.returncode != 0, "exit code 0")
    check("UnknownSchemaError" in ran.stderr.splitlines()[-1], ran.stderr[-300:])
    check_equal(sorted(path.name for path in newer.iterdir()), listed, "sessions")
    check_equal(trees.picture(newer), before, "the tree")


def test_c13_05_another_program_stops_before_anything_is_written(tmp_path: Path) -> None:
    """C13-05, C8-07: recorded and offered program are shown; the log is unchanged."""
    place = tmp_path / "store"
    with opened(place, program=Program("invoices", "1")) as session:
        session.append("x", 1)
    before = trees.picture(place)
    for program in (Program("invoices", "2"), Program("mail", "1"), Program()):
        with pytest.raises(ProgramMismatchError, match="'invoices'") as refused:
            opened(place, program=program)
        check(refused.value.exit_code == 4, "exit code")
    check_equal(trees.picture(place), before, "the tree")
    with opened(place, program=Program("invoices", "2"), compatible_versions=["1"]) as session:
        check_equal(session.state, [1], "a declared version goes on")


@pytest.mark.needs_corpora
def test_c10_05_every_naughty_string_comes_back_from_the_log(tmp_path: Path) -> None:
    """C10-05: 515 strings as data, as keys and, where legal, as types: exactly, after a restart."""
    encoded = json.loads((require_corpora("blns") / "blns.base64.json").read_bytes())
    strings = [base64.b64decode(text).decode() for text in encoded]
    events = [("text", [text, {text: text}]) for text in strings]
    place = tmp_path / "store"
    with opened(place) as session:
        session.append_many(events)
    check(any(inside(place).glob("events-*")), "no segment was written")
    with opened(place) as session:
        check_equal(session.state, [data for _, data in events], "the state")
