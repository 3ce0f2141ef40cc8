"""F13: two owners, both paused: one between its confirmation and its move, one before its claim.

``races`` pauses one owner at a time. The one interleaving that needs two pauses is here: who
settles an interrupted save has confirmed that its revision is the newest, and is paused before
it moves the pointer; meanwhile another owner, who had swept before, claims and saves on.
"""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from lastgood import Checkpoint
from tests.crash.seam import Seam
from tests.security.races import told, writer
from tests.support import trees
from tests.support.check import check, check_equal

_PATIENCE_S = 30


class _Turn:
    """Lets a thread stand still at a call until it is sent on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.sent_on = threading.Event()

    def stand(self) -> None:
        """Say that it is reached, and wait."""
        self.reached.set()
        check(self.sent_on.wait(_PATIENCE_S), "nobody sent it on")

    def send_on_to(self, following: _Turn) -> None:
        """Send the thread on and wait until it stands at ``following``."""
        self.sent_on.set()
        check(following.reached.wait(_PATIENCE_S), "it never got there")


@pytest.mark.slow
@pytest.mark.timeout(90)
def test_pointer_is_not_moved_down_by_who_was_paused_after_its_confirmation(
    fast: Path,
) -> None:
    """G4, S6, R4: a claim disarms whoever confirmed before it and has not moved the pointer yet.

    Method: the pointer is one behind. The first owner stands before it holds revision 3; the
    second settles and stands before its claim; the first holds, confirms, and stands before its
    rename; the second claims, saves twice, so that number 3 is pruned, and closes; the first
    goes on. The second's last save is current, all verifies, and the session opens.
    """
    behind = trees.history()[2]
    behind["nightly/manifest.json"] = behind["nightly/manifest-000002.json"]
    place = trees.plant(behind, Path(tempfile.mkdtemp(dir=fast)))
    holding, moving = _Turn(), _Turn()
    said: list[object] = []

    def first_before(number: int, made: str) -> None:
        if made.startswith("link manifest-000003.json") and not holding.reached.is_set():
            holding.stand()
        elif made.startswith("rename") and not moving.reached.is_set():
            moving.stand()

    def second_before(number: int, made: str) -> None:
        if made.startswith("link .manifest.json") and made.endswith("manifest-000004.json"):
            holding.send_on_to(moving)

    def open_first() -> None:
        said.append(told(lambda: writer(place, Seam(before=first_before, locks="broken")).close()))

    first = threading.Thread(target=open_first)
    first.start()
    check(holding.reached.wait(_PATIENCE_S), "the first owner never got there")
    done = list(trees.checkpoint("nightly", 2).fingerprints)
    with writer(place, Seam(before=second_before, locks="broken")) as store:
        for sequence in (30, 40):
            check_equal(store.save(Checkpoint(sequence, {}, done)).status, "saved", "a save")
    moving.sent_on.set()
    first.join(_PATIENCE_S)
    check(bool(said), "the first owner never came to an end")
    check_equal(trees.read(place).loaded, Checkpoint(40, {}, tuple(done), 1), f"after {said}")
    outcome = trees.read(place)
    check_equal(outcome.report.findings if outcome.report else None, (), f"after {said}")
    again = told(lambda: writer(place, Seam(locks="broken")).close())
    check(again is None, f"it cannot be opened again: {again}")
