"""The seam: refused platforms, full syncs on macOS, listings that threads do not disturb."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
from pathlib import Path

import pytest

from lastgood.errors import ConfigurationError, DamagedError, LimitError, StorageError
from lastgood.formats.limits import Limits
from lastgood.storage.filesystem import DIRECTORY, OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.storage.places import SESSION, none_leaked, open_session
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, When, faulty, system_error


@pytest.mark.parametrize("platform", ["win32", "cygwin", "emscripten", "freebsd14", "aix"])
def test_other_platforms_are_refused_with_what_to_do(platform: str) -> None:
    """C14-02: no store is opened where files cannot keep the promises; the text says where."""
    with pytest.raises(ConfigurationError) as raised:
        OsFileSystem(platform=platform)
    for part in (platform, "Linux or macOS", "WSL 2"):
        check(part in str(raised.value), f"{part!r} is not in: {raised.value}")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_linux_and_macos_are_not_refused(platform: str) -> None:
    """The two platforms that are supported."""
    OsFileSystem(platform=platform)


def test_macos_is_synced_to_the_medium(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """G1: where fsync stops at the drive's cache, F_FULLFSYNC is used, for fdatasync too.

    Method: pretend the constant; where the file system does not know the call, fsync is used,
    and an error of the call is an error.
    """
    asked: list[int] = []
    answers = {"errno": 0}

    def pretended(fd: int, command: int) -> int:
        asked.append(command)
        if answers["errno"]:
            raise OSError(answers["errno"], "pretended")
        return 0

    monkeypatch.setattr(fcntl, "F_FULLFSYNC", 51, raising=False)
    monkeypatch.setattr(fcntl, "fcntl", pretended)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    filesystem = OsFileSystem()
    filesystem.fsync(7)
    filesystem.fdatasync(8)
    check_equal((asked, synced), ([51, 51], []), "full syncs, plain ones")
    answers["errno"] = errno.ENOTSUP
    filesystem.fsync(9)
    check_equal(synced, [9], "plain syncs where the full one is not known")
    answers["errno"] = errno.EIO
    with pytest.raises(OSError, match="pretended"):
        filesystem.fsync(10)
    check_equal(synced, [9], "a failed full sync was followed by a plain one (C6-04)")


def test_listings_of_one_descriptor_do_not_disturb_each_other(tmp_path: Path) -> None:
    """P5: every listing begins at the beginning, whoever else reads the directory.

    Method: one half-read listing, a second one within it, and eight threads.
    """
    expected = {f"name-{number}" for number in range(500)}
    for name in expected:
        (tmp_path / name).touch()
    filesystem = OsFileSystem()
    fd = filesystem.open(str(tmp_path), DIRECTORY)
    first = filesystem.listdir(fd)
    begun = {next(first)[0] for _ in range(100)}
    check_equal({name for name, _ in filesystem.listdir(fd)}, expected, "a listing within one")
    check_equal(begun | {name for name, _ in first}, expected, "the listing around it")
    seen: list[set[str]] = []
    threads = [
        threading.Thread(target=lambda: seen.append({name for name, _ in filesystem.listdir(fd)}))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_equal(seen, [expected] * 8, "listings of threads")
    filesystem.close(fd)


def test_names_that_are_not_utf_8_are_listed_and_harm_nothing(tmp_path: Path) -> None:
    """C11-06: a foreign name of any bytes comes with surrogate escapes and leads back to itself."""
    session = open_session(tmp_path)
    raw = os.fsencode(tmp_path / SESSION) + b"/\xff\xfe\x1b[2J"
    with open(raw, "wb") as file:
        file.write(b"x")
    os.chmod(raw, 0o644)
    (name,) = session.list()
    check_equal(os.fsencode(name), b"\xff\xfe\x1b[2J", "the name")
    with pytest.raises(DamagedError) as raised:
        session.read(name, max_bytes=9)
    check(str(raised.value).isprintable(), f"unescaped: {raised.value!s:.200}")
    session.delete(name)
    check_equal(session.list(), (), "names after deleting it")
    session.close()


def test_a_session_with_too_many_entries_is_refused(tmp_path: Path) -> None:
    """T8: a directory is examined up to its limit, for a list, a swap and a settle alike.

    Method: foreign files, up to the limit and one more.
    """
    root = PosixRoot(tmp_path, limits=Limits(directory_entries=30))
    session = root.session(SESSION, access="write")
    session.swap([b"1"], expected=0)
    for number in range(28):
        (tmp_path / SESSION / f"foreign-{number}").touch()
    check_equal(len(session.list()), 30, "entries at the limit")
    (tmp_path / SESSION / "one-more").touch()
    for work in (
        session.list,
        lambda: session.swap([b"2"], expected=1),
        lambda: session.settle(1, number_missing=False, pointer_behind=False),
    ):
        with pytest.raises(LimitError, match="30 are examined"):
            work()
    session.close()
    root.close()


def test_a_swap_never_fills_a_directory_beyond_what_can_be_examined(tmp_path: Path) -> None:
    """T8, G2: near the limit a swap is refused before it claims, so that the session still opens.

    Method: add one foreign file after another until the swap is refused; then list and settle.
    """
    root = PosixRoot(tmp_path, limits=Limits(directory_entries=30))
    session = root.session(SESSION, access="write")
    revision = session.swap([b"1"], expected=0)
    for _ in range(40):
        before = set(session.list())
        try:
            revision = session.swap([b"x"], expected=revision)
        except LimitError as refused:
            check("kept free" in str(refused), str(refused))
            break
    check(1 < revision < 30, f"the swap after revision {revision} was refused, or none was")
    check_equal(set(session.list()), before, "names after a refused swap")
    session.settle(revision, number_missing=False, pointer_behind=False)
    session.create("checkpoint-000001.json", [b"x"])
    for number in range(1, 6):
        session.delete(f"manifest-{number:06d}.json")
    check_equal(
        session.swap([b"y"], expected=revision), revision + 1, "the swap after room was made"
    )
    session.close()
    root.close()


def test_a_root_may_have_any_number_of_sessions(tmp_path: Path) -> None:
    """The limit is one of a session; a store has as many as its user makes."""
    for number in range(50):
        (tmp_path / f"{number:040x}").mkdir(0o700)
    root = PosixRoot(tmp_path, limits=Limits(directory_entries=10))
    check_equal(len(list(root.directories())), 50, "directories")
    root.close()


def test_a_file_that_grows_while_it_is_read_is_bounded(tmp_path: Path) -> None:
    """P7, T8: the limit holds for what is read, not only for the size that was seen before.

    Method: the file grows behind the fstat.
    """

    class Growing(OsFileSystem):
        def read(self, fd: int, size_bytes: int) -> bytes:
            with (tmp_path / SESSION / "name").open("ab") as file:
                file.write(bytes(1_000))
            return super().read(fd, size_bytes)

    open_session(tmp_path).create("name", [b"x"])
    reader = open_session(tmp_path, access="read", filesystem=Growing())
    with pytest.raises(DamagedError, match="more than"):
        reader.read("name", max_bytes=1)
    with pytest.raises(DamagedError, match="more than"):
        for _ in reader.stream("name", max_bytes=1_500):
            pass


def test_every_failing_call_of_a_read_is_a_typed_error(tmp_path: Path) -> None:
    """Style 7: what cannot be read is never missing, never empty, and leaks nothing.

    Method: each call of a read, of a stream and of a list fails once.
    """
    maker = open_session(tmp_path)
    maker.swap([b"manifest"], expected=0)
    maker.close()
    calls = Calls()
    reader = open_session(tmp_path, access="read", filesystem=faulty(calls))
    for work in (
        lambda: reader.read("manifest.json", max_bytes=99),
        lambda: b"".join(reader.stream("manifest.json", max_bytes=99)),
        reader.list,
    ):
        calls.begin()
        clean = work()
        made = list(calls.made)
        for at, name in enumerate(made):
            # A close leaves nothing open only if it is executed; a listing that fails at its
            # end may have told enough before.
            when: When = "instead" if name == "listdir" else "after"
            with none_leaked(f"call {at}, {name}"):
                calls.begin(Fault(at, system_error(errno.EIO), when=when))
                try:
                    check_equal(work(), clean, f"a result in spite of call {at}, {name}")
                    check_equal(name, "close", "only a close may fail unseen in reading")
                except StorageError as error:
                    check_equal(type(error), StorageError, f"call {at}, {name}: {error}")
                    check_equal(error.errno, errno.EIO, f"call {at}, {name}: the errno")
    reader.close()
