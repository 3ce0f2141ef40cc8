"""Handles: what a reader never does, what a writer is told, and what closing ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from lastgood import CheckpointStore, Retention, open_store
from lastgood.errors import (
    FencedError,
    InvalidIdError,
    LastgoodError,
    LockedError,
    PolicyError,
    UsageError,
)
from lastgood.formats.limits import Limits
from lastgood.storage.memory import MemoryRoot
from tests.storage.places import descriptors, none_leaked, picture
from tests.store.world import SESSION, World, at
from tests.support.check import check, check_equal
from tests.support.records import keyring

OTHER = bytes(32)
PATIENCE = Limits(lock_wait_s=0.05)


def test_a_reader_of_nothing_finds_a_new_session_and_makes_nothing(world: World) -> None:
    """G8: no directory, no lock, no record is made by looking."""
    with world.reader() as reader:
        check_equal(reader.load_latest(), None, "what is loaded")
        check_equal(reader.check().verdict, "new", "the verdict")
        check_equal(reader.verify().exit_code, 0, "the exit code")
        with pytest.raises(UsageError):
            reader.load(1)
    check_equal(list(world.root.directories()), [], "what is in the root")
    check(not world.path.exists(), "the root was not made")


def test_a_reader_changes_no_byte_name_or_time(disk: World) -> None:
    """G8: load, check and verify leave names, inodes, bytes, modes and times as they are."""
    disk.saved(10, 20, 30)
    before = _stats(disk)
    with disk.reader() as reader:
        check_equal([reader.load(20).sequence, reader.check().exit_code], [20, 0], "what it read")
        reader.load_latest()
        reader.verify()
    check_equal(_stats(disk), before, "the store")


def _stats(disk: World) -> dict[str, tuple[object, ...]]:
    found = picture(disk.path)
    for name, seen in found.items():
        status = os.lstat(disk.path / name)
        found[name] = (*seen, status.st_mode, status.st_mtime_ns, status.st_ctime_ns)  # type: ignore[assignment]
    return dict(found)


def test_a_reader_needs_no_lock_and_sees_each_save_of_a_live_writer(world: World) -> None:
    """G8: readers work beside an open writer, with a handle from before and a new one."""
    early = world.reader()
    check_equal(early.load_latest(), None, "before the first save")
    with world.open() as writer:
        for sequence in (1, 2, 3):
            writer.save(at(sequence))
            found = [early.load_latest(), world.reader().load_latest()]
            check_equal([f and f.sequence for f in found], [sequence] * 2, "what readers see")


@pytest.mark.parametrize(
    "write", [lambda h: h.save(at(1)), lambda h: h.prune(), lambda h: h.fencing_token]
)
def test_a_reader_that_wants_to_write_is_refused(
    world: World, write: Callable[[CheckpointStore], object]
) -> None:
    """A handle opened for reading owns nothing."""
    world.saved(10)
    with world.reader() as reader, pytest.raises(PolicyError):
        write(reader)


def test_only_a_new_session_loads_none(world: World) -> None:
    """Table row 1: None for opened and never saved, also after several openings."""
    for _ in range(3):
        with world.open() as handle:
            check_equal(handle.load_latest(), None, "what is loaded")
    check_equal(world.report().verdict, "new", "the verdict")
    world.saved(1)
    check_equal(world.report().verdict, "good", "the verdict")


def test_each_opening_has_a_higher_fencing_token(world: World) -> None:
    """R4: every opening claims an epoch of its own; it stays the same while it is open."""
    tokens = []
    for sequence in range(1, 5):
        with world.open() as handle:
            tokens.append(handle.fencing_token)
            handle.save(at(sequence))
            check_equal(handle.fencing_token, tokens[-1], "the token after a save")
    check_equal(tokens, [1, 2, 3, 4], "the tokens")


def test_a_second_writer_is_told_who_holds_the_session(world: World) -> None:
    """R1: it waits as long as the limit says, and is told the holder's pid and epoch."""
    with world.open() as handle:
        handle.save(at(1))
        with pytest.raises(LockedError) as raised:
            world.open(limits=PATIENCE)
        check(str(os.getpid()) in raised.value.holder, raised.value.holder)
        check('"epoch": 1' in raised.value.holder, raised.value.holder)
        check_equal(handle.save(at(2)).status, "saved", "the holder goes on")
    with world.open(limits=PATIENCE) as other:
        check_equal(other.save(at(3)).status, "saved", "the next owner")


