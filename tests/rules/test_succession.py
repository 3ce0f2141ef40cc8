"""May this checkpoint follow the current one: the whole table (I3, I5, I6)."""

from __future__ import annotations

import itertools
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import (
    ConflictError,
    FingerprintLossError,
    LastgoodError,
    SequenceConflictError,
)
from lastgood.rules.succession import succeed
from tests.support.check import check, check_equal

SAME: Final = "aa" * 32
OTHER: Final = "bb" * 32
CURRENT: Final = frozenset({"f1", "f2"})

SETS: Final = {
    "none": frozenset(),
    "fewer": frozenset({"f1"}),
    "same": CURRENT,
    "more": CURRENT | {"f3"},
    "others": frozenset({"f1", "f3"}),
}


def judged(sequence: int, *, sha256: str, fingerprints: frozenset[str]) -> str:
    """Against generations 10 and 20, a milestone 5, and the current one's two fingerprints."""
    try:
        return succeed(
            sequence,
            sha256=sha256,
            fingerprints=fingerprints,
            current_sequence=20,
            current_fingerprints=CURRENT,
            kept={5: SAME, 10: SAME, 20: SAME},
        )
    except LastgoodError as error:
        return type(error).__name__


def rows() -> list[tuple[int, str, str, str]]:
    table = []
    for sequence, name in itertools.product((5, 10, 20), SETS):
        table.append((sequence, SAME, name, "unchanged"))
        table.append((sequence, OTHER, name, "SequenceConflictError"))
    for sequence, sha256 in itertools.product((1, 4, 9, 11, 19), (SAME, OTHER)):
        for name in ("none", "fewer", "same"):
            table.append((sequence, sha256, name, "superseded"))
        for name in ("more", "others"):
            table.append((sequence, sha256, name, "ConflictError"))
    for sequence, sha256 in itertools.product((21, 22, 10**15), (SAME, OTHER)):
        for name in ("same", "more"):
            table.append((sequence, sha256, name, "save"))
        for name in ("none", "fewer", "others"):
            table.append((sequence, sha256, name, "FingerprintLossError"))
    return table


@pytest.mark.parametrize(("sequence", "sha256", "fingerprints", "verdict"), rows())
def test_every_row_of_the_table_gets_its_verdict(
    sequence: int, sha256: str, fingerprints: str, verdict: str
) -> None:
    """I3, I5, I6: sequence, content and fingerprints decide, and nothing else does."""
    got = judged(sequence, sha256=sha256, fingerprints=SETS[fingerprints])
    check_equal(got, verdict, f"{sequence} with {fingerprints} fingerprints")


@pytest.mark.parametrize("sequence", [1, 2, 10**15])
@pytest.mark.parametrize("name", SETS)
def test_the_first_checkpoint_of_a_session_may_be_any(sequence: int, name: str) -> None:
    """Nothing is current yet, so nothing is older and nothing is lost."""
    verdict = succeed(
        sequence,
        sha256=SAME,
        fingerprints=SETS[name],
        current_sequence=0,
        current_fingerprints=frozenset(),
        kept={},
    )
    check_equal(verdict, "save", "the verdict")


def test_the_classes_tell_an_alarm_from_a_conflict() -> None:
    """I3 is an alarm of its own, and still a conflict with exit code 7."""
    with pytest.raises(SequenceConflictError):
        succeed(
            20,
            sha256=OTHER,
            fingerprints=CURRENT,
            current_sequence=20,
            current_fingerprints=CURRENT,
            kept={20: SAME},
        )
    check_equal((SequenceConflictError.exit_code, ConflictError.exit_code), (7, 7), "exit codes")
    check_equal(FingerprintLossError.exit_code, 1, "the exit code of a lost fingerprint")


NAMES = st.frozensets(st.sampled_from("abcdef"))


@given(
    first=st.integers(1, 30),
    saves=st.lists(st.tuples(st.integers(1, 30), st.sampled_from([SAME, OTHER]), NAMES)),
)
def test_any_series_of_saves_only_ever_moves_forward(
    first: int, saves: list[tuple[int, str, frozenset[str]]]
) -> None:
    """I3, I5, I6 together: sequences rise, fingerprints grow, no content changes."""
    current, known = first, frozenset("a")
    kept = {first: SAME}
    for sequence, sha256, fingerprints in saves:
        try:
            verdict = succeed(
                sequence,
                sha256=sha256,
                fingerprints=fingerprints,
                current_sequence=current,
                current_fingerprints=known,
                kept=kept,
            )
        except LastgoodError:
            continue
        if verdict == "save":
            check(sequence > current, "I5: only a higher sequence becomes current")
            check(known <= fingerprints, "I6: no fingerprint is lost")
            kept = {current: kept[current], sequence: sha256}
            current, known = sequence, fingerprints
        elif verdict == "unchanged":
            check_equal(kept[sequence], sha256, "I3: the content that is there")
        else:
            check(fingerprints <= known, "I5: what is superseded knows nothing more")
