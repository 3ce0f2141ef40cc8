"""What documents quote comes from reports alone, and only from good ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.injection.quote import BEGIN, END, last_run, placed, quoted
from tests.support.check import check, check_equal

TOTALS = {
    "workloads": 2, "points": 9, "raw": 20, "distinct": 1234, "whole": 34, "recovered": 1234,
    "violations": 0, "exhaustive": False, "seconds": 1.5,
}  # fmt: skip
RUN: dict[str, Any] = {
    "outcome": "recovered",
    "command": "python -m fault_injection run",
    "machine": {"lastgood": "1", "python": "3", "kernel": "Linux 6", "architecture": "x"},
    "totals": {"L1": TOTALS, "L2": TOTALS, "L3": TOTALS, "L5": TOTALS},
}
OUTCOMES = ["killed"] * 60 + ["survived", "equivalent", "later", "later"]
MUTANTS = {"matrix": {"mutants": [{"outcome": outcome} for outcome in OUTCOMES]}}


def test_paragraph_makes_the_claim_and_nothing_stronger() -> None:
    """Violations, states, models, workloads, kernel and mutation score are named together."""
    text = quoted(last_run(RUN, MUTANTS))
    for part in (
        "0 violations in 4,936 distinct states of 2 workloads, and 60 of 61 planted bugs found "
        "where they must be:\n",
        "| L3 | power lost, models `weak`, `alice`, `posix`, `journal`; writes torn at blocks of "
        "4 KiB | 1,234 | 34 | 0 |\n",
        "| L2 | a real process struck at its system calls, Linux 6, x | 1,234 | 34 | 0 |\n",
        "again: `python -m fault_injection run`.\n",
    ):
        check(part in text, f"{part!r} is not in\n{text}")


@pytest.mark.parametrize("outcome", ["violations", "incomplete", "bad workload"])
def test_run_that_did_not_go_well_is_not_quoted(outcome: str) -> None:
    """Numbers of a run that was broken off are no claim. Method: each other outcome."""
    with pytest.raises(ValueError, match="nothing to quote"):
        last_run({**RUN, "outcome": outcome}, MUTANTS)


def test_paragraph_is_put_into_its_place_and_nowhere_else() -> None:
    """The rest of a document is not touched. Method: once, twice the same, and without a place."""
    document = f"before\n{BEGIN}old\n{END}after\n"
    once = placed(document, "new\n")
    check_equal(once, f"before\n{BEGIN}new\n{END}after\n", "document")
    check_equal(placed(once, "new\n"), once, "again")
    for bad in ("none\n", f"{BEGIN}\n", document + document):
        with pytest.raises(ValueError, match="no place"):
            placed(bad, "new\n")
