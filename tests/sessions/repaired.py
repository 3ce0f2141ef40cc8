"""Sessions to damage and to repair: how they are made, mended by what is printed, and judged.

The session of ``make`` has four openings of several segments each, a checkpoint and a side effect
in every one, a milestone, and an event behind its last checkpoint. ``mend`` does what a person
does: it runs the command that the session's error names, with program and reason filled in.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import lastgood
from lastgood import Checkpoint, CheckpointPolicy, CheckpointStore, LastgoodError, Limits, Session
from lastgood.claim import Owner
from lastgood.cli.main import main
from lastgood.clock import SystemClock
from lastgood.entropy import system_entropy
from lastgood.formats import canonical, names
from lastgood.formats.event import Event
from lastgood.formats.manifest import Manifest, Note
from lastgood.formats.session import Program
from lastgood.mending import Decision
from lastgood.place import Place, find
from lastgood.reading import Reading
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import clone
from tests.crash.seam import Seam, system
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.records import fingerprint

KEYS: Final = trees.KEYS
SESSION: Final = "nightly"
REASON: Final = "the disk of shelf 3 failed"
ACTOR: Final = "operator"
DECISION: Final = Decision(actor=ACTOR, reason=REASON)
OWNER: Final = Owner(program=Program(), writer="test", clock=SystemClock(), entropy=system_entropy)
NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)
ROUNDS: Final = 4
LARGE: Final = 70_000
"""Bytes for which an owner's first segment has no room."""

State = dict[str, Any]


def put(state: State, event: Event) -> State:
    """The reducer."""
    data: Any = event.data
    return {"items": [*state["items"], data["item"]], "sum": state["sum"] + len(data["item"])}


PROGRAM: Final[dict[str, Any]] = {
    "reducer": put,
    "initial": {"items": [], "sum": 0},
    "policy": NEVER,
    "program": Program("shelf", "1"),
}
"""What ``--program`` names."""


def opened(root: Path, seam: Seam | None = None, **options: Any) -> Session[State]:
    """Open the session."""
    under = PosixRoot(root, filesystem=None if seam is None else system(seam))
    store = lastgood.open_store(under, keys=KEYS, limits=Limits(lock_wait_s=0.05))
    return store.session(SESSION, **{**PROGRAM, **options})


@contextlib.contextmanager
def place_of(
    root: Path, seam: Seam | None = None, keys: lastgood.Keyring = KEYS
) -> Iterator[Place]:
    """The store, on a file system of the test's."""
    under = PosixRoot(root, filesystem=None if seam is None else system(seam))
    place: Place = find(
        under, keys=keys, store_id=None, limits=Limits(lock_wait_s=0.05), clock=SystemClock(),
        entropy=system_entropy, network_filesystem="refuse",
    )  # fmt: skip
    try:
        yield place
    finally:
        under.close()


def make(root: Path, *, rounds: int = ROUNDS, milestone: str | None = "second") -> None:
    """The session, closed."""
    for number in range(1, rounds + 1):
        with opened(root) as session:
            add(session, f"{number}a", f"{number}b")
            add(session, f"{number}c" + "x" * LARGE)
            label = milestone if number == 2 else None
            session.save(fingerprints=[fingerprint(number)], milestone=label)
            add(session, f"{number}d")


def make_checkpoints(root: Path, *, saves: int = 4) -> None:
    """A session of checkpoints only: sequences 10, 20, …, the first one a milestone."""
    with CheckpointStore(root, SESSION, keys=KEYS) as store:
        for number in range(1, saves + 1):
            done = [fingerprint(past) for past in range(1, number + 1)]
            milestone = "first" if number == 1 else None
            store.save(Checkpoint(number * 10, {"n": number}, done), milestone=milestone)


def add(session: Session[State], *items: str) -> None:
    """Append items, one after another."""
    for item in items:
        session.append("put", {"item": item})


@dataclass(frozen=True, slots=True)
class Known:
    """What a session knows: its state as canonical bytes, its effects, the end of its log."""

    state: bytes
    fingerprints: tuple[str, ...]

    @classmethod
    def of(cls, session: Session[State]) -> Known:
        """Of an open session."""
        return cls(canonical.encode(session.state), session.fingerprints)


def undamaged(root: Path, aside: Path) -> Known:
    """What the session knows when nothing happens to it; asked of a copy at ``aside``."""
    clone(root, aside)
    try:
        with opened(aside) as session:
            return Known.of(session)
    finally:
        shutil.rmtree(aside)


def inside(root: Path) -> Path:
    """The session's directory."""
    return root / trees.directory(SESSION)


def all_of(root: Path, pattern: str) -> list[Path]:
    """Files of the session, in order."""
    return sorted(inside(root).glob(pattern))


def checkpoints(root: Path) -> list[Path]:
    """Its checkpoints, ascending."""
    return all_of(root, "checkpoint-*")


