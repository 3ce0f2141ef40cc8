"""POSIX storage on a fake file system: paths, modes and a disk that fills at every write.

The fake knows no ``writev``, ``pwrite`` and ``pread``: they would reach whatever *real* file
has that descriptor's number. So the double below never calls them. A fake locks nobody
out and loses nothing in a crash: nothing of that is tested here.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Sequence
from functools import partial

import pytest
from pyfakefs.fake_filesystem import FakeFilesystem

from lastgood.errors import DamagedError, StorageError
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.posix import PosixRoot, PosixStorage
from tests.storage.places import SESSION
from tests.support.check import check, check_equal

PIECE_BYTES = 1_000


class _FakeSafe(OsFileSystem):
    """Only calls that the fake has."""

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        return os.write(fd, bytes(buffers[0]))

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.write(fd, bytes(data))

    def pread(self, fd: int, size_bytes: int, offset: int) -> bytes:
        raise NotImplementedError("not on a fake")

    def flock(self, fd: int, operation: int) -> None:
        raise NotImplementedError("not on a fake")


def open_fake(path: str) -> PosixStorage:
    session = PosixRoot(path, filesystem=_FakeSafe()).session(SESSION, access="write")
    if not isinstance(session, PosixStorage):
        raise TypeError("not the storage under test")
    return session


def fake_picture(path: str) -> dict[str, bytes]:
    found = {}
    for top, _, files in os.walk(path):
        for name in files:
            with open(os.path.join(top, name), "rb") as file:
                found[os.path.join(top, name)] = file.read()
    return found


def set_size(fs: FakeFilesystem, size_bytes: int) -> None:
    """Make the fake disk this large."""
    fs.set_disk_usage(size_bytes)


def used_bytes(fs: FakeFilesystem) -> int:
    """How much of it is used."""
    _, used, _ = fs.get_disk_usage()
    return used


@pytest.mark.parametrize("given", ["/srv/store", "/srv/../srv/store", "store", "./a/../store"])
def test_a_path_is_resolved_once(fs: FakeFilesystem, given: str) -> None:
    """Configuration: relative and winding paths lead to one absolute place, made privately.

    Method: change the working directory after the store was named.
    """
    fs.create_dir("/home/a")
    os.chdir("/home")
    root = PosixRoot(given, filesystem=_FakeSafe())
    os.chdir("/")
    session = root.session(SESSION, access="write")
    session.create("name", [b"x"])
    check(os.path.isabs(root.location()), f"relative: {root.location()}")
    expected = "/srv/store" if "srv" in given else "/home/store"
    check_equal(root.location(), expected, "the location")
    check(os.path.exists(f"{expected}/{SESSION}/name"), "the file is elsewhere")


def test_a_link_in_the_path_of_the_store_is_followed_once(fs: FakeFilesystem) -> None:
    """Configuration: a user may reach a store by a link; below its root no link counts."""
    fs.create_dir("/disk")
    fs.create_symlink("/home/state", "/disk")
    session = open_fake("/home/state/store")
    session.create("name", [b"x"])
    check(os.path.exists(f"/disk/store/{SESSION}/name"), "the file is elsewhere")


def test_directories_that_are_missing_are_made_private(fs: FakeFilesystem) -> None:
    """C14-05: each new directory is 0700, each file 0600; what was there stays as it is."""
    fs.create_dir("/there", perm_bits=0o755)
    session = open_fake("/there/a/b/store")
    session.create("name", [b"x"])
    session.swap([b"1"], expected=0)
    session.archive("name")
    check_equal(stat.S_IMODE(os.stat("/there").st_mode), 0o755, "a directory that was there")
    for top, directories, files in os.walk("/there"):
        for name in directories:
            mode = stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode)
            check_equal(mode, 0o700, f"mode of {name}")
        for name in files:
            mode = stat.S_IMODE(os.stat(os.path.join(top, name)).st_mode)
            check_equal(mode, 0o600, f"mode of {name}")


def test_a_file_in_the_place_of_the_store_is_refused(fs: FakeFilesystem) -> None:
    """Configuration: a store is a directory; nothing is made beside or instead of it."""
    fs.create_file("/srv/store", contents="precious")
    with pytest.raises((DamagedError, StorageError)):
        open_fake("/srv/store")
    with pytest.raises((DamagedError, StorageError)):
        open_fake("/srv/store/below")
    check_equal(fake_picture("/srv"), {"/srv/store": b"precious"}, "the disk")


@pytest.mark.parametrize("kind", ["create", "swap", "begin"])
def test_a_disk_that_fills_at_any_write_changes_nothing_acknowledged(
    fs: FakeFilesystem, kind: str
) -> None:
    """C6-01: ENOSPC at each of ten writes; what was there stays, no temporary is left.

    Method: leave room for 0 to 9 of ten pieces; then make room and do the same again.
    """
    pieces = [b"%d" % number * PIECE_BYTES for number in range(10)]
    for fitting in range(10):
        place = f"/store-{kind}-{fitting}"
        set_size(fs, 1 << 20)
        session = open_fake(place)
        session.swap([b"1"], expected=0)
        works: dict[str, Callable[[], object]] = {
            "create": partial(session.create, "name", pieces),
            "swap": partial(session.swap, pieces, expected=1),
            "begin": partial(session.begin, "name", size_bytes=10 * PIECE_BYTES),
        }
        work = works[kind]
        before = fake_picture(place)
        set_size(fs, used_bytes(fs) + fitting * PIECE_BYTES + 500)
        with pytest.raises(StorageError) as raised:
            work()
        check_equal(raised.value.errno, errno.ENOSPC, f"{fitting} pieces fit: the errno")
        check_equal(fake_picture(place), before, f"{fitting} pieces fit: the disk")
        set_size(fs, 1 << 20)
        work()
        name = "manifest.json" if kind == "swap" else "name"
        data = session.read(name, max_bytes=1 << 20)
        expected = bytes(10 * PIECE_BYTES) if kind == "begin" else b"".join(pieces)
        check_equal(data, expected, f"{fitting} pieces fit: after room was made")
