"""What reaches a terminal: nothing that could repaint it, whatever the locale and the reader."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from lastgood.cli import output, wording
from lastgood.cli.answer import Answer, Table
from lastgood.cli.verdicts import worst, worst_code
from lastgood.errors import (
    DamagedError,
    LockedError,
    StorageError,
    UnknownSessionError,
    UsageError,
)
from lastgood.formats import canonical
from tests.cli.commands import LASTGOOD, Place, effect
from tests.support.check import check, check_equal
from tests.support.values import same

BIDI = "\u202e"
HOSTILE_ID = f"a{BIDI}b\u200bc\ufeff"
HOSTILE = (b"\x1b", BIDI.encode(), "\u200b".encode(), b"\x9b", b"\x7f", "\u2028".encode())


def harmless(data: bytes, what: str) -> None:
    """Fail if ``data`` holds anything that acts on a terminal, but line feeds."""
    for bad in HOSTILE:
        check(bad not in data, f"{what} prints {bad!r}: {data!r}")
    text = data.decode("utf-8")
    check(text.replace("\n", "").isprintable(), f"{what}: {text!r}")


def test_hostile_ids_labels_states_and_file_names_are_escaped_everywhere(place: Place) -> None:
    """T12, C10-05: no text of a store acts on a terminal, in any verb, with or without --json.

    Method: bidi and invisible characters in an id and a label; escapes and bidi in a state; an
    escape, a line feed and undecodable bytes in the name of a foreign file.
    """
    state = {f"k{BIDI}\x1b[2J": ["\x9b31m", "\u2028", "\x7f", "\U000e0001 é😀"]}
    place.save(HOSTILE_ID, 1, state, "--milestone", f"la{BIDI}bel", "--effect", effect(1))
    folder = place.file("session.json").parent
    for name in (b"x\x1b[2J\ny", b"z\xff\xfe", b"checkpoint-000001.json "):
        (folder / os.fsdecode(name)).touch()
    verbs = (["list"], ["show", "--state"], ["verify", "-v"], ["load"], ["show", "--sequence", "9"])
    for verb, *words in verbs:
        for machine in ([], ["--json"]):
            ran = place.run(verb, *words, *machine, "--", HOSTILE_ID)
            ran.left(1 if "9" in words else 0)
            harmless(ran.out, verb)
            harmless(ran.err, verb)
    harmless(place.run("sessions").left(0).out, "sessions")
    listed = place.run("sessions", "--json").left(0).document
    check_equal(listed["sessions"][0]["session"], HOSTILE_ID, "the id, read by a machine")
    loaded = place.run("load", "--json", "--", HOSTILE_ID).document["state"]
    check(same(loaded, state), repr(loaded))
    foreign = place.run("verify", "--json", "--", HOSTILE_ID).document["sessions"][0]["foreign"]
    check_equal(len(foreign), 3, "foreign files")


def test_forged_rows_of_a_label_stay_in_their_cell(place: Place) -> None:
    """T12: a label that imitates a row, or rich markup, stays text in its own column."""
    label = "[bold]yes[/bold]  9  current \\x1b"
    place.save("s", 1, {}, "--milestone", label)
    lines = place.run("list", "s").left(0).text.split("\n")
    check_equal(len(lines), 3, "lines of a table with one row")
    check("[bold]yes[/bold]  9  current \\\\x1b" in lines[1], lines[1])


@pytest.mark.parametrize(
    "locale",
    [
        {"PYTHONIOENCODING": "ascii", "LANG": "C"},
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "ascii:strict"},
        {"PYTHONIOENCODING": "utf-16"},
        {"PYTHONUTF8": "1"},
    ],
    ids=str,
)
def test_printing_never_fails_whatever_the_locale(locale: dict[str, str], place: Place) -> None:
    """C9-02: JSON is UTF-8 in any locale; a table escapes what the locale lacks; none dies."""
    session = "séance 😀 中"
    place.save(session, 1, {"é": "😀"}, "--milestone", "中")
    loaded = place.run("load", session, environment=locale)
    if loaded.code == 1:  # this locale cannot even name it
        check(b"session id" in loaded.err, loaded.said)
        loaded = place.run("verify", "--all", "--json", environment=locale).left(0)
        check_equal(loaded.document["sessions"][0]["session"], session, "session")
    else:
        check_equal(loaded.left(0).out.decode("utf-8"), '{"é":"😀"}\n', "the state")
    for verb in (["sessions"], ["verify", "--all"]):
        ran = place.run(*verb, environment=locale).left(0)
        check(ran.out, "nothing was printed")


def test_reader_that_goes_away_ends_it_quietly(place: Place) -> None:
    """A closed pipe is no drama: no text, and an exit code that is not 0.

    Method: a state larger than a pipe, whose reader reads nothing.
    """
    place.save("s", 1, ["x" * 1000] * 500)
    process = place.start("load", "s", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if process.stdout is None or process.stderr is None:
        raise AssertionError("no pipe")
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    check_equal((process.wait(timeout=60), err), (8, b""), "exit code and standard error")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_stream_damages_no_file_of_the_store(closed: str, place: Place) -> None:
    """No record gets the number of a standard stream, so nothing printed lands in one.

    Method: a save by a shell that closes streams, then a whole verification.
    """
    command = 'exec "$0" save s --sequence 1 --state state.json ' + closed
    (place.top / "state.json").write_text("{}", encoding="ascii")
    done = subprocess.run(
        ["/bin/sh", "-c", command, LASTGOOD], env=place.names, cwd=place.top, check=False,
        capture_output=True, timeout=60,
    )  # fmt: skip
    check_equal(done.returncode, 8 if ">&-" in closed.replace("2>&-", "") else 0, "exit code")
    place.run("verify", "--all").left(0)
    check_equal(place.run("load", "s").left(0).out, b"{}\n", "the state")


def on_terminal(place: Place, *words: str, columns: int) -> str:
    """What a terminal of a width is shown."""
    ours, theirs = pty.openpty()
    more = {"COLUMNS": str(columns), "TERM": "dumb"}
    process = place.start(*words, stdout=theirs, env=place.names | more)
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 65536):
            shown += piece
    except OSError:
        pass  # how a pseudo-terminal ends
    os.close(ours)
    check_equal(process.wait(timeout=60), 0, "exit code")
    return shown.decode("utf-8").replace("\r\n", "\n")


@pytest.mark.parametrize("columns", [100, 400])
def test_table_on_a_terminal_has_the_same_content(columns: int, kept: Place) -> None:
    """Rich draws what the plain table says, and a digest stays in one piece on 100 columns.

    Method: a pseudo-terminal; the cells of the machine's answer are looked for.
    """
    shown = on_terminal(kept, "list", "nightly", columns=columns)
    check("│" in shown, f"rich did not draw it: {shown}")
    for row in kept.run("list", "nightly", "--json").document["checkpoints"]:
        for field in ("sequence", "role", "created", "kid", "sha256"):
            check(str(row[field]) in shown, f"{field} is not shown: {shown}")


def test_table_without_rich_is_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """The extra is not needed: without it, or without a terminal, the table is plain text."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    for name in ("rich", "rich.console", "rich.table", "rich.text"):
        monkeypatch.setitem(sys.modules, name, None)
    lines = output.table_text(Table(("a", "b"), (("1", "é"), ("333", "-")))).split("\n")
    check_equal(lines, ["A    B", "1    é", "333  -"], "the table")


