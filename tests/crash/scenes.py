"""Sessions to begin with, made once and copied, and what must be true of one at the end.

A checkpoint of these tests says in its state who saved it, so that whoever loads it knows whose
bytes are believed. Its fingerprints grow with its sequence (I6).
"""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from lastgood.checkpoints import CheckpointStore
from lastgood.errors import ConflictError, LastgoodError
from lastgood.formats import names
from lastgood.formats.checkpoint import Checkpoint
from lastgood.keyring import Keyring
from lastgood.saving import SaveReceipt
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from tests.crash.seam import Killed, Mortal, Seam, once, system
from tests.support import records
from tests.support.check import check, check_equal

SESSION: Final = "nightly"
KEYS: Final[Keyring] = records.keyring()
DIRECTORY: Final = names.directory(names.session_id(SESSION))

Believed = tuple[int, str]
"""Sequence and author of a checkpoint; ``NOTHING`` where there is none yet."""
NOTHING: Final[Believed] = (0, "")

Outcome = SaveReceipt | LastgoodError


def checkpoint(sequence: int, author: str = "owner") -> Checkpoint:
    """The checkpoint that ``author`` saves at ``sequence``."""
    known = [records.fingerprint(number) for number in range(1, sequence // 10 + 1)]
    return Checkpoint(sequence, {"author": author, "items": [sequence] * 3}, known)


def believed(found: Checkpoint | None) -> Believed:
    """Who is believed, after checking that it is what that author saved."""
    if found is None:
        return NOTHING
    state: Any = found.state
    expected = checkpoint(found.sequence, state["author"])
    check_equal(state, expected.state, "the state that was loaded")
    check_equal(found.known, expected.known, "the fingerprints that were loaded")
    return found.sequence, state["author"]


def writer(place: Path, seam: Seam | None = None, **options: Any) -> CheckpointStore:
    """Open the session for writing, on a file system of the test's."""
    filesystem: FileSystem | None = None if seam is None else system(seam)
    root = PosixRoot(place, filesystem=filesystem)
    try:
        return CheckpointStore(root, SESSION, keys=KEYS, **options)
    finally:
        with suppress(Killed):
            root.close()


@contextmanager
def reader(place: Path, seam: Seam | None = None) -> Iterator[CheckpointStore]:
    """Open the session for reading."""
    root = PosixRoot(place, filesystem=None if seam is None else system(seam))
    try:
        with CheckpointStore(root, SESSION, keys=KEYS, mode="read") as store:
            yield store
    finally:
        root.close()


def outcome(call: Callable[[], SaveReceipt]) -> Outcome:
    """What ``call`` returned, or the typed error it raised; anything else escapes."""
    try:
        return call()
    except LastgoodError as error:
        return error


def told(store: CheckpointStore, sequence: int, author: str = "owner") -> Outcome:
    """What ``author`` is told of a save at ``sequence``."""
    return outcome(lambda: store.save(checkpoint(sequence, author)))


def latest(place: Path) -> Believed:
    """What a fresh reader believes."""
    root = PosixRoot(place)
    with CheckpointStore(root, SESSION, keys=KEYS, mode="read") as store:
        found = believed(store.load_latest())
    root.close()
    return found


def files(place: Path) -> list[str]:
    """Every file of the session, the archive's too."""
    session = place / DIRECTORY
    return sorted(str(path.relative_to(session)) for path in session.rglob("*") if path.is_file())


def snapshot(place: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below ``place``, with its inode and bytes."""
    files = (path for path in place.rglob("*") if path.is_file())
    return {str(path): (path.stat().st_ino, path.read_bytes()) for path in files}


def check_recovers(place: Path, may_be: Collection[Believed], context: str) -> Believed:
    """G2, G4: what is there is one of ``may_be``, recovered the same twice; then work goes on.

    Returns what was recovered. On return the session is settled, two saves further.
    """
    found = latest(place)
    check(found in may_be, f"{context}: {found} is believed, it may be {sorted(may_be)}")
    check_believable(place, context)
    for turn in ("first", "second"):
        with writer(place) as store:
            check_equal(believed(store.load_latest()), found, f"{context}: {turn} recovery")
    with writer(place) as store:
        for sequence in (found[0] + 10, found[0] + 20):
            receipt = store.save(checkpoint(sequence, "next"))
            check_equal(receipt.status, "saved", f"{context}: the next save")
            alarms = [text for text in receipt.warnings if "fenced writer" not in text]
            check_equal(alarms, [], f"{context}: warnings of the next save")
    check_settled(place, (found[0] + 20, "next"), context)
    return found


def check_believable(place: Path, context: str) -> None:
    """I1, I4: all that is stored verifies, and two generations are there once two exist."""
    with reader(place) as store:
        report = store.check()
    check(report.error is None, f"{context}: {report.error}")
    if report.selection is not None and report.selection.current is not None:
        names_kept = {entry.sequence for entry in report.selection.kept()}
        verified = {row.sequence for row in report.rows if row.is_verified}
        check(names_kept <= verified, f"{context}: kept {names_kept}, verified {verified}")


def check_settled(place: Path, current: Believed, context: str) -> None:
    """G2: ``current``, at least the second save, is believed; all verifies; nothing is left over.

    What a fenced writer published may lie in the archive, where it is kept and reported.
    """
    check_equal(latest(place), current, f"{context}: what is believed at the end")
    with reader(place) as store:
        report = store.check()
    check_equal(report.findings, (), f"{context}: findings")
    check_equal(report.verdict, "good", f"{context}: verdict")
    check_equal(_not_aside(report.leftovers), [], f"{context}: leftovers")
    newest = report.selection.manifest if report.selection else None
    revision = newest.revision if newest else 0
    expected = ["lock", "manifest.json", "session.json"]
    expected += [names.manifest(number) for number in (revision - 1, revision)]
    expected += [row.name for row in report.rows if row.role in ("current", "previous")]
    expected += [row.name for row in report.rows if row.role == "milestone"]
    check_equal(_not_aside(files(place)), sorted(expected), f"{context}: files")


def _not_aside(listed: Iterable[str]) -> list[str]:
    return [name for name in listed if not name.startswith("archive/fenced-")]


def looks_of(place: Path) -> str:
    """A digest of the store's shape: names without their random parts, sizes, links, bytes' kind.

    Records differ in each run by random bytes and times, so sizes stand for them: the code
    writes each record whole or not at all, and a half has another size.
    """
    told = hashlib.sha256()
    for path in sorted(place.rglob("*")) if place.exists() else []:
        status = path.lstat()
        name = path.name
        if name.endswith(".tmp"):
            name = name.rsplit(".", 2)[0]
        elif name.startswith("fenced-"):
            name = name[:7] + name[23:]
        size = status.st_size if path.is_file() and name != "lock" else 0
        folder = path.parent.relative_to(place)
        told.update(f"{folder}/{name} {size} {status.st_nlink}\n".encode())
    return told.hexdigest()


class Scenes:
    """Stores to begin with; each is made once, below ``base``, and copied as often as asked.

    ==============  ========================================================================
    ``absent``      nothing, not even the store's root
    ``new``         opened and closed, never saved
    ``one``         one checkpoint, 10
    ``two``         10 and 20
    ``three``       10, 20 and 30; the first is pruned
    ``temporary``   ``three``, and a save of 40 killed before S4's link
    ``published``   ``three``, and a save of 40 killed between S4 and S6
    ``claimed``     ``three``, and a save of 40 killed between S6 and S7
    ``unpruned``    ``three``, and a save of 40 killed before S9 removed anything
    ``fenced``      ``published`` by an owner who had been fenced: 40 is a leftover
    ==============  ========================================================================
    """

    SAVED: Final = {"new": 0, "one": 1, "two": 2, "three": 3}
    KILLED: Final = {
        "temporary": "link .checkpoint", "published": "open .manifest", "claimed": "rename",
        "unpruned": "unlink checkpoint",
    }  # fmt: skip
    BELIEVED: Final[dict[str, Believed]] = {
        "absent": NOTHING, "new": NOTHING, "one": (10, "owner"), "two": (20, "owner"),
        "three": (30, "owner"), "temporary": (30, "owner"), "published": (40, "owner"),
        "claimed": (40, "owner"), "unpruned": (40, "owner"), "fenced": (30, "owner"),
    }  # fmt: skip

    def __init__(self, base: Path) -> None:
        self._base = base
        self._made: set[str] = set()
        self._numbers = itertools.count()

    @contextmanager
    def copy(self, scene: str) -> Iterator[Path]:
        """A store of its own, gone after the block."""
        place = self._base / f"copy-{next(self._numbers)}"
        if scene != "absent":
            clone(self._original(scene), place)
        try:
            yield place
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def _original(self, scene: str) -> Path:
        place = self._base / scene
        if scene not in self._made:
            self._make(scene, place)
            self._made.add(scene)
        return place

    def _make(self, scene: str, place: Path) -> None:
        if scene in self.SAVED:
            with writer(place) as store:
                for number in range(1, self.SAVED[scene] + 1):
                    store.save(checkpoint(number * 10))
            return
        clone(self._original("three"), place)
        if scene == "fenced":
            _publish_fenced(place)
        else:
            _killed_save(place, self.KILLED[scene])


def clone(source: Path, target: Path) -> None:
    """Copy a store; two names of one inode become two names of one inode."""
    target.mkdir()
    made: dict[int, Path] = {}
    for path in sorted(source.rglob("*")):
        there = target / path.relative_to(source)
        status = path.lstat()
        if path.is_dir():
            there.mkdir(mode=0o700)
        elif status.st_ino in made:
            os.link(made[status.st_ino], there)
        else:
            shutil.copy2(path, there)
            made[status.st_ino] = there


def _killed_save(place: Path, before: str) -> None:
    """Save 40 and die at the first call that begins with ``before``."""
    mortal = Mortal()
    store = writer(place, mortal)
    mortal.at = before
    with suppress(Killed):
        store.save(checkpoint(40))
    check(mortal.is_dead, f"no call was {before}")


def _publish_fenced(place: Path) -> None:
    """Publish 40 by an owner who lost the session after S1 and did not know."""
    seam = Seam(locks="broken")
    with writer(place, seam) as store:
        seam.begin(once("open .checkpoint", lambda: writer(place, Seam(locks="broken")).close()))
        refused = outcome(lambda: store.save(checkpoint(40)))
    check(isinstance(refused, ConflictError), f"a fenced save came out as {refused}")
