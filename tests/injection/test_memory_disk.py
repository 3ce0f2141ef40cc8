"""The disk in memory behaves as the real system: results, errors, contents, links and locks."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Disk, Folder
from fault_injection.memory.operations import ROOT
from lastgood.storage.filesystem import (
    CREATE_NEW,
    DIRECTORY,
    LOCK_EXCLUSIVE_NOW,
    READ,
    READ_WRITE,
    READ_WRITE_OR_CREATE,
    UNLOCK,
    WRITE,
    FileSystem,
    OsFileSystem,
)
from tests.support.check import check, check_equal

NO_SUCH_FD: Final = 1_000_000
"""Stands for a closed one: a real number might be somebody else's by now."""

FILES: Final = ("a", "b", "c")
NAMES: Final = (*FILES, "d", "e")
PATHS: Final = (*NAMES, "d/a", "d/e", "e/d", "a/x", "x" * 256, "d/" + "é" * 128, "none/a")
FLAGS: Final = (
    READ, WRITE, READ_WRITE, CREATE_NEW, READ_WRITE_OR_CREATE, DIRECTORY, READ | os.O_CREAT,
)  # fmt: skip

BEGUN: Final[tuple[tuple[Any, ...], ...]] = (
    ("open", 0, "a", READ_WRITE_OR_CREATE),
    ("mkdir", 0, "d"),
    ("open", 1, "a", READ_WRITE),
    ("open", 0, "d", DIRECTORY),
    ("open", 1, "b", READ_WRITE_OR_CREATE),
)
"""Files, a directory and descriptors of both processes, so that most actions have an effect."""

handles: Final = st.integers(0, 7)
sizes: Final = st.integers(0, 40)
data: Final = st.binary(max_size=30)
paths: Final = st.sampled_from(PATHS)
actions: Final = st.one_of(
    st.tuples(st.just("open"), handles, st.sampled_from((*PATHS, ".")), st.sampled_from(FLAGS)),
    st.tuples(st.just("open"), handles, st.sampled_from(NAMES), st.sampled_from(FLAGS)),
    st.tuples(st.just("close"), st.integers(2, 7)),
    st.tuples(st.just("read"), handles, sizes),
    st.tuples(st.just("pread"), handles, sizes, sizes),
    st.tuples(st.just("writev"), handles, st.lists(data, max_size=3)),
    st.tuples(st.just("pwrite"), handles, data, sizes),
    st.tuples(st.just("fsync"), handles),
    st.tuples(st.just("fdatasync"), handles),
    st.tuples(st.just("fstat"), handles),
    st.tuples(st.just("stat"), handles, st.sampled_from((*PATHS, "."))),
    st.tuples(st.just("fchmod"), handles, st.sampled_from((0o600, 0o640, 0o700, 0o777))),
    st.tuples(st.just("ftruncate"), handles, sizes),
    st.tuples(st.just("link"), handles, paths, handles, paths),
    st.tuples(st.just("rename"), handles, st.sampled_from(FILES), handles, paths),
    st.tuples(st.just("unlink"), handles, paths),
    st.tuples(st.just("mkdir"), handles, paths),
    st.tuples(st.just("listdir"), handles),
    st.tuples(st.just("flock"), handles, st.sampled_from((LOCK_EXCLUSIVE_NOW, UNLOCK))),
)


class Side:
    """One of the two systems, driven by the numbers of its descriptors.

    Args:
        systems: Of two processes; a real one is the same for both.
        root: Where everything happens.
    """

    def __init__(self, systems: tuple[FileSystem, FileSystem], root: str) -> None:
        self._systems = systems
        self._fds = [(which, system.open(root, DIRECTORY)) for which, system in enumerate(systems)]

    def does(self, action: tuple[Any, ...]) -> object:
        """What comes of an action: a result, or the error's name."""
        name, handle, *given = action
        which, fd = self._at(handle)
        try:
            return getattr(self, f"_{name}", self._plain)(which, fd, given, name)
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def close(self) -> None:
        """Give every descriptor back."""
        for which, fd in self._fds:
            if fd != NO_SUCH_FD:
                self._systems[which].close(fd)

    def _at(self, handle: int) -> tuple[int, int]:
        return self._fds[handle] if handle < len(self._fds) else self._fds[handle % 2]

    def _plain(self, which: int, fd: int, given: list[Any], name: str) -> object:
        return getattr(self._systems[which], name)(fd, *given)

    def _open(self, which: int, fd: int, given: list[Any], name: str) -> object:
        path, flags = given
        opened = self._systems[which].open(path, flags, mode=0o600, dir_fd=fd)
        self._fds.append((which, opened))
        return len(self._fds)

    def _close(self, which: int, fd: int, given: list[Any], name: str) -> object:
        self._systems[which].close(fd)
        self._fds[self._fds.index((which, fd))] = (which, NO_SUCH_FD)
        return None

    def _fstat(self, which: int, fd: int, given: list[Any], name: str) -> object:
        return _look(self._systems[which].fstat(fd))

    def _below(self, which: int, fd: int, given: list[Any], name: str) -> object:
        result = getattr(self._systems[which], name)(given[0], dir_fd=fd)
        return _look(result) if name == "stat" else result

    _stat = _unlink = _mkdir = _below

    def _link(self, which: int, fd: int, given: list[Any], name: str) -> object:
        source, handle, target = given
        owner, other = self._at(handle)
        into = other if owner == which else NO_SUCH_FD  # another process's number means nothing
        call: Callable[..., object] = getattr(self._systems[which], name)
        return call(source, target, source_fd=fd, target_fd=into)

    _rename = _link

    def _listdir(self, which: int, fd: int, given: list[Any], name: str) -> object:
        return sorted(name for name, _ in self._systems[which].listdir(fd))


