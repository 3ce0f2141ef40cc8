"""``repair`` as a person runs it: real processes, its words, what it prints and refuses."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from lastgood import Checkpoint, CheckpointStore
from lastgood.keyring import Keyring
from tests.cli.commands import LASTGOOD, Place
from tests.cli.log_sessions import JOB, log_files, logged
from tests.support.check import check, check_equal
from tests.support.require import require_unshare
from tests.support.trees import picture

REASON = ("--reason", "disk")
REBUILD = ("--rebuild-from-log", "--program", "job:PROGRAM")


HOLD = """
import os, time
import job, lastgood
keys = lastgood.Keyring.from_file(os.environ["LASTGOOD_KEYS"])
store = lastgood.open_store(os.environ["LASTGOOD_ROOT"], keys=keys)
session = store.session("nightly", **job.PROGRAM)
print("held", flush=True)
time.sleep(100)
"""


@pytest.fixture
def damaged(place: Place) -> Place:
    """A session with a log, whose current checkpoint is cut, and its program beside the store."""
    logged(place)
    (place.top / "job.py").write_text(JOB, encoding="utf-8")
    newest = sorted(place.root.rglob("checkpoint-*"))[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    return place


WRONG: list[list[str]] = [
    [],
    ["--scan", "--pointer"],
    ["--pointer", "--tail", *REASON],
    ["--pointer"],
    ["--tail"],
    ["--approve-rebuild"],
    ["--rebuild-from-log", *REASON],
    ["--rebuild-from-log", "--program", "job:PROGRAM"],
    ["--accept-older", *REASON],
    ["--accept-older", "--sequence", "1"],
    ["--accept-older", "--sequence", "one", *REASON],
    ["--pointer", "--sequence", "1", *REASON],
    ["--tail", "--program", "job:PROGRAM", *REASON],
    ["--scan", *REASON],
    ["--scan", "--actor", "ada"],
    ["--scan", "--sequence", "1"],
    ["--pointer", *REASON, "more"],
    ["--force", *REASON],
]


@pytest.mark.slow
def test_words_that_mean_no_decision_are_refused(damaged: Place) -> None:
    """Exactly one repair, with all that it needs and nothing of another's: exit 1, one line."""
    before = picture(damaged.root)
    for words in WRONG:
        ran = damaged.run("repair", "nightly", *words).left(1)
        check_equal(ran.said.count("\n"), 1, f"lines for {words}: {ran.said}")
        check("Nothing was changed" in ran.said, ran.said)
    damaged.run("repair", "--pointer", *REASON).left(1)
    check_equal(picture(damaged.root), before, "the store")


TEXTS = {
    "empty": "",
    "blank": " \t ",
    "a line feed": "disk\nfailed",
    "an escape": "\x1b[2Jdisk",
    "a delete": "disk\x7f",
    "10,000 characters": "x" * 10_000,
    "501 characters": "x" * 501,
}


@pytest.mark.slow
@pytest.mark.parametrize("option", ["--reason", "--actor"])
def test_texts_that_no_record_may_hold_are_refused(damaged: Place, option: str) -> None:
    """T12: reason and actor are texts of 1 to 500 characters without control characters."""
    other = {"--reason": "--actor", "--actor": "--reason"}[option]
    before = picture(damaged.root)
    for name, text in TEXTS.items():
        words = ("--approve-rebuild", option, text, other, "ada")
        ran = damaged.run("repair", "nightly", *words).left(1)
        check(option[2:] in ran.said and "\x1b" not in ran.said, f"{name}: {ran.said}")
    surrogate = b"\xff".decode("utf-8", "surrogateescape")
    damaged.run("repair", "nightly", "--approve-rebuild", option, surrogate, other, "ada").left(1)
    check_equal(picture(damaged.root), before, "the store")


