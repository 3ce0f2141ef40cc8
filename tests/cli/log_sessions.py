"""Sessions with an event log, made by the library for the commands to look at."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from lastgood import CheckpointPolicy, Event, Keyring, Session, open_store
from tests.cli.commands import Place

NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)
JOB: Final = """
import lastgood

def apply(state, event):
    return {"n": [*state["n"], event.data]}

def summed(state):
    return {"n": state["n"], "sum": sum(state["n"])}

def without_a_name(state):
    raise KeyError("name")

PROGRAM = {"reducer": apply, "initial": {"n": []}, "program": lastgood.Program("job", "1")}
NEWER = PROGRAM | {"schema_version": 2, "migrations": {1: summed}}
"""


def apply(state: Any, event: Event) -> Any:
    """The reducer of every session here."""
    return {"n": [*state["n"], event.data]}


@contextlib.contextmanager
def opened(place: Place, session: str = "nightly", **options: Any) -> Iterator[Session[Any]]:
    """An open session that saves only when it is asked to."""
    given: dict[str, Any] = {"reducer": apply, "initial": {"n": []}, "policy": NEVER} | options
    with (
        open_store(place.root, keys=Keyring.from_file(place.keys)) as store,
        store.session(session, **given) as found,
    ):
        yield found


def logged(place: Place, session: str = "nightly") -> tuple[int, int]:
    """Two owners; returns the sequences of the checkpoint and of the last event behind it.

    Three of the program's events lie behind the checkpoint, 8 before it.
    """
    with opened(place, session) as first:
        first.append_many([("paid", n) for n in range(5)])
        first.save()
    with opened(place, session) as second:
        second.append_many([("paid", n) for n in range(5, 8)])
        current = second.save().sequence
        second.append_many([("refunded", n) for n in range(8, 11)])
        return current, second.sequence


def log_files(place: Place) -> list[Any]:
    """The segments, in their order."""
    found = place.root.rglob("events-*.jsonl")
    return sorted(found, key=lambda path: path.name.split("-")[2])
