"""migrate: offline, rehearsed first, and never a half-way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.commands import Place, Ran
from tests.cli.log_sessions import JOB, logged, opened
from tests.support.check import check, check_equal
from tests.support.trees import picture

NEWER: Final = ("--program", "job:NEWER")


@pytest.fixture
def job(place: Place) -> Place:
    """Session ``nightly`` at schema 1, with events behind its checkpoint, and its program."""
    logged(place)
    program(place)
    return place


def program(place: Place, text: str = "") -> None:
    """Write ``job.py`` into the current directory of the commands."""
    (place.top / "job.py").write_text(JOB + text, encoding="utf-8")


def migrate(place: Place, *words: str) -> Ran:
    return place.run("migrate", "nightly", *words, environment={"PYTHONDONTWRITEBYTECODE": "1"})


def test_state_comes_to_the_program_s_schema_and_every_event_is_in_it(job: Place) -> None:
    """R5, R6: migrated, then the events behind the checkpoint, then saved, durably.

    Method: three events lie behind the checkpoint; the migration adds a sum of what was there.
    """
    ran = migrate(job, *NEWER, "--json").left(0)
    document = ran.document
    told = [document[name] for name in ("status", "fromSchema", "toSchema", "replayed")]
    check_equal(told, ["migrated", 1, 2, 3], "what was done")
    check(f"lastgood: Importing job from {job.top / 'job.py'}\n" in ran.said, ran.said)
    loaded = job.run("load", "nightly", "--schema-version", "2", "--json").left(0).document
    check_equal(loaded["sequence"], document["sequence"], "the checkpoint")
    check_equal(loaded["state"]["n"], list(range(11)), "the state")
    job.run("load", "nightly").left(4)
    job.run("verify", "nightly").left(0)
    types = [json.loads(line).get("type") for line in job.run(
        "show", "nightly", "--events", "--json").out.split(b"\n")[:-1]]  # fmt: skip
    check("lastgood.migrated" in types, f"the log says so: {types}")


def test_second_migration_changes_nothing(job: Place) -> None:
    """Repeatable: there is nothing to migrate, exit 0, and no file is touched."""
    migrate(job, *NEWER).left(0)
    before = picture(job.root)
    ran = migrate(job, *NEWER).left(0)
    check(ran.text.startswith("unchanged  nightly  schema 2"), ran.text)
    check_equal(picture(job.root), before, "the tree")


def test_dry_run_tells_what_would_be_and_changes_nothing(job: Place) -> None:
    """G8: the same steps in memory; then the real run does just that."""
    before = picture(job.top)
    dry = migrate(job, *NEWER, "--dry-run").left(0)
    check_equal(picture(job.top), before, "the tree")
    check(dry.text.startswith("would migrate  nightly  schema 1 to 2"), dry.text)
    check("3 events replayed" in dry.text, dry.text)
    document = migrate(job, *NEWER, "--dry-run", "--json").left(0).document
    real = migrate(job, *NEWER, "--json").left(0).document
    for name in ("fromSchema", "toSchema", "fromSequence", "replayed"):
        check_equal(real[name], document[name], name)
    check_equal((document["sequence"], document["digest"]), (None, None), "nothing was saved")


STOPPING: Final = {
    "migration fails": (4, "P = NEWER | {'migrations': {1: without_a_name}}"),
    "step is missing": (4, "P = PROGRAM | {'schema_version': 3, 'migrations': {2: summed}}"),
    "reducer does not know an event": (
        4, "def other(s, e):\n    raise KeyError(e.type)\nP = NEWER | {'reducer': other}",
    ),
    "reducer leaves": (
        1, "import sys\ndef other(s, e):\n    sys.exit(0)\nP = NEWER | {'reducer': other}",
    ),
    "domain refuses": (2, "P = NEWER | {'validate': lambda state: state == NEWER['initial']}"),
    "not a program": (1, "P = [1]"),
    "unknown argument": (1, "P = NEWER | {'reduce': apply}"),
    "other program": (4, "P = NEWER | {'program': lastgood.Program('x', '1')}"),
    "import leaves": (1, "import sys\nsys.exit(0)"),
}  # fmt: skip


@pytest.mark.parametrize("why", STOPPING)
@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["real", "dry-run"])
def test_what_stops_a_migration_changes_nothing(
    why: str, words: tuple[str, ...], place: Place
) -> None:
    """G3: one line, the typed exit code, and not a byte of the store is another (C13-05)."""
    code, text = STOPPING[why]
    with opened(place, **named_program()) as session:
        session.append_many([("x", 1), ("x", 2)])
        session.save()
        session.append("x", 3)
    program(place, text + "\n")
    before = picture(place.root)
    ran = migrate(place, "--program", "job:P", *words).left(code)
    check_equal(ran.out, b"", "the answer")
    check_equal(picture(place.root), before, "the tree")


def named_program() -> dict[str, Any]:
    """The session is this program's; a program without a name goes on with any."""
    import lastgood

    return {"program": lastgood.Program("job", "1")}


def test_session_that_is_not_there_is_not_made(job: Place) -> None:
    """C13-05: no fresh session under another id; nor one of a session without a log."""
    before = picture(job.root)
    ran = job.run("migrate", "nightlY", *NEWER).left(1)
    check("There is no session nightlY" in ran.said, ran.said)
    check_equal(picture(job.root), before, "the tree")
    job.save("plain", 1, {})
    job.run("migrate", "plain", *NEWER).left(9)


def test_damaged_session_is_not_migrated(job: Place) -> None:
    """G3: the same error as of every verb, and nothing is changed."""
    job.flip(sorted(job.root.rglob("checkpoint-*.json"))[-1])
    before = picture(job.root)
    migrate(job, *NEWER).left(2)
    check_equal(picture(job.root), before, "the tree")


def test_program_is_not_taken_from_the_store(job: Place) -> None:
    """T1: a command run inside the store imports nothing from there."""
    (job.root / "job.py").write_text("open('ran', 'x')\n" + JOB, encoding="utf-8")
    ran = job.run("migrate", "nightly", *NEWER, cwd=job.root).left(1)
    check("leads into the store" in ran.said, ran.said)
    check(not Path(job.root / "ran").exists(), "code of the store ran")


def test_what_a_program_prints_is_not_the_answer(job: Place) -> None:
    """Standard output holds one document, whatever the program prints."""
    program(job, "print('at import')\ndef loud(s):\n    print('step')\n    return summed(s)\n"
                 "P = NEWER | {'migrations': {1: loud}}\n")  # fmt: skip
    ran = migrate(job, "--program", "job:P", "--json").left(0)
    check_equal(ran.document["status"], "migrated", "the answer")
    check("at import" in ran.said and "step" in ran.said, ran.said)
