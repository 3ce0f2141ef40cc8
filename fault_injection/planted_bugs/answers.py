"""Mistakes of an answer: what is acknowledged too early, and what an error is taken for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of
from lastgood import saving
from lastgood.checkpoints import CheckpointStore
from lastgood.errors import DurabilityUnknownError, LastgoodError
from lastgood.lease import Lease
from lastgood.pruning import prune
from lastgood.rules.retention import Retention
from lastgood.storage import publish
from lastgood.storage.directory import Directory


def acknowledged_before_the_manifest(plant: Plant) -> Patch:
    """S6 and S7 come with the next save, or when the store is closed."""
    right, right_end = Lease.advance, CheckpointStore._give_back
    waiting: list[tuple[Lease, Callable[[], object]]] = []

    def catch_up(lease: Lease | None) -> None:
        for owner, late in waiting:
            if owner is lease:  # of who is alive
                late()
        waiting.clear()

    def advance(self: Lease, *args: Any, **others: Any) -> object:
        catch_up(self)
        waiting.append((self, lambda: right(self, *args, **others)))
        return self.manifest

    def end(self: CheckpointStore) -> None:
        lease = self._lease
        if lease is not None and waiting:
            catch_up(lease)
            prune(lease.scope, lease.storage, lease.manifest, retention=Retention())
        right_end(self)

    return all_of(
        plant.over(Lease, "advance", advance),
        plant.uncounted(CheckpointStore, "_give_back", end),
    )


def _fsync_again(below: Any, fd: int) -> None:
    try:
        below.fsync(fd)
    except OSError:
        below.fsync(fd)


def _fdatasync_again(below: Any, fd: int) -> None:
    try:
        below.fdatasync(fd)
    except OSError:
        below.fdatasync(fd)


def fsync_retried(plant: Plant) -> Patch:
    """A sync that failed is asked for once more, and believed then."""
    return plant.over_calls(fsync=_fsync_again, fdatasync=_fdatasync_again)


def fsync_swallowed(plant: Plant) -> Patch:
    """The error of a sync is passed over."""

    def swallowing(name: str) -> Callable[..., None]:
        def sync(below: Any, fd: int) -> None:
            try:
                getattr(below, name)(fd)
            except OSError:
                pass

        return sync

    return plant.over_calls(fsync=swallowing("fsync"), fdatasync=swallowing("fdatasync"))


def short_write_ignored(plant: Plant) -> Patch:
    """What a write did not take is forgotten."""

    def write_all(filesystem: Any, fd: int, data: Sequence[bytes]) -> None:
        filesystem.writev(fd, data)

    return plant.over(publish, "write_all", write_all)


def close_error_ignored(plant: Plant) -> Patch:
    """The error of a close is passed over."""

    def close(below: Any, fd: int) -> None:
        try:
            below.close(fd)
        except OSError:
            pass

    return plant.over_calls(close=close)


def saved_on_top_of_a_failed_one(plant: Plant) -> Patch:
    """A save that came to no end does not end the lease."""
    right = saving.save

    def save(lease: Lease, *args: Any, **others: Any) -> object:
        try:
            return right(lease, *args, **others)
        except DurabilityUnknownError:
            lease.over = False
            raise

    return plant.over(saving, "save", save)


def published_withdrawn(plant: Plant) -> Patch:
    """Whoever is told that S6's link failed deletes the checkpoint of S4."""
    right_link, right_advance = publish.link_new, Lease.advance
    failed: list[str] = []

    def link(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        try:
            right_link(directory, temporary, name, data)
        except LastgoodError:
            failed.append(name)
            raise

    def advance(self: Lease, entry: Any, *args: Any, **others: Any) -> object:
        failed.clear()
        try:
            return right_advance(self, entry, *args, **others)
        except LastgoodError:
            if failed and entry is not None and entry != self.manifest.current:
                self.storage.delete(entry.name)
            raise

    return all_of(plant.uncounted(publish, "link_new", link), plant.over(Lease, "advance", advance))


MUTANTS: Final = (
    Mutant(
        "acknowledged before the manifest",
        "S6 and S7 come with the next save, or with the close",
        acknowledged_before_the_manifest,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "fsync retried after EIO",
        "a sync that failed is asked for once more, and believed then",
        fsync_retried,
        (
            Kill("L3", ("O1", "O7"), ("saves",)),
            Kill("L1", ("O10",), ("saves",)),
        ),
    ),
    Mutant(
        "fsync error swallowed",
        "the error of a sync is passed over",
        fsync_swallowed,
        (Kill("L1", ("O10",), ("saves",)),),
    ),
    Mutant(
        "short write ignored",
        "what a write did not take is forgotten",
        short_write_ignored,
        (Kill("L1", ("O7", "O9"), ("saves",)), Kill("L2", ("O7", "O9"), ("saves",))),
    ),
    Mutant(
        "close error ignored",
        "the error of a close is passed over",
        close_error_ignored,
        (Kill("L1", ("O10",), ("saves",)),),
    ),
    Mutant(
        "withdrawing a published checkpoint before S6",
        "who is told that the link of S6 failed deletes the checkpoint of S4",
        published_withdrawn,
        (Kill("L1", ("O1",), ("saves",)),),
    ),
    Mutant(
        "a save on top of a failed one",
        "a save that came to no end does not end the lease",
        saved_on_top_of_a_failed_one,
        (Kill("L1", ("O1",), ("insists",)), Kill("L3", ("O1",), ("insists",))),
    ),
)
"""Mistakes of what is told, and of what is heard."""