def _look(status: os.stat_result) -> tuple[object, ...]:
    """What is the same on both: of a directory, size and links are the file system's own."""
    if stat.S_ISDIR(status.st_mode):
        return ("directory", stat.S_IMODE(status.st_mode))
    return ("file", stat.S_IMODE(status.st_mode), status.st_size, status.st_nlink)


def in_memory(disk: Disk) -> dict[str, tuple[object, ...]]:
    """Everything on the disk: kind, mode, bytes, and the first name of the same file."""
    tree = disk.tree()
    first: dict[int, str] = {}
    found: dict[str, tuple[object, ...]] = {}
    for path, inode in sorted(tree.paths()):
        node = tree.nodes[inode]
        same = first.setdefault(inode, path)
        if node.data is None:
            found[path] = ("directory", node.mode)
        else:
            found[path] = (node.data, node.mode, same)
    return found


def on_disk(root: Path) -> dict[str, tuple[object, ...]]:
    """The same of a real directory."""
    first: dict[int, str] = {}
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*"), key=lambda path: str(path.relative_to(root))):
        name, status = str(path.relative_to(root)), path.lstat()
        mode = stat.S_IMODE(status.st_mode)
        if path.is_dir():
            found[name] = ("directory", mode)
        else:
            found[name] = (path.read_bytes(), mode, first.setdefault(status.st_ino, name))
    return found


@contextmanager
def _no_umask() -> Iterator[None]:
    before = os.umask(0)
    try:
        yield
    finally:
        os.umask(before)


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(actions, min_size=1, max_size=40))
def test_every_sequence_of_calls_has_the_real_results(made: list[tuple[Any, ...]]) -> None:
    """L1 to L3 rest on it: what a call gives in memory is what the real system gives.

    Method: the same calls on both, by two processes; results, errors, and then every file, its
    bytes, mode and links.
    """
    machine = MemoryMachine()
    with TemporaryDirectory() as place, _no_umask():
        real = OsFileSystem()
        os.chmod(place, 0o755)  # noqa: S103 - as the root of the disk in memory
        sides = [Side((machine.process(), machine.process()), "/"), Side((real, real), place)]
        machine.disk.folder(ROOT).entries.clear()
        try:
            for number, action in enumerate([*BEGUN, *made]):
                here, there = (side.does(action) for side in sides)
                check_equal(here, there, f"call {number} of {BEGUN} and {made}")
            check_equal(in_memory(machine.disk), on_disk(Path(place)), f"the disk after {made}")
        finally:
            for side in sides:
                side.close()


def test_a_held_directory_leads_where_it_led() -> None:
    """T7: a name is looked up from the directory that is held, whatever its name is now.

    Method: rename a held directory, put another in its place, and make a file in each.
    """
    machine = MemoryMachine()
    system = machine.process()
    root = system.open("/", DIRECTORY)
    system.mkdir("kept", dir_fd=root)
    held = system.open("kept", DIRECTORY, dir_fd=root)
    system.rename("kept", "moved", source_fd=root, target_fd=root)
    system.mkdir("kept", dir_fd=root)
    system.close(system.open("file", CREATE_NEW, dir_fd=held))
    paths = [path for path, _ in machine.disk.tree().paths()]
    check_equal(paths, ["disk", "kept", "moved", "moved/file"], "names")


@pytest.mark.parametrize("name", ["kept", "moved"])
def test_a_directory_in_the_way_is_not_replaced(name: str) -> None:
    """renameat: a file does not replace a directory, nor the other way round.

    Method: both, and a directory that holds something.
    """
    system = MemoryMachine().process()
    root = system.open("/", DIRECTORY)
    for made in ("kept", "moved"):
        system.mkdir(made, dir_fd=root)
    inner = system.open("kept", DIRECTORY, dir_fd=root)
    for folder in (root, inner):
        system.close(system.open("file", CREATE_NEW, dir_fd=folder))
    expected = {
        ("file", name): errno.EISDIR,
        (name, "file"): errno.ENOTDIR,
        ("moved", "kept"): errno.ENOTEMPTY,
    }
    for (source, target), number in expected.items():
        with pytest.raises(OSError) as raised:  # noqa: PT011 - its number is looked at
            system.rename(source, target, source_fd=root, target_fd=root)
        check_equal(raised.value.errno, number, f"{source} to {target}")


def test_a_file_lives_as_long_as_it_is_held() -> None:
    """unlinkat: who holds a file without a name reads and writes it as before.

    Method: unlink it while it is held; nothing of it is on the disk.
    """
    machine = MemoryMachine()
    system = machine.process()
    root = system.open("/", DIRECTORY)
    fd = system.open("file", READ_WRITE_OR_CREATE, dir_fd=root)
    system.unlink("file", dir_fd=root)
    system.pwrite(fd, b"data", 2)
    check_equal(system.pread(fd, 10, 0), b"\0\0data", "what is read")
    check_equal(system.fstat(fd).st_nlink, 0, "links")
    check_equal([path for path, _ in machine.disk.tree().paths()], ["disk"], "names")
    check(isinstance(machine.disk.nodes[ROOT], Folder), "the root is a directory")


@pytest.mark.parametrize("name", ["O_APPEND", "O_TRUNC", "O_SYNC", "O_DSYNC", "O_TMPFILE"])
def test_flag_that_would_be_passed_over_is_refused(name: str) -> None:
    """Nobody's store is tested for something else than it does. Method: each flag of open."""
    process = MemoryMachine().process()
    with pytest.raises(NotImplementedError, match=f"has no {name};"):
        process.open("/disk", READ_WRITE | getattr(os, name))
    check_equal(process.open_paths, [], "what is open")
