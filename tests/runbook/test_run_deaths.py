"""Deaths of a run: whatever kills it, each step is done once, or asked about.

In this process at every call of the store, and by SIGKILL of the real command at random instants.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final, Literal

import pytest

from lastgood.errors import EffectUndecidedError
from tests.cli.commands import Place, new_place
from tests.crash.seam import WRITES, Killed, Mortal, Seam, When, system
from tests.runbook.bench import PROBE, WRITE, Bench, step
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

Class = Literal["manual", "idempotent", "probe"]
MORE: Final[dict[Class, list[str]]] = {
    "manual": [], "idempotent": ['effect = "idempotent"'], "probe": [PROBE],
}  # fmt: skip
STEPS: Final = ("first", "second")
KILLS: Final = 20


def carry_through(bench: Bench, text: list[str]) -> int:
    """Run it until it is through, deciding by the ledger where it asks; how often it did."""
    for asked in range(len(text) + 1):
        try:
            happened = bench.run(bench.plan(*text))
        except EffectUndecidedError:
            check_equal(bench.resolve(bench.by_ledger), 1, "questions")
        else:
            check_equal(len(happened), len(text), "steps")
            return asked
    pytest.fail("it asks again what was decided")


def dies(top: Path, at: int, when: When, text: list[str]) -> Bench:
    """A run that dies at a call, in that way."""
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    bench = Bench(top)
    try:
        bench.run(bench.plan(*text), filesystem=system(Mortal(at, when)))
    except Killed:
        pass
    return bench


@pytest.mark.parametrize("chosen", ["manual", "idempotent", "probe"])
def test_death_at_any_call_of_the_store_repeats_no_step_without_a_decision(
    tmp_path: Path, chosen: Class
) -> None:
    """Before the intent, while it runs, before its done, behind it: the rows of ``effect.py``."""
    text = [step(name, *MORE[chosen]) for name in STEPS]
    whole, seam = Bench(tmp_path / "whole"), Seam()
    whole.top.mkdir()
    whole.run(whole.plan(*text), filesystem=system(seam))
    asked = 0
    for at, made in enumerate(seam.made):
        ways: list[When] = ["after", *(("middle",) if made.split()[0] in WRITES else ())]
        for when in ways:
            bench = dies(tmp_path / "struck", at, when, text)
            asked += carry_through(bench, text)
            counts = [bench.ledger.count(name) for name in STEPS]
            if chosen == "idempotent":
                check(all(counts) and sum(counts) <= len(STEPS) + 1, f"{counts} after {when} {at}")
            else:
                check_equal(counts, [1] * len(STEPS), f"ledger after {when} {at}: {made}")
    check((asked > 0) is (chosen == "manual"), f"{asked} times somebody was asked")


# --- SIGKILL -----------------------------------------------------------------------------------


def slow_plan(place: Place, chance: random.Random) -> list[str]:
    """A plan of manual steps and of steps with a probe, each of which takes a moment; their ids."""
    names = [f"step {number} ☃" for number in range(8)]
    text = ["name = 'move'"]
    for number, name in enumerate(names):
        script = (
            f"sleep {chance.uniform(0, 0.06):.3f}; {WRITE}; sleep {chance.uniform(0, 0.06):.3f}"
        )
        text.append(step(name, *([PROBE] if number % 2 else []), script=script))
    (place.top / "plan.toml").write_text("\n".join(text), encoding="utf-8")
    return names


def decided(place: Place, ledger: Path) -> int:
    """Decide by the ledger what is open, as a person does; returns how many there were."""
    found = place.run("effects", "list", "move", "--json")
    undecided = found.document["undecided"] if found.code == 0 else []
    for one in undecided:
        done = ledger.exists() and one["key"] in ledger.read_text("utf-8").split("\n")
        words = ["--done", "null"] if done else ["--not-done"]
        place.run("effects", "resolve", "move", one["fingerprint"], *words, "--reason", "x").left(0)
    return len(undecided)


def killed(place: Place, *, wait_s: float) -> bool:
    """A life of the real command, ended by SIGKILL so long after it came alive; whether it was."""
    before = sorted(place.root.glob("*/events-*"))
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = place.start("run", "plan.toml", **quiet)
    while process.poll() is None and sorted(place.root.glob("*/events-*")) == before:
        time.sleep(0.005)
    time.sleep(wait_s)
    process.kill()
    return process.wait() < 0


@pytest.mark.crash
def test_each_step_of_a_run_that_is_killed_twenty_times_is_done_exactly_once(
    tmp_path: Path,
) -> None:
    """SIGKILL of the real command at random instants, decisions by the ledger: one line a step.

    Method: plans until there were twenty kills; a step that outlives its run is waited for by the
    next one. A failure prints the seed.
    """
    seed = int(os.environ.get("LASTGOOD_SEED") or random.SystemRandom().randrange(10**9))
    print(f"LASTGOOD_SEED={seed}")
    chance = random.Random(seed)
    kills = asked = round_ = 0
    while kills < KILLS:
        round_ += 1
        (tmp_path / str(round_)).mkdir()
        place = new_place(tmp_path / str(round_))
        names = slow_plan(place, chance)
        ledger = place.top / "ledger"
        while True:
            if killed(place, wait_s=chance.uniform(0, 0.5)):
                kills += 1
            ran = place.run("run", "plan.toml", "--json") if chance.random() < 0.3 else None
            if ran is not None:
                check(ran.code in (0, 10), f"LASTGOOD_SEED={seed}: {ran.said}")
                if ran.code == 0:
                    break
                asked += decided(place, ledger)
        lines = ledger.read_text("utf-8").split("\n")[:-1]
        check_equal(sorted(lines), sorted(names), f"LASTGOOD_SEED={seed}, plan {round_}: ledger")
        place.run("verify", "move").left(0)
    print(f"{kills} kills of {round_} plans, {asked} questions")
    check(asked > 0, "nobody was ever asked: the kills do not strike")
