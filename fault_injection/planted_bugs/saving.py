"""Mistakes of a save: what is synced, in which order, and what an error is taken for."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, calling, nothing
from lastgood import saving
from lastgood.checkpoints import CheckpointStore
from lastgood.errors import DurabilityUnknownError, LastgoodError
from lastgood.formats import names
from lastgood.lease import Lease
from lastgood.pruning import Pruned, prune
from lastgood.reading import verify_checkpoint
from lastgood.rules.retention import Retention
from lastgood.storage import posix, publish, revisions
from lastgood.storage.directory import Directory
from lastgood.storage.filesystem import CREATE_NEW, WRITE
from lastgood.storage.making import make_directories

CHECKPOINT: Final = "checkpoint-"


# --- what is synced -----------------------------------------------------------------------


def prepared_without_fsync(begins: str) -> Callable[[Plant], Patch]:
    """Step 3 of publication is left out of names that begin so."""

    def planted(plant: Plant) -> Patch:
        right, skipped = publish.prepare, plant.counting(nothing)

        def prepare(directory: Directory, name: str, data: Any, *, random: bytes) -> str:
            if not name.startswith(begins):
                return right(directory, name, data, random=random)
            with calling(directory, fsync=skipped):
                return right(directory, name, data, random=random)

        return plant.uncounted(publish, "prepare", prepare)

    return planted


def no_directory_fsync_after_the_checkpoint(plant: Plant) -> Patch:
    """S4 ends without the fsync of the directory."""
    right, skipped = publish._make_durable, plant.counting(nothing)

    def durable(directory: Directory, temporary: str, name: str) -> None:
        if not name.startswith(CHECKPOINT):
            right(directory, temporary, name)
            return
        with calling(directory, fsync=skipped):
            right(directory, temporary, name)

    return plant.uncounted(publish, "_make_durable", durable)


def _swap_without(skipped: Callable[..., object]) -> Callable[..., Any]:
    """``revisions.swap``, whose fsync of the directory goes to ``skipped`` instead."""
    right = revisions.swap

    def swap(directory: Directory, data: Sequence[bytes], **others: Any) -> object:
        def fsync(below: Any, fd: int) -> None:
            if fd == directory.fd:
                skipped(directory)
            else:
                below.fsync(fd)

        with calling(directory, fsync=fsync):
            return right(directory, data, **others)

    return swap


def no_last_directory_fsync(plant: Plant) -> Patch:
    """S7 ends without the fsync of the directory."""
    return plant.uncounted(revisions, "swap", _swap_without(plant.counting(nothing)))


def no_sync_at_all(plant: Plant) -> Patch:
    """Nothing is ever synced."""
    return plant.over_calls(fsync=nothing, fdatasync=nothing)


def new_directory_not_fsynced(plant: Plant) -> Patch:
    """The store's own directory is made and not fsynced in its parent."""
    right = make_directories

    def make(filesystem: Any, path: str) -> None:
        right(plant.altered(filesystem, fsync=nothing), path)

    return plant.uncounted(posix, "make_directories", make)


# --- order --------------------------------------------------------------------------------


