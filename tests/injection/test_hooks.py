"""What a hook does to a call in memory: nothing, half, all with an error, or a death."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

import pytest

from fault_injection.machine import MemoryMachine
from fault_injection.memory.calls import Call, Die, Fail, FailAfter, Injection, Killed, Short
from fault_injection.memory.operations import Sync, SyncFailed, Write
from fault_injection.memory.process import Process
from lastgood.storage.filesystem import CREATE_NEW, DIRECTORY, LOCK_EXCLUSIVE_NOW, READ_WRITE
from tests.support.check import check, check_equal

Action = Callable[[Process, int, int], object]

ACTIONS: Final[dict[str, Action]] = {
    "open": lambda system, root, fd: system.open("new", CREATE_NEW, dir_fd=root),
    "writev": lambda system, root, fd: system.writev(fd, [b"to", b"morrow"]),
    "pwrite": lambda system, root, fd: system.pwrite(fd, b"tomorrow", 0),
    "ftruncate": lambda system, root, fd: system.ftruncate(fd, 3),
    "fchmod": lambda system, root, fd: system.fchmod(fd, 0o640),
    "link": lambda system, root, fd: system.link("file", "new", source_fd=root, target_fd=root),
    "rename": lambda system, root, fd: system.rename("file", "new", source_fd=root, target_fd=root),
    "unlink": lambda system, root, fd: system.unlink("file", dir_fd=root),
    "mkdir": lambda system, root, fd: system.mkdir("new", dir_fd=root),
    "fsync": lambda system, root, fd: system.fsync(fd),
    "fdatasync": lambda system, root, fd: system.fdatasync(fd),
    "close": lambda system, root, fd: system.close(fd),
    "flock": lambda system, root, fd: system.flock(fd, LOCK_EXCLUSIVE_NOW),
}


class Scene:
    """A file of five bytes, held open by a process whose next call a hook may strike."""

    def __init__(self) -> None:
        self.machine = MemoryMachine()
        self.system = self.machine.process()
        self.root = self.system.open("/", DIRECTORY)
        self.fd = self.system.open("file", READ_WRITE | 0o100, dir_fd=self.root)
        self.system.pwrite(self.fd, b"today", 0)
        self.before = self.digest()

    def digest(self) -> str:
        """Identity of the disk."""
        return self.machine.disk.tree().digest()

    def act(self, name: str, injection: Injection | None) -> Call:
        """One action, struck; returns the call that it made."""
        self.system.hook = lambda call: injection if call.name == name else None
        try:
            ACTIONS[name](self.system, self.root, self.fd)
        except (OSError, Killed) as error:
            self.error: BaseException = error
        self.system.hook = None
        return self.machine.calls[-1]


def after(name: str) -> str:
    """Identity of the disk when nothing strikes."""
    scene = Scene()
    scene.act(name, None)
    return scene.digest()


def number_of(error: BaseException) -> int | None:
    """The number of a system's error."""
    return error.errno if isinstance(error, OSError) else None


@pytest.mark.parametrize("name", ACTIONS)
def test_a_call_that_fails_has_no_effect(name: str) -> None:
    """F6: an error, and nothing else; of a close the descriptor is gone, as the kernel has it.

    Method: fail each kind of change; compare the disk with the one before.
    """
    scene = Scene()
    call = scene.act(name, Fail(errno.ENOSPC))
    check_equal(number_of(scene.error), errno.ENOSPC, "the error")
    check_equal((call.error, call.injected), (errno.ENOSPC, "fails: ENOSPC"), "the record")
    check_equal(scene.digest(), scene.before, "the disk")
    changed = [made for made in call.operations if not isinstance(made, SyncFailed)]
    check_equal(changed, [], "what is recorded")
    held = ["", *(["file"] if name != "close" else [])]
    check_equal(scene.system.open_paths, held, "descriptors")
    other = scene.machine.process()
    own = other.open("/file", READ_WRITE)
    other.flock(own, LOCK_EXCLUSIVE_NOW)


@pytest.mark.parametrize("name", ["fsync", "fdatasync"])
@pytest.mark.parametrize(
    ("injection", "kind"), [(Fail(errno.EIO), SyncFailed), (FailAfter(errno.EIO), Sync)]
)
def test_a_sync_that_fails_is_recorded_as_one(
    name: str, injection: Injection, kind: type[Sync | SyncFailed]
) -> None:
    """F5: persistence models learn that a sync failed; one that took effect is one.

    Method: look at the recorded operation.
    """
    call = Scene().act(name, injection)
    check_equal([type(made) for made in call.operations], [kind], "operations")
    check_equal(call.error, errno.EIO, "the error")


@pytest.mark.parametrize("name", ACTIONS)
def test_a_call_that_fails_after_its_effect_has_it(name: str) -> None:
    """F7: everything happens, and an error is reported; an open gives no descriptor.

    Method: compare the disk with the one after the same call without a fault.
    """
    scene = Scene()
    held = len(scene.system.open_paths)
    call = scene.act(name, FailAfter(errno.EIO))
    check_equal(number_of(scene.error), errno.EIO, "the error")
    check_equal(scene.digest(), after(name), "the disk")
    check_equal(call.error, errno.EIO, "the record")
    expected = held - 1 if name == "close" else held
    check_equal(len(scene.system.open_paths), expected, "descriptors")


