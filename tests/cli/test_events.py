"""show --events, and the other verbs on sessions with an event log."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood.cli.main import main
from tests.cli.commands import Place, Ran
from tests.cli.log_sessions import log_files, logged, opened
from tests.support.check import check, check_equal
from tests.support.trees import picture


def documents(ran: Ran) -> list[Any]:
    """The documents of a streamed answer; the last one is the answer's end."""
    return [json.loads(line) for line in ran.out.split(b"\n")[:-1]]


@pytest.fixture
def job(place: Place) -> Place:
    """A store in which session ``nightly`` has two owners' events and two checkpoints."""
    logged(place)
    return place


def test_events_are_shown_one_a_line_without_what_they_say(job: Place) -> None:
    """Sequence, time and type; what an event says only when it is asked for.

    Method: the stored lines themselves are the oracle.
    """
    lines = [
        json.loads(line)["e"]
        for path in log_files(job)
        for line in path.read_bytes().rstrip(b"\0").split(b"\n")[:-1]
    ]
    *found, end = documents(job.run("show", "nightly", "--events", "--json").left(0))
    expected = [
        {"sequence": e["seq"], "at": e["at"], "epoch": e["epoch"], "type": e["type"]} for e in lines
    ]
    check_equal(found, expected, "events")
    check_equal((end["shown"], end["last"], end["end"]), (len(lines),) * 3, "the end")
    with_data = documents(job.run("show", "nightly", "--events", "--json", "--data").left(0))[:-1]
    check_equal([one.pop("data") for one in with_data], [e["data"] for e in lines], "data")
    check_equal(with_data, expected, "the same beside data")
    text = job.run("show", "nightly", "--events").left(0).text.split("\n")[:-1]
    check_equal(
        [line.split() for line in text],
        [[str(e["seq"]), e["at"], e["type"]] for e in lines],
        "for people",
    )
    said = job.run("show", "nightly", "--events", "--data").left(0).text
    check_equal(said.split("\n")[2].split()[2:], ["paid", "0"], "what one says, for people")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--since", "4"], slice(3, None)),
        (["--limit", "2"], slice(0, 2)),
        (["--since", "9", "--limit", "3"], slice(8, 11)),
        (["--since", "1000"], slice(0, 0)),
    ],
)
def test_part_of_the_events_is_what_was_asked_for(
    words: list[str], expected: slice, job: Place
) -> None:
    """--since and --limit cut, and the last document says what was shown and what there is."""
    every = documents(job.run("show", "nightly", "--events", "--json").left(0))
    *found, end = documents(job.run("show", "nightly", "--events", "--json", *words).left(0))
    check_equal(found, every[:-1][expected], f"{words}")
    check_equal((end["shown"], end["end"]), (len(found), every[-1]["end"]), "the end")


def test_everything_before_the_damage_is_shown_then_the_error(place: Place) -> None:
    """C1-05: 20 records, the 11th damaged: 1 to 10 are shown, then line, offset and exit 2.

    Method: three kinds of damage; each command is run five times, and no file changes (C2-07).
    """
    with opened(place) as session:
        session.append_many([("x", {"i": n}) for n in range(18)])
    path = place.file("events-*.jsonl")
    sound = path.read_bytes()
    lines = sound.split(b"\n")
    changed = lines[10].replace(b'"type":"x"', b'"type":"y"')
    check(changed != lines[10], "line 11 is none of the program's")
    kinds = {"byte": changed, "cut": lines[10][:-30], "blank": b""}
    for kind, bad in kinds.items():
        path.write_bytes(b"\n".join([*lines[:10], bad, *lines[11:]]))
        before = picture(place.root)
        runs = [place.run("show", "nightly", "--events", "--json") for _ in range(5)]
        check_equal(len({(ran.code, ran.out, ran.err) for ran in runs}), 1, f"{kind}: outcomes")
        *found, end = documents(runs[0].left(2))
        check_equal([one["sequence"] for one in found], list(range(1, 11)), kind)
        check_equal(end["error"]["details"]["line"], 11, f"{kind}: the line")
        check_equal(end["error"]["details"]["offset"], len(b"\n".join(lines[:10])) + 1, "offset")
        said = runs[0].said
        check(" 10 further records" in said or " 11 further records" in said, said)
        check_equal(picture(place.root), before, f"{kind}: the tree")
        limited = place.run("show", "nightly", "--events", "--limit", "3").left(2)
        check_equal(limited.out.count(b"\n"), 3, "a limit hides no damage")


