"""The matrix of planted bugs: which level finds which, and whether each is found where it must be.

``run`` plants each mutant in a process of its own, looks for it at the levels that it is declared
for, and then makes the very runs that found it once more without a patch, each of them once: what
is found there, too, proves nothing. It returns a ``Matrix``::

    matrix.verdicts    one for each mutant of the catalogue, in its order
    matrix.score       killed / (all − equivalent − later)
    matrix.exit_code   0: each was found where it must be; 2: one was not; 3: one was not run
    matrix.as_text()   a table: name, L1 L2 L3 L5 T (x: found, !: missed), by which judgement …
    matrix.as_document()  the same as plain JSON data

Every level that a mutant is declared for must find it, whatever another one finds. In the budget
``exhaustive`` the other levels are asked as well, though each tries no more than in ``ci``. A
mutant that was found before and is not any more is a survivor like the rest, because what finds it
is part of its declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal

from fault_injection import pool
from fault_injection.level import Plan
from fault_injection.levels.registry import Registry, built
from fault_injection.planted_bugs import catalogue, trial
from fault_injection.planted_bugs.mutant import Mutant, Unplanted, Where
from fault_injection.planted_bugs.trial import Death, Trial
from fault_injection.pool import Ended

LEVELS: Final[tuple[Where, ...]] = ("L1", "L2", "L3", "L5", "T")
LIMITS_S: Final = {"ci": 120.0, "exhaustive": 1800.0}
"""What one mutant may take, by budget: it ends one that hangs, not one on a busy machine."""
EXIT_SURVIVORS: Final = 2
EXIT_NOT_RUN: Final = 3

Outcome = Literal[
    "killed", "survived", "equivalent", "later",
    "not planted", "broken patch", "not proven", "not run",
]  # fmt: skip
"""``not planted``: the wrong code was never entered; ``broken patch``: it fails as no mistake of a
store does; ``not proven``: the same run without it is not clean either;
``not run``: only a test of the clone can find it, and there is none here."""
_FINE: Final = ("killed", "equivalent", "later")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one mistake of the list.

    Attributes:
        name: The mistake.
        mistake: What the patched code does, or why it is not planted.
        outcome: In a word or two.
        deaths: Where it was found, by level.
        missed: Declared levels that were asked and did not find it; one is enough to survive.
        why: Of what is not fine, for people.
        seconds: Of a processor.
    """

    name: str
    mistake: str
    outcome: Outcome
    deaths: dict[Where, Death] = field(default_factory=dict)
    missed: tuple[Where, ...] = ()
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """What became of all.

    Attributes:
        verdicts: In the order of the catalogue.
        plan: How much was tried.
        seconds: Of a processor, the runs without a patch included.
    """

    verdicts: tuple[Verdict, ...]
    plan: Plan
    seconds: float

    @property
    def score(self) -> float:
        """Killed / (all − equivalent − later)."""
        planted = [v for v in self.verdicts if v.outcome not in ("equivalent", "later")]
        killed = [v for v in planted if v.outcome == "killed"]
        return len(killed) / len(planted) if planted else 1.0

    @property
    def exit_code(self) -> int:
        """0; 2 if anything was not found where it must be, or 3 if that alone was not run."""
        bad = {verdict.outcome for verdict in self.verdicts} - set(_FINE)
        if bad == {"not run"}:
            return EXIT_NOT_RUN
        return EXIT_SURVIVORS if bad else 0

    def as_text(self) -> str:
        """The table, for people."""
        return "\n".join(_lines(self)) + "\n"

    def as_document(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "budget": self.plan.budget,
            "seed": self.plan.seed,
            "score": round(self.score, 4),
            "seconds": round(self.seconds, 1),
            "mutants": [
                {
                    "name": v.name,
                    "mistake": v.mistake,
                    "outcome": v.outcome,
                    "killed_by": {
                        where: {"oracle": d.oracle, "workload": d.workload, "state": d.state}
                        for where, d in v.deaths.items()
                    },
                    "missed": list(v.missed),
                    "why": v.why,
                    "seconds": round(v.seconds, 1),
                }
                for v in self.verdicts
            ],
        }


