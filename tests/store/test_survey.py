"""The reader's rule: what a reading without the lock finds stands only if it is still there (R3).

Method: a back end that gives other listings or other bytes in chosen readings, as a writer at
work, a prune or a slow disk makes a reader see them; and a clock that waits for nothing.
"""

from __future__ import annotations

import datetime
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from lastgood.errors import BusyError, DamagedError, NotStoredError, StorageError
from lastgood.formats import names
from lastgood.storage.interface import Access, OwnedStorage, StorageRoot
from tests.store.doubles import watched
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, faulty

Trick = Callable[[int, str, bytes], bytes]
"""Gives the bytes of a name in the reading of this number, counted from 1; or raises."""


@dataclass
class NoWait:
    """A clock on which a wait takes no time and is counted."""

    passed_s: float = 0.0

    def now(self) -> datetime.datetime:
        """Any."""
        return datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def monotonic_s(self) -> float:
        """What was waited, and a little for the work."""
        self.passed_s += 0.01
        return self.passed_s

    def sleep(self, duration_s: float) -> None:
        """Count it."""
        self.passed_s += duration_s


@dataclass
class Tricky:
    """A back end in which ``trick`` changes what is read; a reading begins with a listing."""

    inner: StorageRoot
    trick: Trick = lambda reading, name, data: data
    listing: Callable[[int, tuple[str, ...]], tuple[str, ...]] = lambda reading, listed: listed
    readings: int = 0
    read: list[str] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def session(self, directory: str, *, access: Access) -> OwnedStorage:
        """The same directory, through the tricks."""
        return cast(
            OwnedStorage, _TrickyStorage(self.inner.session(directory, access=access), self)
        )


class _TrickyStorage:
    def __init__(self, inner: OwnedStorage, root: Tricky) -> None:
        self._inner = inner
        self._root = root

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def list(self, prefix: str = "") -> tuple[str, ...]:
        self._root.readings += prefix == ""
        return self._root.listing(self._root.readings, self._inner.list(prefix))

    def read(self, name: str, *, max_bytes: int) -> bytes:
        self._root.read.append(name)
        data = self._inner.read(name, max_bytes=max_bytes)
        return self._root.trick(self._root.readings, name, data)

    def stream(self, name: str, *, max_bytes: int) -> Any:
        data = b"".join(self._inner.stream(name, max_bytes=max_bytes))
        yield self._root.trick(self._root.readings, name, data)


CURRENT, NEWEST = names.checkpoint(30), names.manifest(4)


def only(first: int, last: int, wrong: Trick, *, of: str) -> Trick:
    """``wrong`` in the readings from ``first`` to ``last``, for one name."""
    return lambda reading, name, data: (
        wrong(reading, name, data) if name == of and first <= reading <= last else data
    )


