"""``effects``: what nobody knows is listed and decided, with a person's name and reason (C8-02)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.commands import Place
from tests.cli.log_sessions import opened
from tests.cli.test_machine_output import answer
from tests.support.check import check, check_equal
from tests.support.trees import picture

WHY = ["--reason", "the bank's books"]


def left_open(place: Place, *keys: str, session: str = "nightly") -> list[str]:
    """Effects that raised; returns their fingerprints."""
    with opened(place, session) as owner:
        for key in keys:
            with pytest.raises(ZeroDivisionError), owner.effect("pay", key=key):
                raise ZeroDivisionError
        return [one.fingerprint for one in owner.open_effects]


def test_undecided_effects_are_listed_with_the_command(place: Place) -> None:
    """What is open, which event intended it, and what to do; nothing is changed (G8)."""
    one, other = left_open(place, "invoice-7", "invoice ☃\u202e8")
    before = picture(place.root)
    ran = place.run("effects", "list", "nightly").left(0)
    check("pay invoice-7  intended by event 3, manual" in ran.text, ran.text)
    check("\u202e" not in ran.text + ran.said, "what acts on a terminal is escaped (T12)")
    check(f"  {one}" in ran.text and f"  {other}" in ran.text, ran.text)
    check("lastgood effects resolve nightly FINGERPRINT --done RESULT" in ran.said, ran.said)
    found = answer(place, "effects list", "nightly")["undecided"]
    check_equal([row["fingerprint"] for row in found], [one, other], "fingerprints")
    check_equal(
        found[0],
        {
            "fingerprint": one, "class": "manual", "sequence": 3, "kind": "pay",
            "key": "invoice-7",
        },
        "row",
    )  # fmt: skip
    check_equal(picture(place.root), before, "the store")


def test_decisions_are_sealed_and_obeyed(place: Place) -> None:
    """Done: skipped with the result; not done: may run once; both say who and why (C8-02)."""
    one, other, left = left_open(place, "a", "b", "c")
    ran = place.run("effects", "resolve", "nightly", one, "--done", '{"id": 7}', *WHY).left(0)
    check("done  pay a" in ran.text and "the bank's books" in ran.text, ran.text)
    given = answer(
        place, "effects resolve", "nightly", other, "--not-done", "--actor", "clerk", *WHY
    )
    check_equal((given["status"], given["actor"]), ("not done", "clerk"), "answer")
    check_equal(given["effect"]["key"], "b", "effect")
    with opened(place) as owner:
        check_equal([x.fingerprint for x in owner.open_effects], [left], "left open")
        check_equal(owner.run_once("pay", lambda _: None, key="a"), {"id": 7}, "result of a")
        check_equal(owner.run_once("pay", lambda _: "now", key="b"), "now", "result of b")
    events = place.run("show", "nightly", "--events", "--data").left(0).text
    check("clerk" in events and "the bank's books" in events, events)
    check_equal(place.run("verify", "nightly").left(0).code, 0, "verdict")
    listed = place.run("effects", "list", "nightly").left(0)
    check("pay c" in listed.text and "pay a" not in listed.text, listed.text)


def test_decided_effect_is_not_decided_again(place: Place) -> None:
    """A second decision is a conflict, an unknown effect a usage error; nothing is written."""
    (one,) = left_open(place, "a")
    place.run("effects", "resolve", "nightly", one, "--done", "null", *WHY).left(0)
    before = picture(place.root)
    ran = place.run("effects", "resolve", "nightly", one, "--not-done", *WHY).left(7)
    check("is done already" in ran.said, ran.said)
    ran = place.run("effects", "resolve", "nightly", f"fx:v1:{5:064x}", "--not-done", *WHY).left(1)
    check("lastgood effects list nightly" in ran.said, ran.said)
    check_equal(picture(place.root), before, "the store")
    check("no effect is undecided" in place.run("effects", "list", "nightly").left(0).text, "none")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["list"], "session"), (["list", "nobody"], "no session"), ([], "verb"),
        (["resolve", "nightly"], "fingerprint"), (["resolve", "nightly", "ONE"], "say --done"),
        (["resolve", "nightly", "ONE", "--done"], "expected one argument"),
        (["resolve", "nightly", "ONE", "--done", "1", "--not-done", *WHY], "not allowed"),
        (["resolve", "nightly", "ONE", "--done", "1"], "--reason text is needed"),
        (["resolve", "nightly", "ONE", "--done", "1", "--reason", ""], "a reason"),
        (["resolve", "nightly", "ONE", "--done", "1", *WHY, "--actor", ""], "an actor"),
        (["resolve", "nightly", "ONE", "--done", "{", *WHY], "json"),
        (["resolve", "nightly", "ONE", "--done", '{"a":1,"a":2}', *WHY], "twice"),
        (["resolve", "nightly", "ONE", "--done", "1e999", *WHY], "double precision"),
        (["resolve", "nightly", "fx:v1:0", "--done", "1", *WHY], "fingerprint"),
        (["resolve", "nobody", "ONE", "--done", "1", *WHY], "no session"),
        (["resolve", "", "ONE", "--done", "1", *WHY], "id"),
    ],
)  # fmt: skip
def test_wrong_words_are_refused_and_change_nothing(
    place: Place, words: list[str], says: str
) -> None:
    """A decision needs a session, an effect, an outcome, a person and a reason."""
    (one,) = left_open(place, "a")
    before = picture(place.root)
    ran = place.run("effects", *[one if word == "ONE" else word for word in words]).left(1)
    check(says in ran.said.lower(), ran.said)
    check_equal(picture(place.root), before, "the store")


def test_session_of_checkpoints_has_no_effects(kept: Place) -> None:
    """Without a log nobody intends anything: a policy error, and nothing is changed."""
    before = picture(kept.root)
    kept.run("effects", "list", "nightly").left(9)
    ran = kept.run("effects", "resolve", "nightly", f"fx:v1:{5:064x}", "--not-done", *WHY)
    ran.left(9)
    check_equal(picture(kept.root), before, "the store")


def test_session_that_is_in_use_is_not_decided(place: Place) -> None:
    """Its owner may be at the effect at this very moment."""
    left_open(place, "a")
    with opened(place) as owner:
        one = owner.open_effects[0].fingerprint
        wait = ["--lock-timeout", "0.1"]
        place.run("effects", "resolve", "nightly", one, "--not-done", *WHY, *wait).left(7)
        check_equal(len(owner.open_effects), 1, "still open")
        listed: Any = answer(place, "effects list", "nightly")
        check_equal(len(listed["undecided"]), 1, "listed while it is in use")
