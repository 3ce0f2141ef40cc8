"""Probes: what they say of a target, and what becomes of an effect by that (G5, design 8)."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import DivergenceError, EffectUndecidedError, FencedError, UsageError
from lastgood.formats.fingerprint import Fingerprint
from lastgood.probes import Answer, Asked, Command, FileHash, PathExists, done
from tests.effects.bench import Ledger, opened, pay
from tests.support.check import check, check_equal

ASKED = Asked(kind="write", key="7", fingerprint=Fingerprint(f"fx:v1:{7:064x}"))
PYTHON = (sys.executable, "-c")


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("found", "before", "verdict"),
    [
        ("new", None, "done"), (None, None, "not done"), ("old", "old", "not done"),
        ("new", "old", "done"), ("other", "old", "unknown"), ("old", None, "unknown"),
        (None, "old", "unknown"), ("ne", None, "unknown"),
    ],
)  # fmt: skip
def test_file_says_what_its_content_says(
    tmp_path: Path, found: str | None, before: str | None, verdict: str
) -> None:
    """Only the content before, and the one after, decide; a part of it is nobody's word."""
    path = tmp_path / "file"
    if found is not None:
        path.write_text(found)
    probe = FileHash(path, sha256("new"), None if before is None else sha256(before))
    check_equal(probe(ASKED).verdict, verdict, "verdict")


def test_directory_in_place_of_a_file_is_unknown(tmp_path: Path) -> None:
    """Somebody else put it there."""
    check_equal(FileHash(tmp_path, sha256("new"))(ASKED).verdict, "unknown", "verdict")


def test_path_is_there_or_is_not(tmp_path: Path) -> None:
    """A link counts as it is, wherever it leads."""
    link = tmp_path / "link"
    check_equal(PathExists(link)(ASKED).verdict, "not done", "before")
    link.symlink_to("nowhere")
    check_equal(PathExists(link)(ASKED).verdict, "done", "after")
    check_equal(PathExists(link / "x")(ASKED).verdict, "not done", "below what is no directory")


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("pass", "done"), ("raise SystemExit(20)", "not done"), ("raise SystemExit(1)", "unknown"),
        ("import os; os.kill(os.getpid(), 9)", "unknown"),
        ("import time; time.sleep(60)", "unknown"),
        ("print('x' * 10**6)", "done"), ("input()", "unknown"),
    ],
)  # fmt: skip
def test_command_says_what_its_exit_code_says(code: str, verdict: str) -> None:
    """0 is done, a declared code is not done; another one, a signal, a timeout say nothing."""
    probe = Command([*PYTHON, code], timeout_s=1.0 if "sleep" in code else 30.0)
    answer = probe(ASKED)
    check_equal(answer.verdict, verdict, answer.reason)


def test_command_finds_the_effect_and_leaves_nothing(tmp_path: Path) -> None:
    """It is told which effect is asked about; its arguments are in no reason."""
    told = "import os; open('told', 'w').write(os.environ['LASTGOOD_KEY'])"
    answer = Command([*PYTHON, f"{told}; raise SystemExit(3) # TOKEN"], cwd=tmp_path)(ASKED)
    check_equal((tmp_path / "told").read_text(), "7", "key")
    check("TOKEN" not in answer.reason and "exited with 3" in answer.reason, answer.reason)
    check_equal(Command(["nowhere/at/all"])(ASKED).verdict, "unknown", "what cannot be started")


@pytest.mark.parametrize(
    "wrong",
    [
        {"argv": []}, {"argv": "true"}, {"argv": ["true"], "not_done_exit": (0,)},
        {"argv": ["true"], "not_done_exit": (True,)}, {"argv": ["true"], "not_done_exit": (256,)},
    ],
)  # fmt: skip
def test_command_that_is_none_is_refused(wrong: dict[str, Any]) -> None:
    """An exit code of success never says *not done*."""
    with pytest.raises(UsageError):
        Command(**wrong)


@pytest.mark.parametrize("verdict", ["Done", "not_done", "", "no", None, True])
def test_misspelt_verdict_decides_nothing(tmp_path: Path, ledger: Ledger, verdict: Any) -> None:
    """What is no verdict must not pass for *not done*: that would repeat the effect."""
    with pytest.raises(UsageError):
        Answer(verdict)

    def act(_: object) -> None:
        ledger.write("7")
        raise ZeroDivisionError

    with opened(tmp_path) as session, pytest.raises(ZeroDivisionError):
        session.run_once("pay", act, key="7", on_unknown=lambda asked: done())
    with opened(tmp_path) as session, pytest.raises(EffectUndecidedError):
        session.run_once("pay", act, key="7", on_unknown=lambda asked: Answer(verdict))
    check_equal(ledger.lines, ["7"], "ledger")


def test_done_effect_whose_target_was_changed_stops(tmp_path: Path) -> None:
    """State and workspace have parted: nothing is guessed, nothing is done again (design 8)."""
    path = tmp_path / "report"
    probe = FileHash(path, sha256("new"))
    for _ in range(2):
        with opened(tmp_path) as session:
            session.run_once("write", lambda _: path.write_text("new"), key="7", on_unknown=probe)
    for damage in (lambda: path.write_text("changed"), path.unlink):
        damage()
        with opened(tmp_path) as session, pytest.raises(DivergenceError) as caught:
            session.run_once("write", lambda _: None, key="7", on_unknown=probe)
        check_equal(caught.value.exit_code, 2, "exit code")


def test_fenced_owner_does_not_run_an_effect_again(tmp_path: Path, ledger: Ledger) -> None:
    """A repetition writes nothing; who has the session is looked up all the same (design 8)."""

    def act(_: object) -> None:
        raise ZeroDivisionError

    with opened(tmp_path) as session, pytest.raises(ZeroDivisionError):
        session.run_once("pay", act, key="7", on_unknown="idempotent")
    with opened(tmp_path) as session:
        lock = next((tmp_path / "store").glob("*/lock"))
        lock.rename(lock.with_name("lock.gone"))
        lock.touch(mode=0o600)
        with pytest.raises(FencedError):
            pay(session, ledger, args=None, on_unknown="idempotent", event=None)
    check_equal(ledger.lines, [], "ledger")
