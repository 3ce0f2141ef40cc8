"""The numbers that documents quote: kept in ``last_run.json``, written into ``README.md``.

``make crash-quote`` runs the levels and the planted bugs, and then this with what they reported.
``test_ci_budget.py`` compares both files with a run of its own.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from fault_injection.power.rules import MODELS

TOP: Final = Path(__file__).resolve().parents[2]
LAST_RUN: Final = TOP / "fault_injection" / "last_run.json"
README: Final = TOP / "README.md"
BEGIN: Final = "<!-- the last run: written by make crash-quote -->\n"
END: Final = "<!-- end of the last run -->\n"
NUMBERS: Final = ("workloads", "points", "raw", "distinct", "whole", "recovered", "violations")
"""Of each level; never seconds."""
EVERYWHERE_THE_SAME: Final = ("L1", "L3", "L5")
"""Levels whose numbers do not depend on the machine; L2 counts what a kernel is asked."""

UNPLANTED: Final = ("equivalent", "later")
"""Mistakes of the list that are not planted, with the reason; the score leaves them out."""

_UNDER: Final = {
    "L1": "each file-system call failing, once, for ever, or with the whole disk",
    "L2": "a real process struck at its system calls, {kernel}, {architecture}",
    "L3": "power lost, models {models}; writes torn at blocks of 4 KiB",
    "L5": "bytes and files changed, deleted, swapped, put back",
}


def last_run(run: dict[str, Any], mutants: dict[str, Any]) -> dict[str, Any]:
    """What is kept of two reports.

    Args:
        run: The document of ``run --json``.
        mutants: The document of ``mutants --json``.

    Raises:
        ValueError: The run was not complete, or not all of it was as it must be.
    """
    if run["outcome"] != "recovered":
        raise ValueError(f"the run is {run['outcome']}: nothing to quote")
    outcomes = [mutant["outcome"] for mutant in mutants["matrix"]["mutants"]]
    return {
        "last_run": 1,
        "command": run["command"],
        "machine": run["machine"],
        "levels": {
            level: {name: totals[name] for name in NUMBERS}
            for level, totals in run["totals"].items()
        },
        "mutants": {
            "planted": len(outcomes) - sum(map(outcomes.count, UNPLANTED)),
            "killed": outcomes.count("killed"),
            **{name: outcomes.count(name) for name in UNPLANTED},
        },
    }


def quoted(last: dict[str, Any]) -> str:
    """The paragraph of ``README.md``: the claim, and nothing stronger."""
    levels, mutants = last["levels"], last["mutants"]
    states = sum(level["distinct"] for level in levels.values())
    violations = sum(level["violations"] for level in levels.values())
    workloads = max(level["workloads"] for level in levels.values())
    facts = {**last["machine"], "models": ", ".join(f"`{model.name}`" for model in MODELS)}
    rows = "".join(
        f"| {name} | {_UNDER[name].format(**facts)} | {level['distinct']:,} | {level['whole']:,} "
        f"| {level['violations']} |\n"
        for name, level in levels.items()
    )
    return (
        f"{violations} violations in {states:,} distinct states of {workloads} workloads, and "
        f"{mutants['killed']} of {mutants['planted']} planted bugs found where they must be:\n\n"
        "| level | under | distinct states | of them where every state was tried | violations |\n"
        "|---|---|---|---|---|\n"
        f"{rows}\n"
        f"lastgood {facts['lastgood']}, Python {facts['python']}, {facts['kernel']}, "
        f"{facts['architecture']}; again: `{last['command']}`.\n"
    )


def placed(document: str, paragraph: str) -> str:
    """``document`` with ``paragraph`` in its place.

    Raises:
        ValueError: It has no such place, or two.
    """
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after:
        raise ValueError("the document has no place for the last run, or two")
    return f"{before}{BEGIN}{paragraph}{END}{after}"


def main(run: str, mutants: str) -> None:
    """Keep two reports, and quote them."""
    documents = [json.loads(Path(path).read_text("utf-8")) for path in (run, mutants)]
    last = last_run(*documents)
    LAST_RUN.write_text(json.dumps(last, indent=1) + "\n", encoding="utf-8")
    text = placed(README.read_text("utf-8"), quoted(last))
    README.write_text(text, encoding="utf-8")
    print(quoted(last), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
