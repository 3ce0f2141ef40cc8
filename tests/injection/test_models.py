"""What each persistence model leaves of few operations, disk by disk."""

from __future__ import annotations

import pytest

from fault_injection.memory.operations import (
    ROOT,
    Entry,
    Make,
    Mode,
    Operation,
    Removal,
    Rename,
    Sync,
    SyncFailed,
    Truncate,
    Write,
)
from fault_injection.power.rules import ALICE, JOURNAL, MODELS, POSIX, WEAK, Model, find
from tests.injection.disks import base, contents, created, fed, found, left, names, saved
from tests.support.check import check, check_equal

each_model = pytest.mark.parametrize("model", MODELS, ids=[model.name for model in MODELS])

OLD, NEW, TMP = ("p", b"old"), ("p", b"new"), ("t", b"new")
RENAMED = {
    "posix": [{OLD, TMP}, {NEW}],
    "journal": [{OLD, TMP}, {NEW}],
    "weak": [{OLD, TMP}, {NEW}, {OLD}, {NEW, TMP}],
    "alice": [{OLD, TMP}, {NEW}, {OLD}, {NEW, TMP}, {TMP}, set()],
}


@each_model
def test_a_rename_over_a_name_has_exactly_the_outcomes_of_its_model(model: Model) -> None:
    """F3: atomic under posix and journal, two parts under weak, three under alice.

    Method: a durable new file is renamed over a durable old one; list every disk.
    """
    disks = left(model, [Rename(ROOT, "t", ROOT, "p", 3)], on=base(p=b"old", t=b"new"))
    check_equal(disks, {frozenset(disk) for disk in RENAMED[model.name]}, model.name)


@each_model
def test_a_rename_to_a_free_name_never_loses_both_in_order(model: Model) -> None:
    """F3: without a target there is nothing to unlink; weak and alice agree.

    Method: rename a durable file to a name that is free.
    """
    disks = names(left(model, [Rename(ROOT, "t", ROOT, "p", 2)], on=base(t=b"new")))
    atomic = {("t",), ("p",)}
    parts = atomic | {(), ("p", "t")}
    check_equal(disks, parts if model.rename_parts > 1 else atomic, model.name)


def _pointer_and_previous() -> list[Operation]:
    """The previous copy is replaced by the pointer, then the pointer by the new file."""
    return [
        *saved(4, "tmp", b"new"),
        Rename(ROOT, "pointer", ROOT, "previous", 2),
        Rename(ROOT, "tmp", ROOT, "pointer", 4),
    ]


@each_model
def test_pointer_and_previous_with_one_sync_can_both_be_lost(model: Model) -> None:
    """F3: the very scheme that lastgood does not use loses everything under alice and weak.

    Method: two renames and one sync of the directory that did not return; look for neither.
    """
    disks = names(left(model, _pointer_and_previous(), on=base(pointer=b"1", previous=b"0")))
    lost = any("pointer" not in disk and "previous" not in disk for disk in disks)
    check_equal(lost, model is ALICE, f"{model.name}: both are lost")
    newest = left(model, _pointer_and_previous(), on=base(pointer=b"1", previous=b"0"))
    neither = any({b"1", b"new"}.isdisjoint(dict(disk).values()) for disk in newest)
    check_equal(neither, model in (ALICE, WEAK), f"{model.name}: neither of the two newest")


@each_model
def test_numbered_names_that_are_only_created_are_never_lost(model: Model) -> None:
    """F3: whatever a crash leaves, the newest durable number is there.

    Method: a second numbered file beside a durable one, and a pointer renamed over the old.
    """
    operations: list[Operation] = [
        *saved(4, "tmp", b"two"),
        Entry(ROOT, "number2", 4),
        Rename(ROOT, "tmp", ROOT, "pointer", 4),
    ]
    disks = left(model, operations, on=base(number1=b"one", pointer=b"one"))
    check_equal(contents(disks, "number1"), {b"one"}, "the older number")
    check(contents(disks, "number2") <= {b"two", None}, "a number with other bytes")
    whole = left(model, [*operations, Sync(ROOT)], on=base(number1=b"one", pointer=b"one"))
    check_equal(len(whole), 1, "disks after the directory's sync")


@each_model
def test_a_new_file_is_lost_empty_grown_or_there(model: Model) -> None:
    """F2: a name without data, zeros for data, all of it; under alice garbage, too.

    Method: create and write a file of three bytes; nothing is synced.
    """
    held = contents(left(model, created(2, "a", b"abc")), "a")
    plain = {None, b"", bytes(3), b"abc"}
    garbage = held - plain
    check_equal(held - garbage, plain, "outcomes without garbage")
    check_equal(len(garbage), 1 if model is ALICE else 0, "outcomes with garbage")
    check(all(data and len(data) == 3 for data in garbage), "garbage has the size that grew")