def test_what_a_successor_took_over_from_is_shown_up_to_there(place: Place) -> None:
    """Nothing behind a damaged first line is shown, nor what its owner did not take over.

    Method: three owners; the first line of the second's segment is damaged; then the first line
    of all.
    """
    for owner in range(3):
        with opened(place) as session:
            session.append("x", owner)
    _, second, _ = log_files(place)
    first_of_second = int(second.name.split("-")[1])
    place.flip(second, at=100)
    *found, end = documents(place.run("show", "nightly", "--events", "--json").left(2))
    numbers = [one["sequence"] for one in found]
    check_equal(numbers, list(range(1, first_of_second)), "shown")
    check(second.name in end["error"]["happened"], f"{end}")
    place.flip(log_files(place)[0], at=100)
    *found, end = documents(place.run("show", "nightly", "--events", "--json").left(2))
    check_equal(found, [], "without a beginning")


def test_damage_of_a_record_hides_no_event(job: Place) -> None:
    """All of the log verifies, and is shown; the error is still the answer's."""
    every = documents(job.run("show", "nightly", "--events", "--json").left(0))[:-1]
    for name in ("session.json", "manifest-000004.json"):
        job.flip(job.file(name))
        *found, end = documents(job.run("show", "nightly", "--events", "--json").left(2))
        check_equal(found, every, f"with {name} damaged")
        check(end["error"]["code"] == "damaged", f"{end}")
        job.flip(job.file(name))


def test_hostile_events_cannot_act_on_a_terminal(place: Place) -> None:
    """T12: whatever an event is called or says is escaped, also in JSON.

    Method: a type with a bidirectional override, data with an escape sequence and a line feed.
    """
    with opened(place) as session:
        session.append("a\u202eb", "\x1b[2Jx\n\u202e")
    for words in ((), ("--json",)):
        ran = place.run("show", "nightly", "--events", "--data", *words).left(0)
        check(ran.out.isascii() and b"\x1b" not in ran.out, repr(ran.out))
        check_equal(ran.out.count(b"\n"), 5 if words else 4, "lines")
    check(b"a\\u202eb" in place.run("show", "nightly", "--events").out, "the type, escaped")


@pytest.mark.parametrize(
    "words",
    [
        ["--since", "1"], ["--limit", "1"], ["--data"], ["--events", "--sequence", "1"],
        ["--events", "--state"], ["--events", "--since", "0"], ["--events", "--limit", "0"],
        ["--events", "--limit", "-1"], ["--events", "--since", "x"],
    ],
)  # fmt: skip
def test_words_that_do_not_go_together_are_refused(words: list[str], job: Place) -> None:
    """No word is silently without effect: exit 1, and nothing is shown."""
    check_equal(job.run("show", "nightly", *words).left(1).out, b"", "the answer")


def test_events_of_a_session_without_a_log_are_refused(kept: Place) -> None:
    """Exit 9 names the way; an unknown session is exit 1."""
    check("lastgood list nightly" in kept.run("show", "nightly", "--events").left(9).said, "way")
    kept.run("show", "other", "--events").left(1)


