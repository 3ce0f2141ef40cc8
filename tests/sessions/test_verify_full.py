"""How much of the log an opening verifies, and what a rebuilt state is proved against."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from lastgood import CheckpointPolicy, Keyring, Session, mending, open_store
from lastgood.cli import person
from lastgood.errors import DamagedError, ProgramMismatchError, UsageError
from tests.sessions.repaired import KEYS, SESSION
from tests.support import trees
from tests.support.check import check, check_equal

NEVER = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())


def apply(state: Any, event: Any) -> Any:
    state["n"].append(event.data)
    return state


def opened(root: Path, *, keys: Keyring = KEYS, **how: Any) -> Session[Any]:
    program: dict[str, Any] = {"reducer": apply, "initial": {"n": []}, "policy": NEVER} | how
    with open_store(root, keys=keys) as store:
        return store.session(SESSION, **program)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A session of three openings, each with its segment and its checkpoint."""
    place = tmp_path / "store"
    for turn in range(3):
        with opened(place) as session:
            for number in range(5):
                session.append("n", 10 * turn + number)
            session.save()
    return place


def damage_first(root: Path) -> None:
    """Flip a byte of an event that lies below the older generation."""
    first = min((root / trees.directory(SESSION)).glob("events-*"))
    data = bytearray(first.read_bytes())
    at = re.search(rb'"type":"n"', data)
    if at is None:
        raise AssertionError("no event of the program's in the first segment")
    data[at.start() + 9] ^= 1
    first.write_bytes(bytes(data))


def test_full_verification_stops_at_damage_below_the_older_generation(root: Path) -> None:
    """R4: an opening verifies what it needs, and with verify="full" every line there is.

    Method: a byte flipped in the first of three segments; both ways of opening.
    """
    damage_first(root)
    before = trees.picture(root)
    with pytest.raises(DamagedError, match="events-000001-0001"):
        opened(root, verify="full")
    check_equal(trees.picture(root), before, "the tree")
    with opened(root) as session:
        check_equal(len(session.state["n"]), 15, "events in the state")


def test_full_verification_of_a_sound_log_opens(root: Path) -> None:
    """The stricter opening refuses nothing that is sound."""
    with opened(root, verify="full") as session:
        check_equal(len(session.state["n"]), 15, "events in the state")
    with pytest.raises(UsageError):
        opened(root, verify="all")


def test_rebuild_with_another_reducer_is_refused_by_the_intact_header(root: Path) -> None:
    """C2-01: a rebuilt state is the one that was sealed, or nothing is started.

    Method: damage the payload of the newest checkpoint and approve; a reducer that forgets, then
    the right one.
    """
    newest = max((root / trees.directory(SESSION)).glob("checkpoint-*"))
    data = bytearray(newest.read_bytes())
    data[-30] ^= 1
    newest.write_bytes(bytes(data))
    with open_store(root, keys=KEYS) as store:
        decision = mending.Decision(actor="operator", reason="a flipped byte")
        mending.approve_rebuild(store.place, SESSION, owner=person.owner(), decision=decision)
    with pytest.raises(ProgramMismatchError, match="another state"):
        opened(root, reducer=lambda state, event: state)
    with opened(root) as session:
        check_equal(len(session.state["n"]), 15, "events in the state")
        check(session.save().is_durable, "the session goes on")
