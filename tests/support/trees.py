"""Whole stores as values: made once by real saves, changed at will, read back, judged.

A *tree* maps the paths of a store to their bytes: ``store.json``, ``nightly/manifest.json``
and so on, with a session's id where the disk has its directory's digest, and ``nightly/``
for the directory itself. ``history()`` holds the tree of one store of two sessions at four
times: after opening, and after one, two and three saves of each.

Method of every judgement: what a tree may do is said by ``blame``, from outside the product:
it knows which bytes were first written when, and nothing of how a reader chooses.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lastgood import Checkpoint, CheckpointStore, Keyring, LastgoodError, Report
from lastgood.formats import names
from lastgood.storage.interface import Storage, StorageRoot
from lastgood.storage.memory import MemoryRoot
from lastgood.storage.posix import PosixRoot
from tests.support import records
from tests.support.check import check_equal

Tree = dict[str, bytes]
Picture = dict[str, tuple[int, ...] | bytes | str]

SESSIONS: Final = ("nightly", "weekly")
SAVES: Final = 3
STORE: Final = names.STORE
FILES: Final = (
    names.checkpoint(20), names.checkpoint(30), names.manifest(3), names.manifest(4),
    names.POINTER, names.SESSION,
)  # fmt: skip
"""The files of each session in the end, beside its lock."""
PREVIOUS: Final = names.checkpoint(20)
CURRENT: Final = names.checkpoint(30)
KEYS: Final = records.keyring()
OTHER_KEYS: Final = records.keyring(bytes(range(100, 132)))
OTHER_STORE_KEYS: Final = records.keyring(store_id=records.OTHER_STORE)


class SteadyClock:
    """A wall clock that ticks a second with every look; it measures and waits for nothing."""

    def __init__(self) -> None:
        self._now = datetime.datetime(2026, 12, 1, 7, tzinfo=datetime.UTC)
        self._looks = 0

    def now(self) -> datetime.datetime:
        """One second later than the last time."""
        self._now += datetime.timedelta(seconds=1)
        return self._now

    def monotonic_s(self) -> float:
        """Grows by a millisecond with every look."""
        self._looks += 1
        return self._looks / 1000

    def sleep(self, duration_s: float) -> None:
        """Return at once."""


class CountedEntropy:
    """Bytes that look random and are the same in every run."""

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._count = 0

    def __call__(self, size_bytes: int, /) -> bytes:
        """The next bytes."""
        self._count += 1
        return hashlib.shake_256(f"{self._seed} {self._count}".encode()).digest(size_bytes)


def fingerprint(session: str, time: int) -> str:
    """The fingerprint that the save of ``time`` adds in ``session``."""
    return f"fx:v1:{hashlib.sha256(f'{session} {time}'.encode()).hexdigest()}"


def checkpoint(session: str, time: int) -> Checkpoint:
    """What is saved in ``session`` at ``time``: sequence 10 at time 1, and so on."""
    done = [fingerprint(session, past) for past in range(1, time + 1)]
    return Checkpoint(time * 10, {"session": session, "paid": list(range(time))}, done)


@functools.cache
def _history(label: str) -> tuple[Tree, ...]:
    keys = {"ours": KEYS, "other key": OTHER_KEYS, "other store": OTHER_STORE_KEYS}[label]
    place = Path(tempfile.mkdtemp(prefix="lastgood-history-"))
    try:
        return tuple(_saved(place / "store", keys, label))
    finally:
        shutil.rmtree(place)


def _saved(place: Path, keys: Keyring, label: str) -> Iterator[Tree]:
    clock, entropy = SteadyClock(), CountedEntropy(label)
    stores = [
        CheckpointStore(place, session, keys=keys, clock=clock, entropy=entropy)
        for session in SESSIONS
    ]
    yield on_disk(place)
    for time in range(1, SAVES + 1):
        for session, store in zip(SESSIONS, stores, strict=True):
            store.save(checkpoint(session, time))
        yield on_disk(place)
    for store in stores:
        store.close()


def history(label: str = "ours") -> list[Tree]:
    """Copies of the trees at times 0 to 3.

    Args:
        label: ``ours``; ``other key``: the same saves under another key; ``other store``: under
            the same key, with another store id.
    """
    return [dict(tree) for tree in _history(label)]


def final() -> Tree:
    """A copy of the tree after all saves: two generations and two manifests a session."""
    return history()[-1]


def directory(session: str) -> str:
    """The directory of a session."""
    return names.directory(names.session_id(session))


def on_disk(place: Path, sessions: Iterable[str] = SESSIONS) -> Tree:
    """The tree of the store at ``place``; files only, links followed."""
    tree = {STORE: (place / STORE).read_bytes()} if (place / STORE).exists() else {}
    for session in sessions:
        inside = place / directory(session)
        if inside.is_dir():
            tree[f"{session}/"] = b""
            files = sorted(path for path in inside.rglob("*") if path.is_file())
            tree |= {f"{session}/{path.relative_to(inside)}": path.read_bytes() for path in files}
    return tree


def files(tree: Mapping[str, bytes], session: str = "") -> list[str]:
    """The paths of a tree that are files, without locks; of one session if it is named."""
    return [
        path
        for path in sorted(tree)
        if path.startswith(session) and not path.endswith(("/", "/lock"))
    ]


def only(tree: Mapping[str, bytes], session: str) -> Tree:
    """The tree without the other sessions and without locks."""
    kept = {STORE, f"{session}/", *files(tree, f"{session}/")}
    return {path: data for path, data in tree.items() if path in kept}


def plant(tree: Mapping[str, bytes], place: Path) -> Path:
    """Write a tree to disk as a writer leaves it: private, the pointer and its number one file."""
    place.mkdir(mode=0o700, exist_ok=True)
    for path in sorted(tree):
        session, _, name = path.rpartition("/")
        target = place / (directory(session) if session else "") / name
        target.parent.mkdir(mode=0o700, exist_ok=True)
        if name:
            target.write_bytes(tree[path])
            target.chmod(0o600)
            _join_twin(target)
    return place


def _join_twin(target: Path) -> None:
    """Make a numbered manifest one file with the pointer, if they hold the same."""
    pointer = target.with_name(names.POINTER)
    numbered = target.name.startswith("manifest-") and pointer.exists()
    if numbered and pointer.read_bytes() == target.read_bytes():
        target.unlink()
        os.link(pointer, target)


def picture(place: Path) -> Picture:
    """Every name below ``place`` with kind, mode, owner, links, inode, mtime, and its bytes."""
    found: Picture = {}
    for path in [place, *sorted(place.rglob("*"))]:
        status = path.lstat()
        name = str(path.relative_to(place))
        found[name] = (
            status.st_mode, status.st_uid, status.st_nlink, status.st_ino, status.st_mtime_ns,
        )  # fmt: skip
        if path.is_symlink():
            found[name + " ->"] = str(path.readlink())
        elif path.is_file():
            found[name + " holds"] = path.read_bytes()
    return found


def check_untouched(
    place: Path, before: dict[str, tuple[int, ...] | bytes | str], what: str
) -> None:
    """Fail, naming what differs, unless ``picture(place)`` is ``before``."""
    now = picture(place)
    differing = {n for n in now.keys() | before.keys() if now.get(n) != before.get(n)}
    check_equal(sorted(differing), [], f"{what}: changed")


def in_memory(tree: Mapping[str, bytes]) -> MemoryRoot:
    """A tree as a store in memory; the pointer and its number are two files there."""
    root = MemoryRoot(clock=SteadyClock())
    for path, data in tree.items():
        session, _, name = path.rpartition("/")
        if not session:
            root.records().create(name, [data])
            continue
        opened = root.session(directory(session), access="write")
        if name and name != names.LOCK:
            opened.create(name, [data])
    return root


def remembered(root: MemoryRoot, paths: Iterable[str]) -> Tree:
    """What a store in memory holds now, all of it; ``paths`` name the sessions to look into."""
    found = _contents(root.records(), "")
    for session in {path.rpartition("/")[0] for path in paths} - {""}:
        found[f"{session}/"] = b""
        found |= _contents(root.session(directory(session), access="read"), f"{session}/")
    return found


def _contents(storage: Storage, prefix: str) -> Tree:
    return {prefix + name: storage.read(name, max_bytes=1 << 30) for name in storage.list()}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a reader makes of a store.

    Attributes:
        loaded: The last good checkpoint; None for a new session, or with ``error``.
        error: Of the opening, or of ``load_latest``.
        report: Of ``check``; None if the store could not even be opened.
    """

    loaded: Checkpoint | None
    error: LastgoodError | None
    report: Report | None

    @property
    def reported(self) -> int:
        """The exit code of the whole check."""
        if self.report is not None:
            return self.report.exit_code
        return self.error.exit_code if self.error else 0

    def says(self) -> str:
        """The outcome in a line, for messages and for comparing."""
        if self.error is not None:
            first = f"{self.error.code} (exit {self.error.exit_code}): {self.error.happened}"
        else:
            first = f"sequence {self.loaded.sequence}" if self.loaded else "new"
        return f"{first}; check says {self.reported}"


