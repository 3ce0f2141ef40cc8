"""The five invariants of a session that is killed, each as a function that raises if it is broken.

They are asked of what lies on the disk and of what the world was told; what is stored is parsed in
``stored.py``, by nothing of the product.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lastgood
from lastgood.errors import LastgoodError
from lastgood.formats import names
from tests.journeys import stored
from tests.journeys.payments import CURRENT, SESSION, State, effect, initial, opened, paid
from tests.support import records
from tests.support.check import check, check_equal

FOLDER: Final = names.directory(names.session_id(SESSION))


@dataclass(slots=True)
class Told:
    """What the world knows.

    Attributes:
        count: So many payments were acknowledged.
        asked: So many were asked for.
        saved: Sequence of the last acknowledged checkpoint.
        effects: Side effects that were acknowledged.
    """

    count: int = 0
    asked: int = 0
    saved: int = 0
    effects: set[int] = field(default_factory=set)

    def note(self, line: str) -> None:
        """Take a line of the program's."""
        word, *numbers = line.split()
        first, *rest = map(int, numbers)
        if word == "began":
            check(self.count <= first <= max(self.asked, self.count), f"{line}, told {self}")
            check(not self.effects & set(rest), f"offered again: {self.effects & set(rest)}")
            self.count = self.asked = first
        elif word == "asks":
            self.asked = first + 1
        elif word == "told":
            self.count = first + 1
        elif word == "effect":
            self.effects.add(first)
        else:
            self.saved = first


def every_official_file_is_complete(root: Path) -> int:
    """1: whole, and under the name of what it says it is; returns how many there are."""
    count = 0
    for path in stored.official(root / FOLDER):
        found = stored.record(path)
        kind = path.name.split(".")[0].split("-")[0]
        number = {"checkpoint": "sequence", "manifest": "revision"}.get(kind, "")
        if "-" in path.name:
            said = f"{kind}-{found.header[number]:06d}.json"
            check_equal(said, path.name, "the name of what it holds")
        count += 1
    with suppress(FileNotFoundError):
        pointer = (root / FOLDER / "manifest.json").read_bytes()
        revision = stored.record(root / FOLDER / "manifest.json").header["revision"]
        twin = root / FOLDER / f"manifest-{revision:06d}.json"
        check(not twin.exists() or twin.read_bytes() == pointer, f"{twin.name} is another")
    return count


Load = Callable[[Path], int]


def load(root: Path) -> int:
    """The sequence that the product loads; 0 for nothing."""
    with lastgood.CheckpointStore(
        root, SESSION, keys=records.keyring(), mode="read", schema_version=schema_of(root)
    ) as store:
        found = store.load_latest()
    return 0 if found is None else found.sequence


def the_greatest_number_decides(root: Path, *, loads: Load = load, chance: random.Random) -> int:
    """2: what the highest revision names, or the one checkpoint that continues it; returns it."""
    expected = decided(root)
    for path in [*(root / FOLDER).iterdir()]:
        times = chance.randrange(10**9), chance.randrange(10**9)
        os.utime(path, times)
    check_equal(loads(root), expected, "the sequence that is loaded")
    return expected


def decided(root: Path) -> int:
    manifests = [stored.record(path) for path in stored.official(root / FOLDER, "manifest")]
    if not manifests:
        return 0
    newest = max(manifests, key=lambda m: int(m.header["revision"]))
    current = newest.payload["current"]
    at: int = 0 if current is None else current["sequence"]
    above = [
        found
        for found in map(stored.record, stored.official(root / FOLDER, "checkpoint"))
        if found.header["sequence"] > at and found.header["epoch"] == newest.header["epoch"]
    ]
    check(len(above) <= 1, f"{len(above)} checkpoints above revision {newest.header['revision']}")
    return above[0].header["sequence"] if above else at


def schema_of(root: Path) -> int:
    """The schema version of the checkpoint that counts; 1 where there is none."""
    sequence = decided(root)
    if not sequence:
        return 1
    found = stored.record(root / FOLDER / f"checkpoint-{sequence:06d}.json")
    version: int = found.payload["schemaVersion"]
    return version


Open = Callable[[Path, int], Any]


def resume(root: Path, schema: int) -> Any:
    """Resume with a program of this schema that knows no migration."""
    return opened(root, schema, migrated=False)


def an_unknown_schema_never_resumes(root: Path, *, opens: Open = resume) -> int:
    """3: older or newer than the program's, it stops with exit 4, and nothing was changed."""
    if not decided(root):
        return 0
    known = schema_of(root)
    before = _bytes(root)
    others = [schema for schema in (known - 1, known + 1, known + 7) if schema > 0]
    for schema in others:
        try:
            session = opens(root, schema)
        except LastgoodError as error:
            check_equal(error.exit_code, 4, f"exit code, program {schema}, store {known}: {error}")
        else:
            session.close()
            check(False, f"a program of schema {schema} resumed a store of schema {known}")
        check(_bytes(root) == before, f"a program of schema {schema} changed something")
    return len(others)


def _bytes(root: Path) -> dict[str, bytes]:
    """Every file but the lock, which says who tried last, for people."""
    paths = (p for p in root.rglob("*") if p.is_file() and p.name != names.LOCK)
    return {str(path): path.read_bytes() for path in paths}


def checkpoint_and_log_agree(root: Path) -> int:
    """4: each checkpoint is what the log up to its place gives, and the log is there."""
    lines = stored.log_lines(root / FOLDER)
    count = 0
    for path in stored.official(root / FOLDER, "checkpoint"):
        found = stored.record(path)
        at, name = found.payload["log"], path.name
        check_equal(at["count"], found.header["sequence"], f"{name}: the place that it names")
        behind = stored.chain(lines, at["head"])
        last = behind[-1]
        place = (last.event["seq"], last.segment, last.end)
        check_equal(place, (at["count"], at["segment"], at["offset"]), f"{name}: its place")
        expected = initial(found.payload["schemaVersion"])
        done: list[str] = []
        for line in behind:
            if line.event["type"] == "paid":
                expected = paid(expected, line.event["data"]["number"])
            elif line.event["type"] == "lastgood.fingerprints":
                done += line.event["data"]
        check_equal(found.payload["state"], expected, f"{name}: its state")
        check_equal(found.payload["sideEffectFingerprints"], done, f"{name}: its side effects")
        count += 1
    return count


def acknowledged_effects_are_never_offered_again(root: Path, told: Told) -> State:
    """5: nor to a program that resumes; returns its state."""
    with opened(root, CURRENT if schema_of(root) > 1 else 1) as session:
        again = [number for number in told.effects if session.should_replay(effect(number))]
        check_equal(again, [], "acknowledged side effects that are offered again")
        return session.state


def what_was_acknowledged_is_there(state: State, told: Told) -> None:
    """All of it, in its order, and nothing that was not asked for."""
    count = state["count"]
    check(told.count <= count <= max(told.count, told.asked), f"{count} payments, {told}")
    expected = initial(CURRENT if "currency" in state else 1)
    for number in range(count):
        expected = paid(expected, number)
    check_equal(state, expected, "the state")