@each_model
def test_a_synced_file_has_its_bytes_and_not_its_name(model: Model) -> None:
    """F2, F4: fsync makes bytes durable; its name only where metadata is in order.

    Method: create, write and sync a file, but not its directory.
    """
    held = contents(left(model, saved(2, "a", b"abc")), "a")
    check_equal(held, {b"abc"} if model is JOURNAL else {b"abc", None}, model.name)


@each_model
def test_a_synced_directory_has_its_names_and_not_their_bytes(model: Model) -> None:
    """F2: a name whose file was not synced may lead to nothing.

    Method: create and write a file, sync the directory alone.
    """
    held = contents(left(model, [*created(2, "a", b"abc"), Sync(ROOT)]), "a")
    check_equal(held >= {b"", bytes(3), b"abc"}, True, "outcomes")
    check(None not in held, "the name is durable")


@each_model
def test_a_directory_without_a_durable_name_takes_everything_with_it(model: Model) -> None:
    """F4: what was synced below a new directory is gone with the directory's own entry.

    Method: make a directory, save a file in it and sync both, not the parent.
    """
    operations: list[Operation] = [
        Make(2, is_directory=True, mode=0o700),
        Entry(ROOT, "d", 2),
        *created(3, "a", b"abc", directory=2),
        Sync(3),
        Sync(2),
    ]
    disks = left(model, operations)
    there = frozenset({("d", None), ("d/a", b"abc")})
    check_equal(disks, {there} if model is JOURNAL else {there, frozenset()}, model.name)


@each_model
def test_a_file_without_a_name_leaves_nothing(model: Model) -> None:
    """F2: an inode that was made, written and synced under no name is no state of its own.

    Method: Make and Write without an Entry.
    """
    operations: list[Operation] = [
        Make(2, is_directory=False, mode=0o600),
        Write(2, 0, b"abc"),
        Sync(2),
    ]
    check_equal(left(model, operations), {frozenset()}, "disks")


@each_model
def test_modes_and_cuts_are_pending_until_the_file_is_synced(model: Model) -> None:
    """F2: fchmod and ftruncate may be lost as a write may.

    Method: cut a durable file and change its mode; then sync it.
    """
    operations: list[Operation] = [Truncate(2, 1), Mode(2, 0o640)]
    cache = fed(model, operations, on=base(a=b"abc"))
    seen = set()
    for lost in [(), ((0, 0),), ((1, 0),), ((0, 0), (1, 0))]:
        node = cache.tree(lost).nodes[2]
        seen.add((node.data, node.mode))
    check_equal(seen, {(d, m) for d in (b"a", b"abc") for m in (0o600, 0o640)}, "outcomes")
    check_equal(contents(left(model, operations, on=base(a=b"abc")), "a"), {b"a", b"abc"}, "cut")
    grown = left(model, [Truncate(2, 5)], on=base(a=b"abc"))
    check_equal(contents(grown, "a"), {b"abc", b"abc\0\0"}, "a cut that makes it longer")
    synced = left(model, [*operations, Sync(2)], on=base(a=b"abc"))
    check_equal(contents(synced, "a"), {b"a"}, "after the sync")


@each_model
def test_a_removal_may_be_lost_and_a_removed_name_may_come_back(model: Model) -> None:
    """F2: until its directory is synced, a removed name may still be there.

    Method: remove one of two files; sync the directory.
    """
    on = base(a=b"a", b=b"b")
    check_equal(names(left(model, [Removal(ROOT, "a")], on=on)), {("a", "b"), ("b",)}, "pending")
    check_equal(names(left(model, [Removal(ROOT, "a"), Sync(ROOT)], on=on)), {("b",)}, "synced")


def test_a_journal_keeps_metadata_in_order_and_others_do_not() -> None:
    """F2: under journal a later name is never there without an earlier one.

    Method: give a durable file three names.
    """
    operations: list[Operation] = [Entry(ROOT, name, 2) for name in ("b", "c", "d")]
    on = base(a=b"a")
    ordered = {("a",), ("a", "b"), ("a", "b", "c"), ("a", "b", "c", "d")}
    check_equal(names(left(JOURNAL, operations, on=on)), ordered, "journal")
    check_equal(len(names(left(POSIX, operations, on=on))), 8, "posix: every subset")


