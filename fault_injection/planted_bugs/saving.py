"""Mistakes of a save: what is synced, and in which order."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, calling, nothing
from lastgood import saving
from lastgood.formats import names
from lastgood.lease import Lease
from lastgood.pruning import Pruned, prune
from lastgood.reading import verify_checkpoint
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


MUTANTS: Final = (
    Mutant(
        "no file fsync of the checkpoint",
        "S4 publishes a checkpoint that was not fsynced",
        prepared_without_fsync(CHECKPOINT),
        (Kill("L3", ("O7",), ("saves",)),),
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
        "rename before fsync",
        "the checkpoint is linked first and fsynced then",
        rename_before_fsync,
        (Kill("L3", ("O7",), ("saves",)),),
    ),
    Mutant(
        "one generation kept",
        "a manifest names the current checkpoint alone, and S9 removes the others",
        one_generation,
        (Kill("L1", ("O6",), ("saves",)),),
    ),
    Mutant(
        "no O_EXCL, stale temporary reused",
        "a name has one temporary, opened whether it is there or not, and never swept",
        stale_temporary_reused,
        (Kill("L2", ("O1",), ("saves",)),),
    ),
    Mutant(
        "prune before S7's fsync",
        "S9 comes between the rename and the fsync of S7",
        pruned_before_the_last_fsync,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "new directory not fsynced in its parent",
        "the directory of the store is made and not fsynced in its parent",
        new_directory_not_fsynced,
        (Kill("L3", ("O1",), ("first",)),),
    ),
)
"""Mistakes of a save."""
