"""Mutants: the oracles of this room can fail, each on the mistake that it is there for."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from tests.security.mutants import MUTANTS, Mutant, Oracle
from tests.support.check import check, check_equal


@functools.cache
def _passes(oracle: Oracle, base: Path) -> bool:
    """Whether an oracle passes without a mutant; asked once."""
    oracle(base)
    return True


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake.replace(" ", "_"))
def test_planted_bug_is_killed_by_its_oracle(fast: Path, mutant: Mutant) -> None:
    """Crash testing 5: each mistake makes its oracle fail, which passes without it.

    Method: the oracle, then the oracle with the patch, which must raise ``AssertionError``.
    """
    check(_passes(mutant.oracle, fast), "the oracle passes without the mutant")
    with mutant.planted(), pytest.raises(AssertionError) as failure:
        mutant.oracle(fast)
    print(f"{mutant.mistake}: {str(failure.value)[:200]}")


def test_mutants_have_names_of_their_own() -> None:
    """Each mistake is planted once.

    Method: the names.
    """
    mistakes = [mutant.mistake for mutant in MUTANTS]
    check_equal(len(set(mistakes)), len(mistakes), "mistakes listed twice")
