"""Every file of a session damaged in turn: what the stop names works, or nothing is changed.

Method of all: each record and segment of a session with a log is flipped, cut, zeroed, deleted and
swapped with another of its kind. Where a repair is named, it is run as printed.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Final

import pytest

from lastgood.formats import names
from tests.crash.scenes import clone
from tests.sessions import repaired
from tests.sessions.repaired import SESSION, Known, cut, flip, zero
from tests.support.check import check, check_equal

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

WAYS: Final = (
    "flip near its beginning", "flip in the middle", "flip at its end", "cut to half",
    "cut by a byte", "cut to nothing", "zero", "delete", "swap",
)  # fmt: skip
MILESTONE: Final = names.checkpoint(16)
DECISIONS: Final = (("--pointer",), ("--tail",), ("--approve-rebuild",))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Known]:
    """The session, and what it knows."""
    base = tmp_path_factory.mktemp("repair")
    repaired.make(base / "store")
    return base / "store", repaired.undamaged(base / "store", base / "aside")


def files(root: Path) -> list[str]:
    """Every file of the session but its lock, which says nothing that is believed."""
    inside = repaired.inside(root)
    return sorted(p.name for p in inside.iterdir() if p.is_file() and p.name != names.LOCK)


def damage(root: Path, name: str, way: str) -> Path | None:
    """Damage a file; None if there is no other of its kind to swap it with."""
    path = repaired.inside(root) / name
    whole = len(path.read_bytes().rstrip(b"\0"))
    at = {"near its beginning": 40, "in the middle": whole // 2, "at its end": whole - 2}
    if way == "swap":
        parsed = names.parse(name)
        others = [
            other
            for other in files(root)
            if other not in (name, MILESTONE)
            and name != MILESTONE  # nothing stops for it
            and (found := names.parse(other)) is not None
            and parsed is not None
            and found.kind is parsed.kind
            and (path.parent / other).read_bytes() != path.read_bytes()
        ]
        if not others:
            return None
        one, other = repaired.alone(path), repaired.alone(path.parent / others[-1])
        ours, theirs = one.read_bytes(), other.read_bytes()
        one.write_bytes(theirs)
        other.write_bytes(ours)
    elif way.startswith("flip"):
        flip(path, at[way.removeprefix("flip ")])
    elif way == "zero":
        zero(path)
    elif way == "delete":
        path.unlink()
    else:
        cut(path, {"to half": whole // 2, "by a byte": whole - 1, "to nothing": 0}[way[4:]])
    return path


def check_nothing_helps(root: Path, *, context: str) -> None:
    """No repair succeeds, and none changes anything."""
    before = repaired.contents(root), files(root)
    for option in DECISIONS:
        ran = repaired.run(root, "repair", SESSION, *option, "--reason", repaired.REASON)
        check(ran.code != 0, f"{context}: {option} succeeds, and nothing named it")
        check_equal((repaired.contents(root), files(root)), before, f"{context}: after {option}")


def check_knows(root: Path, known: Known, *, missing: bool, context: str) -> Known:
    """All of it; or, where that was said, a beginning of it."""
    with repaired.opened(root) as session:
        now = Known.of(session)
    if not missing:
        check_equal(json.loads(now.state)["items"], json.loads(known.state)["items"], context)
        check_equal(now, known, context)
        return now
    items = json.loads(now.state)["items"]
    check_equal(items, json.loads(known.state)["items"][: len(items)], f"{context}: a beginning")
    anchored = len(json.loads(known.state)["items"]) - 1
    check(len(items) >= anchored, f"{context}: what the newest checkpoint holds is gone: {items}")
    return now


@pytest.mark.parametrize("way", WAYS)
def test_each_damaged_file_is_mended_as_named_or_refused_with_nothing_changed(
    original: tuple[Path, Known], tmp_path: Path, way: str
) -> None:
    """G3, G4: no damage falls back by itself, and no repair loses what it does not tell.

    Method: one file at a time; what is acknowledged and gone must have been said.
    """
    source, known = original
    mended: dict[str, list[str]] = {}
    for number, name in enumerate(files(source)):
        root = tmp_path / f"{number}" / "store"
        root.parent.mkdir()
        clone(source, root)
        path = damage(root, name, way)
        if path is None:
            continue
        context = f"{way}: {name}"
        held = {hashlib.sha256(path.read_bytes()).hexdigest()} if path.exists() else set()
        error = repaired.stop(root)
        if error is None:
            check_knows(root, known, missing=False, context=context)
            continue
        check("lastgood " in error.do, f"{context}: no command is named: {error}")
        if not repaired.command_in(error.do):
            check_nothing_helps(root, context=context)
            continue
        found = repaired.mend(root, context=context)
        mended[name] = found.repairs
        missing = any(a["missing"] for a in found.answers if a["repair"] == "tail")
        now = check_knows(root, known, missing=missing, context=context)
        repaired.check_recorded(root, found, context=context)
        repaired.refused(root, found.commands[-1], code=1, context=f"{context}: again")
        repaired.check_works(root, now, context=context)
        check(held <= repaired.contents(root), f"{context}: the damaged bytes are gone")
    print(f"{way}: {mended}")
    check(len(mended) >= 3, f"{way}: nearly nothing was mended: {mended}")
