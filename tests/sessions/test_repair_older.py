"""``--accept-older``: a session without a log goes on from a checkpoint that is kept.

Method of all: four saves, the first a milestone; the current one damaged.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood import Checkpoint, CheckpointStore, should_replay
from tests.sessions import repaired
from tests.sessions.repaired import SESSION, checkpoints, flip, zero
from tests.support.check import check, check_equal
from tests.support.records import fingerprint


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The session, undamaged."""
    repaired.make_checkpoints(tmp_path / "store")
    return tmp_path / "store"


def words(sequence: int) -> tuple[str, ...]:
    """The repair."""
    text = ("--reason", repaired.REASON, "--actor", repaired.ACTOR)
    return ("repair", SESSION, "--accept-older", "--sequence", str(sequence), *text)


@pytest.mark.parametrize(("sequence", "number"), [(30, 3), (10, 1)], ids=["previous", "milestone"])
def test_older_checkpoint_goes_on_and_what_is_lost_is_told(
    root: Path, sequence: int, number: int
) -> None:
    """G4: its state and effects under a new, higher sequence; note and answer say the range.

    Method: the generation before, and a milestone; what was done in between is offered again.
    """
    zero(checkpoints(root)[-1])
    held = checkpoints(root)[-1].read_bytes()
    check(repaired.stop(root) is not None, "it opens")
    ran = repaired.run(root, *words(sequence))
    check_equal(ran.code, 0, ran.said)
    check(f"after sequence {sequence}, up to 40" in ran.document["missing"], f"{ran.document}")
    check_equal(ran.document["sequence"], 41, "the sequence")
    with CheckpointStore(root, SESSION, keys=repaired.KEYS, mode="read") as store:
        loaded = store.load_latest()
        if loaded is None:
            raise AssertionError("nothing is loaded")
        check_equal((loaded.sequence, loaded.state), (41, {"n": number}), "what goes on")
        known = [fingerprint(past) for past in range(1, number + 1)]
        check_equal(list(loaded.fingerprints), known, "effects")
        check(should_replay(loaded, fingerprint(4)), "an effect of the lost one is known")
    (note,) = repaired.notes(root)
    check_equal(
        (note.type, note.actor, note.reason, note.data),
        ("older-accepted", repaired.ACTOR, repaired.REASON, f"{sequence}..40"),
        "the note",
    )
    check(held in [p.read_bytes() for p in repaired.inside(root).rglob("*") if p.is_file()], "kept")
    check_equal(repaired.run(root, "verify", SESSION).code, 0, "verify")
    repaired.refused(root, words(sequence), code=1, context="again")
    with CheckpointStore(root, SESSION, keys=repaired.KEYS) as store:
        store.save(Checkpoint(50, {"n": 5}, known))
    check_equal(repaired.stop(root), None, "the next opening")
    check_equal([n.type for n in repaired.notes(root)], ["older-accepted"], "the note stays")


def test_named_command_accepts_the_generation_before(root: Path) -> None:
    """C2-01: without a log, too, the error names the one command, and it goes on."""
    flip(checkpoints(root)[-1], 300)
    found = repaired.mend(root, context="flipped")
    check_equal(found.repairs, ["accept-older"], "repairs")
    check("--sequence" in found.commands[0] and "30" in found.commands[0], f"{found.commands}")
    check(found.evidence <= repaired.contents(root), "the damaged bytes are gone")


def test_milestone_is_what_is_left_when_both_generations_are_bad(root: Path) -> None:
    """G4: the scan names the older one that verifies; a damaged one is refused."""
    zero(checkpoints(root)[-1])
    zero(checkpoints(root)[-2])
    scanned = repaired.run(root, "repair", SESSION, "--scan")
    (prospect,) = scanned.document["repairs"]
    check("--sequence 10" in prospect["command"] and prospect["succeeds"], f"{prospect}")
    repaired.refused(root, words(30), code=2, context="damaged")
    check_equal(repaired.run(root, *words(10)).code, 0, "the milestone")
    with CheckpointStore(root, SESSION, keys=repaired.KEYS, mode="read") as store:
        loaded = store.load_latest()
        check_equal(loaded and loaded.state, {"n": 1}, "the state")


@pytest.mark.parametrize(
    ("sequence", "code"), [(40, 1), (20, 1), (41, 1), (35, 1), (0, 1), (10**15 + 1, 1)]
)
def test_sequence_that_is_no_older_checkpoint_is_refused(
    root: Path, sequence: int, code: int
) -> None:
    """G4: the damaged one itself, one that was pruned, and none at all change nothing."""
    zero(checkpoints(root)[-1])
    repaired.refused(root, words(sequence), code=code, context=f"sequence {sequence}")


def test_nothing_is_accepted_where_nothing_is_damaged(root: Path) -> None:
    """G4: a sound session is never put back; and only what is for it can be asked of it."""
    repaired.refused(root, words(30), code=1, context="sound")
    for option, code in (("--pointer", 1), ("--tail", 9), ("--approve-rebuild", 9)):
        asked = ("repair", SESSION, option, "--reason", repaired.REASON)
        repaired.refused(root, asked, code=code, context=option)


def test_session_with_a_log_accepts_no_older_checkpoint(tmp_path: Path) -> None:
    """G4: its log knows what came after; the refusal names the rebuild."""
    repaired.make(tmp_path / "store", rounds=2)
    zero(checkpoints(tmp_path / "store")[-1])
    said = repaired.refused(tmp_path / "store", words(7), code=9, context="with a log")
    check("--rebuild-from-log" in said, said)