def test_another_session_is_not_locked(world: World) -> None:
    """Ownership is of one session, not of the store."""
    with world.open("one") as one, world.open("two") as two:
        check_equal([one.save(at(1)).status, two.save(at(1)).status], ["saved"] * 2, "saves")


CLOSED: list[Callable[[CheckpointStore], object]] = [
    lambda handle: handle.save(at(2)),
    lambda handle: handle.prune(),
    lambda handle: handle.load_latest(),
    lambda handle: handle.load(1),
    lambda handle: handle.check(),
    lambda handle: handle.verify(),
]


@pytest.mark.parametrize("use", CLOSED)
@pytest.mark.parametrize("times", [1, 3])
def test_a_closed_handle_is_over(
    world: World, use: Callable[[CheckpointStore], object], times: int
) -> None:
    """Closing is idempotent, and every call after it says so and changes nothing."""
    handle = world.open()
    handle.save(at(1))
    before = world.files()
    for _ in range(times):
        handle.close()
    with pytest.raises(UsageError, match="closed"):
        use(handle)
    check_equal(world.files(), before, "the directory")
    check_equal(handle.session, SESSION, "its name can still be asked for")


def test_leaving_the_block_by_an_error_closes_and_saves_nothing(world: World) -> None:
    """The session is free again, and holds what was acknowledged."""
    with pytest.raises(ZeroDivisionError), world.open() as handle:  # noqa: PT012
        handle.save(at(1))
        1 / 0  # noqa: B018 - any error of the caller's
    with world.open(limits=PATIENCE) as again:
        loaded = again.load_latest()
        check_equal(loaded and loaded.sequence, 1, "what is loaded")


def test_notices_tell_what_a_person_should_know(world: World) -> None:
    """A store in memory says that it forgets; both say it to readers and writers."""
    for mode in ("write", "read"):
        with world.open(mode=mode) as handle:
            forgets = any("memory" in notice for notice in handle.notices)
            check(forgets or world.engine == "posix", f"notices: {handle.notices}")


def test_a_deleted_lock_fences_the_holder(disk: World) -> None:
    """S1: whoever lost the name of the lock saves nothing more."""
    with disk.open() as handle:
        handle.save(at(1))
        (disk.directory() / "lock").unlink()
        for _ in range(2):
            with pytest.raises(FencedError):
                handle.save(at(2))
    with disk.open() as again:
        loaded = again.load_latest()
        check_equal(loaded and loaded.sequence, 1, "what is loaded")


@pytest.mark.parametrize("mode", ["", "r", "w", "WRITE", None, True])
def test_an_unknown_mode_is_refused_before_anything_is_made(world: World, mode: str) -> None:
    """A typing error must not open for writing."""
    with pytest.raises(UsageError):
        world.open(mode=mode)
    check_equal(list(world.root.directories()), [], "what is in the root")


WRONG_TYPES: list[dict[str, Any]] = [
    {"keys": "/etc/keys.json"}, {"keys": None}, {"keys": b"x" * 32}, {"retention": "all"},
    {"retention": ""}, {"limits": 10}, {"limits": {}}, {"program": "invoices"}, {"program": ""},
    {"validate": "rule"}, {"validate": True},
]  # fmt: skip


@pytest.mark.parametrize("options", WRONG_TYPES, ids=repr)
def test_an_argument_of_a_wrong_type_is_refused_before_anything_is_made(
    world: World, options: dict[str, Any]
) -> None:
    """Told at once, not in the middle of a save that is durable already."""
    for mode in ("write", "read"):
        with pytest.raises(UsageError):
            world.open(mode=mode, **options)
    if "keys" in options or "limits" in options:
        with pytest.raises(UsageError):
            open_store(world.root, **{"keys": world.keys, **options})
    check_equal(list(world.root.directories()), [], "what is in the root")


@pytest.mark.parametrize("what", [{"n": 1}, None, 10, "state", (10, {})], ids=repr)
def test_saving_what_is_no_checkpoint_is_a_usage_error(world: World, what: object) -> None:
    """The state alone is no checkpoint: its sequence says which it is."""
    with world.open() as handle:
        before = world.files()
        with pytest.raises(UsageError):
            handle.save(what)  # type: ignore[arg-type]
        check_equal(world.files(), before, "the directory")


WRONG_SCHEMAS = [0, -1, True, 1.0, "1", None, 10**16]


@pytest.mark.parametrize("version", WRONG_SCHEMAS, ids=repr)
def test_a_schema_version_that_is_none_is_refused(world: World, version: int) -> None:
    """Arguments are checked before anything is made."""
    with pytest.raises(UsageError):
        world.open(schema_version=version)
    check_equal(list(world.root.directories()), [], "what is in the root")