def test_longest_and_strangest_texts_are_kept_and_printed_escaped(damaged: Place) -> None:
    """T12: 500 characters of any script are taken exactly; nothing of them acts on a terminal."""
    reason = "\u202edisk \u200b" + "é" * 492
    words = ("repair", "nightly", "--approve-rebuild", "--reason", reason, "--actor", "Ада")
    ran = damaged.run(*words).left(0)
    check("\\u202edisk \\u200b" in ran.text and "\u202e" not in ran.text, ran.text)
    document = damaged.run("repair", "nightly", *REBUILD, *REASON, "--json").left(0).document
    check_equal(document["sequence"] is not None, True, "rebuilt")
    shown = damaged.run("show", "nightly", "--events", "--data", "--json").left(0).text
    check("\\u202edisk" in shown, "the event holds the approval's reason")


def test_actor_is_the_systems_user_whatever_the_environment_says(damaged: Place) -> None:
    """T13: the name comes from the process's user id, never from a variable."""
    given = {"USER": "mallory", "LOGNAME": "mallory", "LNAME": "mallory", "USERNAME": "mallory"}
    words = ("repair", "nightly", "--approve-rebuild", *REASON, "--json")
    document = damaged.run(*words, environment=given).left(0).document
    check(document["actor"] and document["actor"] != "mallory", f"{document}")


@pytest.mark.slow
def test_error_scan_repair_and_verify_as_a_person_meets_them(damaged: Place) -> None:
    """C2-01: load names the command; a shell runs it as printed; verify is good; not twice."""
    said = damaged.run("load", "nightly").left(2).said
    command = said.rsplit("with: ", 1)[1].removesuffix(".\n")
    scanned = damaged.run("repair", "nightly", "--scan").left(2)
    check(f"{command}: would succeed" in scanned.text, scanned.text)
    script = command.replace("lastgood", LASTGOOD, 1).replace("MODULE:OBJECT", "job:PROGRAM")
    done = subprocess.run(
        ["/bin/sh", "-c", script.replace("TEXT", "'a bad disk'")],
        env=damaged.names, cwd=damaged.top, capture_output=True, check=False,
    )  # fmt: skip
    check_equal(done.returncode, 0, f"{script}: {done.stderr.decode()}")
    check(done.stderr.startswith(b"lastgood: Importing job from "), done.stderr.decode())
    for word in ("a bad disk", "kept       archive/damaged-", "nothing that was acknowledged"):
        check(word in done.stdout.decode(), f"{word} is missing: {done.stdout.decode()}")
    damaged.run("verify", "nightly").left(0)
    check_equal(damaged.run("load", "nightly").left(0).document["n"][-1] >= 0, True, "loaded")
    again = damaged.run("repair", "nightly", *REBUILD, *REASON).left(1)
    check("nothing to repair" in again.said, again.said)
    check("Importing" not in again.said, "it imports before it knows that there is a need")


@pytest.mark.parametrize(
    ("program", "code"),
    [("job:NOTHING", 1), ("nosuch:PROGRAM", 1), ("job", 1), ("job:apply", 1)],
)
def test_program_that_cannot_be_loaded_changes_nothing(
    damaged: Place, program: str, code: int
) -> None:
    """T1: the program is loaded before anything is decided."""
    before = picture(damaged.root)
    words = ("--rebuild-from-log", "--program", program, *REASON)
    ran = damaged.run("repair", "nightly", *words)
    check_equal(ran.code, code, ran.said)  # the message names the class that the import raised
    check("Nothing was changed" in ran.said, ran.said)
    check_equal(picture(damaged.root), before, "the store")


def test_incomplete_log_is_found_before_the_program_is_loaded(damaged: Place) -> None:
    """G3: nothing is approved where the log cannot rebuild it; all that is wrong is listed."""
    segment = log_files(damaged)[0]
    for path in sorted(damaged.root.rglob("checkpoint-*")):
        path.write_bytes(path.read_bytes()[:-10])
    damaged.flip(segment, at=300)
    before = picture(damaged.root)
    ran = damaged.run("repair", "nightly", *REBUILD, *REASON).left(2)
    check(segment.name in ran.said and "Importing" not in ran.said, ran.said)
    findings = damaged.run("repair", "nightly", "--scan", "--json").left(2).document
    check(segment.name in str(findings["sessions"][0]["findings"]), f"{findings}")
    check_equal(picture(damaged.root), before, "the store")


