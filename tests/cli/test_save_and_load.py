"""``save`` and ``load``: what a shell user keeps is what comes back."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.cli.main import main
from lastgood.keyring import Keyring
from tests.cli.commands import Place, effect
from tests.support.check import check, check_equal
from tests.support.trees import picture
from tests.support.values import same

VALUES: list[Any] = [
    None, True, 0, -1, 2**64 - 1, -(2**63), 1.5, -0.0, 5e-324, "", "naïve ☃ 😀 \x00 \u202e \x7f",
    [], {}, {"b": {"": []}, "a": [None, {"a": 1.0}]}, {"\u2028\x85": "\\u0041 \\"},
]  # fmt: skip


def test_state_comes_back_as_the_same_value_in_every_shape(place: Place) -> None:
    """``load`` gives the value that was saved, types and order of keys too, as JSON and a line
    feed.

    Method: one state that holds every shape, through two processes.
    """
    place.save("nightly", 1, VALUES)
    ran = place.run("load", "nightly").left(0)
    check(ran.out.endswith(b"]\n") and ran.out.count(b"\n") == 1, "one line")
    check(same(json.loads(ran.out), VALUES), ran.text)
    check_equal(ran.err, b"", "standard error")
    check(same(place.run("load", "nightly", "--json").document["state"], VALUES), "--json")


def test_state_is_read_from_a_file_a_link_or_a_pipe(place: Place) -> None:
    """The state file is the caller's own business: links and pipes will do."""
    (place.top / "real.json").write_text(' {"n" : 1}\n\t', encoding="ascii")
    (place.top / "link.json").symlink_to("real.json")
    place.run("save", "a", "--sequence", "1", "--state", "real.json").left(0)
    place.run("save", "a", "--sequence", "2", "--state", "link.json").left(0)
    place.run("save", "a", "--sequence", "3", "--state", "-", stdin=b'{"n":1}').left(0)
    place.run("save", "a", "--sequence", "4", "--state", "/dev/stdin", stdin=b'{"n":1}').left(0)
    check_equal(place.run("load", "a").out, b'{"n":1}\n', "the state")


def test_same_save_again_is_a_no_op_and_other_content_is_an_alarm(kept: Place) -> None:
    """I3: the same bytes return the receipt, exit 0; other content exits 7. Nothing changes."""
    check("unchanged" in kept.save("nightly", 2, {"n": 2}).text, "no-op")
    ran = kept.run("save", "nightly", "--sequence", "2", "--json", stdin=b'{"n": 3}').left(7)
    check_equal(ran.document["error"]["code"], "sequence-conflict", "code")
    check_equal(kept.run("load", "nightly").out, b'{"n":2}\n', "the state")


def test_older_sequence_exits_7_and_says_that_it_is_not_durable(kept: Place) -> None:
    """I5: a lower sequence never becomes current, and nobody can take it for saved."""
    kept.save("nightly", 10, {"n": 10})
    ran = kept.run("save", "nightly", "--sequence", "5", stdin=b"{}").left(7)
    check_equal(ran.out, b"", "standard output")
    check("not durable" in ran.said and "lastgood load nightly" in ran.said, ran.said)
    ran = kept.run("save", "nightly", "--sequence", "5", "--json", stdin=b"{}").left(7)
    check_equal((ran.document["status"], ran.document["durable"]), ("superseded", False), "receipt")
    check_equal(kept.run("load", "nightly").out, b'{"n":10}\n', "the state")


def fingerprints(place: Place, *words: str) -> list[str]:
    return list(place.run("load", "s", "--json", *words).left(0).document["sideEffectFingerprints"])


def test_save_carries_known_effects_over_and_adds_the_given_ones(place: Place) -> None:
    """I6 holds by itself in the shell: a save keeps what is known, in order, and adds what is new.

    Method: effects given once, again, and not at all, over four saves.
    """
    place.save("s", 1, {}, "--effect", effect(2), "--effect", effect(1))
    place.save("s", 2, {})
    check_equal(fingerprints(place), [effect(2), effect(1)], "carried over")
    place.save("s", 3, {}, "--effect", effect(1), "--effect", effect(3))
    check_equal(fingerprints(place), [effect(2), effect(1), effect(3)], "added")
    check("unchanged" in place.save("s", 3, {}).text, "the same content without naming effects")