def read(root: StorageRoot | Path, session: str = "nightly", *, keys: Keyring = KEYS) -> Outcome:
    """Open for reading, load, check. Only a ``LastgoodError`` is an outcome."""
    if isinstance(root, Path):
        root = PosixRoot(root, clock=SteadyClock())
    try:
        store = CheckpointStore(root, session, keys=keys, mode="read", clock=SteadyClock())
    except LastgoodError as error:
        return Outcome(None, error, None)
    with store:
        try:
            loaded, refusal = store.load_latest(), None
        except LastgoodError as error:
            loaded, refusal = None, error
        return Outcome(loaded, refusal, store.check())


@functools.cache
def born() -> Mapping[bytes, int]:
    """When each content of the history was first written; what is not in it is new damage."""
    times: dict[bytes, int] = {}
    for time, tree in enumerate(_history("ours")):
        for path in files(tree):
            times.setdefault(tree[path], time)
    return times


def blame(tree: Mapping[str, bytes], outcome: Outcome, session: str = "nightly") -> str:
    """What is wrong with an outcome, or nothing.

    Legal is: a typed error of exit 2 to 5, which the check has too; the state of the last
    save; or an older one, or none, only if nothing newer is left in the session's directory,
    by which it could be told (G3). What differs from the honest tree and still loads must
    be told by the check.
    """
    if outcome.error is not None:
        codes = {outcome.error.exit_code, outcome.reported}
        return "" if codes <= {2, 3, 4, 5} else f"wrong exit code: {outcome.says()}"
    time = outcome.loaded.sequence // 10 if outcome.loaded else 0
    if outcome.loaded is not None and not same(outcome.loaded, checkpoint(session, time)):
        return f"another state was loaded: {outcome.loaded}"
    if time < SAVES:
        newest = max((_born(tree[path]) for path in files(tree, session)), default=0)
        if newest > time:
            return f"fell back to {outcome.says()}, beside what was written at time {newest}"
    return ""


def same(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether two checkpoints are one: sequence, state, fingerprints."""
    return (one.sequence, one.state, one.fingerprints) == (
        other.sequence, other.state, other.fingerprints,
    )  # fmt: skip


def _born(data: bytes) -> int:
    return born().get(data, SAVES + 1)
