"""Sessions with a log to begin with, and what must be true of one at the end.

An event of these tests puts one named item into a list, so that the state says which events it
is of, and in which order. ``Told`` is what the world knows of the session: what was acknowledged,
and what was asked for at last and may be there or not.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import lastgood
from lastgood import CheckpointPolicy, Limits, Session
from lastgood.event_log import EventLog
from lastgood.formats.event import Event
from lastgood.formats.session import Program
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.place import Place
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from tests.crash import scenes
from tests.crash.scenes import DIRECTORY, KEYS, SESSION, clone, reader
from tests.crash.seam import Killed, Mortal, Seam, system
from tests.support import records
from tests.support.check import check, check_equal

NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)
EACH: Final = CheckpointPolicy(events=1, seconds=None, log_bytes=None)
LARGE: Final = 70_000
"""Bytes of padding for which an owner's first segment has no room."""

State = dict[str, Any]
_FIRST: Final = "0" * 64


def put(state: State, event: Event) -> State:
    """The reducer."""
    data: Any = event.data
    state["items"].append(data["item"])
    return state


def given(item: str, *, pad_bytes: int = 0) -> tuple[str, dict[str, str]]:
    """The event that puts ``item``."""
    return "put", {"item": item, "pad": "x" * pad_bytes}


def opened(
    place: Path,
    filesystem: Seam | FileSystem | None = None,
    *,
    lock_wait_s: float = 0.05,
    **options: Any,
) -> Session[State]:
    """Open the session, on a file system of the test's."""
    under = system(filesystem) if isinstance(filesystem, Seam) else filesystem
    root = PosixRoot(place, filesystem=under)
    try:
        store = lastgood.open_store(root, keys=KEYS, limits=Limits(lock_wait_s=lock_wait_s))
        wanted: dict[str, Any] = {"policy": NEVER, "initial": {"items": []}, **options}
        return store.session(SESSION, reducer=put, program=Program("shelf", "1"), **wanted)
    finally:
        with suppress(Killed, OSError):
            root.close()


@dataclass(slots=True)
class Told:
    """What the world knows.

    Attributes:
        acknowledged: Items, in order.
        maybe: Items that were asked for at last, by one call; a beginning of them may be there.
        saved: Sequence of the last acknowledged checkpoint.
    """

    acknowledged: list[str] = field(default_factory=list)
    maybe: list[str] = field(default_factory=list)
    saved: int = 0

    def append(self, session: Session[State], *items: str, pad_bytes: int = 0) -> None:
        """Ask for items by one call, and note whether they were acknowledged."""
        self.maybe = list(items)
        numbers = session.append_many([given(item, pad_bytes=pad_bytes) for item in items])
        check_equal(len(numbers), len(items), "acknowledged numbers")
        self.acknowledged += self.maybe
        self.maybe = []

    def save(self, session: Session[State], **options: Any) -> None:
        """Save, and note which sequence was acknowledged."""
        self.saved = session.save(**options).sequence

    def allows(self, items: Sequence[str]) -> bool:
        """Whether a state may hold exactly ``items``."""
        known = len(self.acknowledged)
        behind = list(items[known:])
        return list(items[:known]) == self.acknowledged and behind == self.maybe[: len(behind)]


def looks_of(root: Path) -> str:
    """A digest of the store's shape, with how much of each segment is written."""
    told = hashlib.sha256(scenes.looks_of(root).encode())
    for path in sorted(root.rglob("*events-*")):
        told.update(f"{path.name[:20]} {len(path.read_bytes().rstrip(bytes(1)))}\n".encode())
    return told.hexdigest()


def place_of(root: Path) -> Place:
    """The store, to be read as a stranger would."""
    return lastgood.open_store(root, keys=KEYS)._place


def found_log(root: Path) -> LogFound:
    """The whole log, verified from its first event on."""
    place = place_of(root)
    try:
        storage = place.root.session(DIRECTORY, access="read")
        try:
            return LogReading(place.scope(SESSION, schemas=None), storage).find(since=1)
        finally:
            storage.close()
    finally:
        place.close()


def history(root: Path) -> list[tuple[int, str]]:
    """Sequences and items of the log's events: its lines, chained back from its end by ``prev``.

    The lines are taken from whatever segment holds them, so that the reader under test decides
    on nothing but the end.
    """
    lines: dict[str, dict[str, Any]] = {}
    for path in (root / DIRECTORY).glob("events-*"):
        for text in re.findall(rb"[^\0\n]+", path.read_bytes()):
            with suppress(ValueError, KeyError, TypeError):
                line = json.loads(text)
                lines[line["mac"]] = line["e"]
    end = found_log(root).end
    head, behind = end.head, []
    for sequence in range(end.count, 0, -1):
        event = lines[head]
        check_equal(event["seq"], sequence, "the chain's sequence")
        behind.append(event)
        head = event["prev"]
    check_equal(head, _FIRST, "before the first event")
    ours = [event for event in reversed(behind) if event["type"] == "put"]
    return [(event["seq"], event["data"]["item"]) for event in ours]


def items_of(root: Path) -> list[str]:
    """The items of the log."""
    return [item for _, item in history(root)]


