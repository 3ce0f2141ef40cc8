"""What must hold while a save runs: one function a guarantee, shared with the mutants.

Each makes stores of its own below ``base`` and raises ``AssertionError`` where the guarantee
does not hold. The pauses are before every call of the file system, through the seam that
production code has anyway; the lock is broken, so that only epochs and create-only numbers
stand between two owners (F13).
"""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from lastgood import Checkpoint, CheckpointStore, Limits
from lastgood.errors import LastgoodError
from lastgood.formats import canonical, names, seal
from lastgood.formats import checkpoint as records
from lastgood.saving import SaveReceipt
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.crash.seam import Killed, Mortal, Seam, system
from tests.support import trees
from tests.support.check import check, check_equal

SESSION: Final = "nightly"
_numbers = itertools.count()


@contextmanager
def store_of(base: Path, tree: trees.Tree) -> Iterator[Path]:
    """A store of its own that holds ``tree``, gone after the block."""
    place = trees.plant(tree, base / f"race-{next(_numbers)}")
    try:
        yield place
    finally:
        shutil.rmtree(place)


def writer(place: Path, seam: Seam | OsFileSystem) -> CheckpointStore:
    """Open the session for writing on a file system of the test's."""
    filesystem = seam if isinstance(seam, OsFileSystem) else system(seam)
    root = PosixRoot(place, filesystem=filesystem)
    try:
        return CheckpointStore(root, SESSION, keys=trees.KEYS)
    finally:
        with suppress(Killed):
            root.close()


def told(action: Callable[[], SaveReceipt | None]) -> SaveReceipt | LastgoodError | None:
    """What an action returns, or the typed error that it raises."""
    try:
        return action()
    except LastgoodError as error:
        return error


# --- two owners ---------------------------------------------------------------------------


def _opens(place: Path) -> Checkpoint:
    with writer(place, Seam(locks="broken")) as store:
        return _current(store)


def _saves(place: Path) -> Checkpoint:
    with writer(place, Seam(locks="broken")) as store:
        following = _following(_current(store))
        check_equal(store.save(following).status, "saved", "the other owner's save")
        return following


def _publishes_and_dies(place: Path) -> Checkpoint:
    mortal = Mortal(locks="broken")
    store = writer(place, mortal)
    following = _following(_current(store))
    mortal.at = "open .manifest"  # between S4 and S6
    with suppress(Killed):
        store.save(following)
    check(mortal.is_dead, "the other owner did not die")
    return following


def _current(store: CheckpointStore) -> Checkpoint:
    found = store.load_latest()
    if found is None:
        raise AssertionError("nothing is current")
    return found


def _following(current: Checkpoint) -> Checkpoint:
    done = [*current.fingerprints, trees.fingerprint("the other's", current.sequence)]
    return Checkpoint(current.sequence + 10, {"by": "the other owner"}, done)


def _saves_often(place: Path) -> Checkpoint:
    """So often that the number which the paused one would claim was pruned, and is free again."""
    with writer(place, Seam(locks="broken")) as store:
        following = _current(store)
        for _ in range(3):
            following = _following(following)
            check_equal(store.save(following).status, "saved", "the other owner's save")
        return following


OTHERS: Final = (_opens, _saves, _saves_often, _publishes_and_dies)


def paused_save_undoes_nothing(base: Path) -> int:
    """S6, F13: a writer paused before any call never undoes what another owner did meanwhile.

    The other owner's acknowledged or published checkpoint is current afterwards, everything
    verifies, the pointer never goes down (G4), and the session can be opened again.

    Returns:
        How many pauses were tried.
    """
    count = 0
    for other in OTHERS:
        for at in itertools.count():
            with store_of(base, trees.history()[2]) as place:
                seam = Seam(locks="broken")
                with writer(place, seam) as store:
                    pause = _Pause(place, other, at)
                    seam.begin(pause)
                    said = told(lambda s=store: s.save(trees.checkpoint(SESSION, 3)))  # type: ignore[misc]
                    seam.begin()
                if pause.left is None:
                    break
                count += 1
                _check_undone_nothing(pause, said, f"{other.__name__} at call {at}: {said}")
    check(count > 60, f"only {count} pauses")
    return count


def paused_opening_undoes_nothing(base: Path) -> int:
    """R4, F13: the same of an owner that is paused while it finishes an interrupted save."""
    behind, unnumbered = trees.history()[2], trees.history()[2]
    behind["nightly/manifest.json"] = behind["nightly/manifest-000002.json"]
    del unnumbered["nightly/manifest-000003.json"]
    count = 0
    for interrupted, other in ((behind, _opens), (unnumbered, _saves_often)):
        for at in itertools.count():
            with store_of(base, interrupted) as place:
                seam = Seam(locks="broken")
                pause = _Pause(place, other, at)
                seam.begin(pause)
                said = told(lambda p=place, s=seam: writer(p, s).close())  # type: ignore[misc]
                if pause.left is None:
                    break
                count += 1
                what = f"opening paused at call {at}, {other.__name__}: {said}"
                _check_undone_nothing(pause, said, what)
    check(count > 150, f"only {count} pauses")
    return count


