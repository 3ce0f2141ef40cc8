"""Deaths at every call of an effect: nothing is repeated blindly, nothing done is lost (G5).

The job pays two invoices. It dies at one call, in each way; whoever runs it again is asked only
where nobody can know. The ledger outside tells how often each was paid.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Literal

import pytest

from lastgood import Session
from lastgood.errors import EffectUndecidedError
from tests.crash.seam import WRITES, Killed, Mortal, Seam, When
from tests.effects.bench import Ledger, State, opened, pay
from tests.support.check import check, check_equal

Class = Literal["manual", "idempotent", "probe"]
KEYS = ("first", "second")


def job(root: Path, ledger: Ledger, seam: Seam | None, chosen: Class, *, saves: bool) -> None:
    """Pay both, in one opening."""
    wanted: dict[Class, Any] = {
        "manual": "manual", "idempotent": "idempotent", "probe": ledger.probe,
    }  # fmt: skip
    session: Session[State] | None = None
    try:
        session = opened(root, seam)
        for key in KEYS:
            pay(session, ledger, key, on_unknown=wanted[chosen])
            if saves:
                session.save()
        session.close()
    finally:
        if session is not None:
            session._storage.close()


def decided(root: Path, ledger: Ledger, chosen: Class) -> int:
    """Run the job until it is through, deciding by the ledger where it stops; how often it did."""
    for asked in range(len(KEYS) + 1):
        try:
            job(root, ledger, None, chosen, saves=True)
        except EffectUndecidedError as error:
            check_equal(error.exit_code, 10, "exit code")
            with opened(root) as session:
                for one in session.open_effects:
                    was_done = one.key in ledger.lines
                    session.resolve(
                        one.fingerprint,
                        "done" if was_done else "not done",
                        result=f"receipt of {one.key}" if was_done else None,
                        actor="clerk",
                        reason="the ledger says so",
                    )
        else:
            return asked
    pytest.fail("it asks again what was decided")


def dies(root: Path, at: int, when: When, chosen: Class, *, saves: bool) -> tuple[bool, int]:
    """One death, and what becomes of the job; whether it died, and how often somebody was asked."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    ledger = Ledger(root)
    died = False
    try:
        job(root, ledger, Mortal(at, when), chosen, saves=saves)
    except Killed:
        died = True
    asked = decided(root, ledger, chosen)
    with opened(root) as session:
        paid = session.state["paid"]
        check_equal(paid, [f"receipt of {key}" for key in KEYS], f"state after {when} {at}")
        check_equal(len(session.fingerprints), len(KEYS), f"done after {when} {at}")
    counts = [ledger.lines.count(key) for key in KEYS]
    if chosen == "idempotent":
        check(all(1 <= count <= 2 for count in counts), f"{counts} after {when} {at}")
        check(sum(counts) <= len(KEYS) + 1, f"one death repeats one effect at most: {counts}")
    else:
        check_equal(counts, [1] * len(KEYS), f"ledger after {when} {at}")
    return died, asked


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize(
    ("chosen", "saves"), [("manual", True), ("idempotent", False), ("probe", False)]
)
def test_death_at_any_call_repeats_nothing_without_a_decision(
    tmp_path: Path, chosen: Class, saves: bool
) -> None:
    """Killed before, after and within every call, for each class (G5, C8-01, C8-09)."""
    seam = Seam()
    root = tmp_path / "whole"
    root.mkdir()
    job(root, Ledger(root), seam, chosen, saves=saves)
    asked, deaths = 0, 0
    for at, made in enumerate(seam.made):
        ways: list[When] = ["before", "after"]
        ways += ["middle"] if made.split()[0] in WRITES else []
        for when in ways:
            died, often = dies(tmp_path / "struck", at, when, chosen, saves=saves)
            deaths, asked = deaths + died, asked + often
    check(deaths >= 2 * len(seam.made) - 2, f"{deaths} deaths at {len(seam.made)} calls")
    check((asked > 0) is (chosen == "manual"), f"{asked} times somebody was asked")
