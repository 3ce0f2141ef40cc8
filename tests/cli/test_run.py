"""``run``: what a person and a machine see of a plan that is carried out, stopped and killed."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood import Keyring, open_store
from lastgood.runbook.program import PROGRAM
from tests.cli.commands import LASTGOOD, Place, Ran
from tests.cli.log_sessions import logged
from tests.cli.test_machine_output import CHANGE, COMMON, FIELDS, STEP
from tests.runbook.bench import MARK, PROBE, WRITE, left, soon, step
from tests.support.check import check, check_equal
from tests.support.trees import picture

FAIL: Final = f"{WRITE}; echo said; test -e mended || exit 3"
WHY: Final = ["--accept-plan-change", "--reason", "the review"]


def written(place: Place, *steps: str) -> None:
    """A plan in the place."""
    (place.top / "plan.toml").write_text("\n".join(["name = 'move'", *steps]), encoding="utf-8")


def ledger(place: Place) -> list[str]:
    path = place.top / "ledger"
    return path.read_text("utf-8").split("\n")[:-1] if path.exists() else []


def run(place: Place, *words: str, code: int = 0) -> Ran:
    return place.run("run", "plan.toml", *words).left(code)


def events(place: Place, *words: str, code: int = 0) -> list[Any]:
    """Every document of an answer, the last one checked."""
    ran = run(place, *words, "--json", code=code)
    found = [json.loads(line) for line in ran.out.split(b"\n")[:-1]]
    check_equal(set(found[-1]), COMMON | FIELDS["run"], "fields of the end")
    check_equal((found[-1]["verb"], found[-1]["exitCode"]), ("run", code), "verb and code")
    for one in found[:-1]:
        check_equal(set(one), STEP if one["event"] == "step" else CHANGE, "fields")
    return found


def test_plan_is_carried_out_and_the_next_run_skips_it(place: Place) -> None:
    """One plain line a step in a pipe, the same for machines; the plan's name is the session's."""
    written(place, step("copy", "needs = ['fetch']"), step("fetch"))
    ran = run(place)
    lines = [line.split() for line in ran.text.split("\n")[:-1]]
    check_equal([line[:2] for line in lines], [["done", "fetch"], ["done", "copy"]], "lines")
    check("\x1b" not in ran.text and "\r" not in ran.text, "what is for terminals is in a pipe")
    *found, end = events(place)
    told = [(one["id"], one["status"]) for one in found]
    check_equal(told, [("fetch", "skipped"), ("copy", "skipped")], "events")
    check_equal(
        (end["session"], end["plan"], end["status"], end["steps"]),
        ("move", "move", "done", {"fetch": "skipped", "copy": "skipped"}),
        "end",
    )
    check_equal(ledger(place), ["fetch", "copy"], "ledger")
    check_equal(place.run("verify", "move").left(0).code, 0, "verdict")


def test_another_session_is_another_history(place: Place) -> None:
    """The same plan for two customers; a session that begins with a dash is data, too."""
    written(place, step("a"))
    for session in ("one", "--two", "☃"):
        *_, end = events(place, f"--session={session}")
        check_equal((end["session"], end["steps"]), (session, {"a": "done"}), "end")
    check_equal(ledger(place), ["a"] * 3, "ledger")


def test_dry_run_tells_and_changes_nothing(place: Place) -> None:
    """What would be run, skipped, asked; not even a store is made (G8)."""
    written(place, step("a"), step("b", script=FAIL), step("c"))
    ran = run(place, "--dry-run")
    check_equal(ran.text.split("\n")[0], "would run   a", "line")
    check(not place.root.exists(), "a store was made")
    run(place, code=10)
    before = picture(place.root)
    *_, end = events(place, "--dry-run")
    expected = {"a": "would skip", "b": "would ask", "c": "would run"}
    check_equal((end["status"], end["steps"]), ("rehearsed", expected), "end")
    check_equal(picture(place.root), before, "the store")
    check_equal(ledger(place), ["a", "b"], "ledger")


def test_undecided_step_stops_with_the_command_that_decides(place: Place) -> None:
    """Exit 10, nothing behind it started; the command that is printed, pasted, does it."""
    written(place, step("pay", script=FAIL), step("mail"))
    for session in ("--session=move", "--session=-x y", "--session=FINGERPRINT"):
        ran = run(place, session, code=10)
        check("undecided   pay" in ran.text and "  | said" in ran.text, ran.text)
        pasted = ran.said.split("with: ")[1].split(", or with")[0]
        words = shlex.split(pasted.replace("RESULT", "null").replace("TEXT", "'seen'"))
        check_equal(words[0], "lastgood", pasted)
        place.run(*words[1:]).left(0)
        *_, end = events(place, session)
        check_equal(end["steps"], {"pay": "skipped", "mail": "done"}, "decided")
    check_equal(ledger(place), ["pay", "mail"] * 3, "ledger")


def test_failed_step_is_told_with_what_it_printed(place: Place) -> None:
    """Exit 1 where nobody has to decide; control characters of its output are escaped (T12)."""
    script = r"printf 'one\ntwo\033[2J\377\n'; exit 5"
    written(place, step("a", "effect = 'idempotent'", script=script), step("b"))
    ran = run(place, code=1)
    check("failed      a" in ran.text and "  | one\n" in ran.text, ran.text)
    check(r"  | two\x1b[2J\\xff" in ran.text, ran.text)
    check("exited with 5" in ran.said, ran.said)
    *_, told, end = events(place, code=1)
    check_equal((told["status"], told["why"]), ("failed", "it exited with 5"), "event")
    check_equal((end["status"], end["error"]["code"]), ("stopped", "step-failed"), "end")


def test_changed_plan_is_shown_and_needs_a_word(place: Place) -> None:
    """Exit 9 and the difference, until it is accepted, for the record; a changed value is seen."""
    written(place, step("a", "env = { KEY = 'hidden-1' }"), step("b"))
    run(place)
    written(place, step("a", "env = { KEY = 'hidden-2' }"), step("c"))
    for words in ([], ["--dry-run"]):
        *found, _ = events(place, *words, code=9)
        changes = [(x["id"], x["status"], x["keys"]) for x in found if x["event"] == "plan"]
        expected = [("b", "removed", []), ("c", "added", []), ("a", "changed", ["env"])]
        check_equal(changes, expected, "changes")
    check_equal(ledger(place), ["a", "b"], "ledger")
    ran = run(place, code=9)
    check("changed     a: env" in ran.text and "--accept-plan-change" in ran.said, ran.said)
    run(place, "--accept-plan-change", "--dry-run")
    run(place, *WHY, "--actor", "olga")
    run(place)
    check_equal(ledger(place), ["a", "b", "a", "c"], "ledger: the changed step is a new action")
    said = place.run("show", "move", "--events", "--data").left(0).text
    check("olga" in said and "the review" in said, said)
    check("hidden-" not in said, "a value is stored")


def test_undecided_step_cannot_be_renamed_away(place: Place) -> None:
    """Under another id it would be run again without a decision: exit 10 until it is decided."""
    written(place, step("pay", script=FAIL))
    run(place, code=10)
    written(place, step("pay again", script=FAIL))
    for words in (WHY, [*WHY, "--dry-run"]):
        *found, end = events(place, *words, code=10)
        check_equal((found[-1]["id"], found[-1]["status"]), ("pay", "undecided"), "event")
        check(found[-1]["fingerprint"] in end["error"]["do"], end["error"]["do"])
    (one,) = place.run("effects", "list", "move", "--json").left(0).document["undecided"]
    words = ["--not-done", "--reason", "seen"]
    place.run("effects", "resolve", "move", one["fingerprint"], *words).left(0)
    (place.top / "mended").touch()
    run(place, *WHY)
    check_equal(ledger(place), ["pay", "pay again"], "ledger")


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ("name = 1", "plan.toml: name: a text is wanted"), ("{", "is no TOML"),
        ("name = 'a'\n[[step]]\nid = 'a'\nruns = 1", "step[0].runs: there is no such key"),
    ],
)  # fmt: skip
def test_plan_that_cannot_be_meant_opens_nothing(place: Place, plan: str, says: str) -> None:
    """Exit 1 with the place of the value, before a store is looked for."""
    (place.top / "plan.toml").write_text(plan)
    ran = run(place, code=1)
    check(says in ran.said, ran.said)
    check(not place.root.exists(), "a store was made")
    document = run(place, "--json", code=1).document
    check_equal(document["error"]["code"], "plan", "code")


def test_wrong_words_are_refused(place: Place) -> None:
    """A reason needs a change, a change a reason, and a plan has to be there."""
    written(place, step("a"))
    for words in (["--accept-plan-change"], ["--reason", "x"], ["--actor", "x"], ["more"],
                  ["--session", ""]):  # fmt: skip
        run(place, *words, code=1)
    place.run("run").left(1)
    place.run("run", "missing\x1b.toml").left(1)
    check_equal(ledger(place), [], "ledger")


def test_session_of_another_kind_is_refused(kept: Place) -> None:
    """A session of checkpoints, or of another program, is not run over."""
    written(kept, step("a"))
    logged(kept, "jobs")
    before = picture(kept.root)
    run(kept, "--session", "nightly", "--dry-run", code=9)
    run(kept, "--session", "nightly", code=9)
    check_equal(picture(kept.root), before, "the store")
    check_equal(ledger(kept), [], "ledger")


def test_two_runs_at_once_are_one(place: Place) -> None:
    """The other is told that it is in use, exit 7."""
    written(place, step("a", script=f"sleep 2; {WRITE}"))
    first = place.start("run", "plan.toml", stdout=subprocess.DEVNULL)
    wait_for(place.root, "*/session.json")
    time.sleep(0.2)
    run(place, "--lock-timeout", "0.1", code=7)
    check_equal(first.wait(), 0, "the first")
    check_equal(ledger(place), ["a"], "ledger")


def wait_for(folder: Path, pattern: str) -> None:
    """Wait until a file is there."""
    end_s = time.monotonic() + 20
    while not list(folder.glob(pattern)):
        check(time.monotonic() < end_s, f"{pattern} never came")
        time.sleep(0.02)


def test_step_that_outlives_a_killed_run_is_waited_for(place: Place) -> None:
    """Its probe would say *not done* while it is still at it, and it would be done twice."""
    script = f"touch begun; sleep 2; {WRITE}"
    written(place, step("a", PROBE, script=script), step("b"))
    with place.start("run", "plan.toml", stdout=subprocess.DEVNULL) as process:
        wait_for(place.top, "begun")
        process.kill()
    ran = run(place, "--lock-timeout", "0.1", code=7)
    check("still at work" in ran.said, ran.said)
    check_equal(ledger(place), [], "ledger while it is at work")
    run(place)
    check_equal(ledger(place), ["a", "b"], "ledger")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_stops_it_cleanly(place: Place, number: signal.Signals) -> None:
    """Exit 130 without a traceback, nothing left running, and the step is asked about."""
    script = f"touch begun; sleep 60; : {MARK}"
    written(place, step("a", script=script), step("b"))
    words = [LASTGOOD, "run", "plan.toml", "--json"]
    with subprocess.Popen(
        words, cwd=place.top, env=place.names, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        wait_for(place.top, "begun")
        process.send_signal(number)
        out, said = process.communicate(timeout=30)
    Ran(("run",), process.returncode, out, said).left(130)
    end = json.loads(out.split(b"\n")[-2])
    check_equal((end["exitCode"], end["error"]["code"]), (130, "interrupted"), "end")
    check(soon(lambda: not left()), "something is left running")
    open_ones = place.run("effects", "list", "move", "--json").left(0).document["undecided"]
    check_equal([one["key"] for one in open_ones], ["a"], "what is asked about")


def test_reader_who_goes_away_leaves_no_question(place: Place) -> None:
    """A closed pipe stops it between two steps, never within one: exit 8, and it goes on later."""
    written(place, *(step(f"{n}") for n in range(5)))
    with place.start("run", "plan.toml", stdout=subprocess.PIPE) as process:
        if process.stdout is not None:
            process.stdout.close()
    check_equal(process.returncode, 8, "exit code")
    check_equal(place.run("effects", "list", "move", "--json").document["undecided"], [], "open")
    run(place)
    check_equal(ledger(place), [f"{n}" for n in range(5)], "ledger")


def test_terminal_shows_what_is_running_until_it_is_done(place: Place) -> None:
    """One line that is written over; nothing of it stays, and a name cannot act on it (T12)."""
    written(place, step("slow \u202e"), step("b", PROBE))
    parent, child = pty.openpty()
    with subprocess.Popen(
        [LASTGOOD, "run", "plan.toml"], cwd=place.top, env=place.names, stdout=child
    ) as process:
        os.close(child)
        shown = b""
        try:
            while data := os.read(parent, 1024):
                shown += data
        except OSError:
            pass  # the other end is closed
    os.close(parent)
    check_equal(process.returncode, 0, "exit code")
    parts = [one for one in shown.decode().replace("\r\n", "\n").split("\r\x1b[K") if one]
    check_equal(len(parts), 4, f"parts: {parts}")
    check_equal(parts[0].split(), ["running", "slow", "\\u202e"], "what is running")
    check(parts[1].startswith("done") and parts[1].endswith(" s\n"), parts[1])


def test_damaged_checkpoint_is_rebuilt_with_the_program_that_is_named(place: Place) -> None:
    """What became of each step is in the log: nothing done is run again after a repair."""
    written(place, step("a"), step("b"))
    run(place)
    with (
        open_store(place.root, keys=Keyring.from_file(place.keys)) as store,
        store.session("move", **PROGRAM) as session,
    ):
        session.save()
    newest = sorted(place.root.rglob("checkpoint-*.json"))[-1]
    place.flip(newest)
    run(place, code=2)
    words = ["--program", "lastgood.runbook.program:PROGRAM", "--reason", "disk"]
    place.run("repair", "move", "--rebuild-from-log", *words).left(0)
    *_, end = events(place)
    check_equal(end["steps"], {"a": "skipped", "b": "skipped"}, "steps")
    check_equal(ledger(place), ["a", "b"], "ledger")
