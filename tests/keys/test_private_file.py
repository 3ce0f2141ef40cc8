"""T6, T7: a key file that somebody else could read or replace is refused, with what mends it."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import KeyFileError, KeyMissingError
from lastgood.formats.keyfile import MAX_FILE_BYTES
from lastgood.keyring import Keyring
from lastgood.storage.filesystem import FileSystem, OsFileSystem
from tests.keys.samples import KID, as_bytes, as_unprivileged_user, key_file, refused, write
from tests.support.check import check, check_equal

NOBODY = 65534


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A private directory."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


def read(path: Any, **named: Any) -> Keyring:
    return Keyring.from_file(path, **named)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_private_file_is_read(home: Path, mode: int) -> None:
    """A file that only its owner may use is read, and its place is known."""
    keyring = read(write(home / "keys.json", mode=mode))
    check_equal(keyring.primary_kid, KID, "kid")
    check_equal(keyring.location, str(home / "keys.json"), "location")
    check_equal(keyring.notices, (), "notices")


def test_path_may_be_relative_or_in_the_home_directory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Paths mean what they mean in a shell; the location is absolute."""
    write(home / "keys.json")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(home.parent)
    for path in (
        "~/keys.json",
        "home/keys.json",
        "./home/../home/keys.json",
        Path("home/keys.json"),
    ):
        check_equal(read(path).location, str(home / "keys.json"), f"location of {path}")


@pytest.mark.parametrize("bit", [0o040, 0o020, 0o010, 0o004, 0o002, 0o001])
def test_mode_that_lets_others_in_is_refused_and_names_the_chmod(home: Path, bit: int) -> None:
    """Any group or other bit is refused; the command that is named mends it."""
    path = write(home / "my keys.json", mode=0o600 | bit)
    text = refused(read, path, error=KeyFileError, match="mode 06|mode 07")
    check(f"chmod 600 '{path}'" in text, text)
    path.chmod(0o600)
    read(path)


@pytest.mark.needs_root
def test_file_of_somebody_else_is_refused(home: Path) -> None:
    """Whoever owns the file can change it: it must be ours or root's."""
    path = write(home / "keys.json")
    os.chown(path, NOBODY, NOBODY)
    refused(read, path, error=KeyFileError, match="belongs to user 65534")


def test_second_name_of_the_file_is_refused(home: Path) -> None:
    """A hard link may lie where others reach it."""
    path = write(home / "keys.json")
    os.link(path, home / "other")
    refused(read, path, error=KeyFileError, match="2 names")
    os.unlink(home / "other")
    read(path)


def test_symbolic_link_is_refused(home: Path) -> None:
    """T7: the last component is never followed, whole or dangling."""
    path = write(home / "keys.json")
    for target in (path, home / "absent", home):
        (home / "link").unlink(missing_ok=True)
        (home / "link").symlink_to(target)
        refused(read, home / "link", error=KeyFileError, match="symbolic link")


def test_link_among_the_directories_is_resolved(home: Path) -> None:
    """Links above the file are followed, and what they lead to is what is checked."""
    write(home / "keys.json")
    link = home.parent / "link"
    link.symlink_to(home)
    check_equal(read(link / "keys.json").location, str(home / "keys.json"), "location")
    home.chmod(0o777)
    refused(read, link / "keys.json", error=KeyFileError, match="has mode 0777")


@pytest.mark.timeout(10)
def test_what_is_no_regular_file_is_refused_without_waiting(home: Path) -> None:
    """T7, T8: a FIFO without a writer does not block; directories and sockets are no key files."""
    os.mkfifo(home / "fifo", 0o600)
    (home / "directory").mkdir(mode=0o700)
    refused(read, home / "fifo", error=KeyFileError, match="not a regular file")
    refused(read, home / "directory", error=KeyFileError, match="not a regular file")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home / "socket"))
        refused(read, home / "socket", error=KeyFileError, match="cannot be opened: ENXIO")


def test_device_is_refused(home: Path) -> None:
    """An endless device is not read. Method: /dev/zero, /dev/null."""
    for path in ("/dev/zero", "/dev/null"):
        refused(read, path, error=KeyFileError, match="not a regular file")


