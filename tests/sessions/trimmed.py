"""Sessions whose log is trimmed: how they are made, and what must be true of one at the end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from lastgood import trimming
from lastgood.claim import Owner
from lastgood.clock import SystemClock
from lastgood.entropy import system_entropy
from lastgood.formats import names
from lastgood.formats.limits import Limits
from lastgood.formats.session import Program
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.place import Place, find
from lastgood.reading import Reading
from lastgood.report import Report
from lastgood.storage.posix import PosixRoot
from lastgood.trimming import Keep, Trimmed
from tests.crash.scenes import DIRECTORY, KEYS, SESSION, reader
from tests.crash.seam import Seam, system
from tests.crash.sessions import Told, opened
from tests.support.check import check, check_equal
from tests.support.records import fingerprint

OWNER: Final = Owner(program=Program(), writer="test", clock=SystemClock(), entropy=system_entropy)
ROUNDS: Final = 5


def make(root: Path, *, rounds: int = ROUNDS, saves: int | None = None) -> Told:
    """A session of several openings, each with segments, items and a checkpoint of its own."""
    told = Told()
    for number in range(rounds):
        with opened(root) as session:
            told.append(session, f"{number}a", f"{number}b")
            told.append(session, f"{number}c", pad_bytes=70_000)  # its first segment has no room
            if saves is None or number < saves:
                told.save(session, fingerprints=[fingerprint(number + 1)])
            told.append(session, f"{number}d")
    return told


@contextmanager
def place_of(root: Path, seam: Seam | None = None) -> Iterator[Place]:
    """The store, on a file system of the test's."""
    under = PosixRoot(root, filesystem=None if seam is None else system(seam))
    place = find(
        under, keys=KEYS, store_id=None, limits=Limits(lock_wait_s=0.05), clock=SystemClock(),
        entropy=system_entropy, network_filesystem="refuse",
    )  # fmt: skip
    yield place
    under.close()


def trim(
    root: Path,
    before: int,
    *,
    archive: Path | None = None,
    seam: Seam | None = None,
    actor: str = "olga",
    reason: str = "disk is full",
) -> Trimmed:
    """Trim; with an ``archive``, keep there what leaves."""
    with place_of(root, seam) as place, _kept(archive, seam) as keep:
        return trimming.trim(
            place, SESSION, owner=OWNER, before=before, keep=keep, actor=actor, reason=reason
        )


def plan(root: Path, before: int, *, seam: Seam | None = None) -> Trimmed:
    """What would leave."""
    with place_of(root, seam) as place:
        return trimming.plan(place, SESSION, clock=OWNER.clock, before=before)


@contextmanager
def _kept(archive: Path | None, seam: Seam | None) -> Iterator[Keep | None]:
    if archive is None:
        yield None
        return
    top = PosixRoot(archive, filesystem=None if seam is None else system(seam))
    with trimming.archive(top, SESSION) as keep:
        yield keep
    top.close()


def segments(root: Path) -> list[str]:
    """The names of the log's segments that are there, in the log's order."""
    found = [path.name for path in (root / DIRECTORY).glob("events-*")]
    return sorted(found, key=lambda name: name[14:18] + name[7:13])


def tree(root: Path) -> dict[str, bytes]:
    """Every file and its bytes."""
    files = (path for path in root.rglob("*") if path.is_file())
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def found_log(root: Path) -> LogFound:
    """The log that is kept, verified from its floor on."""
    with place_of(root) as place:
        storage = place.root.session(DIRECTORY, access="read")
        scope = place.scope(SESSION, schemas=None)
        newest = Reading(scope, storage).manifest(names.POINTER)
        found = LogReading(scope, storage).find(floor=getattr(newest, "floor", None))
        storage.close()
        return found


def report(root: Path) -> Report:
    """What ``verify`` finds."""
    with reader(root) as store:
        return store.check()


def generations(root: Path) -> list[int]:
    """The sequences of the checkpoints that are there, ascending."""
    return sorted(int(p.name[11:-5]) for p in (root / DIRECTORY).glob("checkpoint-*"))


def lines_of(path: Path) -> list[bytes]:
    """The lines of a segment, without its reserved bytes."""
    return path.read_bytes().rstrip(b"\0").removesuffix(b"\n").split(b"\n")


def numbers_of(path: Path) -> list[int]:
    """The numbers of the events in a segment."""
    return [json.loads(line)["e"]["seq"] for line in lines_of(path)]


def events_of(root: Path, kind: str) -> list[Any]:
    """The data of every event of one type in the kept log."""
    found = []
    for name in segments(root):
        for line in lines_of(root / DIRECTORY / name):
            event = json.loads(line)["e"] if line else {"type": ""}
            if event["type"] == kind:
                found.append(event["data"])
    return found


def check_goes_on(root: Path, told: Told, context: str, *, rounds: int = ROUNDS) -> None:
    """G1, G2: what was acknowledged is there, and the session works; everything verifies."""
    known = {fingerprint(number + 1) for number in range(rounds)}
    for turn in ("first", "second"):
        with opened(root, determinism="check") as session:
            state = session.state["items"]
            check_equal(state, told.acknowledged, f"{context}: the {turn} recovery")
            again = [text for text in known if session.should_replay(text)]
            check_equal(again, [], f"{context}: side effects offered again")
            told.append(session, f"{turn}-{len(state)}")
    with opened(root) as session:
        told.save(session)
    found = report(root)
    check(found.error is None, f"{context}: {found.error}")
    check_equal(found.verdict, "good", f"{context}: the verdict")


def copied(root: Path, to: Path) -> Path:
    """A copy of a store, in which twins are two files, as after ``cp -r``."""
    shutil.copytree(root, to)
    return to