def test_save_below_the_current_one_repeats_what_is_stored_there(place: Place) -> None:
    """I3 for an older generation: its own effects count, not those that came later."""
    place.save("s", 1, {"n": 1}, "--effect", effect(1))
    place.save("s", 2, {"n": 2}, "--effect", effect(2))
    check("unchanged" in place.save("s", 1, {"n": 1}).text, "the older one again")
    unknown = ("--sequence", "1", "--effect", effect(9))
    place.run("save", "s", *unknown, stdin=b'{"n": 1}').left(7)
    check_equal(fingerprints(place), [effect(1), effect(2)], "the current one")


def test_save_under_a_newer_schema_carries_effects_over_too(place: Place) -> None:
    """I6 and C13-01: who succeeds an older schema keeps its effects; an older one cannot return.

    Method: schema 1, then 3, then 2 again; then each read with the wrong version.
    """
    place.save("s", 1, {}, "--effect", effect(1))
    place.save("s", 2, {}, "--schema-version", "3")
    check_equal(fingerprints(place, "--schema-version", "3"), [effect(1)], "carried over")
    older = place.run("save", "s", "--sequence", "3", "--schema-version", "2", stdin=b"{}").left(4)
    check("--schema-version" in older.said, older.said)
    place.run("load", "s").left(4)
    place.run("load", "s", "--sequence", "1", "--schema-version", "3").left(4)
    place.run("load", "s", "--sequence", "1").left(0)


def test_library_reads_what_the_command_saved_and_the_command_what_the_library_saved(
    place: Place,
) -> None:
    """One format: a session can be moved between the shell and a program."""
    place.save("s", 1, {"n": 1}, "--effect", effect(1))
    keys = Keyring.from_file(place.keys)
    with CheckpointStore(place.root, "s", keys=keys) as store:
        check_equal(store.current_sequence, 1, "current_sequence")
        check_equal(store.fingerprints, (effect(1),), "fingerprints")
        latest = store.load_latest()
    check(latest is not None and latest.state == {"n": 1}, "the state")


def test_milestone_is_kept_when_generations_go(place: Place) -> None:
    """``--milestone`` keeps a checkpoint for good, and ``load --sequence`` gives it back."""
    place.save("s", 1, {"n": 1}, "--milestone", "before the audit")
    for number in (2, 3, 4):
        place.save("s", number, {"n": number})
    rows = place.run("list", "s", "--json").left(0).document["checkpoints"]
    check_equal(
        [(row["sequence"], row["role"], row["label"]) for row in rows],
        [(1, "milestone", "before the audit"), (3, "previous", ""), (4, "current", "")],
        "rows",
    )
    check_equal(place.run("load", "s", "--sequence", "1").left(0).out, b'{"n":1}\n', "milestone")
    place.run("load", "s", "--sequence", "2").left(1)


@pytest.mark.parametrize("label", ["", "a\nb", "\x1b[2J", b"\xff", "x" * 10_000])
def test_illegal_label_is_refused_before_anything_is_written(
    label: str | bytes, kept: Place
) -> None:
    """A label is a text of limited length without control characters."""
    words = ["save", "nightly", "--sequence", "3", "--milestone"]
    kept.run(*words, label, stdin=b"{}").left(1)
    check_equal(kept.run("load", "nightly").out, b'{"n":2}\n', "the state")


@pytest.mark.parametrize(
    "effects",
    [
        [""], ["fx:v1:"], [effect(1).upper()], [effect(1)[:-1]], [effect(1) + "\n"], [b"\xff"],
        [effect(1), effect(1)],
    ],
)  # fmt: skip
def test_illegal_effect_is_refused_before_the_store_is_made(
    effects: list[str | bytes], place: Place
) -> None:
    """A fingerprint is refused whole: empty, upper case, of a wrong length, or twice."""
    words = [word for one in effects for word in ("--effect", one)]
    ran = place.run("save", "s", "--sequence", "1", "--json", *words, stdin=b"{}").left(1)
    check_equal(ran.document["error"]["code"], "fingerprint", "code")
    check(not place.root.exists(), "a store was made")


@pytest.mark.parametrize("verb", ["load", "list", "show", "verify"])
@pytest.mark.parametrize("there", ["no store", "other sessions"])
def test_unknown_session_exits_1_and_is_not_made(there: str, verb: str, place: Place) -> None:
    """A misspelt session is told, never made, and never verified as good (C13-05)."""
    if there == "other sessions":
        place.save("nightly", 1, {})
    before = picture(place.top)
    ran = place.run(verb, "nigthly", "--json").left(1)
    check_equal(ran.document["error"]["code"], "unknown-session", "code")
    check_equal(picture(place.top), before, "the tree")


