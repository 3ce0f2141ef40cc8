"""A new key file: whole, durable and private, or not there at all."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import KeyFileError, KeyMissingError, LastgoodError, StorageError
from lastgood.keyring import Keyring
from lastgood.storage.filesystem import OsFileSystem
from tests.keys.samples import MASTER, as_bytes, check_hides, key_file, refused, texts_of, write
from tests.support.check import check, check_equal

SAMPLE = Keyring.from_bytes(as_bytes(key_file()))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A private directory."""
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    return folder


class Killed(BaseException):
    """The process is no more."""


class Recording(OsFileSystem):
    """The real file system; records calls that change something, and fails or dies at one.

    Args:
        at: The call that fails, counted from 1; 0 for none.
        number: Error number, or 0 to die: then every later call dies, too.
        executed: Whether that call takes effect before it fails.
    """

    def __init__(self, at: int = 0, *, number: int = 0, executed: bool = False) -> None:
        super().__init__()
        self.at, self.number, self.executed = at, number, executed
        self.calls: list[str] = []

    def _seen(self, name: str, call: Any, *args: Any, **named: Any) -> Any:
        self.calls.append(name)
        fails = len(self.calls) == self.at
        if self.at and self.number == 0 and len(self.calls) > self.at:
            raise Killed
        result = call(*args, **named) if self.executed or not fails else None
        if fails:
            raise OSError(self.number, "injected") if self.number else Killed
        return result

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        if not flags & os.O_CREAT:
            return super().open(path, flags, mode=mode, dir_fd=dir_fd)
        opened: int = self._seen("create", super().open, path, flags, mode=mode, dir_fd=dir_fd)
        return opened

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        part = [bytes(buffers[0])[:100]]  # never all at once: short writes are legal
        written: int = self._seen("write", super().writev, fd, part)
        return written

    def fsync(self, fd: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file"
        self._seen(f"fsync {kind}", super().fsync, fd)

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        self._seen("link", super().link, source, target, source_fd=source_fd, target_fd=target_fd)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        self._seen("unlink", super().unlink, name, dir_fd=dir_fd)


def calls_of_one_write(home: Path) -> list[str]:
    recording = Recording()
    SAMPLE.write_new(home / "recorded.json", filesystem=recording)
    (home / "recorded.json").unlink()
    return recording.calls


def test_new_key_file_is_private_whole_and_read_back(home: Path) -> None:
    """What was generated is what is read; 0600, one name, nothing beside it."""
    keyring = Keyring.generate()
    path = home / "keys.json"
    keyring.write_new(path)
    again = Keyring.from_file(path)
    check_equal((again.store_id, again.states()), (keyring.store_id, keyring.states()), "keyring")
    key = ("mac", "checkpoint")
    check_equal(
        again.sealer("").key(again.primary_kid, *key),
        keyring.sealer("").key(keyring.primary_kid, *key),
        "derived key",
    )
    check_equal(stat.S_IMODE(path.stat().st_mode), 0o600, "mode")
    check_equal(os.listdir(home), ["keys.json"], "names")
    check_equal(path.read_bytes()[-1:], b"\n", "last byte")


def test_new_key_file_of_the_fixed_secret_is_the_golden_file(home: Path) -> None:
    """What is written today is what version 1 is."""
    SAMPLE.write_new(home / "keys.json")
    golden = Path(__file__).resolve().parents[1] / "golden" / "keys-v1.json"
    check_equal((home / "keys.json").read_bytes(), golden.read_bytes(), "bytes")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_mode_is_0600_under_every_umask(home: Path, umask: int) -> None:
    """No umask opens it, from the first instant on. Method: the mode at every write, too."""
    modes = set()

    class Watching(Recording):
        def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
            modes.add(stat.S_IMODE(os.fstat(fd).st_mode))
            return super().writev(fd, buffers)

    before = os.umask(umask)
    try:
        SAMPLE.write_new(home / "keys.json", filesystem=Watching())
    finally:
        os.umask(before)
    check_equal(modes, {0o600}, "modes while it was written")
    check_equal(stat.S_IMODE((home / "keys.json").stat().st_mode), 0o600, "mode")


def test_order_of_calls_is_the_durable_one(home: Path) -> None:
    """G1: the content is on the medium before the name is, the name before it returns."""
    calls = calls_of_one_write(home)
    writes = calls.count("write")
    check(writes > 2, f"short writes were not gone on with: {calls}")
    expected = ["create", *["write"] * writes, "fsync file", "link", "unlink", "fsync directory"]
    check_equal(calls, expected, "calls")


@pytest.mark.parametrize("kind", ["file", "link", "dangling", "directory", "fifo"])
def test_existing_name_is_refused_and_untouched(home: Path, kind: str) -> None:
    """Keys are never overwritten: what was sealed with them would be lost."""
    path = home / "keys.json"
    other = write(home / "other", b"precious")
    match kind:
        case "file":
            write(path, b"precious")
        case "link":
            path.symlink_to(other)
        case "dangling":
            path.symlink_to(home / "absent")
        case "directory":
            path.mkdir()
        case _:
            os.mkfifo(path)
    before = {name: os.lstat(home / name) for name in os.listdir(home)}
    text = refused(SAMPLE.write_new, path, error=KeyFileError, match="exists already")
    check("It was not touched" in text, text)
    after = {name: os.lstat(home / name) for name in os.listdir(home)}
    check_equal(after.keys(), before.keys(), "names")
    same = [
        after[n].st_ino == s.st_ino and after[n].st_size == s.st_size for n, s in before.items()
    ]
    check(all(same), "something was changed")
    check_equal(other.read_bytes(), b"precious", "content")


def test_absent_directory_is_named_with_the_command_that_makes_it(home: Path) -> None:
    """Nothing is made that was not asked for."""
    text = refused(
        SAMPLE.write_new, home / "a" / "k.json", error=KeyFileError, match="no directory"
    )
    check(f"mkdir -p -m 700 {home / 'a'}" in text, text)
    check_equal(os.listdir(home), [], "names")


@pytest.mark.parametrize("path", ["", ".", "..", "a/", "a\0b"])
def test_path_that_names_no_file_is_refused(
    home: Path, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every text gets a typed answer, and nothing is made."""
    monkeypatch.chdir(home)
    refused(SAMPLE.write_new, path, error=KeyFileError)
    check_equal(os.listdir(home), [], "names")


def test_directory_that_others_write_to_gets_no_keys(home: Path) -> None:
    """T7: what could be replaced at once is not written."""
    home.chmod(0o777)
    refused(SAMPLE.write_new, home / "keys.json", error=KeyFileError, match="chmod go-w")
    check_equal(os.listdir(home), [], "names")


NUMBERS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EPERM, errno.EEXIST]


@pytest.mark.parametrize("executed", [False, True], ids=["not-executed", "executed"])
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: errno.errorcode[number])
def test_error_of_any_call_leaves_nothing_or_a_whole_file(
    home: Path, number: int, executed: bool
) -> None:
    """On raise no name is left; on return the file is whole, also when an answer was lost.

    Method: each call fails once, before or after it took effect.
    """
    total = len(calls_of_one_write(home))
    returned = 0
    for at in range(1, total + 1):
        failing = Recording(at, number=number, executed=executed)
        what = f"error at call {at} ({failing.calls[-1:]})"
        try:
            SAMPLE.write_new(home / "keys.json", filesystem=failing)
        except LastgoodError as error:
            check(isinstance(error, (StorageError, KeyFileError)), f"{what}: {error!r}")
            for text in texts_of(error):
                check_hides(text, MASTER)
            check_equal(os.listdir(home), [], f"names after an {what}")
        else:
            returned += 1
            check_equal(os.listdir(home), ["keys.json"], f"names after an {what}")
            Keyring.from_file(home / "keys.json")
            (home / "keys.json").unlink()
    check_equal(
        returned, 1 if executed else 0, "calls whose failure was none: a link that was made"
    )


def test_interrupt_at_any_call_leaves_nothing(home: Path) -> None:
    """KeyboardInterrupt is no error of the system, and leaves no secret behind either."""

    class Interrupted(Recording):
        def _seen(self, name: str, call: Any, *args: Any, **named: Any) -> Any:
            result = super()._seen(name, call, *args, **named)
            if len(self.calls) == self.number:
                raise KeyboardInterrupt
            return result

    for at in range(1, len(calls_of_one_write(home)) + 1):
        with pytest.raises(KeyboardInterrupt):
            SAMPLE.write_new(home / "keys.json", filesystem=Interrupted(number=at))
        check_equal(os.listdir(home), [], f"names after an interrupt behind call {at}")


@pytest.mark.parametrize("executed", [False, True], ids=["before", "after"])
def test_death_at_any_call_leaves_a_whole_file_or_none_of_this_name(
    home: Path, executed: bool
) -> None:
    """I1 for key files: the name holds all of it or does not exist.

    Method: at each call the process dies, and with it every clean-up. A temporary may be left;
    a file that died with two names says so and is read once the other is removed.
    """
    path = home / "keys.json"
    outcomes = set()
    for at in range(1, len(calls_of_one_write(home)) + 1):
        with pytest.raises(Killed):
            SAMPLE.write_new(path, filesystem=Recording(at, executed=executed))
        try:
            Keyring.from_file(path)
            outcomes.add("whole")
        except KeyMissingError:
            outcomes.add("absent")
        except KeyFileError as error:
            check("2 names" in str(error), f"half a file after death at call {at}: {error}")
            outcomes.add("two names")
        for name in os.listdir(home):
            temporary = name.startswith(".keys.json.") and name.endswith(".tmp")
            check(temporary or name == "keys.json", f"unknown name {name}")
            if temporary:
                (home / name).unlink()
        if path.exists():
            Keyring.from_file(path)
            path.unlink()
    check_equal(outcomes, {"absent", "two names", "whole"}, "outcomes")


def test_file_system_that_loses_bytes_is_found_out(home: Path) -> None:
    """What was written is read back before anybody relies on it."""

    class Forgetful(OsFileSystem):
        def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
            return super().writev(fd, [bytes(buffers[0]).replace(b"1", b"2")])

    refused(
        SAMPLE.write_new,
        home / "keys.json",
        filesystem=Forgetful(),
        error=KeyFileError,
        match="does not hold what was written",
    )
    check_equal(os.listdir(home), [], "names")


def test_write_that_makes_no_progress_is_an_error(home: Path) -> None:
    """A loop of short writes ends."""

    class Stuck(OsFileSystem):
        def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
            return 0

    with pytest.raises(StorageError) as caught:
        SAMPLE.write_new(home / "keys.json", filesystem=Stuck())
    check_equal(caught.value.errno, errno.EIO, "errno")
    check_equal(os.listdir(home), [], "names")
