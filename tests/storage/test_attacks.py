"""T7: whatever is planted under a name, nothing outside the directory is read or written."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    LastgoodError,
    StorageError,
)
from lastgood.storage.posix import PosixRoot
from tests.storage.places import MAX_BYTES, SESSION, open_session
from tests.support.check import check, check_equal

NAMES = ["checkpoint-000001.json", "manifest.json", "manifest-000001.json", "session.json"]
SECRET = b"precious, and not of this store"

Plant = Callable[[Path, Path], None]


def _symlink(name: Path, outside: Path) -> None:
    name.symlink_to(outside)


def _dangling(name: Path, outside: Path) -> None:
    name.symlink_to(outside.with_name("nothing"))


def _hard_link(name: Path, outside: Path) -> None:
    os.link(outside, name)


def _fifo(name: Path, outside: Path) -> None:
    os.mkfifo(name, 0o600)


def _directory(name: Path, outside: Path) -> None:
    name.mkdir(0o700)


def _socket(name: Path, outside: Path) -> None:
    here = os.getcwd()
    os.chdir(name.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(name.name)
    finally:
        os.chdir(here)
    name.chmod(0o600)


PLANTS = [_symlink, _dangling, _hard_link, _fifo, _directory, _socket]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A file of ours that is not in the store."""
    path = tmp_path / "outside"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


def untouched(outside: Path) -> None:
    """Fail if anything beside the store was changed or made."""
    check_equal(outside.read_bytes(), SECRET, "the file outside")
    check(not outside.with_name("nothing").exists(), "a file was made outside")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_name_is_never_read(
    tmp_path: Path, outside: Path, name: str, plant: Plant
) -> None:
    """C11-02: reading and streaming stop with DamagedError, none hangs, none reads outside."""
    session = open_session(tmp_path / "store")
    plant(tmp_path / "store" / SESSION / name, outside)
    with pytest.raises(DamagedError):
        session.read(name, max_bytes=MAX_BYTES)
    with pytest.raises(DamagedError):
        next(session.stream(name, max_bytes=MAX_BYTES))
    check(name in session.list(), "a planted name is listed, for verify to report")
    untouched(outside)
    session.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_name_is_never_written_to(tmp_path: Path, outside: Path, plant: Plant) -> None:
    """C11-02: create and begin are conflicts, a rewrite is refused, nothing outside changes."""
    session = open_session(tmp_path / "store")
    planted = tmp_path / "store" / SESSION / "name"
    plant(planted, outside)
    before = planted.lstat()
    with pytest.raises(ConflictError):
        session.create("name", [b"ours"])
    with pytest.raises(ConflictError):
        session.begin("name", size_bytes=len(SECRET))
    with pytest.raises(DamagedError):
        session.rewrite("name", SECRET)
    with pytest.raises(DamagedError):
        session.rewrite("name", SECRET, offset=0)
    untouched(outside)
    check_equal(planted.lstat().st_ino, before.st_ino, "what was planted is still there")
    session.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_pointer_is_replaced_and_never_followed(
    tmp_path: Path, outside: Path, plant: Plant
) -> None:
    """S7: a rename replaces the name itself; over a directory it is an unknown outcome."""
    session = open_session(tmp_path / "store")
    plant(tmp_path / "store" / SESSION / "manifest.json", outside)
    try:
        session.swap([b"1"], expected=0)
    except DurabilityUnknownError:
        check_equal(plant, _directory, "only a directory cannot be replaced")
    else:
        check_equal(session.read("manifest.json", max_bytes=9), b"1", "the pointer")
    check_equal(session.read("manifest-000001.json", max_bytes=9), b"1", "the claim")
    untouched(outside)
    session.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", PLANTS)
def test_a_guessed_temporary_is_never_used(tmp_path: Path, outside: Path, plant: Plant) -> None:
    """C11-02: a temporary is made exclusively; what stands under its name stays as it is.

    Method: an entropy that everybody can guess.
    """
    root = PosixRoot(tmp_path / "store", entropy=bytes)
    session = root.session(SESSION, access="write")
    planted = tmp_path / "store" / SESSION / f".name.{'00' * 8}.tmp"
    plant(planted, outside)
    with pytest.raises(StorageError, match="EEXIST"):
        session.create("name", [b"ours"])
    with pytest.raises(StorageError, match="EEXIST"):
        session.begin("name", size_bytes=9)
    check("name" not in session.list(), "it was published")
    check(os.path.lexists(planted), "what was planted is gone")
    untouched(outside)
    session.close()
    root.close()