@pytest.mark.parametrize("place", ["absent", "absent/keys.json", "file/keys.json"])
def test_absent_file_is_missing(home: Path, place: str) -> None:
    """Not there is said only where it is known, and names how to make one."""
    write(home / "file")
    text = refused(read, home / place, error=KeyMissingError, match="no key file")
    check("lastgood keys new" in text, text)


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/", "keys/", "a/.", "a\0b", "\ud800", "k" * 256, "x/" * 3000 + "k"]
)
def test_path_that_names_no_file_is_refused(
    home: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every text gets a typed answer, no traceback."""
    monkeypatch.chdir(home)
    refused(read, path, error=KeyFileError)


def test_hostile_path_cannot_repaint_the_message(home: Path) -> None:
    """T12: escape and bidi characters of a path are escaped."""
    path = write(home / "a\x1b[2K\u202eb", mode=0o644)
    text = refused(read, path, error=KeyFileError)
    check("\x1b" not in text and "\u202e" not in text, repr(text))


def test_size_over_the_limit_is_refused_before_reading(home: Path) -> None:
    """T8: 64 KiB at most; a sparse terabyte costs nothing."""
    path = write(home / "keys.json", as_bytes(key_file()).ljust(MAX_FILE_BYTES))
    read(path)
    path.chmod(0o600)
    with path.open("ab") as file:
        file.truncate(2**40)

    class Unread(OsFileSystem):
        def read(self, fd: int, size_bytes: int) -> bytes:
            raise AssertionError("a file over the limit was read")

    refused(read, path, filesystem=Unread(), error=KeyFileError, match="larger than 65536")


def test_file_that_grows_while_it_is_read_is_refused(home: Path) -> None:
    """T8: the read is bounded, too. Method: a size that is right when asked for."""

    class Growing(OsFileSystem):
        def read(self, fd: int, size_bytes: int) -> bytes:
            return b" " * size_bytes

    path = write(home / "keys.json")
    refused(read, path, filesystem=Growing(), error=KeyFileError, match="larger than 65536")


@pytest.mark.parametrize("content", [b"", b"\n", b"{}"], ids=["empty", "newline", "object"])
def test_bad_content_names_the_file(home: Path, content: bytes) -> None:
    """C12-06: an empty or short key file is refused at the start, by its path."""
    path = write(home / "keys.json", content)
    text = refused(read, path, error=KeyFileError)
    check(str(path) in text, text)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702, 0o777])
@pytest.mark.parametrize("level", [0, 1, 2])
def test_directory_that_others_write_to_is_refused_at_every_level(
    home: Path, level: int, mode: int
) -> None:
    """T7: who writes to a directory above can replace the file; the named command mends it."""
    folder = home / "a" / "b"
    folder.mkdir(parents=True, mode=0o755)
    path = write(folder / "keys.json")
    wide = path.parents[level]
    wide.chmod(mode)
    text = refused(read, path, error=KeyFileError, match="Others can replace")
    check(f"chmod go-w {wide}." in text, text)
    wide.chmod(mode & ~0o022)
    read(path)


def test_sticky_directory_is_trusted(home: Path) -> None:
    """In a directory like /tmp others cannot rename what is ours."""
    path = write(home / "keys.json")
    home.chmod(0o1777)
    read(path)


@pytest.mark.needs_root
@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_directory_of_somebody_else_is_refused(home: Path, mode: int) -> None:
    """Its owner can replace the file whatever the mode, also where the sticky bit is set."""
    path = write(home / "keys.json")
    os.chown(home, NOBODY, NOBODY)
    home.chmod(mode)
    refused(read, path, error=KeyFileError, match="belongs to user 65534")


def test_key_file_inside_the_store_is_refused(home: Path) -> None:
    """T1: who gets the store must not get its keys; no link and no detour hides it."""
    store = home / "store"
    (store / "deep").mkdir(parents=True, mode=0o700)
    link = home / "link"
    link.symlink_to(store)
    for path in (store / "keys.json", store / "deep" / "keys.json"):
        keyring = read(write(path))
        for root in (store, link, store / "deep" / "..", home / "." / "store"):
            text = refused(keyring.check_outside, str(root), error=KeyFileError, match="inside")
            check("outside of the store" in text, text)


def test_key_file_outside_the_store_is_accepted(home: Path) -> None:
    """Beside the store, above it, below a namesake, or before there is a store."""
    store, namesake = home / "store", home / "store-keys"
    store.mkdir()
    namesake.mkdir(mode=0o700)
    for path in (home / "keys.json", namesake / "keys.json"):
        keyring = read(write(path))
        for root in (store, home / "absent", home / "keys.json" / "x"):
            keyring.check_outside(str(root))


def test_keys_that_came_from_no_file_lie_outside_every_store() -> None:
    """Only a file has a place."""
    Keyring.from_bytes(as_bytes(key_file())).check_outside("/")


def test_store_that_cannot_be_looked_at_is_no_proof(home: Path) -> None:
    """Cannot read is never not there. Method: EACCES from the root's stat."""
    keyring = read(write(home / "keys.json"))

    class Closed(OsFileSystem):
        def stat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
            raise PermissionError(13, "closed")

    refused(
        keyring.check_outside, str(home), filesystem=Closed(), error=KeyFileError, match="EACCES"
    )


def test_place_from_which_keys_leak_is_noticed_not_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the working directory or in a git checkout: a notice each, and the keys are read."""
    path = write(home / "keys.json")
    monkeypatch.chdir(home.parent)
    (notice,) = read(path).notices
    check("under the working directory" in notice, notice)
    (home / ".git").mkdir()
    notices = read(path).notices
    check_equal(len(notices), 2, f"notices {notices}")
    check(f"git checkout {home}" in notices[1], notices[1])
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    (notice,) = read(path).notices
    check("git checkout" in notice, notice)
    monkeypatch.chdir("/")
    check_equal(len(read(path).notices), 1, "notices in the root, below which lies everything")


def test_removed_working_directory_is_no_obstacle(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absolute path is read from anywhere; a relative one is refused, typed."""
    path = write(home / "keys.json")
    gone = home / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    check_equal(read(path).notices, (), "notices")
    refused(read, "keys.json", error=KeyMissingError)


class FailingAt(OsFileSystem):
    """The real file system, whose k-th call fails; counts the calls."""

    def __init__(self, at: int, number: int) -> None:
        super().__init__()
        self.left, self.number, self.calls = at, number, 0

    def _count(self) -> None:
        self.calls += 1
        if self.calls == self.left:
            raise OSError(self.number, "injected")

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        self._count()
        return super().open(path, flags, mode=mode, dir_fd=dir_fd)

    def close(self, fd: int) -> None:
        super().close(fd)
        self._count()

    def read(self, fd: int, size_bytes: int) -> bytes:
        self._count()
        return super().read(fd, size_bytes)

    def fstat(self, fd: int) -> os.stat_result:
        self._count()
        return super().fstat(fd)

    def stat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
        self._count()
        return super().stat(path, dir_fd=dir_fd)


@pytest.mark.parametrize("number", [5, 13, 24])
def test_error_of_any_call_is_a_key_error_and_leaks_no_descriptor(home: Path, number: int) -> None:
    """EIO, EACCES or EMFILE at any call is answered by exit 5, or concerned only a notice."""
    path = write(home / "keys.json")
    counting: Any = FailingAt(0, number)
    read(path, filesystem=counting)
    check(counting.calls >= 8, f"only {counting.calls} calls were seen")
    before = os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else []
    refusals = 0
    for at in range(1, counting.calls + 1):
        failing: FileSystem = FailingAt(at, number)
        try:
            check_equal(read(path, filesystem=failing).primary_kid, KID, "kid")
        except KeyFileError:
            refusals += 1
    after = os.listdir("/proc/self/fd") if before else []
    check(refusals >= 6, f"{refusals} refusals")
    check_equal(len(after), len(before), "open descriptors")


@pytest.mark.needs_unprivileged_user
def test_ordinary_user_is_refused_what_is_not_theirs_and_reads_their_own(tmp_path: Path) -> None:
    """The checks hold for a user whom the system itself restricts.

    Method: a process that acts as nobody, in a directory that root shares like /tmp.
    """
    shared = Path("/tmp") / f"lastgood-{os.getpid()}-{tmp_path.name}"
    shared.mkdir(mode=0o700)
    try:
        own, unreadable = shared / "own.json", shared / "root.json"
        write(unreadable)
        write(own)
        os.chown(own, NOBODY, NOBODY)
        foreign = write(shared / "foreign.json")
        os.chown(foreign, 12345, 12345)
        foreign.chmod(0o644)
        shared.chmod(0o1777)
        code = (
            "for path in sys.argv[1:]:\n"
            "    try: print(Keyring.from_file(path).primary_kid)\n"
            "    except LastgoodError as error: print(error.code, error)\n"
        )
        printed = as_unprivileged_user(code, str(own), str(unreadable), str(foreign)).split("\n")
        check_equal(printed[0], KID, "kid of their own")
        check("key-file" in printed[1] and "EACCES" in printed[1], printed[1])
        check("key-file" in printed[2] and "belongs to user 12345" in printed[2], printed[2])
        shared.chmod(stat.S_IRWXU)
        printed = as_unprivileged_user(code, str(own)).split("\n")
        check("EACCES" in printed[0], f"closed directory: {printed[0]}")
    finally:
        for path in shared.iterdir():
            path.unlink()
        shared.rmdir()
