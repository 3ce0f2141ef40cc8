"""Mutants: the oracles of sessions can fail, each on the mistake that it is there for."""

from __future__ import annotations

import pytest

from lastgood import LastgoodError
from tests.crash.session_mutants import MUTANTS, Mutant
from tests.crash.sessions import Sessions
from tests.support.check import check_equal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.mistake.replace(" ", "_"))
def test_planted_bug_is_killed_by_its_oracle(sessions: Sessions, mutant: Mutant) -> None:
    """Crash testing 5: each mistake makes its oracle fail, which passes without it.

    Method: the oracle, then the oracle with the patch, which must raise.
    """
    mutant.oracle(sessions)
    with mutant.planted(), pytest.raises((AssertionError, LastgoodError)) as failure:
        mutant.oracle(sessions)
    print(f"{mutant.mistake}: {type(failure.value).__name__}: {str(failure.value)[:200]}")


def test_mutants_have_names_of_their_own() -> None:
    """Each mistake is planted once.

    Method: the names.
    """
    mistakes = [mutant.mistake for mutant in MUTANTS]
    check_equal(len(set(mistakes)), len(mistakes), "mistakes")