def test_who_stops_reading_ends_the_command_quietly(place: Place) -> None:
    """A closed pipe is no traceback, and exit 8."""
    with opened(place) as session:
        session.append_many([("x", "y" * 1000) for _ in range(1000)])
    process = place.start(
        "show", "nightly", "--events", "--data", stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if process.stdout is None or process.stderr is None:
        raise AssertionError("no pipes")
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    check_equal((process.wait(60), err), (8, b""), "exit code and standard error")


def test_load_says_how_many_events_lie_behind_the_state(job: Place) -> None:
    """A state is never taken for newer than it is; machines are told as well."""
    ran = job.run("load", "nightly").left(0)
    check_equal(json.loads(ran.out), {"n": list(range(8))}, "the checkpoint's state")
    check("3 events came after this state" in ran.said, ran.said)
    check("lastgood show nightly --events" in ran.said, ran.said)
    check_equal(job.run("load", "nightly", "--json").document["eventsBehind"], 3, "events")
    with opened(job) as session:
        session.save()
    ran = job.run("load", "nightly").left(0)
    check_equal((ran.said, json.loads(ran.out)["n"][-1]), ("", 10), "after a save")


def test_nothing_stands_in_for_a_state_that_only_events_tell(place: Place) -> None:
    """A session that was never saved is not new: --if-new does not begin it again."""
    with opened(place) as session:
        session.append("x", 1)
    for words in ((), ("--if-new", "0")):
        ran = place.run("load", "nightly", *words).left(1)
        check_equal(ran.out, b"", "the answer")
        check("1 events" in ran.said and "show nightly --events" in ran.said, ran.said)
    said = place.run("show", "nightly").left(1).said
    check("lastgood show nightly --events" in said, said)
    report = place.run("verify", "nightly").left(0).text
    check("last good    the initial state" in report and "events 1 to 4" in report, report)


def test_log_is_told_by_every_verb_that_looks(job: Place) -> None:
    """verify, list and show tell its extent, sessions that there is one."""
    count = sum(path.read_bytes().count(b"\n") for path in log_files(job))
    (report,) = job.run("verify", "nightly", "--full", "--json").left(0).document["sessions"]
    for log in (
        report["log"],
        job.run("list", "nightly", "--json").left(0).document["log"],
        job.run("show", "nightly", "--json").left(0).document["log"],
    ):
        check_equal((log["events"], log["first"], log["last"], log["segments"]),
                    (count, 1, count, 2), "extent")  # fmt: skip
        check_equal((log["torn"], log["skipped"], log["stray"]), (None, [], []), "what is left")
    (entry,) = job.run("sessions", "--json").left(0).document["sessions"]
    check_equal(entry["log"], "events", "sessions")
    for verb in ("verify", "list", "show"):
        said = job.run(verb, "nightly").left(0).text
        check(f"events 1 to {count}, " in said and "in 2 segments" in said, f"{verb}: {said}")
    job.save("other", 1, {})
    (report,) = job.run("verify", "other", "--json").left(0).document["sessions"]
    check_equal(report["log"], None, "the log of a session without one")


def test_torn_tail_is_exit_6_and_is_said(job: Place) -> None:
    """What a death in the middle of a write leaves is recoverable, and every verb goes on."""
    path = log_files(job)[-1]
    lines = path.read_bytes().rstrip(b"\0").split(b"\n")
    path.write_bytes(b"\n".join([*lines[:-2], b'{"mac":"half']) + bytes(4096))
    ran = job.run("verify", "nightly").left(6)
    check(
        "verdict      recoverable" in ran.text and "what a crash leaves of a write" in ran.text,
        ran.text,
    )
    (report,) = job.run("verify", "nightly", "--json").left(6).document["sessions"]
    check_equal(report["log"]["torn"]["name"], path.name, "the torn tail")
    check("what a crash leaves of a write" in job.run("list", "nightly").left(6).said, "list")
    check(
        "what a crash leaves of a write" in job.run("show", "nightly", "--events").left(0).said,
        "events",
    )
    job.run("load", "nightly").left(0)


def test_save_on_a_session_with_a_log_names_the_way(job: Place) -> None:
    """Exit 9, nothing is stored, and what to do instead is said (C13-05)."""
    before = picture(job.root)
    said = job.run("save", "nightly", "--sequence", "99", stdin=b"{}").left(9).said
    check("Store.session" in said and "event log" in said, said)
    check_equal(picture(job.root), before, "the tree")


WRITER: Final = """
import sys
from pathlib import Path
from tests.cli.commands import Place
from tests.cli.log_sessions import opened
place, number = Place(Path(sys.argv[1])), 0
while True:
    with opened(place, sys.argv[2]) as session:
        print("open", flush=True)
        for _ in range(200):
            session.append_many([("x", number)] * (1 + number % 7))
            number += 1
            if number % 5 == 0:
                session.save()
"""


@pytest.mark.slow
@pytest.mark.normal_only
def test_readers_beside_a_writer_at_full_speed_raise_no_alarm(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """G8: 100 looks at sessions that are appended to, saved and opened again: no alarm.

    Each is good, or tells truly that a save was between two of its steps (exit 6, which two equal
    readings during one slow flush cannot tell from a death there); none is an error or busy.

    Method: a process that never rests; verify, list, show and show --events in turn; four
    sessions, so that no log grows too long to be read so often.
    """
    found: Counter[int] = Counter()
    top = Path(__file__).resolve().parents[2]
    paths = ["--root", str(place.root), "--keys", str(place.keys), "--json"]
    looks = (["verify"], ["list"], ["show"], ["show", "--events"])
    for number in range(4):
        session = f"session {number}"
        words = [sys.executable, "-c", WRITER, str(place.top), session]
        with subprocess.Popen(words, cwd=top, stdout=subprocess.PIPE) as writer:
            try:
                if writer.stdout is None:
                    raise AssertionError("no pipe")
                for _ in range(2):  # the first owner has saved
                    writer.stdout.readline()
                for turn in range(25):
                    look = looks[turn % 4]
                    found[code := main([*look, session, *paths])] += 1
                    told = capfd.readouterr()
                    legal = (0, 6) if look in (["verify"], ["list"]) else (0,)
                    check(code in legal, f"look {turn} at {session}: {code} {told.err}")
                    check(b'"error":null' in told.out[-10_000:].encode(), told.out[-10_000:])
                check_equal(writer.poll(), None, "the writer")
            finally:
                writer.kill()
    check(found[0] >= 80, f"exit codes: {found}")
    print(f"exit codes: {dict(found)}")