def torn(reading: int, name: str, data: bytes) -> bytes:
    return data[: len(data) // 2]


def moving(reading: int, name: str, data: bytes) -> bytes:
    return data + b"x" * reading


def gone(reading: int, name: str, data: bytes) -> bytes:
    raise NotStoredError(f"Opening {name}", errno=errno.ENOENT)


def unreadable(reading: int, name: str, data: bytes) -> bytes:
    raise StorageError(f"Opening {name}", errno=errno.EIO)


def test_the_plain_verdict_stands_after_one_reading(world: World) -> None:
    """A quiet store is read once: two manifests, the pointer, two checkpoints, one record."""
    world.saved(10, 20, 30)
    root = Tricky(world.root)
    with world.reader(root=root) as reader:
        loaded = reader.load_latest()
    check_equal((loaded and loaded.sequence, root.readings), (30, 1), "sequence and readings")
    expected = sorted([names.SESSION, names.POINTER, NEWEST, names.manifest(3), CURRENT])
    check_equal(sorted(root.read), expected, "what is read whole, once each")


@pytest.mark.parametrize("wrong", [torn, gone, unreadable])
@pytest.mark.parametrize("name", [CURRENT, NEWEST, names.POINTER, names.SESSION])
def test_what_is_wrong_in_one_reading_only_is_no_alarm(
    world: World, wrong: Trick, name: str
) -> None:
    """Readers raise no false alarm: the second reading does not find it again."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, only(1, 1, wrong, of=name))
    with world.reader(root=root, clock=NoWait()) as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 30, "the current sequence")
        root.readings = 0
        check_equal((reader.check().verdict, reader.check().findings), ("good", ()), "check")


@pytest.mark.parametrize("name", [CURRENT, NEWEST, names.POINTER, names.SESSION])
def test_what_two_readings_in_a_row_find_stands(world: World, name: str) -> None:
    """A damaged store is still: two readings, and no more, make the verdict."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, only(1, 2, torn, of=name))
    with world.reader(root=root, clock=NoWait()) as reader, pytest.raises(DamagedError) as raised:
        reader.load_latest()
    check(name in str(raised.value), f"it names the file: {raised.value}")
    check_equal(root.readings, 2, "readings")


@pytest.mark.parametrize("wrong", [unreadable])
@pytest.mark.parametrize("name", [CURRENT, NEWEST, names.POINTER, names.SESSION])
def test_what_cannot_be_read_twice_is_that_error(world: World, wrong: Trick, name: str) -> None:
    """Last row: the system's refusal, typed; never "not there", never an older checkpoint."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, only(1, 99, wrong, of=name))
    with world.reader(root=root, clock=NoWait()) as reader, pytest.raises(StorageError) as raised:
        reader.load_latest()
    check_equal(raised.value.errno, errno.EIO, "the system's number")


@pytest.mark.parametrize("name", [CURRENT, NEWEST])
def test_a_store_that_keeps_moving_is_busy_and_not_damaged(world: World, name: str) -> None:
    """At least five readings, for at least two seconds: then BusyError, exit 7."""
    world.saved(10, 20, 30)
    clock = NoWait()
    root = Tricky(world.root, only(1, 10**9, moving, of=name))
    for use in ("load_latest", "check"):
        root.readings, clock.passed_s = 0, 0.0
        with world.reader(root=root, clock=clock) as reader, pytest.raises(BusyError) as raised:
            getattr(reader, use)()
        check_equal(raised.value.exit_code, 7, "the exit code")
        check(root.readings >= 5 and clock.passed_s >= 2, f"{root.readings}, {clock.passed_s}")


def test_a_store_that_comes_to_rest_is_read(world: World) -> None:
    """However long it moved before, within the patience."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, only(1, 20, moving, of=CURRENT))
    with world.reader(root=root, clock=NoWait()) as reader:
        loaded = reader.load_latest()
    check_equal((loaded and loaded.sequence, root.readings), (30, 21), "sequence and readings")


def test_an_empty_listing_must_be_seen_twice_to_be_a_new_session(world: World) -> None:
    """A directory that seems empty for a moment is not taken for a new session."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, listing=lambda reading, listed: () if reading == 1 else listed)
    with world.reader(root=root, clock=NoWait()) as reader:
        loaded = reader.load_latest()
    check_equal(loaded and loaded.sequence, 30, "the current sequence")


def test_a_generation_that_goes_while_it_is_loaded_is_looked_for_again(world: World) -> None:
    """load(sequence) beside a pruning writer: gone for good is not stored, moved is found."""
    world.saved(10, 20, 30)
    root = Tricky(world.root, only(1, 1, gone, of=names.checkpoint(20)))
    with world.reader(root=root, clock=NoWait()) as reader:
        check_equal(reader.load(20).sequence, 20, "what is loaded")


WRITES = {"fsync", "fdatasync", "writev", "pwrite", "mkdir", "link", "rename", "unlink", "fchmod"}


def test_reading_makes_no_call_that_writes_and_takes_no_lock(disk: World) -> None:
    """G8: load, load by number, check and verify: no fsync, no lock, nothing that changes."""
    disk.saved(10, 20, 30)
    calls = Calls()
    with disk.reader(root=disk.on(faulty(calls))) as reader:
        reader.load_latest()
        reader.load(20)
        reader.check()
        reader.verify()
    check(len(calls.made) > 20, f"calls were recorded: {len(calls.made)}")
    check_equal(set(calls.made) & (WRITES | {"flock"}), set(), "calls that write or lock")


def test_a_reader_beside_a_save_sees_old_or_new_and_no_alarm(disk: World) -> None:
    """At each system call of a save a reader loads: never damage, never a lower sequence."""
    seen: list[int] = []

    def look(name: str) -> None:
        if looking:
            with disk.reader(root=str(disk.path)) as reader:
                loaded = reader.load_latest()
                seen.append(loaded.sequence if loaded else 0)

    looking = False
    with disk.open(root=disk.on(watched(look))) as handle:
        handle.save(at(10))
        handle.save(at(20))
        looking = True
        handle.save(at(30))
        looking = False
    check(len(seen) > 30, f"a reader looked at each call: {len(seen)}")
    check_equal(seen, sorted(seen), "sequences never fall")
    check_equal(set(seen), {20, 30}, "old or new")
