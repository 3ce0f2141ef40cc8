"""The explanation of one state: complete, stable, and safe to look at."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fault_injection.explain import explain, judged
from fault_injection.level import Plan
from fault_injection.levels.registry import built
from fault_injection.workload import Workload
from tests.injection.bad_notes import DEAF, FORGETFUL
from tests.injection.toys import Toy, ToyLevel, case
from tests.support.check import check, check_equal

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
