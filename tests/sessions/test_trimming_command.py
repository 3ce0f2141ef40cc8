"""``lastgood gc``: a person trims a log, with a reason, and sees before what would leave."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastgood import open_store
from lastgood.errors import EXIT_GOOD
from lastgood.formats import names
from lastgood.keyring import Keyring
from tests.cli.commands import Place, new_place
from tests.cli.log_sessions import opened
from tests.sessions.trimmed import tree
from tests.support.check import check, check_equal

SESSION = "nightly"
ALL = "1000000"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A session of four openings, each with a checkpoint."""
    made = new_place(tmp_path)
    for number in range(4):
        with opened(made, SESSION) as session:
            session.append_many([("paid", number * 10 + n) for n in range(5)])
            session.save()
    return made


def segments(place: Place) -> set[str]:
    return {path.name for path in place.root.rglob("events-*")}


def events(place: Place) -> Iterator[Any]:
    with (
        open_store(place.root, keys=Keyring.from_file(place.keys)) as store,
        store.history(SESSION) as found,
    ):
        yield from found.events(since=1)


def test_a_dry_run_tells_what_would_leave_and_changes_nothing(place: Place) -> None:
    """G8: no reason is needed to ask; every byte stays, and the answer is the later one's.

    Method: the same words with and without ``--dry-run``, as documents.
    """
    before = tree(place.root)
    planned = place.run("gc", SESSION, "--log-before", ALL, "--dry-run", "--json").left(EXIT_GOOD)
    check_equal(tree(place.root), before, "every file")
    done = place.run(
        "gc", SESSION, "--log-before", ALL, "--erase", "--reason", "full", "--json"
    ).left(EXIT_GOOD)
    told = ("names", "events", "sizeBytes", "firstKept", "head", "root", "leftovers", "session")
    check_equal([planned.document[k] for k in told], [done.document[k] for k in told], "answers")
    check_equal(planned.document["status"], "would trim", "the status of the plan")
    check_equal(done.document["status"], "trimmed", "the status")
    check(len(done.document["names"]) == 2 and done.document["revision"], f"{done.document}")


def test_what_leaves_is_in_the_archive_and_in_the_log_with_who_and_why(
    place: Place, tmp_path: Path
) -> None:
    """G3: nothing leaves without a copy, an actor and a reason; the rest verifies.

    Method: archive, then the files, the sealed event, ``verify`` and ``show --events``.
    """
    before = segments(place)
    held = {path.name: path.read_bytes() for path in place.root.rglob("events-*")}
    kept = tmp_path / "kept"
    ran = place.run(
        "gc", SESSION, "--log-before", ALL, "--archive", str(kept), "--reason", "disk is full",
        "--actor", "olga",
    ).left(EXIT_GOOD)  # fmt: skip
    gone = before - segments(place)
    copies = {path.name: path.read_bytes() for path in kept.rglob("events-*")}
    check_equal(copies, {name: held[name].rstrip(b"\0") for name in gone}, "copies")
    for part in ("trimmed", "olga: disk is full", str(kept), f"{len(gone)} segments"):
        check(part in ran.text, f"{part!r} is not in {ran.text!r}")
    (event,) = (e.data for e in events(place) if e.type == "lastgood.trimmed")
    told = (event["actor"], event["reason"], event["names"])
    check_equal(told, ("olga", "disk is full", sorted(gone)), "the event")
    place.run("verify", SESSION).left(EXIT_GOOD)
    place.run("show", SESSION, "--events").left(EXIT_GOOD)
    with opened(place, SESSION) as session:
        check_equal(len(session.state["n"]), 20, "events in the state")


def test_the_actor_is_the_system_s_user_where_nobody_is_named(place: Place) -> None:
    """G3: by its id, not by what the environment says.

    Method: another name in the environment.
    """
    ran = place.run(
        "gc", SESSION, "--log-before", ALL, "--erase", "--reason", "x", "--json",
        environment={"USER": "mallory", "LOGNAME": "mallory"},
    ).left(EXIT_GOOD)  # fmt: skip
    check_equal(ran.document["actor"], pwd.getpwuid(os.getuid()).pw_name, "the actor")


@pytest.mark.parametrize(
    "words",
    [
        (), ("--erase",), ("--reason", "x"), ("--archive", "kept"),
        ("--erase", "--archive", "kept", "--reason", "x"), ("--erase", "--reason", ""),
        ("--erase", "--reason", "a\x1b[2J"), ("--erase", "--reason", "x", "--actor", " "),
        ("--archive", "", "--reason", "x"), ("--archive", "state", "--reason", "x"),
    ],
)  # fmt: skip
def test_words_that_decide_nothing_change_nothing(place: Place, words: tuple[str, ...]) -> None:
    """G3: what becomes of it and why are asked for; the store is no archive. Exit 1.

    Method: each incomplete or contradictory command; every byte compared.
    """
    before = tree(place.root)
    ran = place.run("gc", SESSION, "--log-before", ALL, *words).left(1)
    check(ran.said.startswith("lastgood: ") and "\x1b" not in ran.said, ran.said)
    check_equal(tree(place.root), before, "every file")


def test_numbers_sessions_and_one_generation_have_their_exit_codes(
    place: Place, tmp_path: Path
) -> None:
    """G3: usage 1, policy 9, integrity 2, conflict 7; a document is printed with each.

    Method: each in turn, with ``--json``.
    """
    erase = ("--erase", "--reason", "x", "--json")
    for number in ("0", "-1", "1_0", "x", "10000000000000000"):
        place.run("gc", SESSION, "--log-before", number, *erase).left(1)
    missing = place.run("gc", "nobody", "--log-before", "5", *erase).left(1)
    check_equal(missing.document["error"]["code"], "unknown-session", "the error")
    with opened(place, "young") as session:
        session.append("paid", 1)
        session.save()
        busy = place.run("gc", SESSION, "--log-before", "5", *erase)
        check_equal(busy.code, EXIT_GOOD, f"another session is held: {busy.said}")
        held = place.run("--lock-timeout", "0", "gc", "young", "--log-before", "5", *erase)
    check_equal(held.left(9).document["error"]["code"], "policy", "one generation")
    place.save("plain", 1, {})
    check_equal(
        place.run("gc", "plain", "--log-before", "5", *erase).left(9).document["error"]["code"],
        "policy", "no log",
    )  # fmt: skip
    with opened(place, SESSION):
        held = place.run("--lock-timeout", "0", "gc", SESSION, "--log-before", "5", *erase)
    check_equal(held.left(7).document["error"]["code"], "locked", "a session that is held")
    directory = place.root / names.directory(names.session_id(SESSION))
    older = sorted(directory.glob("checkpoint-*"))[0]
    place.flip(older)
    place.run("gc", SESSION, "--log-before", ALL, *erase).left(2)


def test_what_cannot_leave_yet_is_told_and_exits_good(place: Place) -> None:
    """G2: nothing to do is no error, and says where to look.

    Method: a number that is below every segment's end.
    """
    before = segments(place)
    ran = place.run("gc", SESSION, "--log-before", "2", "--erase", "--reason", "x").left(EXIT_GOOD)
    check("unchanged" in ran.text and "lastgood verify nightly" in ran.said, ran.said)
    check_equal(segments(place), before, "segments")