@pytest.mark.parametrize("name", ["-s", "--pointer", "a b", "ü'$(x)"])
def test_printed_command_can_be_pasted_whatever_the_session_is_called(
    place: Place, name: str
) -> None:
    """T12: quoted, and behind its options where the id looks like one.

    Method: the command that the error names, given to a shell.
    """
    with CheckpointStore(place.root, name, keys=Keyring.from_file(place.keys)) as store:
        for sequence in (1, 2):
            store.save(Checkpoint(sequence, {"n": sequence}))
    place.flip(place.file("checkpoint-000002.json"))
    said = place.run("load", "--", name).left(2).said
    script = said.rsplit("with: ", 1)[1].removesuffix(".\n").replace("lastgood", LASTGOOD, 1)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=place.names, capture_output=True, check=False
    )
    check_equal(done.returncode, 0, f"{script}: {done.stderr.decode()}")
    check_equal(place.run("load", "--", name).left(0).document, {"n": 1}, "the state")


def test_session_that_does_not_exist_is_not_made(kept: Place) -> None:
    """A misspelt session or root is exit 1, and nothing comes to be."""
    before = sorted(kept.top.rglob("*"))
    for words in (["--pointer", *REASON], ["--scan"], ["--tail", *REASON]):
        kept.run("repair", "nosuch", *words).left(1)
        kept.run("repair", "nightly", *words, "--root", str(kept.top / "none")).left(1)
    check_equal(sorted(kept.top.rglob("*")), before, "files")


def test_held_session_names_its_holder(damaged: Place) -> None:
    """T11: exit 7, after the wait that was asked for, and nothing is changed."""
    damaged.run("repair", "nightly", "--approve-rebuild", *REASON).left(0)
    python = str(Path(LASTGOOD).with_name("python"))
    holder = subprocess.Popen(
        [python, "-c", HOLD], env=damaged.names, cwd=damaged.top, stdout=subprocess.PIPE
    )
    try:
        if holder.stdout is None or holder.stdout.readline() != b"held\n":
            raise AssertionError("the holder does not hold it")
        newest = sorted(damaged.root.rglob("checkpoint-*"))[-1]
        newest.write_bytes(newest.read_bytes()[:100])
        before = picture(damaged.root)
        waiting = ("--lock-timeout", "0.1")
        ran = damaged.run("repair", "nightly", "--approve-rebuild", *REASON, *waiting).left(7)
        check(str(holder.pid) in ran.said, ran.said)
        damaged.run("repair", "nightly", "--scan").left(2)
        check_equal(picture(damaged.root), before, "the store")
    finally:
        holder.kill()
        holder.communicate()
    damaged.run("repair", "nightly", *REBUILD, *REASON).left(0)


def test_read_only_mount_can_be_scanned_and_not_repaired(damaged: Place) -> None:
    """G8: the scan works on a read-only mount; a repair is exit 8 and changes nothing."""
    before = picture(damaged.root)
    script = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" || exit 99; shift;'
        '"$@" --scan >/dev/null 2>&1; echo $?; "$@" --approve-rebuild --reason x'
    )
    command = [
        require_unshare(), "--mount", "/bin/sh", "-c", script, "sh", str(damaged.root), LASTGOOD,
        "repair", "nightly",
    ]  # fmt: skip
    done = subprocess.run(
        command, env=damaged.names, cwd=damaged.top, capture_output=True, check=False
    )
    check_equal(done.stdout, b"2\n", f"the scan: {done.stderr.decode()}")
    check_equal(done.returncode, 8, f"{shlex.join(command)}: {done.stderr.decode()}")
    check_equal(picture(damaged.root), before, "the store")
