"""Words that mean nothing: exit 1, one line, nothing touched; and what a start costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lastgood.cli.arguments import parse
from lastgood.cli.main import main
from lastgood.errors import UsageError
from tests.cli.commands import Place
from tests.support.check import check, check_equal

SEQUENCE = ["--sequence", "1"]
WRONG: list[list[str]] = [
    [],
    ["lode"],
    ["--nonsense"],
    ["--roo", "x", "sessions"],
    ["keys"],
    ["keys", "old"],
    ["keys", "new"],
    ["keys", "new", "a", "b"],
    ["save"],
    ["save", "s"],
    ["save", *SEQUENCE],
    ["save", "s", "--sequence"],
    ["save", "s", *SEQUENCE, "t"],
    ["save", "s", *SEQUENCE, "--schema"],
    ["save", "s", *SEQUENCE, "--schema-version", "x"],
    ["save", "s", *SEQUENCE, "--effect"],
    ["save", "s", *SEQUENCE, "--milestone"],
    ["load"],
    ["load", "s", "t"],
    ["load", "s", "--state"],
    ["list"],
    ["list", "s", *SEQUENCE],
    ["list", "--all"],
    ["sessions", "s"],
    ["show"],
    ["show", "s", "--sequence", ""],
    ["verify"],
    ["verify", "s", "--all"],
    ["load", "s", "--if-new"],
    ["load", "s", "--if-new", "0", *SEQUENCE],
    ["verify", "s", "--require", "L4"],
    ["verify", "s", "--require", "l0"],
    ["sessions", "--lock-timeout", "-1"],
    ["sessions", "--lock-timeout", "nan"],
    ["sessions", "--lock-timeout", "1e9"],
    ["sessions", "--lock-timeout", "٣"],
    *(
        ["load", "s", "--sequence", number]
        for number in ("", " 7", "7 ", "1_0", "١٢", "+1", "1.0", "1e3", "0x1", "9" * 31, "True")
    ),
]
OUT_OF_RANGE = ["0", "-1", "1000000000000001", "9" * 30]


@pytest.mark.parametrize("words", WRONG, ids=lambda words: " ".join(words)[:40] or "nothing")
def test_verb_called_wrongly_exits_1_with_one_line_that_names_the_help(
    words: list[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Usage errors exit 1, not argparse's 2, and change nothing.

    Method: in this process; the environment names a store, so only the words are wrong.
    """
    for name, value in Place(tmp_path).names.items():
        monkeypatch.setenv(name, value)
    check_equal(main(words), 1, "exit code")
    out, err = capfd.readouterr()
    check_equal(out, "", "standard output")
    check(err.startswith("lastgood: ") and err.count("\n") == 1 and "--help" in err, err)
    check_equal(list(tmp_path.iterdir()), [], "what was made")