def manifests(root: Path) -> list[Path]:
    """Its numbered manifests, ascending."""
    return all_of(root, "manifest-*")


def pointer(root: Path) -> Path:
    """Its pointer."""
    return inside(root) / names.POINTER


def segments(root: Path) -> list[Path]:
    """Its segments, by epoch, then first sequence."""
    return sorted(all_of(root, "events-*"), key=lambda path: path.name.split("-")[::-1])


# --- damage -------------------------------------------------------------------------------


def cut(path: Path, size_bytes: int = 0) -> None:
    """Shorten a file in place."""
    with path.open("r+b") as file:
        file.truncate(size_bytes)


def zero(path: Path) -> None:
    """Overwrite a file with NUL in place."""
    with path.open("r+b") as file:
        file.write(b"\0" * path.stat().st_size)


def flip(path: Path, at: int) -> None:
    """Change one bit in place."""
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    with path.open("r+b") as file:
        file.write(data)


def alone(path: Path) -> Path:
    """Make ``path`` a file of its own, where it is a second name of another."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def line_starts(path: Path) -> list[int]:
    """Where the lines of a segment begin, and where the last one ends."""
    return [0, *(found.end() for found in re.finditer(rb"\n", path.read_bytes()))]


# --- what a person sees and does ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command in this process left behind."""

    code: int
    document: dict[str, Any]
    said: str


def run(root: Path, *words: str) -> Ran:
    """Run ``lastgood … --json`` on the store, in this process."""
    keys = root.with_name("keys.json")
    if not keys.exists():
        KEYS.write_new(keys)
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    place = ["--root", str(root), "--keys", str(keys), "--json", "--lock-timeout", "0.05"]
    path = list(sys.path)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, *place])
    sys.path[:] = path
    out.flush()
    data = out.buffer.getvalue() if isinstance(out.buffer, io.BytesIO) else b""
    return Ran(code, json.loads(data), err.getvalue())


def stop(root: Path) -> LastgoodError | None:
    """What stops the session, to be opened by its program or read; None if nothing does."""
    try:
        if any(inside(root).glob("events-*")):
            opened(root).close()
        else:
            with CheckpointStore(root, SESSION, keys=KEYS) as store:
                store.load_latest()
    except LastgoodError as error:
        return error
    return None


def command_in(text: str) -> tuple[str, ...]:
    """The repair that ``text`` names, as words, with what a person fills in; empty if none."""
    found = re.search(rf"lastgood (repair (?:SESSION|.* {SESSION}) --[^.]*)", text)
    if found is None:
        return ()
    text = re.sub(r"repair .*(SESSION|nightly) --", r"repair \1 --", found[1])
    filled = {"SESSION": SESSION, "TEXT": REASON, "MODULE:OBJECT": f"{__name__}:PROGRAM"}
    return (*(filled.get(word, word) for word in shlex.split(text)), "--actor", ACTOR)


@dataclass(slots=True)
class Mended:
    """How a session was mended.

    Attributes:
        commands: What was run, in order.
        answers: What each said.
        evidence: Digests of every damaged file that was there.
    """

    commands: list[tuple[str, ...]] = field(default_factory=list)
    answers: list[dict[str, Any]] = field(default_factory=list)
    evidence: set[str] = field(default_factory=set)

    @property
    def repairs(self) -> list[str]:
        """Which repairs were made."""
        return [answer["repair"] for answer in self.answers]


def mend(
    root: Path, *, context: str, most: int = 3, scan: Literal["first", "never"] = "first"
) -> Mended:
    """Run what each stop names until the session opens.

    What the scan says of a repair comes true. One that is refused because of other damage names
    the repair of that. Every damaged file is still somewhere behind each of them.
    """
    mended = Mended()
    while (error := stop(root)) is not None:
        words = command_in(error.do)
        check(words, f"{context}: no repair is named: {error}")
        check(len(mended.commands) < most, f"{context}: after {mended.repairs} still: {error}")
        if scan == "first" and not _scanned(root, words, context=context):
            before = contents(root)
            ran = run(root, *words)
            check(ran.code != 0, f"{context}: {words} succeeds, against the scan")
            check_equal(contents(root), before, f"{context}: {words} was refused")
            words = command_in(ran.said)
            check(words and _scanned(root, words, context=context), f"{context}: {ran.said}")
        mended.evidence |= damaged_of(root)
        ran = run(root, *words)
        check_equal(ran.code, 0, f"{context}: {words} said {ran.said}")
        mended.commands.append(words)
        mended.answers.append(ran.document)
        lost = mended.evidence - contents(root)
        check_equal(lost, set(), f"{context}: damaged bytes that are gone after {words[2]}")
    return mended