@pytest.mark.timeout(20)
@pytest.mark.parametrize("plant", [_symlink, _dangling, _fifo, _socket])
def test_a_directory_that_is_none_is_refused(tmp_path: Path, outside: Path, plant: Plant) -> None:
    """T7: session directory and archive are directories, and no links to directories."""
    (tmp_path / "store").mkdir(0o700)
    plant(tmp_path / "store" / SESSION, outside)
    for access in ("read", "write"):
        with pytest.raises(DamagedError):
            open_session(tmp_path / "store", access="read" if access == "read" else "write")
    untouched(outside)


def test_a_link_to_a_directory_is_not_the_directory(tmp_path: Path) -> None:
    """T7: nothing is made in, or moved to, a directory that a link leads to."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(0o700)
    store = tmp_path / "store"
    store.mkdir(0o700)
    (store / SESSION).symlink_to(elsewhere)
    with pytest.raises(DamagedError, match="link"):
        open_session(store)
    (store / SESSION).unlink()
    session = open_session(store)
    session.create("name", [b"x"])
    (store / SESSION / "archive").symlink_to(elsewhere)
    for work in (
        lambda: session.archive("name"),
        lambda: session.supersede("name", [b"y"], fenced=b"x", as_name="other", revision=0),
        lambda: session.list("archive/"),
        lambda: session.read("archive/name", max_bytes=9),
        lambda: session.delete("archive/name"),
    ):
        with pytest.raises(DamagedError):
            work()
    check_equal(list(elsewhere.iterdir()), [], "files in the directory outside")
    check_equal(session.read("name", max_bytes=9), b"x", "the record")
    session.close()


def test_links_within_the_directory_are_legal(tmp_path: Path) -> None:
    """Design 4: a record may have as many links as names beside it, archive included.

    Method: the pointer's twin, the temporary of a killed writer, the twin of an interrupted move.
    """
    session = open_session(tmp_path)
    directory = tmp_path / SESSION
    session.swap([b"1"], expected=0)
    os.link(directory / "manifest.json", directory / ".manifest.json.0123456789abcdef.tmp")
    (directory / "archive").mkdir(0o700)
    os.link(directory / "manifest.json", directory / "archive" / "manifest-000001.json")
    for name in ("manifest.json", "manifest-000001.json", "archive/manifest-000001.json"):
        check_equal(session.read(name, max_bytes=9), b"1", name)
        check_equal(b"".join(session.stream(name, max_bytes=9)), b"1", name)
    os.link(directory / "manifest.json", tmp_path / "outside")
    for name in ("manifest.json", "archive/manifest-000001.json"):
        with pytest.raises(DamagedError, match="links"):
            session.read(name, max_bytes=9)
    session.close()


def test_a_copied_store_reads_as_the_original(tmp_path: Path) -> None:
    """Design 4: in a copy the twins are two files, and that is legal."""
    session = open_session(tmp_path / "store")
    session.swap([b"1"], expected=0)
    session.close()
    shutil.copytree(tmp_path / "store", tmp_path / "copy")
    copied = open_session(tmp_path / "copy")
    check_equal(copied.read("manifest.json", max_bytes=9), b"1", "the copied pointer")
    check_equal(copied.swap([b"2"], expected=1), 2, "the next swap")
    copied.close()


def test_readers_raise_no_alarm_while_a_writer_works(tmp_path: Path) -> None:
    """G8: links come and go under a writer; a count that is off is counted again.

    Method: four threads read the pointer during 150 swaps with deleted numbers.
    """
    writer = open_session(tmp_path)
    writer.swap([b"1"], expected=0)
    done = threading.Event()
    alarms: list[LastgoodError] = []

    def read() -> None:
        reader = open_session(tmp_path, access="read")
        newest = 0
        while not done.is_set():
            try:
                revision = int(reader.read("manifest.json", max_bytes=9))
            except LastgoodError as error:
                alarms.append(error)
                break
            if revision < newest:
                alarms.append(DamagedError(f"went back from {newest} to {revision}"))
            newest = revision
        reader.close()

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for expected in range(1, 150):
            writer.swap([b"%d" % (expected + 1)], expected=expected)
            writer.delete(f"manifest-{expected - 1:06d}.json")
    finally:
        done.set()
        for thread in threads:
            thread.join()
    check_equal(alarms, [], "alarms")
    writer.close()
