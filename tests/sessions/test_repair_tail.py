"""``--tail``: the log ends before its damaged end; what lies behind that is kept, never believed.

Method of all: an owner that saved nothing appended six events into a segment of its own, above
every anchor; one of its lines is damaged, and the repair run as the error names it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.crash.scenes import clone
from tests.crash.seam import Killed, Mortal
from tests.sessions import repaired
from tests.sessions.repaired import SESSION, Known, add, cut, flip, segments, zero
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

LATE: Final = ("e", "f", "g", "h", "i", "j")
TAIL: Final = ("repair", SESSION, "--tail", "--reason", repaired.REASON)


def late(root: Path, *, ends: str) -> None:
    """One more owner, that appends and saves nothing; closed, or dead before it could."""
    if ends == "closed":
        with repaired.opened(root) as session:
            add(session, *LATE)
        return
    mortal = Mortal()
    with suppress(Killed):
        session = repaired.opened(root, mortal)
        add(session, *LATE)
        mortal.begin()
        mortal.at = 0
        session.close()
    check(mortal.is_dead, "it lives")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The session, its last owner closed or dead."""
    base = tmp_path_factory.mktemp("tail")
    for ends in ("closed", "dead"):
        repaired.make(base / ends, rounds=2, milestone=None)
        late(base / ends, ends=ends)
    return {ends: base / ends for ends in ("closed", "dead")}


def told_items(path: Path) -> list[str]:
    """The item of each line of a segment; empty for lines of ours."""
    lines = path.read_bytes().rstrip(b"\0").split(b"\n")[:-1]
    events: list[Any] = [json.loads(line)["e"] for line in lines]
    return [e["data"]["item"] if e["type"] == "put" else "" for e in events]


def items(known: Known) -> list[str]:
    """The items of a state."""
    found: list[str] = json.loads(known.state)["items"]
    return found


@pytest.mark.parametrize("ends", ["closed", "dead"])
def test_flipped_line_above_every_anchor_ends_the_log_before_it(
    scenes: dict[str, Path], tmp_path: Path, ends: str
) -> None:
    """C1-09, G3: each line in turn: what is before it goes on, what is behind it never comes back.

    Method: flip a byte of each line of the last owner's segment; afterwards append, save, reopen.
    """
    source = scenes[ends]
    whole = repaired.undamaged(source, tmp_path / "aside")
    segment = segments(source)[-1].name
    lines = told_items(segments(source)[-1])
    starts = repaired.line_starts(segments(source)[-1])
    for number in range(len(lines)):
        root = tmp_path / f"{number}" / "store"
        root.parent.mkdir()
        clone(source, root)
        path = repaired.inside(root) / segment
        flip(path, starts[number] + 200)
        held = path.read_bytes()
        context = f"{ends}: line {number + 1}"
        gone = [item for item in lines[number:] if item]
        found = repaired.mend(root, context=context)
        check_equal(found.repairs, ["tail"], context)
        behind = f"{len(lines) - number - 1} records"
        check(behind in found.answers[0]["missing"], f"{context}: {found.answers[0]['missing']}")
        with repaired.opened(root) as session:
            now = Known.of(session)
        check_equal(items(now), [i for i in items(whole) if i not in gone], f"{context}: state")
        repaired.check_recorded(root, found, context=context)
        repaired.refused(root, TAIL, code=1, context=f"{context}: again")
        repaired.check_works(root, now, context=context)
        kept = [p for p in repaired.inside(root).rglob(f"*{segment}") if p.read_bytes() == held]
        check(kept or path.exists(), f"{context}: the damaged bytes are gone")
        check(kept or path.read_bytes().rstrip(b"\0") == held.rstrip(b"\0"), f"{context}: bytes")


def test_shortened_segment_ends_the_log_where_it_was_cut(
    scenes: dict[str, Path], tmp_path: Path
) -> None:
    """C1-01 (b): a file that was shortened above every anchor, between lines and within them."""
    source = scenes["dead"]
    whole = repaired.undamaged(source, tmp_path / "aside")
    starts = repaired.line_starts(segments(source)[-1])
    lines = told_items(segments(source)[-1])
    for number in range(1, len(lines)):
        for more in (0, 1, 150):
            root = tmp_path / f"{number}-{more}" / "store"
            root.parent.mkdir()
            clone(source, root)
            cut(segments(root)[-1], starts[number] + more)
            context = f"cut {more} bytes into line {number + 1}"
            found = repaired.mend(root, context=context)
            check_equal(found.repairs, ["tail"], context)
            gone = [item for item in lines[number:] if item]
            with repaired.opened(root) as session:
                now = Known.of(session)
            check_equal(items(now), [i for i in items(whole) if i not in gone], context)
            if more:
                repaired.check_works(root, now, context=context)


def test_damage_below_an_anchor_is_no_end_of_the_log(tmp_path: Path) -> None:
    """G3, G4: what a checkpoint or a claim attests was acknowledged; nothing is accepted there.

    Method: a checkpoint in the middle of the newest segment; each line below it flipped.
    """
    base = tmp_path / "base"
    repaired.make(base, rounds=1)
    with repaired.opened(base) as session:
        add(session, "e", "f")
        at = session.save().sequence
        add(session, "g", "h")
    segment = segments(base)[-1]
    first = int(segment.name.split("-")[1])
    starts = repaired.line_starts(segment)
    for number in range(len(starts) - 1):
        root = tmp_path / f"{number}" / "store"
        root.parent.mkdir()
        clone(base, root)
        flip(segments(root)[-1], starts[number] + 200)
        context = f"event {first + number}, the checkpoint is at {at}"
        error = repaired.stop(root)
        check(error is not None, f"{context}: it opens")
        named = repaired.command_in(error.do if error else "")
        check_equal("--tail" in named, first + number > at, f"{context}: {error}")
        if first + number <= at:
            repaired.refused(root, TAIL, code=2, context=context)


@pytest.mark.parametrize(
    ("spoiled", "repairs"),
    [
        (("tail", "checkpoint"), ["tail", "rebuild-from-log"]),
        (("tail", "pointer"), ["pointer", "tail"]),
        (("tail", "pointer", "checkpoint"), ["pointer", "tail", "rebuild-from-log"]),
    ],
    ids=str,
)
def test_several_kinds_of_damage_are_mended_one_after_another(
    scenes: dict[str, Path], tmp_path: Path, spoiled: tuple[str, ...], repairs: list[str]
) -> None:
    """G3: no repair decides what another is for, and none stands in another's way."""
    root = tmp_path / "store"
    clone(scenes["closed"], root)
    whole = repaired.undamaged(root, tmp_path / "aside")
    starts = repaired.line_starts(segments(root)[-1])
    flip(segments(root)[-1], starts[5] + 200)
    gone = [item for item in told_items(segments(scenes["closed"])[-1])[5:] if item]
    if "pointer" in spoiled:
        zero(repaired.alone(repaired.pointer(root)))
    if "checkpoint" in spoiled:
        zero(repaired.checkpoints(root)[-1])
    found = repaired.mend(root, context=str(spoiled), most=4)
    check_equal(sorted(found.repairs), sorted(repairs), "the repairs")
    with repaired.opened(root) as session:
        now = Known.of(session)
    check_equal(items(now), [i for i in items(whole) if i not in gone], "the state")
    repaired.check_works(root, now, context=str(spoiled))
