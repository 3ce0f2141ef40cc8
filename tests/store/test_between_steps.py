"""Between the steps of a save: other owners, changed bytes, and a handle that is closed (S4–S7).

Method: a file system that calls the test before each system call, and whose flock does nothing,
so that a second owner can open at any moment. The epoch alone must keep them apart.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from lastgood import CheckpointStore, Limits
from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    UsageError,
)
from lastgood.formats import names
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.memory import MemoryRoot
from tests.store.doubles import watched
from tests.store.world import World, at
from tests.support.check import check, check_equal


def lockless(before: Callable[[str], None] = lambda name: None) -> FileSystem:
    """A file system whose flock does nothing, and which calls ``before`` with each call's name."""
    seam: Any = watched(before)
    seam.flock = lambda fd, operation: None
    return seam


def test_a_paused_owner_is_fenced_by_a_newer_opening(disk: World) -> None:
    """S1, R4: with the lock broken, the newer epoch wins and the older handle is over."""
    first = disk.open(root=disk.on(lockless()))
    first.save(at(10))
    second = disk.open(root=disk.on(lockless()))
    check(second.fencing_token > first.fencing_token, "the newer token is higher")
    for _ in range(2):
        with pytest.raises(FencedError):
            first.save(at(20))
        with pytest.raises(FencedError):
            first.prune()
    check_equal(second.save(at(20, state="second")).status, "saved", "the newer owner")
    loaded = first.load_latest()
    check_equal(loaded and loaded.state, "second", "a fenced handle can still look")


def overtaken(disk: World, *, at_link: int) -> tuple[CheckpointStore, list[CheckpointStore]]:
    """A handle in whose next save another owner opens right before link number ``at_link``."""
    links = 0
    others: list[CheckpointStore] = []

    def before(name: str) -> None:
        nonlocal links
        links += name == "link" and armed
        if name == "link" and armed and links == at_link and not others:
            others.append(disk.open(root=disk.on(lockless())))

    armed = False
    handle = disk.open(root=disk.on(lockless(before)))
    handle.save(at(10))
    armed = True
    return handle, others


def test_a_save_that_another_owner_rolled_forward_to_is_done(disk: World) -> None:
    """S6 lost: the winner names our checkpoint, so the save is durable; the handle is fenced."""
    handle, others = overtaken(disk, at_link=2)
    receipt = handle.save(at(20))
    check_equal((receipt.status, len(others)), ("saved", 1), "the receipt")
    loaded = others[0].load_latest()
    check_equal(loaded and loaded.state, {"n": 20}, "what the winner holds")
    with pytest.raises(FencedError):
        handle.save(at(30))
    check_equal(others[0].save(at(30)).status, "saved", "the winner goes on")


def test_a_save_that_another_owner_came_before_is_not_done(disk: World) -> None:
    """S4 after a newer claim: nothing of it is believed, and the winner goes on."""
    handle, others = overtaken(disk, at_link=1)
    with pytest.raises(LastgoodError) as raised:
        handle.save(at(20, state="late"))
    kinds = ConflictError | DurabilityUnknownError
    check(isinstance(raised.value, kinds), f"the error: {raised.value!r}")
    loaded = others[0].load_latest()
    check_equal(loaded and loaded.sequence, 10, "what the winner holds")
    with pytest.raises(FencedError):
        handle.save(at(30))
    check_equal(others[0].save(at(20)).status, "saved", "the same sequence, by the winner")
    loaded = others[0].load_latest()
    check_equal(loaded and loaded.state, {"n": 20}, "the winner's content")


class AtCall:
    """Runs ``act`` once, right before call number ``number`` of ``name``, once it is armed."""

    def __init__(self, name: str, number: int, act: Callable[[], object]) -> None:
        self.armed = False
        self._name, self._left, self._act = name, number, act

    def __call__(self, name: str) -> None:
        if self.armed and name == self._name:
            self._left -= 1
            if self._left == 0:
                self._act()


def test_a_name_that_a_newer_owner_took_meanwhile_is_left_to_it(disk: World) -> None:
    """S4: our name holds a newer owner's record: fenced, and nothing of it is moved or removed."""
    others: list[CheckpointStore] = []

    def overtake() -> None:
        others.append(disk.open(root=disk.on(lockless())))
        others[0].save(at(20, state="the newer owner's"))

    hook = AtCall("link", 1, overtake)
    handle = disk.open(root=disk.on(lockless(hook)))
    hook.armed = True
    with pytest.raises(FencedError):
        handle.save(at(20))
    check_equal(disk.listed(prefix=names.archived("")), [], "nothing was moved aside")
    loaded = others[0].load_latest()
    check_equal(loaded and loaded.state, "the newer owner's", "what is current")
    check_equal(others[0].save(at(30)).status, "saved", "the newer owner goes on")