def test_a_journal_commits_earlier_metadata_with_any_sync_and_not_their_bytes() -> None:
    """F2: a sync of one file makes the names before it durable, and no other file's data.

    Method: create two files, sync the second.
    """
    operations: list[Operation] = [*created(2, "a", b"abc"), *saved(3, "b", b"xyz")]
    disks = left(JOURNAL, operations)
    check_equal(names(disks), {("a", "b")}, "names")
    check_equal(contents(disks, "a"), {b"", bytes(3), b"abc"}, "the file that was not synced")
    check_equal(contents(disks, "b"), {b"xyz"}, "the one that was")


@each_model
def test_what_a_failed_sync_lost_no_later_sync_brings_back(model: Model) -> None:
    """F5: limbo lasts for ever, until the same bytes are written and synced again.

    Method: overwrite, fail the sync, sync again; then write again and sync.
    """
    failed: list[Operation] = [Write(2, 0, b"new"), SyncFailed(2)]
    for syncs in ([], [Sync(2)], [Sync(2), Sync(2), Sync(ROOT)]):
        held = contents(left(model, [*failed, *syncs], on=base(a=b"old")), "a")
        check_equal(held, {b"old", b"new"}, f"after {len(syncs)} syncs that returned")
    again: list[Operation] = [*failed, Sync(2), Write(2, 0, b"new"), Sync(2)]
    check_equal(contents(left(model, again, on=base(a=b"old")), "a"), {b"new"}, "written again")


@each_model
def test_a_write_behind_one_in_limbo_is_durable_without_it(model: Model) -> None:
    """F5: a later write that is synced stands, whether or not the earlier one came through.

    Method: two writes on different bytes with a failed sync between them.
    """
    operations: list[Operation] = [Write(2, 0, b"A"), SyncFailed(2), Write(2, 2, b"C"), Sync(2)]
    held = contents(left(model, operations, on=base(a=b"abc")), "a")
    check_equal(held, {b"abC", b"AbC"}, "outcomes")


@each_model
def test_a_failed_sync_of_a_directory_leaves_its_names_pending(model: Model) -> None:
    """F5: the assumption that a file system which cannot commit metadata does not stay writable.

    Method: a name, a failed sync of its directory, then one that returns.
    """
    operations: list[Operation] = [Entry(ROOT, "b", 2), SyncFailed(ROOT)]
    on = base(a=b"a")
    check_equal(names(left(model, operations, on=on)), {("a",), ("a", "b")}, "pending")
    check_equal(names(left(model, [*operations, Sync(ROOT)], on=on)), {("a", "b")}, "synced")


def test_a_rename_between_directories_is_durable_by_either_under_posix() -> None:
    """F3: atomic means that one directory's sync makes both ends of it durable.

    Method: move a file between two directories and sync one of them.
    """
    folders: list[Operation] = [
        Make(9, is_directory=True, mode=0o700),
        Entry(ROOT, "d", 9),
        Sync(ROOT),
        Rename(ROOT, "a", 9, "b", 2),
    ]
    on = base(a=b"a")
    for synced in (ROOT, 9):
        disks = names(left(POSIX, [*folders, Sync(synced)], on=on))
        check_equal(disks, {("d", "d/b")}, f"posix, {synced} synced")
    there = names(left(WEAK, [*folders, Sync(9)], on=on))
    check_equal(there, {("d", "d/b"), ("a", "d", "d/b")}, "weak, the target's synced")
    gone = names(left(WEAK, [*folders, Sync(ROOT)], on=on))
    check_equal(gone, {("d", "d/b"), ("d",)}, "weak, the source's synced")


def test_bytes_that_nobody_believes_are_no_states_of_their_own() -> None:
    """A file whose names are all unread is lost, and its mode and name still count.

    Method: write a lock file that is unread, then give it a second name that is read.
    """
    operations: list[Operation] = [*created(2, "lock", b"pid"), Sync(ROOT), Mode(2, 0o640)]
    cache = fed(WEAK, operations, unread=("lock",))
    check_equal([type(one.change) for one in cache.open], [Mode], "what is open")
    check_equal(found(cache.tree(())), frozenset({("lock", b"")}), "the disk")
    cache.feed(Entry(ROOT, "other", 2), call=9)
    check_equal(len(cache.open), 3, "what is open of a file that is read under another name")


def test_models_are_found_by_their_names() -> None:
    """A state's name says its model.

    Method: look up each, and one that is none.
    """
    check_equal([find(model.name) for model in MODELS], list(MODELS), "models")
    check_equal(find("ext4"), None, "no model")