def test_a_call_that_fails_by_itself_says_so_whatever_a_hook_wants() -> None:
    """F7: an error of the system's own comes first; nothing took effect.

    Method: a link onto a name that is there.
    """
    scene = Scene()
    scene.system.hook = lambda _: FailAfter(errno.EIO)
    with pytest.raises(FileExistsError):
        scene.system.mkdir("file", dir_fd=scene.root)
    check_equal(scene.machine.calls[-1].error, errno.EEXIST, "the record")
    check_equal(scene.digest(), scene.before, "the disk")


@pytest.mark.parametrize(("size", "expected"), [(8, 4), (7, 3), (2, 1), (1, 1), (0, 0)])
def test_a_short_write_writes_half_and_says_so(size: int, expected: int) -> None:
    """F8: fewer bytes than asked, at least one of any, and the number of them.

    Method: writes of both kinds and several sizes; look at what is there and where it goes on.
    """
    data = b"tomorrow"[:size]
    for name in ("writev", "pwrite"):
        scene = Scene()
        scene.system.hook = lambda _: Short()
        if name == "writev":
            written = scene.system.writev(scene.fd, [data[:1], data[1:]])
        else:
            written = scene.system.pwrite(scene.fd, data, 0)
        scene.system.hook = None
        check_equal(written, expected, f"{name} of {size} bytes")
        there = b"".join(made.data for made in scene.machine.calls[-1].operations
                         if isinstance(made, Write))  # fmt: skip
        check_equal(there, data[:expected], "what is recorded")
        content = scene.system.pread(scene.fd, 9, 0)
        check_equal(content, data[:expected] + b"today"[expected:], "what is there")
        goes_on = expected if name == "writev" else 0
        check_equal(scene.system.read(scene.fd, 9), content[goes_on:], "what is read next")


@pytest.mark.parametrize("name", ACTIONS)
def test_a_death_before_a_call_leaves_what_was(name: str) -> None:
    """F1: nothing of the call happens.

    Method: kill before each kind of change.
    """
    scene = Scene()
    scene.act(name, Die("before"))
    check(isinstance(scene.error, Killed), f"it was {scene.error!r}")
    check_equal(scene.digest(), scene.before, "the disk")
    check_equal(scene.system.open_paths, [], "descriptors")


@pytest.mark.parametrize("name", ACTIONS)
def test_a_death_after_a_call_leaves_all_of_it(name: str) -> None:
    """F1: all of the call happens, and nothing behind it.

    Method: kill after each kind of change; then try every other.
    """
    scene = Scene()
    scene.act(name, Die("after"))
    check(isinstance(scene.error, Killed), f"it was {scene.error!r}")
    check_equal(scene.digest(), after(name), "the disk")
    made = len(scene.machine.calls)
    for action in ACTIONS.values():
        with pytest.raises(Killed):
            action(scene.system, scene.root, scene.fd)
    check_equal(scene.digest(), after(name), "the disk after what the dead attempted")
    check_equal(len(scene.machine.calls), made, "calls of the dead")


def test_a_death_in_a_write_leaves_half_of_it() -> None:
    """F1: a write may be cut anywhere; here in the middle.

    Method: kill in the middle of a write; another process reads.
    """
    scene = Scene()
    scene.act("pwrite", Die("middle"))
    other = scene.machine.process()
    check_equal(other.read(other.open("/file", 0), 9), b"tomoy", "what is there")


def test_a_death_after_a_call_that_fails_is_a_death_all_the_same() -> None:
    """F1: the error is recorded, and nobody is there to be told.

    Method: kill after a call that the system refuses.
    """
    scene = Scene()
    scene.system.hook = lambda _: Die("after")
    with pytest.raises(Killed):
        scene.system.mkdir("file", dir_fd=scene.root)
    check_equal(scene.machine.calls[-1].error, errno.EEXIST, "the record")
    check(scene.system.is_dead, "it lives")


def test_death_gives_locks_back_and_closing_does_too() -> None:
    """F13: flock belongs to the open file description, and dies with it.

    Method: three processes: one holds, one is refused until the first is dead, one until the
    second has closed; its other description of the same file had no lock.
    """
    machine = MemoryMachine()
    first, second, third = machine.process(), machine.process(), machine.process()
    held = first.open("/lock", READ_WRITE | 0o100)
    first.flock(held, LOCK_EXCLUSIVE_NOW)
    mine, other = second.open("/lock", READ_WRITE), second.open("/lock", READ_WRITE)
    with pytest.raises(BlockingIOError):
        second.flock(mine, LOCK_EXCLUSIVE_NOW)
    first.kill()
    second.flock(mine, LOCK_EXCLUSIVE_NOW)
    second.close(other)
    theirs = third.open("/lock", READ_WRITE)
    with pytest.raises(BlockingIOError):
        third.flock(theirs, LOCK_EXCLUSIVE_NOW)
    second.close(mine)
    third.flock(theirs, LOCK_EXCLUSIVE_NOW)


def test_calls_are_numbered_over_all_processes() -> None:
    """A crash point is a number of calls, whoever made them.

    Method: two processes in turn, one of them refused by a hook, which sees the number first.
    """
    seen: list[int] = []

    def hook(call: Call) -> Injection | None:
        seen.append(call.number)
        return Fail(errno.EIO) if call.number == 2 else None

    machine = MemoryMachine(hook=hook)
    first, second = machine.process(), machine.process()
    first.stat("/")
    second.stat("/")
    with pytest.raises(OSError, match="Input/output"):
        first.stat("/")
    second.stat("/")
    check_equal([(call.number, call.process) for call in machine.calls],
                [(0, 1), (1, 2), (2, 1), (3, 2)], "numbers and processes")  # fmt: skip
    check_equal(seen, [0, 1, 2, 3], "asked of")