class _Pause:
    """A hook: at call ``at`` the other owner works; from then on the pointer is watched."""

    def __init__(self, place: Path, other: Callable[[Path], Checkpoint], at: int) -> None:
        self.place = place
        self.left: Checkpoint | None = None
        self._other = other
        self._at = at
        self._pointer = 0

    def __call__(self, number: int, made: str) -> None:
        if number == self._at:
            try:
                self.left = self._other(self.place)
            except LastgoodError as error:
                raise AssertionError(f"before call {number}, {made}: {error}") from error
        if self.left is not None:
            self.look(f"before call {number}, {made}")

    def look(self, when: str) -> None:
        """Fail if the pointer went down since the last look."""
        pointer = self.place / trees.directory(SESSION) / names.POINTER
        header = canonical.decode(pointer.read_bytes().split(b"\n")[1])
        revision: int = header["revision"]
        check(revision >= self._pointer, f"{when}: pointer at {revision}, was {self._pointer}")
        self._pointer = revision


def _check_undone_nothing(pause: _Pause, said: object, what: str) -> None:
    pause.look(what)
    if pause.left is None:
        raise AssertionError(f"{what}: nobody worked meanwhile")
    if isinstance(said, SaveReceipt):
        adopted = pause.left.sequence >= said.sequence and said.status == "saved"
        check(adopted, f"{what}: acknowledged, and not adopted")
    outcome = trees.read(pause.place)
    check(outcome.error is None and outcome.loaded is not None, f"{what}: {outcome.says()}")
    if outcome.loaded is not None:
        check(trees.same(outcome.loaded, pause.left), f"{what}: {outcome.loaded} is current")
    findings = outcome.report.findings if outcome.report else ()
    check_equal(findings, (), f"{what}: findings")
    again = told(lambda: writer(pause.place, Seam(locks="broken")).close())
    check(again is None, f"{what}: it cannot be opened again: {again}")


# --- one owner ----------------------------------------------------------------------------


def verified_generations(place: Path) -> set[int]:
    """The sequences whose files verify, byte for byte."""
    found = set()
    sealer = trees.KEYS.sealer(trees.directory(SESSION))
    for path in (place / trees.directory(SESSION)).glob("checkpoint-*.json"):
        context = records.context(trees.KEYS.store_id, SESSION)
        with suppress(LastgoodError, FileNotFoundError):
            record = seal.unseal(
                path.read_bytes(), context=context, sealer=sealer, limits=Limits(), name=path.name
            )
            found.add(int(record.header["sequence"]))
    return found


def two_generations_stand_at_every_instant(base: Path) -> int:
    """I2, I4: at every call of a save two verified generations stand, and one of them loads.

    Returns:
        At how many instants that was looked at.
    """
    count = 0
    with store_of(base, trees.history()[2]) as place:
        seam = Seam()

        def look(number: int, made: str) -> None:
            nonlocal count
            count += 1
            stand = verified_generations(place)
            check(len(stand) >= 2, f"before call {number}, {made}: only {stand} verify")
            outcome = trees.read(place)
            legal = outcome.loaded is not None and outcome.loaded.sequence in {20, 30}
            check(legal, f"before call {number}, {made}: {outcome.says()}")

        with writer(place, seam) as store:
            seam.begin(look)
            store.save(trees.checkpoint(SESSION, 3))
            seam.begin()
        check_equal(verified_generations(place), {20, 30}, "exactly two after the prune")
    check(count > 20, f"only {count} instants")
    return count


class _LyingDisk(OsFileSystem):
    """Writes one byte of every checkpoint wrongly, and says that all is well."""

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        whole = bytearray(b"".join(buffers))
        if b'"kind":"checkpoint"' in whole:
            whole[-20] ^= 1
        return super().writev(fd, [bytes(whole)])


def write_that_went_wrong_costs_no_generation(base: Path) -> None:
    """S5, I4: what was written wrongly is found before anything older is removed."""
    with store_of(base, trees.history()[2]) as place:
        with writer(place, _LyingDisk()) as store:
            said = told(lambda: store.save(trees.checkpoint(SESSION, 3)))
        check(isinstance(said, LastgoodError), f"it was acknowledged: {said}")
        check({10, 20} <= verified_generations(place), f"left: {verified_generations(place)}")


class _Syncs(OsFileSystem):
    """Knows which files hold bytes that were not fsynced yet."""

    def __init__(self) -> None:
        super().__init__()
        self.dirty: set[int] = set()
        self.early: list[str] = []

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        self.dirty.add(os.fstat(fd).st_ino)
        return super().writev(fd, buffers)

    def fsync(self, fd: int) -> None:
        super().fsync(fd)
        self.dirty.discard(os.fstat(fd).st_ino)

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        self._look(source, target, source_fd)
        super().link(source, target, source_fd=source_fd, target_fd=target_fd)

    def rename(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        self._look(source, target, source_fd)
        super().rename(source, target, source_fd=source_fd, target_fd=target_fd)

    def _look(self, source: str, target: str, fd: int) -> None:
        if os.stat(source, dir_fd=fd, follow_symlinks=False).st_ino in self.dirty:
            self.early.append(target)


def nothing_is_published_before_its_fsync(base: Path) -> None:
    """I1, C3-05: an official name never leads to bytes that were not fsynced."""
    place = base / f"race-{next(_numbers)}"
    syncs = _Syncs()
    with writer(place, syncs) as store:
        for time in (1, 2, 3):
            store.save(trees.checkpoint(SESSION, time))
    check_equal(syncs.early, [], "names published before the fsync")
    shutil.rmtree(place)