def run(
    plan: Plan | None = None,
    *,
    workers: int = 2,
    registry: Registry | None = None,
    mutants: Sequence[Mutant] = catalogue.MUTANTS,
    unplanted: Sequence[Unplanted] = catalogue.UNPLANTED,
    say: Callable[[Verdict], object] = lambda verdict: None,
) -> Matrix:
    """Try every mutant.

    Args:
        plan: How much to try; None: what every change can wait for.
        workers: How many processes at a time.
        registry: Levels and workloads; None: those of this harness.
        mutants: What is planted.
        unplanted: What is listed and not planted.
        say: Is given each verdict as soon as it stands.
    """
    plan = plan or Plan()
    registry = registry or built()
    limit_s = LIMITS_S[plan.budget]
    everywhere = plan.budget == "exhaustive"
    each = replace(plan, budget="ci")
    tasks = [partial(trial.tried, m, registry, each, everywhere=everywhere) for m in mutants]
    found: dict[int, Ended[Trial]] = dict(pool.ended(tasks, workers=workers, limit_s=limit_s))
    trials = [found[at] for at in range(len(mutants))]
    clean, seconds = _clean(trials, registry, each, workers=workers)
    verdicts = [_verdict(m, one, clean) for m, one in zip(mutants, trials, strict=True)]
    verdicts += [Verdict(name=u.name, mistake=u.reason, outcome=u.standing) for u in unplanted]
    for verdict in verdicts:
        say(verdict)
    seconds += sum(one.seconds for one in trials)
    return Matrix(verdicts=tuple(verdicts), plan=plan, seconds=seconds)


_Run = tuple[Where, str]
"""A level and a workload, or ``T`` and a test."""


def _clean(
    trials: Sequence[Ended[Trial]], registry: Registry, plan: Plan, *, workers: int
) -> tuple[dict[_Run, str], float]:
    """What the runs that found a mutant find without one, and what they took."""
    variants: dict[_Run, list[str]] = {}
    for one in trials:
        for death in one.value.deaths.values() if one.value else ():
            variants.setdefault((death.where, death.workload), []).append(death.variant)
    runs = list(variants)
    tasks = [partial(trial.sound, *one, sorted(variants[one]), registry, plan) for one in runs]
    clean: dict[_Run, str] = {}
    seconds = 0.0
    for at, ended in pool.ended(tasks, workers=workers, limit_s=LIMITS_S["exhaustive"]):
        clean[runs[at]] = ended.failure if ended.value is None else ended.value
        seconds += ended.seconds
    return clean, seconds


def _verdict(mutant: Mutant, ended: Ended[Trial], clean: dict[_Run, str]) -> Verdict:
    one = ended.value
    deaths = {} if one is None else dict(sorted(one.deaths.items()))
    missed = () if one is None else tuple(one.missed)
    outcome: Outcome = "killed"
    why = ""
    doubts = [clean[d.where, d.workload] for d in deaths.values() if clean[d.where, d.workload]]
    if one is None:
        outcome, why = "survived", ended.failure
    elif one.broken:
        outcome, why = "broken patch", one.broken
    elif one.not_run and not missed:
        outcome, why = "not run", one.not_run
    elif not one.calls:
        outcome, why = "not planted", "the wrong code was never entered"
    elif missed:
        seen = "; ".join(one.elsewhere[:3]) or "nothing was found"
        outcome, why = "survived", f"by {', '.join(missed)}: {seen}"
    elif doubts:
        outcome, why = "not proven", f"without the patch: {doubts[0]}"
    return Verdict(
        name=mutant.name,
        mistake=mutant.mistake,
        outcome=outcome,
        deaths=deaths,
        missed=missed,
        why=why,
        seconds=ended.seconds,
    )


# --- the table ----------------------------------------------------------------------------


def _lines(matrix: Matrix) -> Iterator[str]:
    width = max(len(v.name) for v in matrix.verdicts)
    heads = "".join(f"{level:>4}" for level in LEVELS)
    yield f"{'planted bug':<{width}} {heads}  {'killed by':<34}{'seconds':>8}"
    yield "-" * (width + 65)
    for v in matrix.verdicts:
        cells = "".join(f"{_cell(v, level):>4}" for level in LEVELS)
        death = next(iter(v.deaths.values()), None)
        by = v.outcome if death is None else f"{death.oracle}, {_short(death)}"
        yield f"{v.name:<{width}} {cells}  {by[:33]:<34}{v.seconds:>8.1f}"
    for v in matrix.verdicts:
        if v.outcome not in _FINE:
            yield f"{v.outcome.upper()}: {v.name} ({v.mistake}): {v.why}"
    for v in matrix.verdicts:
        if v.outcome in ("equivalent", "later"):
            yield f"{v.outcome}: {v.name}: {v.mistake}"
    count = sum(v.outcome == "killed" for v in matrix.verdicts)
    asked = sum(v.outcome not in ("equivalent", "later") for v in matrix.verdicts)
    left_out = sum(v.outcome == "not run" for v in matrix.verdicts)
    killed = f"{count} of {asked} killed" + (f", {left_out} not run" if left_out else "")
    yield f"{killed}, score {matrix.score:.3f}, {matrix.seconds:.0f} s"


def _cell(verdict: Verdict, level: Where) -> str:
    if level in verdict.missed:
        return "!"
    return "x" if level in verdict.deaths else "."


def _short(death: Death) -> str:
    if death.where != "T":
        return death.workload
    return death.workload.rpartition("::")[2].rpartition("[")[2].rstrip("]")