@pytest.mark.parametrize("sequence", [0, -1, True, 1.0, "1", 10**15 + 1, None, b"1"], ids=repr)
def test_loading_what_is_no_sequence_is_a_usage_error(world: World, sequence: int) -> None:
    """Sequences are exactly ints, 1 to 10^15."""
    world.saved(1)
    with world.reader() as reader, pytest.raises(UsageError):
        reader.load(sequence)


@pytest.mark.parametrize("session", ["", "a\n", "\ud800", "x" * 513, 7, None, b"nightly"], ids=repr)
def test_what_is_no_session_id_is_refused_before_anything_is_made(
    world: World, session: str
) -> None:
    """C11-01: ids are checked first, in both modes."""
    for mode in ("write", "read"):
        with pytest.raises(InvalidIdError):
            world.open(session, mode=mode)
    check_equal(list(world.root.directories()), [], "what is in the root")


WHERE = [
    "", "nul\0", "s3://bucket/prefix", "gs:bucket", "az:x", "gcs://bucket", "HTTPS://host/x",
    "file:", "file://elsewhere/x", "file://[::1", "file:///a%00b", "file:///a#b", "file:///a?b",
    b"bytes", 5, None,
]  # fmt: skip


@pytest.mark.parametrize("where", WHERE)
def test_a_place_that_is_none_is_refused(where: Any) -> None:
    """A scheme of later versions, or of nobody, is never taken for a path, nor half of a URL."""
    for mode in ("write", "read"):
        with pytest.raises(Exception, match=r".") as raised:
            CheckpointStore(where, SESSION, keys=keyring(), mode=mode)
        check_equal(getattr(raised.value, "exit_code", None), 1, "the exit code")


@pytest.mark.parametrize("make", [str, lambda path: path, lambda path: f"file:{path}"])
def test_a_path_may_be_given_in_three_ways(disk: World, make: Callable[[object], str]) -> None:
    """A text, a path object and a file: address lead to the same store."""
    disk.saved(10)
    with disk.open(root=make(disk.path)) as handle:
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, 10, "what is loaded")


def test_a_handle_that_was_given_a_path_leaves_nothing_open(disk: World) -> None:
    """C7: a process that opens and closes a thousand handles never runs out of descriptors.

    Method: what is open before and after a writer, a reader, a store and three refusals.
    """
    disk.saved(10)
    where: dict[str, Any] = {"root": disk.path}
    with none_leaked("a writer"), disk.open(**where) as handle:
        handle.save(at(20))
    with none_leaked("readers"):
        for session in (SESSION, "new"):
            with disk.reader(session, **where) as reader:
                reader.load_latest()
    with none_leaked("a store"), open_store(disk.path, keys=disk.keys) as store:
        list(store.sessions())
    refusals: list[Callable[[], object]] = [
        lambda: open_store(disk.path, keys=keyring(OTHER)),
        lambda: disk.open(**where, keys=keyring(OTHER)),
        lambda: disk.reader(**where, keys=keyring(OTHER)),
    ]
    for refused in refusals:
        with none_leaked("a refusal"), pytest.raises(LastgoodError):
            refused()


def test_a_back_end_of_the_callers_outlives_the_handles_that_it_was_given_to(disk: World) -> None:
    """What was lent is not given back by the borrower; a path's own is its handle's."""
    disk.saved(10)
    with open_store(disk.root, keys=disk.keys) as store:
        before = descriptors()
    check(before <= descriptors(), "the root is still held")
    check_equal(store.location, str(disk.path), "and says where it is")


def test_a_name_in_memory_is_one_store_in_this_process() -> None:
    """``memory:NAME`` lasts as long as the process, and other names are other stores."""
    for name, expected in (("memory:a", None), ("memory:a", 1), ("memory:b", None)):
        with CheckpointStore(name, SESSION, keys=keyring()) as handle:
            loaded = handle.load_latest()
            check_equal(loaded and loaded.sequence, expected, f"what is in {name}")
            if loaded is None:
                handle.save(at(1))


def test_prune_says_what_it_removed(world: World) -> None:
    """S9 by hand: what is left over goes, and is named."""
    root = MemoryRoot() if world.engine == "memory" else world.root
    with world.open(root=root, retention=Retention()) as handle:
        handle.save(at(10))
        check_equal(handle.prune().removed, (), "nothing is left over")
