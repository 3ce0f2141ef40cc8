"""The explanation of one state: complete, stable, and safe to look at."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection.cli import main
from fault_injection.explain import explain, judged
from fault_injection.level import Plan
from fault_injection.levels.registry import built
from fault_injection.workload import Workload
from fault_injection.world import Act, Mark, Told
from tests.injection.bad_notes import DEAF, FORGETFUL
from tests.injection.toys import Toy, ToyLevel, case
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

GOLDEN = Path(__file__).parent / "golden"


def test_explanation_shows_calls_fates_knowledge_disk_and_verdict() -> None:
    """A person sees what was done, what became of it, and why that is wrong.

    Method: the whole text of a small state that holds one of everything.
    """
    level, state = ToyLevel("L3"), case("L3", Toy("violates"))
    text = explain(state, judged(level, state), again="again")
    check_equal(text, (GOLDEN / "toy.txt").read_text("utf-8"), "explanation")
    check(all(c == "\n" or c.isprintable() for c in text), "not escaped")


def test_explanation_of_a_good_state_says_what_was_recovered() -> None:
    """Also a state that is as it must be can be looked at. Method: the same state, judged well."""
    level, state = ToyLevel("L3"), case("L3", Toy("fine"))
    text = explain(replace(state, must_stop=True), judged(level, state), again="again")
    check("  as it must be: checkpoint 20, by: newest revision\n" in text, text)
    check("must be refused" in text, "nobody says that it must stop")


def test_state_whose_history_is_not_known_says_what_was_known_in_the_end() -> None:
    """A level may leave out when the world learnt what. Method: a case without marks."""
    level, state = ToyLevel("L3"), replace(case("L3", Toy("fine")), marks=())
    text = explain(state, judged(level, state), again="again")
    check("world:" not in text and "  acknowledged: save 10, save 20\n" in text, text)


def test_act_that_turned_into_another_is_shown_where_it_did() -> None:
    """A person sees from when on more is asked of an act. Method: a mark that says so."""
    level, state = ToyLevel("L3"), case("L3", Toy("fine"))
    known, begun, *rest = state.marks
    late = Mark(4, Told((*known.told.acts, Act("20", "late"))))
    turned = replace(state, marks=(known, begun, late, *rest))
    text = explain(turned, judged(level, state), again="again")
    check("world: save 20 is late from now on\n" in text, text)


@pytest.mark.parametrize(
    ("workload", "level", "variant", "golden"),
    [
        (FORGETFUL, "L3", "weak", "forgetful.txt"),
        (DEAF, "L1", "EIO-once", "deaf.txt"),
    ],
    ids=["forgetful", "deaf"],
)
def test_explanation_of_a_planted_bug_is_the_kept_one(
    workload: Workload, level: str, variant: str, golden: str
) -> None:
    """Two mistakes that stores make are explained so that a person sees them at once.

    Method: the first state that a level finds of each, as the kept text, word for word.
    """
    found = built().level(level)
    check(found is not None, f"{level} is not there")
    if found is not None:
        tallies = found.run(workload, Plan(stop_at_first=True))
        tally = next(tally for tally in tallies if tally.variant == variant)
        state = found.case(workload, tally.violations[0].id)
        text = explain(state, judged(found, state), again="again")
        check_equal(text, (GOLDEN / golden).read_text("utf-8"), "explanation")


@pytest.mark.parametrize(
    ("state", "mutant", "golden"),
    [
        (
            "v1.L3.saves.weak.100.791f42bc2d11",
            "no directory fsync after the checkpoint",
            "no-directory-fsync.txt",
        ),
        ("v1.L1.saves.EIO-once.26.fsync", "fsync error swallowed", "fsync-error-swallowed.txt"),
    ],
    ids=["no directory fsync", "fsync error swallowed"],
)
@pytest.mark.normal_only
def test_explanation_of_a_bug_planted_in_lastgood_is_the_kept_one(
    state: str, mutant: str, golden: str
) -> None:
    """What the matrix found is explained with the bug in the code, call by call, alike everywhere.

    Method: the command, in a process of its own, against the kept text. Whoever changes the calls
    of a save finds the state's new name by ``mutants --json FILE``, looks at the new text, and
    keeps that.
    """
    words = [sys.executable, "-m", "fault_injection", "explain", state, "--mutant", mutant]
    ran = subprocess.run(
        words, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120
    )
    check_equal((ran.returncode, ran.stderr), (2, ""), "exit and errors")
    check_equal(ran.stdout, (GOLDEN / golden).read_text("utf-8"), "explanation")


def test_a_bug_that_is_not_known_by_name_is_not_planted(capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a name plants nothing. Method: the command, with half a name."""
    code = main(["replay", "v1.L1.saves.EIO-once.26.fsync", "--mutant", "fsync"])
    told = capsys.readouterr().err
    check_equal(code, 1, "exit")
    check("no planted bug is called 'fsync'" in told, told)
