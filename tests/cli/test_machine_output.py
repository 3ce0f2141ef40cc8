"""``--json``: one document, with exactly the fields that docs/cli.md lists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import Place, effect
from tests.cli.log_sessions import JOB, log_files, logged
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]

COMMON = {"version", "verb", "exitCode", "error", "remarks"}
ERROR = {"code", "exitCode", "happened", "safe", "do", "details"}
CHECKPOINT = {
    "sequence", "name", "role", "schemaVersion", "sizeBytes", "sha256", "kid", "created", "label",
    "verified", "problem",
}  # fmt: skip
REPORT = {
    "session", "directory", "verdict", "exitCode", "sequence", "assurance", "skipped", "error",
    "findings", "notices", "checkpoints", "log", "leftovers", "foreign",
}  # fmt: skip
FIELDS: dict[str, set[str]] = {
    "keys new": {"file", "store", "kid"},
    "save": {
        "session", "sequence", "status", "durable", "digest", "revision", "manifestDigest",
    },
    "load": {
        "session", "sequence", "schemaVersion", "sideEffectFingerprints", "state", "eventsBehind",
    },
    "effects list": {"session", "undecided"},
    "effects resolve": {"session", "status", "effect", "actor", "reason"},
    "gc": {
        "session", "status", "names", "events", "sizeBytes", "firstKept", "head", "root",
        "leftovers", "archive", "actor", "reason", "revision",
    },
    "list": {"session", "verdict", "assurance", "skipped", "checkpoints", "log"},
    "migrate": {
        "session", "status", "fromSchema", "toSchema", "fromSequence", "replayed", "sequence",
        "digest",
    },
    "repair": {
        "session", "repair", "actor", "reason", "decided", "missing", "kept", "revision",
        "sequence", "next",
    },
    "run": {"session", "plan", "status", "steps"},
    "sessions": {"sessions"},
    "show": {"session", "program", "checkpoint", "log"},
    "verify": {"store", "required", "sessions"},
}  # fmt: skip
SESSION = {"session", "directory", "created", "program", "log", "verified", "problem"}
EVENT = {"sequence", "at", "epoch", "type", "data"}
END = {"session", "shown", "last", "end"}
EFFECT = {"fingerprint", "class", "sequence", "kind", "key"}
STEP = {"event", "id", "status", "fingerprint", "seconds", "why", "output"}
CHANGE = {"event", "id", "status", "keys"}
PROSPECT = {"command", "succeeds", "says", "error"}
LOG = {
    "events", "first", "last", "head", "segments", "sizeBytes", "epoch", "torn", "skipped", "stray",
}  # fmt: skip


def answer(place: Place, verb: str, *words: str, code: int = 0) -> dict[str, Any]:
    """The document of a verb, its own fields only, the common ones checked."""
    ran = place.run(*verb.split(), *words, "--json", stdin=b'{"n":1}').left(code)
    check_equal(ran.out.count(b"\n"), 1, "lines on standard output")
    document: dict[str, Any] = ran.document
    check_equal((document["version"], document["verb"]), (1, verb), "version and verb")
    check_equal(document["exitCode"], code, "exitCode")
    check_equal(set(document), COMMON | FIELDS[verb], f"fields of {verb}")
    return document


def test_each_verb_answers_with_exactly_its_fields(place: Place) -> None:
    """A machine can rely on every field. Method: exact sets of keys, of a sound store."""
    answer(place, "keys new", "other.json")
    saved = answer(place, "save", "s", "--sequence", "1", "--effect", effect(1))
    check_equal((saved["status"], saved["durable"]), ("saved", True), "receipt")
    loaded = answer(place, "load", "s")
    check_equal((loaded["state"], loaded["schemaVersion"]), ({"n": 1}, 1), "loaded")
    listed = answer(place, "list", "s")
    check_equal((listed["verdict"], listed["assurance"]), ("good", "L0"), "verdict of the list")
    check(listed["skipped"], "what was not checked is not said")
    (row,) = listed["checkpoints"]
    check_equal(set(row), CHECKPOINT, "fields of a checkpoint")
    check_equal((row["role"], row["verified"], row["problem"]), ("current", True, ""), "row")
    (session,) = answer(place, "sessions")["sessions"]
    check_equal(set(session), SESSION, "fields of a session")
    check_equal(session["program"]["name"], "lastgood.cli", "program")
    shown = answer(place, "show", "s")["checkpoint"]
    check_equal(set(shown), CHECKPOINT | {"sideEffectFingerprints"}, "fields of show")
    shown = answer(place, "show", "s", "--state")["checkpoint"]
    check_equal(set(shown), CHECKPOINT | {"sideEffectFingerprints", "state"}, "with --state")
    for words in (["s"], ["--all"]):
        (report,) = answer(place, "verify", *words)["sessions"]
        check_equal(set(report), REPORT, "fields of a report")
        check_equal((report["verdict"], report["assurance"]), ("good", "L0"), "verdict")
        check(report["skipped"], "what was not checked is not said")


def test_session_with_a_log_is_answered_with_exactly_its_fields(place: Place) -> None:
    """A machine can rely on every field of the log, of an event, and of a migration.

    Method: exact sets of keys; one log with a torn tail, whose fields are told as well.
    """
    logged(place)
    (place.top / "job.py").write_text(JOB, encoding="utf-8")
    for verb in ("list", "show"):
        check_equal(set(answer(place, verb, "nightly")["log"]), LOG, f"log of {verb}")
    ran = place.run("show", "nightly", "--events", "--data", "--json").left(0)
    *events, end = [json.loads(line) for line in ran.out.split(b"\n")[:-1]]
    check(events, "no events")
    check_equal([set(one) for one in events], [EVENT] * len(events), "fields of an event")
    check_equal(set(end), COMMON | END, "fields of the end")
    trim = ["--log-before", "2", "--erase", "--reason", "disk is full"]
    answer(place, "gc", "nightly", *trim, "--dry-run")
    for more in (["--dry-run"], [], []):
        answer(place, "migrate", "nightly", "--program", "job:NEWER", *more)
    path = log_files(place)[-1]
    path.write_bytes(path.read_bytes() + b'{"mac":"half' + bytes(10))
    (report,) = answer(place, "verify", "nightly", code=6)["sessions"]
    check_equal(set(report["log"]), LOG, "log of a report")
    check_equal(set(report["log"]["torn"]), {"name", "offset", "sizeBytes"}, "torn")


def test_repair_is_answered_with_exactly_its_fields(kept: Place) -> None:
    """A machine can rely on every field of a repair, and of what would be. Method: sets of keys."""
    kept.flip(kept.file("checkpoint-000002.json"))
    scanned = kept.run("repair", "nightly", "--scan", "--json").left(2).document
    check_equal(set(scanned), COMMON | FIELDS["verify"] | {"repairs"}, "fields of a scan")
    check_equal([set(one) for one in scanned["repairs"]], [PROSPECT], "fields of a prospect")
    words = ["--accept-older", "--sequence", "1", "--reason", "disk"]
    repaired = answer(kept, "repair", "nightly", *words)
    check_equal((repaired["repair"], repaired["sequence"]), ("accept-older", 3), "the repair")
    sound = kept.run("repair", "nightly", "--scan", "--json").left(0).document
    check_equal(sound["repairs"], [], "prospects of a sound session")


def test_damage_is_answered_with_the_same_fields_and_every_row(kept: Place) -> None:
    """Damage hides no row and no field: each checkpoint is still listed, with the reason.

    Method: one flipped byte in the current of two checkpoints, then in the session's record.
    """
    kept.flip(kept.file("checkpoint-000002.json"))
    listed = answer(kept, "list", "nightly", code=2)
    found = [(row["sequence"], row["verified"]) for row in listed["checkpoints"]]
    check_equal(found, [(1, True), (2, False)], "rows")
    check(listed["checkpoints"][1]["problem"], "no reason")
    check_equal(set(listed["error"]), ERROR, "fields of an error")
    check_equal(set(listed["error"]["details"]), {"name", "line", "offset"}, "details")
    (report,) = answer(kept, "verify", "nightly", code=2)["sessions"]
    check_equal((report["verdict"], report["sequence"]), ("stopped", None), "verdict")
    check(report["findings"] and "SESSION" not in str(report), "findings")
    kept.flip(kept.file("session.json"))
    (report,) = answer(kept, "verify", "--all", code=2)["sessions"]
    check_equal((report["session"], set(report)), (None, REPORT), "an unknown session")
    (session,) = answer(kept, "sessions", code=2)["sessions"]
    check_equal((session["verified"], set(session)), (False, SESSION), "an unknown session")


def test_worst_session_decides_the_exit_code_of_all(kept: Place) -> None:
    """``verify --all`` cannot hide one bad session among good ones, or behind a limited one."""
    kept.save("weekly", 1, {})
    kept.save("yearly", 1, {})
    directories = {
        entry["session"]: kept.root / entry["directory"]
        for entry in answer(kept, "sessions")["sessions"]
    }
    (directories["weekly"] / "manifest.json").unlink()
    check_equal(answer(kept, "verify", "--all", code=6)["error"], None, "recoverable")
    kept.flip(directories["yearly"] / "checkpoint-000001.json")
    reports = answer(kept, "verify", "--all", code=2)["sessions"]
    verdicts = {report["session"]: report["verdict"] for report in reports}
    check_equal(
        verdicts, {"nightly": "good", "weekly": "recoverable", "yearly": "stopped"}, "verdicts"
    )


def test_damaged_store_record_stops_every_verb(kept: Place) -> None:
    """``store.json`` is verified before anything in the store is believed."""
    kept.flip(kept.root / "store.json", at=50)
    for verb in (["verify", "nightly"], ["verify", "--all"], ["sessions"], ["load", "nightly"]):
        document = kept.run(*verb, "--json").left(2).document
        check_equal(set(document), COMMON, "fields without an answer")
        check_equal(document["error"]["details"]["name"], "store.json", "the file")


@pytest.mark.parametrize("level", ["L0", "L1", "L2", "L3"])
def test_required_level_that_cannot_be_checked_never_gives_0(level: str, kept: Place) -> None:
    """A skipped check is visible in the exit code, and does not soften a worse one."""
    answer(kept, "verify", "nightly", "--require", level, code=0 if level == "L0" else 6)
    kept.flip(kept.file("checkpoint-000001.json"))
    answer(kept, "verify", "nightly", "--require", level, code=2)


def test_documentation_lists_exactly_the_fields_that_are_answered() -> None:
    """docs/cli.md says of each field what it means, and of no other. Method: its tables."""
    text = (TOP / "docs" / "cli.md").read_text(encoding="utf-8")
    section = text[text.index("## Machine output") :]
    found = set(re.findall(r"^\| `([a-zA-Z0-9]+)` \|", section, re.MULTILINE))
    expected = COMMON | ERROR | CHECKPOINT | REPORT | SESSION | set().union(*FIELDS.values())
    expected |= {"state", "sideEffectFingerprints"} | EVENT | END | LOG | PROSPECT | EFFECT
    expected |= STEP | CHANGE
    check_equal(found, expected, "fields in docs/cli.md")