@pytest.mark.parametrize("sync", [2, 3, 4])
@pytest.mark.parametrize("saves", [0, 1])
def test_an_unfinished_save_does_not_take_the_session_back_from_a_newer_owner(
    disk: World, sync: int, saves: int
) -> None:
    """R1: whoever took the session since keeps it, whatever it found and made of it."""

    def fail() -> None:
        raise OSError(errno.EIO, "an fsync fails")

    hook = AtCall("fsync", sync, fail)
    handle = disk.open(root=disk.on(lockless(hook)))
    handle.save(at(10))
    hook.armed = True
    with pytest.raises(DurabilityUnknownError):
        handle.save(at(20))
    other = disk.open(root=disk.on(lockless()))
    for number in range(saves):
        other.save(at(30 + number))
    for _ in range(2):
        with pytest.raises(FencedError):
            handle.save(at(20))
    check_equal(other.save(at(40)).status, "saved", "the newer owner goes on")


def of_another_life(disk: World) -> bytes:
    """An authentic checkpoint of this session at 20, with other content."""
    other = World("memory", MemoryRoot(), disk.path, disk.outside)
    with other.open() as handle:
        handle.save(at(10))
        handle.save(at(20, state="another life"))
    return other.files()[names.checkpoint(20)]


@pytest.mark.parametrize("what", ["flipped", "cut", "zeros", "another", "gone"])
def test_what_was_published_is_read_back_before_it_is_named(disk: World, what: str) -> None:
    """S5, I2: bytes that changed between publication and reading back are never named."""
    path = disk.directory() / names.checkpoint(20)

    def change() -> None:
        data = path.read_bytes()
        changed = {
            "flipped": data.replace(b'"n":20', b'"n":21'),
            "cut": data[:-9],
            "zeros": bytes(len(data)),
            "another": of_another_life(disk),
            "gone": b"",
        }[what]
        path.write_bytes(changed)
        if what == "gone":
            path.unlink()

    hook = AtCall("fsync", 2, change)  # the directory's: the name is there, S5 comes next
    with disk.open(root=disk.on(lockless(hook))) as handle:
        handle.save(at(10))
        hook.armed = True
        disk.damaged = True
        with pytest.raises(DurabilityUnknownError):
            handle.save(at(20))
        hook.armed = False
        rows = {row.sequence: row.role for row in handle.check().rows}
        check_equal(rows[10], "current", "no revision names what was not read back")
        if what == "gone":
            check_equal(handle.save(at(20)).status, "saved", "the same save again")
        else:
            with pytest.raises(LastgoodError):
                handle.save(at(20))


def test_a_lost_name_of_the_current_checkpoint_stops_the_next_opening(disk: World) -> None:
    """G3 right after a save: what was acknowledged and is gone is damage."""
    with disk.open() as handle:
        handle.save(at(10))
        disk.drop(names.checkpoint(10))
        with pytest.raises(DamagedError):
            handle.load_latest()
    with pytest.raises(DamagedError):
        disk.open()


@pytest.mark.slow
def test_closing_a_handle_inside_its_own_save_takes_effect_after_it(disk: World) -> None:
    """A signal handler that closes, at each call of a save: the save ends well, then it is over."""
    handles: list[CheckpointStore] = []
    left = -1

    def before(name: str) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            handles[-1].close()

    for number in range(1, 1_000):
        session = f"closed at {number}"
        left = -1
        handles.append(disk.open(session, root=disk.on(watched(before))))
        handles[-1].save(at(10))
        left = number
        check_equal(handles[-1].save(at(20)).status, "saved", f"closed at call {number}")
        if left > 0:
            break
        with pytest.raises(UsageError, match="closed"):
            handles[-1].save(at(30))
        with disk.open(session, limits=Limits(lock_wait_s=0.0)) as again:
            loaded = again.load_latest()
            check_equal(loaded and loaded.sequence, 20, "what the next owner loads")
    check(len(handles) > 30, f"a save has many calls: {len(handles)}")
