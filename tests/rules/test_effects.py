"""Histories of effects: what a run writes is followed, everything else stops (C8-10)."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood.errors import DamagedError, UnknownFormatError
from lastgood.formats import effect, event
from lastgood.formats.checkpoint import OpenEffect
from lastgood.formats.effect import Applied, Done, Intent, NotDone, Raised, Word
from lastgood.formats.event import Event
from lastgood.formats.fingerprint import Fingerprint
from lastgood.rules.effects import Effects
from tests.support.check import check_equal

A, B = (Fingerprint(f"fx:v1:{n:064x}") for n in (1, 2))
KEY, OTHER = "ab" * 32, "cd" * 32
PERSON = Word(by="person", actor="operator", reason="seen")


def intent(one: Fingerprint = A, key: str = KEY, supersedes: Fingerprint | None = None) -> Intent:
    return Intent(
        fingerprint=one, key=key, effect_class="manual", kind="pay", id="7", supersedes=supersedes
    )


def done(at: int, one: Fingerprint = A, word: Word = Word(), result: Any = None) -> Done:  # noqa: B008
    return Done(fingerprint=one, intent=at, word=word, result=result, event=None)


def not_done(at: int, one: Fingerprint = A) -> NotDone:
    return NotDone(fingerprint=one, intent=at, word=PERSON)


def raised(at: int, one: Fingerprint = A) -> Raised:
    return Raised(fingerprint=one, intent=at, error="OSError")


def applied(at: int, one: Fingerprint = A) -> Applied:
    return Applied(fingerprint=one, done=at, event=("paid", None))


def stored(sequence: int, kind: str, data: Any) -> Event:
    return Event(sequence, "0" * 64, 0, 1, "2026-12-01T07:00:00.000000Z", kind, data)


def followed(*records: effect.Record, begin: Effects | None = None) -> Effects:
    """The effects after a history whose events count from 1."""
    effects = Effects() if begin is None else begin
    for sequence, record in enumerate(records, 1):
        effects.follow(stored(sequence, *effect.encode(record)))
    return effects


@pytest.mark.parametrize(
    ("history", "known", "still_open"),
    [
        ([intent()], [], [A]),
        ([intent(), done(1)], [A], []),
        ([intent(), raised(1)], [], [A]),
        ([intent(), raised(1), raised(1), done(1)], [A], []),
        ([intent(), not_done(1)], [], []),
        ([intent(), not_done(1), intent(), done(3)], [A], []),
        ([intent(), intent(B, OTHER), done(2, B), done(1)], [B, A], []),
        ([intent(), done(1), intent(B, supersedes=A)], [A], [B]),
        ([intent(), not_done(1), intent(B, supersedes=A), done(3, B)], [B], []),
        ([intent(), done(1, word=PERSON), applied(2)], [A], []),
    ],
)  # fmt: skip
def test_history_of_a_run_is_followed(
    history: list[effect.Record], known: list[Fingerprint], still_open: list[Fingerprint]
) -> None:
    """What is done and what nobody knows comes from the log alone, in its order (G5)."""
    effects = followed(*history)
    check_equal((list(effects.known), list(effects.open)), (known, still_open), "known and open")


@pytest.mark.parametrize(
    ("history", "says"),
    [
        ([done(1)], "event 1"),
        ([intent(), done(1), done(1)], "event 3 tells .* that event 2 did"),
        ([intent(), done(1, result=1), done(1, result=2)], "event 3 tells .* that event 2 did"),
        ([intent(), intent()], "event 2 intends .* that event 1 intends"),
        ([intent(), done(1), intent()], "event 3 intends .* that event 2 did"),
        ([intent(), not_done(1), done(1)], "event 3 tells .* nobody intended"),
        ([intent(), not_done(1), not_done(1)], "event 3 tells .* nobody intended"),
        ([raised(0, B)], "event 1"),
        ([intent(), raised(1, B)], "event 2 tells .* nobody intended"),
        ([intent(), done(1), raised(1)], "event 3 tells .* that event 2 did"),
        ([intent(), not_done(1), intent(), done(1)], "as of event 1, but event 3"),
        ([intent(), done(1), intent(B)], "event 3 .* key belongs to another"),
        ([intent(), intent(B, supersedes=A)], "event 2 .* outcome is open"),
        ([intent(), applied(1)], "event 2 .* event 1 did not do"),
        ([intent(), done(1), applied(2)], "event 3 .* has been applied"),
        ([intent(), done(1, word=PERSON), applied(2), applied(2)], "event 4 .* has been applied"),
        ([intent(), done(1, word=PERSON), applied(1)], "event 3 .* event 1 did not do"),
    ],
)  # fmt: skip
def test_history_that_no_run_writes_stops_with_both_events(
    history: list[effect.Record], says: str
) -> None:
    """It was sealed with our key, so nobody can tell which of the two is right (C8-10)."""
    with pytest.raises(DamagedError, match=says):
        followed(*history)


def test_checkpoint_goes_on_where_the_log_was() -> None:
    """What a checkpoint lists as done and open conflicts like what the log says (design 8)."""

    def begin() -> Effects:
        return Effects.at([B], [OpenEffect(A, KEY, "probe", 1)])

    check_equal(list(followed(begin=begin()).known), [B], "known")
    with pytest.raises(DamagedError, match=r"event 9 intends .* that event 1 intends"):
        begin().follow(stored(9, *effect.encode(intent())))
    with pytest.raises(DamagedError, match="before the checkpoint did"):
        followed(intent(B, OTHER), begin=begin())
    effects = begin()
    effects.follow(stored(9, *effect.encode(done(1))))
    check_equal(effects.known, {B: 0, A: 9}, "known, with the events that say so")


def test_event_of_an_effect_below_the_checkpoint_is_applied_once() -> None:
    """A second one is not what this session did, wherever the done is (C8-10)."""
    effects = Effects.at([A], [])
    effects.follow(stored(9, *effect.encode(applied(3))))
    with pytest.raises(DamagedError, match="event 10 applies"):
        effects.follow(stored(10, *effect.encode(applied(3))))


def test_fingerprints_that_a_caller_gave_are_done() -> None:
    """A caller who says by its fingerprint that an open effect is done decides it."""
    effects = followed(intent())
    effects.follow(stored(2, event.FINGERPRINTS, [A, B]))
    check_equal((list(effects.known), list(effects.open)), ([A, B], []), "known and open")


RECORDS: dict[str, effect.Record] = {
    "intent": intent(),
    "done": done(1),
    "raised": raised(1),
    "not_done": not_done(1),
    "applied": applied(1),
}
GOOD = {name: effect.encode(record) for name, record in RECORDS.items()}


@pytest.mark.parametrize("name", GOOD)
def test_record_comes_back_as_it_was(name: str) -> None:
    """Encoding and decoding are inverse, and an unknown field is of another version."""
    kind, data = GOOD[name]
    record = effect.decode(stored(5, kind, data))
    check_equal(effect.encode(record), (kind, data), "encoded again")
    wrongs: list[Any] = [{**data, "x": 1}, dict(list(data.items())[:-1]), [], None, "x"]
    for wrong in wrongs:
        with pytest.raises(UnknownFormatError):
            effect.decode(stored(5, kind, wrong))


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("intent", "fingerprint", "fx:v1:AB"), ("intent", "key", "ab"),
        ("intent", "class", "often"),
        ("intent", "kind", 7), ("intent", "id", "k" * 501), ("intent", "occurrence", -1),
        ("intent", "occurrence", True), ("intent", "supersedes", ""), ("done", "intent", 5),
        ("done", "intent", 0), ("done", "by", "nobody"), ("done", "actor", "x"),
        ("not_done", "actor", None), ("not_done", "reason", ""), ("not_done", "reason", 7),
        ("done", "event", {"type": "lastgood.done", "data": None}),
        ("done", "event", {"type": "", "data": None}), ("raised", "error", "e" * 201),
        ("applied", "event", None), ("applied", "done", 7),
    ],
)  # fmt: skip
def test_record_with_a_wrong_field_is_damage(name: str, field: str, wrong: Any) -> None:
    """Nothing gets a default (design 4)."""
    kind, data = GOOD[name]
    with pytest.raises(DamagedError):
        effect.decode(stored(5, kind, {**data, field: wrong}))