def test_state_to_begin_with_stands_in_for_a_new_session_only(place: Place) -> None:
    """``--if-new`` begins a job; it never hides damage, a wrong key or a state that is there.

    Method: no store, other sessions, a checkpoint, a flipped byte, another key, in this order.
    """
    words = ["load", "s", "--if-new", ' {"n": 0} ']
    for _ in range(2):
        before = picture(place.top)
        check_equal(place.run(*words).left(0).out, b'{"n":0}\n', "the beginning")
        document = place.run(*words, "--json").left(0).document
        check_equal((document["sequence"], document["state"]), (None, {"n": 0}), "document")
        check_equal(picture(place.top), before, "the tree")
        place.save("other", 1, {})
    place.save("s", 1, {"n": 1})
    check_equal(place.run(*words).left(0).out, b'{"n":1}\n', "the stored state")
    check_equal(place.run(*words, "--json").left(0).document["sequence"], 1, "sequence")
    place.run("keys", "new", "others.json").left(0)
    check_equal(place.run(*words, "--keys", "others.json").left(5).out, b"", "with another key")
    for path in place.root.rglob("checkpoint-*"):
        place.flip(path)
    check_equal(place.run(*words).left(2).out, b"", "of a damaged session")


@pytest.mark.parametrize("text", [b"", b"{", b"NaN", b'{"a":1,"a":2}', b'"\\ud800"', b'"\xff"'])
def test_state_to_begin_with_that_could_not_be_saved_is_refused(text: bytes, place: Place) -> None:
    """A job never begins with a state that its first save would refuse."""
    ran = place.run("load", "s", "--if-new", text).left(1)
    check_equal(ran.out, b"", "the answer")
    check("--if-new" in ran.said, ran.said)


def test_session_without_a_checkpoint_is_new_and_gives_no_state(place: Place) -> None:
    """A job that was killed before its first save has a session and no state: not an empty one.

    Method: a writer that opens and closes the session without saving.
    """
    with CheckpointStore(place.root, "s", keys=Keyring.from_file(place.keys)):
        pass
    check_equal(place.run("load", "s").left(1).out, b"", "a state")
    place.run("show", "s").left(1)
    check_equal(place.run("list", "s", "--json").left(0).document["checkpoints"], [], "rows")
    (report,) = place.run("verify", "s", "--json").left(0).document["sessions"]
    check_equal((report["verdict"], report["sequence"]), ("new", None), "verdict")
    place.save("s", 1, {})
    place.run("load", "s").left(0)


@pytest.mark.parametrize(
    "session", [b"", b"a\nb", b"\x1b[2J", b"\xff", b"a\xed\xa0\x80", b"x" * 513, b"\xc2\x85"]
)
@pytest.mark.parametrize("verb", ["save", "load", "list", "show", "verify"])
def test_illegal_session_id_is_refused_and_not_echoed_raw(
    verb: str, session: bytes, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """C9-02, C11: undecodable bytes and control characters in an id exit 1, nothing is made.

    Method: in this process, with words decoded as the interpreter does it.
    """
    more = ["--sequence", "1"] if verb == "save" else []
    paths = ["--root", str(place.root), "--keys", str(place.keys)]
    check_equal(main([verb, os.fsdecode(session), *more, *paths]), 1, "exit code")
    err = capfd.readouterr().err
    check("session id" in err and err.count("\n") == 1 and err[:-1].isprintable(), repr(err))
    check(not place.root.exists(), "a store was made")


def test_undecodable_session_id_of_a_process_exits_1(place: Place) -> None:
    """C9-02: bytes that are no UTF-8 are refused where they come from a real command line."""
    ran = place.run("load", b"a\xff", "--json").left(1)
    check_equal(ran.document["error"]["code"], "invalid-id", "code")


def test_ids_are_data_and_never_paths(place: Place) -> None:
    """``../x``, ``Abc`` and ``abc``, NFC and NFD, options and blanks are sessions of their own."""
    ids = ["../x", "Abc", "abc", "é", "e\u0301", "-rf", " ", "a/b", "SESSION", "😀"]
    for number, session in enumerate(ids, 1):
        words = ("--sequence", "1", "--", session)
        place.run("save", *words, stdin=str(number).encode()).left(0)
    for number, session in enumerate(ids, 1):
        check_equal(place.run("load", "--", session).left(0).out, b"%d\n" % number, session)
    listed = place.run("sessions", "--json").left(0).document["sessions"]
    check_equal([entry["session"] for entry in listed], sorted(ids), "sessions")
    check_equal({path.name for path in place.top.iterdir()}, {"state", "keys.json"}, "files")
