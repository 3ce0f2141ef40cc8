"""What the command line tells of losses and of limits, as a person who mends a store reads it.

Method of most: a session whose records are deleted or damaged, or that was made with higher
limits than the library's own; what is answered is compared with what is true of it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

import pytest

import lastgood
from lastgood import Limits
from lastgood.cli.main import main
from tests.crash.scenes import clone
from tests.sessions import repaired
from tests.support.check import check, check_equal

# --- revisions that are lost, and how the loss is told ------------------------------------

POINTER: Final = ("repair", repaired.SESSION, "--pointer", "--reason", repaired.REASON)


def mended_for_people(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What ``--pointer`` says to a person."""
    words = ("--root", str(root), "--keys", str(root.with_name("keys.json")))
    check_equal(main([*POINTER, *words]), 0, "the exit code")
    return capsys.readouterr().out


@pytest.mark.parametrize("log", ["log", "no log"])
def test_lost_revisions_are_told_as_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str
) -> None:
    """G4: whoever lost the newest revisions is never told that nothing is missing.

    Method: pointer, newest number and newest checkpoint deleted, in a session with and without a
    log; the answer as a document and as text.
    """
    root = tmp_path / "store"
    if log == "log":
        repaired.make(root, milestone=None)
    else:
        repaired.make_checkpoints(root)
    repaired.pointer(root).unlink()
    repaired.manifests(root)[-1].unlink()
    repaired.checkpoints(root)[-1].unlink()
    other = tmp_path / "text" / "store"
    other.parent.mkdir()
    clone(root, other)
    ran = repaired.run(root, *POINTER)
    check_equal(ran.code, 0, ran.said)
    missing = ran.document["missing"]
    for word in ("revision above", "checkpoints are gone", "receipt kept elsewhere"):
        check(word in (missing or ""), f"{word!r} is not in {missing!r}")
    check_equal("events, too" in missing, log == "log", f"{missing!r}")
    shutil.copy2(tmp_path / "keys.json", other.parent)
    said = mended_for_people(other, capsys)
    check("whatever a revision above" in said, said)
    check("nothing that was acknowledged" not in said, said)


def test_damage_below_a_sound_pointer_costs_nothing_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """G4: where the pointer is sound and only the revision before it is bad, nothing is missing."""
    for number, form in enumerate(("document", "text")):
        root = tmp_path / f"{number}" / "store"
        root.parent.mkdir()
        repaired.make(root, milestone=None)
        known = repaired.undamaged(root, tmp_path / "aside")
        repaired.zero(repaired.alone(repaired.manifests(root)[-2]))
        if form == "document":
            ran = repaired.run(root, *POINTER)
            check_equal((ran.code, ran.document["missing"]), (0, None), f"{ran}")
        else:
            repaired.KEYS.write_new(root.with_name("keys.json"))
            check("nothing that was acknowledged" in mended_for_people(root, capsys), "the text")
        repaired.check_works(root, known, context=form)


def test_epochs_after_lost_revisions_are_none_that_was_given_out(tmp_path: Path) -> None:
    """T11: a fencing token that services know of is never given out again by a repaired session.

    Method: twenty openings after a copy; the copy, without its pointer and its newest number
    damaged, is repaired in their place.
    """
    root, early = tmp_path / "store", tmp_path / "early"
    repaired.make(root, rounds=2, milestone=None)
    clone(root, early)
    given = []
    for _ in range(20):
        with repaired.opened(root) as session:
            given.append(session.fencing_token)
    repaired.pointer(early).unlink()
    repaired.zero(repaired.manifests(early)[-1])
    ran = repaired.run(early, *POINTER)
    check_equal(ran.code, 0, ran.said)
    check_equal(repaired.newest(early).epoch > max(given), True, f"the repair's, after {given}")
    with repaired.opened(early) as session:
        check(session.fencing_token > max(given), f"{session.fencing_token} after {given}")


# --- limits that the program raised -------------------------------------------------------

RAISED: Final = Limits(payload_bytes=32 * 1024 * 1024, event_bytes=8 * 1024 * 1024)
BOTH: Final = ("--raise-limit", "payload_bytes=33554432", "--raise-limit", "event_bytes=8388608")


@pytest.fixture(scope="module")
def raised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sound store with an event and a checkpoint that the library's own limits refuse."""
    root = tmp_path_factory.mktemp("raised") / "store"
    store = lastgood.open_store(root, keys=repaired.KEYS, limits=RAISED)
    with store.session(repaired.SESSION, **repaired.PROGRAM) as session:
        for number in range(3):
            session.append("put", {"item": f"{number}" * 6_000_000})
        session.save()
    return root


@pytest.mark.slow
def test_store_of_raised_limits_is_good_for_whoever_raises_them_too(raised: Path) -> None:
    """T8: what is over a limit is never read, and the advice names the limit, which makes it good.

    Method: events and a payload over the limits; verified with none, one and both of them raised.
    """
    for words in ((), BOTH[:2], BOTH[2:]):
        ran = repaired.run(raised, "verify", repaired.SESSION, *words)
        check_equal(ran.code, 2, f"{words}: {ran.said}")
        check("--raise-limit" in f"{ran.document}", f"{words}: no advice in {ran.document}")
    for verb in ("verify", "list", "load"):
        ran = repaired.run(raised, verb, repaired.SESSION, *BOTH)
        check_equal(ran.code, 0, f"{verb}: {ran.said}")


@pytest.mark.parametrize(
    "value",
    [
        "", "payload_bytes", "payload_bytes=", "payload=1", "lock_wait_s=1", "payload_bytes=0",
        "payload_bytes=-1", "payload_bytes=1e9", "payload_bytes=10000000000000000",
        "event_bytes=4095", "header_bytes=16384", "payload_bytes=\u0663", "\u202e=1", "a=\x1b[2J",
    ],
    ids=ascii,
)  # fmt: skip
def test_limit_that_is_none_or_out_of_range_is_a_wrong_call(tmp_path: Path, value: str) -> None:
    """T8, T12: a limit that was not understood is never the default; it is repeated escaped."""
    root = tmp_path / "store"
    repaired.make(root, rounds=1)
    ran = repaired.run(root, "verify", repaired.SESSION, "--raise-limit", value)
    check_equal(ran.code, 1, ran.said)
    raw = [one for one in ran.said if not one.isprintable() and one != "\n"]
    check_equal(raw, [], f"raw characters in {ran.said!r}")