def rename_before_fsync(plant: Plant) -> Patch:
    """The checkpoint is linked first and fsynced then."""
    right = publish.link_new

    def link(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        right(directory, temporary, name, data)
        if name.startswith(CHECKPOINT):
            fd, _ = directory.open_file(name)
            directory.filesystem.fsync(fd)
            directory.give_back(fd)

    without = prepared_without_fsync(CHECKPOINT)
    return all_of(without(plant), plant.over(publish, "link_new", link))


def pruned_before_the_manifest(plant: Plant) -> Patch:
    """Between S5 and S6 everything older goes; so the manifest names the new checkpoint alone."""
    right = verify_checkpoint

    def verify(scope: Any, storage: Any, sequence: int) -> object:
        found = right(scope, storage, sequence)
        for parsed in map(names.parse, storage.list(CHECKPOINT)):
            if parsed is not None and parsed.number < sequence:
                storage.delete(names.checkpoint(parsed.number))
        return found

    return all_of(
        plant.over(saving, "verify_checkpoint", verify),
        plant.uncounted_property(Lease, "sound", nothing),
    )


def manifest_in_place(plant: Plant) -> Patch:
    """S7 writes into the pointer's own file."""

    def point(directory: Directory, temporary: str) -> None:
        fd, status = directory.open_file(temporary)
        data = directory.filesystem.read(fd, status.st_size)
        directory.give_back(fd)
        directory.filesystem.unlink(temporary, dir_fd=directory.fd)
        try:
            fd = directory.filesystem.open(names.POINTER, WRITE, dir_fd=directory.fd)
            directory.filesystem.ftruncate(fd, 0)
        except FileNotFoundError:
            fd = directory.filesystem.open(names.POINTER, CREATE_NEW, dir_fd=directory.fd)
        publish.write_all(directory.filesystem, fd, [data])
        directory.filesystem.fsync(fd)
        directory.filesystem.close(fd)

    return plant.over(revisions, "_point", point)


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


def pruned_before_the_last_fsync(plant: Plant) -> Patch:
    """S9 comes between S7's rename and its fsync."""
    right, right_swap, right_advance = prune, revisions.swap, Lease.advance
    saves: list[bool] = []
    waiting: list[Directory] = []
    late_swap = _swap_without(waiting.append)

    def advance(self: Lease, *args: Any, **others: Any) -> object:
        waiting.clear()
        saves.append(True)
        try:
            return right_advance(self, *args, **others)
        finally:
            saves.pop()

    def swap(*args: Any, **others: Any) -> object:
        return late_swap(*args, **others) if saves else right_swap(*args, **others)

    def early(*args: Any, **others: Any) -> Pruned:
        done = right(*args, **others)
        while waiting:
            waiting.pop().sync()
        return done

    return all_of(
        plant.uncounted(Lease, "advance", advance),
        plant.uncounted(revisions, "swap", swap),
        plant.over(saving, "prune", early),
    )


def one_generation(plant: Plant) -> Patch:
    """A manifest names the current checkpoint alone, so that S9 removes the one before."""
    return plant.over_property(Lease, "sound", nothing)


# --- what an error is taken for -----------------------------------------------------------


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


def stale_temporary_reused(plant: Plant) -> Patch:
    """A name has one temporary, opened whether it is there or not, and so never swept."""
    right = publish.prepare

    def opened(below: Any, path: str, flags: int, **others: Any) -> object:
        return below.open(path, flags & ~os.O_EXCL, **others)

    def prepare(directory: Directory, name: str, data: Any, *, random: bytes) -> str:
        with calling(directory, open=opened):
            return right(directory, name, data, random=bytes(len(random)))

    return all_of(
        plant.over(publish, "prepare", prepare),
        plant.uncounted(revisions, "_sweep", lambda directory, name: name),
    )


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
        "no file fsync of the checkpoint",
        "S4 publishes a checkpoint that was not fsynced",
        prepared_without_fsync(CHECKPOINT),
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "no directory fsync after the checkpoint",
        "S4 ends without the fsync of the directory",
        no_directory_fsync_after_the_checkpoint,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "no fsync of the manifest",
        "S6 and S7 publish a manifest that was not fsynced",
        prepared_without_fsync(names.POINTER),
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "no last directory fsync",
        "S7 ends without the fsync of the directory",
        no_last_directory_fsync,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "no sync at all",
        "nothing is ever synced",
        no_sync_at_all,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "prune to one before the manifest",
        "everything older goes between S5 and S6",
        pruned_before_the_manifest,
        (
            Kill("L3", ("O1",), ("saves",)),
            Kill("L2", ("O1",), ("saves",)),
        ),
    ),
    Mutant(
        "manifest written in place",
        "S7 writes into the pointer's own file",
        manifest_in_place,
        (
            Kill("L3", ("O1",), ("saves",)),
            Kill("L2", ("O1",), ("saves",)),
        ),
    ),
    Mutant(
        "acknowledged before the manifest",
        "S6 and S7 come with the next save, or with the close",
        acknowledged_before_the_manifest,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "rename before fsync",
        "the checkpoint is linked first and fsynced then",
        rename_before_fsync,
        (Kill("L3", ("O7", "O1"), ("saves",)),),
    ),
    Mutant(
        "one generation kept",
        "a manifest names the current checkpoint alone, and S9 removes the others",
        one_generation,
        (Kill("L1", ("O6",), ("saves",)),),
    ),
    Mutant(
        "fsync retried after EIO",
        "a sync that failed is asked for once more, and believed then",
        fsync_retried,
        (
            Kill("L3", ("O1",), ("saves",)),
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
        (Kill("L1", ("O1", "O9"), ("saves",)), Kill("L2", ("O1", "O9"), ("saves",))),
    ),
    Mutant(
        "close error ignored",
        "the error of a close is passed over",
        close_error_ignored,
        (Kill("L1", ("O10",), ("saves",)),),
    ),
    Mutant(
        "no O_EXCL, stale temporary reused",
        "a name has one temporary, opened whether it is there or not, and never swept",
        stale_temporary_reused,
        (Kill("L2", ("O1",), ("saves",)),),
    ),
    Mutant(
        "withdrawing a published checkpoint before S6",
        "who is told that the link of S6 failed deletes the checkpoint of S4",
        published_withdrawn,
        (Kill("L1", ("O1",), ("saves",)),),
    ),
    Mutant(
        "prune before S7's fsync",
        "S9 comes between the rename and the fsync of S7",
        pruned_before_the_last_fsync,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "a save on top of a failed one",
        "a save that came to no end does not end the lease",
        saved_on_top_of_a_failed_one,
        (Kill("L1", ("O1",), ("insists",)), Kill("L3", ("O1",), ("insists",))),
    ),
    Mutant(
        "new directory not fsynced in its parent",
        "the directory of the store is made and not fsynced in its parent",
        new_directory_not_fsynced,
        (Kill("L3", ("O1",), ("first",)),),
    ),
)
"""Mistakes of a save."""