@pytest.mark.parametrize("verb", ["save", "load", "show"])
@pytest.mark.parametrize("number", OUT_OF_RANGE)
def test_sequence_out_of_range_is_a_usage_error(
    verb: str, number: str, place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    """A sequence is 1 to 10^15. Method: each verb that takes one, in this process."""
    state = place.top / "state.json"
    state.write_text("{}", encoding="ascii")
    more = ["--state", str(state)] if verb == "save" else []
    paths = ["--root", str(place.root), "--keys", str(place.keys)]
    check_equal(main(["save", "s", "--sequence", "5", "--state", str(state), *paths]), 0, "save")
    check_equal(main([verb, "s", "--sequence", number, *more, *paths]), 1, "exit code")
    check("10^15" in capfd.readouterr().err, "the range is not named")


def test_usage_error_of_a_process_exits_1_and_with_json_is_one_document(place: Place) -> None:
    """A script tells a usage error by its exit code, and reads the reason from the document."""
    ran = place.run("load", "--json", "--sequence", "x", "s").left(1)
    check_equal(ran.document["error"]["code"], "usage", "code")
    check_equal(ran.document["exitCode"], 1, "exitCode")
    check_equal(place.run("lode").left(1).out, b"", "standard output without --json")


def test_words_that_are_repeated_in_a_message_are_escaped(place: Place) -> None:
    """T12: a word cannot repaint the terminal. Method: escape, bidi and a line feed in words."""
    said = place.run("lode\x1b[2J\u202e\n").left(1).err
    check(
        b"\x1b" not in said and "\u202e".encode() not in said and said.count(b"\n") == 1, repr(said)
    )


@pytest.mark.parametrize("order", ["before", "after", "both"])
def test_common_options_stand_before_or_after_the_verb(order: str) -> None:
    """Global options are understood on both sides of the verb; the later one counts."""
    common = ["--root", "R", "--keys", "K", "--json", "--lock-timeout", "2.5", "-v"]
    words = {
        "before": [*common, "verify", "--all"],
        "after": ["verify", "--all", *common],
        "both": ["--root", "other", "--keys", "K", "verify", "--all", *common],
    }[order]
    found = parse(words)
    check_equal(
        (found.root, found.keys, found.json, found.lock_timeout_s, found.verbose, found.session),
        ("R", "K", "yes", 2.5, "yes", None),
        "what was understood",
    )


def test_root_and_keys_default_to_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """``$LASTGOOD_ROOT`` and ``$LASTGOOD_KEYS`` are the defaults; a word wins over them."""
    monkeypatch.setenv("LASTGOOD_ROOT", "/r")
    monkeypatch.setenv("LASTGOOD_KEYS", "/k")
    check_equal((parse(["sessions"]).root, parse(["sessions"]).keys), ("/r", "/k"), "defaults")
    check_equal(parse(["sessions", "--root", "x"]).root, "x", "root")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ([], ()),
        (["--root", "r"], ("--root", "r")),
        (["--keys", "k", "--root", "r"], ("--root", "r", "--keys", "k")),
        (["--keys", "env:K"], ("--keys", "env:K")),
        (["--keys", "exec:/bin/vault secret"], ()),
        (["--keys", "fd:7"], ()),
        (["--accept-network-filesystem"], ("--accept-network-filesystem",)),
    ],
)
def test_place_that_messages_repeat_is_what_was_given(
    words: list[str], place: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the environment says need not be repeated; a key command could hold secrets."""
    monkeypatch.setenv("LASTGOOD_ROOT", "from-env")
    monkeypatch.setenv("LASTGOOD_KEYS", "from-env")
    check_equal(parse([*words, "load", "s"]).place, place, "before the verb")
    check_equal(parse(["load", "s", *words]).place, place, "after the verb")


def test_session_that_looks_like_an_option_is_named_behind_two_dashes() -> None:
    """Ids are data: one that begins with a dash can be named too."""
    check_equal(parse(["load", "--", "--json"]).session, "--json", "session")
    with pytest.raises(UsageError):
        parse(["load", "-x"])


@pytest.mark.parametrize("word", ["--version", "--help"])
def test_version_and_help_load_nothing_heavy(word: str) -> None:
    """The command starts fast: neither orjson nor cryptography nor the store is loaded.

    Method: count what a fresh interpreter has imported; no time is measured.
    """
    script = (
        "import sys, json\n"
        "before = set(sys.modules)\n"
        "from lastgood.cli.main import main\n"
        f"code = main([{word!r}])\n"
        "print(); print(json.dumps([code, sorted(set(sys.modules) - before)]))\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    code, loaded = json.loads(ran.stdout.split("\n")[-2])
    check_equal(code, 0, "exit code")
    own = {name for name in loaded if name.split(".")[0] == "lastgood"}
    names = ("", ".main", ".answer", ".arguments", ".combinations", ".command", ".output",
             ".wording")  # fmt: skip
    expected = {f"lastgood{name}" for name in ("", ".errors", ".escaping", ".version")}
    expected |= {f"lastgood.cli{name}" for name in names}
    check_equal(own, expected, "modules of lastgood")
    heavy = {"orjson", "cryptography", "rich", "asyncio", "subprocess", "hashlib", "platform"}
    check_equal({name.split(".")[0] for name in loaded} & heavy, set(), "heavy modules")
    check(len(loaded) < 60, f"{len(loaded)} modules: {loaded}")


def test_module_runs_as_the_command_does(place: Place) -> None:
    """``python -m lastgood.cli.main`` is the command, for who has no PATH."""
    ran = subprocess.run(
        [sys.executable, "-m", "lastgood.cli.main", "--version"],
        cwd=Path(place.top), capture_output=True, text=True, check=False,
    )  # fmt: skip
    check_equal((ran.returncode, ran.stdout.split()[0]), (0, "lastgood"), "answer")