def _scanned(root: Path, words: tuple[str, ...], *, context: str) -> bool:
    """What the scan says of a repair; it changes nothing."""
    before = trees.picture(root)
    scanned = run(root, "repair", SESSION, "--scan")
    trees.check_untouched(root, before, f"{context}: the scan")
    check(scanned.code != 0, f"{context}: the scan finds nothing")
    found = [told for told in scanned.document["repairs"] if words[2] in told["command"]]
    check_equal(len(found), 1, f"{context}: prospects of {words[2]}")
    return bool(found[0]["succeeds"])


def contents(root: Path) -> set[str]:
    """The digests of everything in the session's directory, the archive's too."""
    files = [path for path in inside(root).rglob("*") if path.is_file()]
    return {hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def damaged_of(root: Path) -> set[str]:
    """The digests of the records and segments that do not verify as what they are named."""
    found = set()
    with place_of(root) as place:
        scope = place.scope(SESSION, schemas=None)
        with contextlib.closing(place.root.session(scope.directory, access="read")) as storage:
            reading = Reading(scope, storage)
            for path in inside(root).iterdir():
                parsed = names.parse(path.name)
                if parsed is None or not path.is_file():
                    continue
                judged: object = None
                if parsed.kind is names.Kind.CHECKPOINT:
                    judged = reading.checkpoint(parsed.number)
                elif parsed.kind in (names.Kind.MANIFEST, names.Kind.POINTER):
                    judged = reading.manifest(path.name)
                if isinstance(judged, LastgoodError):
                    found.add(hashlib.sha256(path.read_bytes()).hexdigest())
    return found


# --- what must hold afterwards ------------------------------------------------------------


def newest(root: Path) -> Manifest:
    """The pointer's record."""
    with place_of(root) as place:
        scope = place.scope(SESSION, schemas=None)
        with contextlib.closing(place.root.session(scope.directory, access="read")) as storage:
            found = Reading(scope, storage).manifest(names.POINTER)
    if not isinstance(found, Manifest):
        raise AssertionError(f"no pointer: {found}")
    return found


def notes(root: Path) -> list[Note]:
    """The decisions that the newest revision holds."""
    return list(newest(root).notes)


def recorded(root: Path) -> list[dict[str, Any]]:
    """The decisions that the log holds."""
    with (
        lastgood.open_store(PosixRoot(root), keys=KEYS) as store,
        store.history(SESSION) as history,
    ):
        told: list[Any] = [e.data for e in history.events() if e.type == "lastgood.repaired"]
        check(history.error is None, f"the log: {history.error}")
        return told


def check_recorded(root: Path, mended: Mended, *, context: str) -> None:
    """Every repair has its actor and its reason in a note and, with a log, in an event."""
    kinds = {
        "pointer": "pointer-rebuilt", "tail": "tail-accepted", "accept-older": "older-accepted",
        "rebuild-from-log": "rebuilt-from-log",
    }  # fmt: skip
    wanted = [kinds[repair] for repair in mended.repairs]
    found = [note.type for note in notes(root)]
    check_equal(found, wanted, f"{context}: the notes")
    for note in notes(root):
        check_equal((note.actor, note.reason), (ACTOR, REASON), f"{context}: {note.type}")
    if not segments(root):
        return
    events = recorded(root)
    check(events, f"{context}: no event tells of a repair")
    for told in events:
        check_equal((told["actor"], told["reason"]), (ACTOR, REASON), f"{context}: {told}")


def check_works(root: Path, known: Known, *, context: str) -> None:
    """The session knows what it is to know, verifies, and goes on."""
    with opened(root, determinism="check") as session:
        now = Known.of(session)
        check_equal(json.loads(now.state), json.loads(known.state), f"{context}: the state")
        check_equal(now, known, f"{context}: bytes of the state, or effects")
        again = [text for text in known.fingerprints if session.should_replay(text)]
        check_equal(again, [], f"{context}: effects that are offered again")
    check_equal(run(root, "verify", SESSION).code, 0, f"{context}: verify")
    with opened(root) as session:
        check_equal(Known.of(session), known, f"{context}: the second opening")
        add(session, "after")
        session.save(fingerprints=[fingerprint(99)])
        add(session, "behind")
        state = session.state
    with opened(root, determinism="check") as session:
        check_equal(session.state, state, f"{context}: what was appended behind")
        session.save()
    check_equal(run(root, "verify", SESSION).code, 0, f"{context}: verify at the end")
    check_equal(len(checkpoints(root)) >= 2, True, f"{context}: two generations")


def refused(root: Path, words: Iterable[str], *, code: int, context: str) -> str:
    """A repair that is refused changes nothing; returns what it said."""
    before = contents(root), sorted(path.name for path in inside(root).rglob("*"))
    ran = run(root, *words)
    check_equal(ran.code, code, f"{context}: {ran.said}")
    after = contents(root), sorted(path.name for path in inside(root).rglob("*"))
    check_equal(after, before, f"{context}: something was changed")
    return ran.said


Damage = Callable[[Path], object]
