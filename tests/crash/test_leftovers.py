"""What a session leaves behind does not grow: not by saves, and not by deaths."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash.scenes import believed, check_recovers, checkpoint, files, latest, writer
from tests.crash.seam import Killed, Mortal
from tests.support.check import check_equal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_only,
    # A generator that the dead process leaves behind is closed by the interpreter, in vain.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

SEED = 20261201
SETTLED = 7
"""session.json, lock, pointer, two revisions, two checkpoints."""


def test_a_thousand_saves_leave_two_generations(fast: Path) -> None:
    """S9, I4: the number of files is the same after every save but the first ones.

    Method: save a thousand times and count the files after each.
    """
    with writer(fast) as store:
        for sequence in range(1, 1001):
            receipt = store.save(checkpoint(sequence))
            check_equal(receipt.warnings, (), f"warnings at {sequence}")
            if sequence > 1:
                check_equal(len(files(fast)), SETTLED, f"files after save {sequence}")
    check_recovers(fast, [(1000, "owner")], "after a thousand saves")


@pytest.mark.timeout(300)
def test_two_hundred_deaths_leave_nothing_that_grows(fast: Path) -> None:
    """G2, F10: each recovery finishes or sweeps what the death before it left.

    Method: die at a random call of opening and saving, recover, save; two hundred times.
    """
    chance = random.Random(SEED)
    print(f"seed {SEED}")
    for turn in range(200):
        mortal = Mortal(chance.randrange(200), chance.choice(["before", "after"]))
        with suppress(Killed):
            store = writer(fast, mortal)
            sequence = believed(store.load_latest())[0]
            for step in (1, 2, 3):
                store.save(checkpoint(sequence + step))
            store.close()
        with writer(fast) as store:
            sequence = believed(store.load_latest())[0]
            for step in (1, 2):
                store.save(checkpoint(sequence + step))
        check_equal(len(files(fast)), SETTLED, f"files after recovery {turn}: {files(fast)}")
    check_recovers(fast, [latest(fast)], "after two hundred deaths")