@pytest.mark.parametrize(
    "value", ["plain", "é😀", "\x1b\x7f\x9b", "\u202e" * 3, "\U000e0100", "\\u0041\\\\", '"\\"']
)
def test_harmless_json_is_the_same_json(value: str) -> None:
    """Only the spelling of a text changes, never what a parser reads."""
    data = canonical.encode({value: [value]})
    shown = wording.harmless_json(data)
    check(same(json.loads(shown), {value: [value]}), repr(shown))
    check(shown.decode("utf-8").isprintable(), repr(shown))


@pytest.mark.parametrize(
    ("session", "expected"),
    [
        ("nightly", "lastgood verify nightly"),
        ("two words", "lastgood verify 'two words'"),
        ("it's $(rm)", """lastgood verify 'it'"'"'s $(rm)'"""),
        ("-rf", "lastgood verify -- -rf"),
        ("SESSION", "lastgood verify SESSION"),
        ("\\1 \\g<0>", "lastgood verify '\\1 \\g<0>'"),
        (f"a{BIDI}", "lastgood verify SESSION"),
        ("x" * 201, "lastgood verify SESSION"),
        (None, "lastgood verify SESSION"),
    ],
)
def test_next_command_can_be_pasted(session: str | None, expected: str) -> None:
    """The command that a message names is quoted for a shell, or left general."""
    error = wording.fill(DamagedError("x", name="n"), session=session)
    check_equal(error.do, f"Look at every finding with: {expected}", "what to do")


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (("--root", "a b"), "--root 'a b' nightly"),
        (("--root", "r", "--keys", "k;l"), "--root r --keys 'k;l' nightly"),
        (("--root", f"r{BIDI}"), "--root … nightly"),
    ],
)
def test_next_command_leads_to_the_place_that_was_given(
    place: tuple[str, ...], expected: str
) -> None:
    """Pasted, it does not look at another store; what cannot be typed is not shown (T12).

    Method: filled twice, for a report's error is filled by its verb and once more at the end.
    """
    for said, verb in ((DamagedError("x", name="n"), "verify"), (UnknownSessionError("x"), "")):
        for _ in range(2):
            wording.fill(said, session="nightly", place=place)
        options = expected if verb else expected.removesuffix(" nightly")
        shown = f"lastgood {verb or 'sessions'} {options}"
        check(said.do.endswith(f": {shown}"), said.do)
    error = wording.fill(
        UsageError("x", do="With: lastgood sessions --help"), session="s", place=place
    )
    check_equal(error.do, "With: lastgood sessions --help", "help needs no place")


def test_advice_after_verify_is_not_to_verify() -> None:
    """Who has every finding already is told what comes next."""
    error = wording.fill(DamagedError("x", name="n"), session="s", verb="verify")
    check("lastgood list s" in error.do and "verify " not in error.do, error.do)


def test_worst_error_is_altered_data_then_what_could_not_be_looked_at() -> None:
    """Of many findings the one that weighs most decides; a lock never hides damage."""
    errors = [LockedError("l"), StorageError("s"), None, DamagedError("d")]
    check(worst(errors) is errors[3], "damage weighs most")
    check(worst([None]) is None, "nothing")
    codes = [worst_code(found) for found in ([], [0, 6], [6, 7], [8, 7, 1], [5, 4, 3, 2], [99, 2])]
    check_equal(codes, [0, 6, 7, 8, 2, 99], "codes")


def test_answer_is_whole_or_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that could not be written is never reported as given."""
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(StorageError):
        output.show(Answer(document={}, text=("x",)), verb="list", machine="no")