def check_whole(root: Path, context: str) -> None:
    """I1, I4, 7: every record verifies, and each checkpoint holds what a replay to it gives."""
    stored = history(root)
    with reader(root) as store:
        report = store.check()
        check(report.error is None, f"{context}: {report.error}")
        damaged = [row for row in report.rows if not row.is_verified and row.role != "leftover"]
        check_equal(damaged, [], f"{context}: rows that do not verify")
        for row in report.rows:
            if row.role in ("current", "previous", "milestone"):
                state: Any = store.load(row.sequence).state
                expected = [item for sequence, item in stored if sequence <= row.sequence]
                check_equal(state["items"], expected, f"{context}: checkpoint {row.sequence}")


def check_goes_on(session: Session[State], told: Told, name: str, context: str) -> None:
    """The next append and save work, and the state is what was acknowledged."""
    told.append(session, f"{name}-1")
    check_equal(session.state["items"], told.acknowledged, f"{context}: the state")
    told.save(session)
    told.append(session, f"{name}-2")
    check_equal(session.state["items"], told.acknowledged, f"{context}: the state after a save")


def check_recovers(root: Path, told: Told, context: str, *, name: str = "next") -> list[str]:
    """G1, G2: all that was acknowledged, nothing that was not asked for, twice the same; goes on.

    Returns what was recovered.
    """
    with opened(root) as session:
        state: list[str] = session.state["items"]
        at = session.resumed.checkpoint
    check(told.allows(state), f"{context}: recovered {state}, told {told}")
    check(at >= told.saved, f"{context}: began at checkpoint {at}, {told.saved} was acknowledged")
    check_equal(items_of(root), state, f"{context}: the log")
    going = Told(list(state))
    with opened(root, determinism="check") as session:
        check_equal(session.state["items"], state, f"{context}: the second recovery")
        check_goes_on(session, going, name, context)
    with opened(root) as session:
        check_equal(session.state["items"], going.acknowledged, f"{context}: at the end")
        check_equal(session.resumed.torn, None, f"{context}: torn at the end")
        session.save()
    check_whole(root, context)
    return state


# --- scenes -------------------------------------------------------------------------------

BEGUN: Final = ("a", "b", "c", "d")


def _begun(place: Path, seam: Seam | None = None, *, ends: str = "close") -> None:
    """Two items, a checkpoint, two more items."""
    session = opened(place, seam)
    session.append_many([given("a"), given("b")])
    session.save(fingerprints=[records.fingerprint(1)])
    session.append_many([given("c")])
    session.append_many([given("d")])
    if ends == "close":
        session.close()


def _dies(place: Path, at: str, step: Callable[[Session[State]], object] | None = None) -> None:
    """Die at the first call that begins with ``at``, in the middle of it if it is a write."""
    mortal = Mortal(when="middle" if at in ("pwrite", "writev") else "before")
    with suppress(Killed):
        if step is None:
            mortal.at = at
            opened(place, mortal)
        else:
            session = opened(place, mortal)
            mortal.begin()
            mortal.at = at
            step(session)
    check(mortal.is_dead, f"no call was {at}")


Death = tuple[str, Callable[[Session[State]], object] | None]


class Sessions:
    """Sessions to begin with; each is made once, below ``base``, and copied as often as asked.

    ==============  ========================================================================
    ``absent``      nothing, not even the store's root
    ``begun``       items a and b, a checkpoint with a fingerprint, items c and d, closed
    ``torn``        ``begun``, and an owner killed in the middle of the write of item e
    ``published``   ``begun``, and an owner killed between S4 and S6 of a save
    ``claimed``     ``begun``, and an owner killed between S6 and S7 of a save
    ``unclosed``    ``begun``, and an owner killed before it wrote anything for item e
    ``unwritten``   ``begun``, and an owner killed between its claim and its first segment
    ``reserved``    ``begun``, and an owner killed between its first segment and its first line
    ==============  ========================================================================
    """

    DEATHS: Final[dict[str, Death]] = {
        "torn": ("pwrite", lambda session: session.append(*given("e", pad_bytes=2_000))),
        "published": ("open .manifest", lambda session: session.save()),
        "claimed": ("rename", lambda session: session.save()),
        "unclosed": ("pwrite", lambda session: session.append(*given("e"))),
        "unwritten": ("open .events", None),
        "reserved": ("stat events", None),
    }
    MAYBE: Final = {"torn": ["e"]}

    def __init__(self, base: Path) -> None:
        self._base = base
        self._made: set[str] = set()
        self._numbers = itertools.count()

    @contextmanager
    def copy(self, scene: str) -> Iterator[Path]:
        """A store of its own, gone after the block."""
        place = self._base / f"session-{next(self._numbers)}"
        if scene != "absent":
            clone(self._original(scene), place)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def told(self, scene: str) -> Told:
        """What the world knows of it."""
        if scene == "absent":
            return Told()
        return Told(list(BEGUN), maybe=list(self.MAYBE.get(scene, ())), saved=4)

    def _original(self, scene: str) -> Path:
        place = self._base / scene
        if scene not in self._made:
            if scene == "begun":
                _begun(place)
            else:
                clone(self._original("begun"), place)
                at, step = self.DEATHS[scene]
                _dies(place, at, step)
            self._made.add(scene)
        return place


def log_of(session: Session[State]) -> EventLog:
    """The session's log, for tests that stop a thread inside it."""
    return session._following.log
