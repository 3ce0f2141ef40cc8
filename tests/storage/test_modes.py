"""C14-05: private from the first instant whatever the umask; wider ones are refused."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lastgood.errors import DamagedError, LastgoodError
from lastgood.storage.filesystem import OsFileSystem
from tests.storage.places import SESSION, open_session
from tests.support.check import check, check_equal


class _Watching(OsFileSystem):
    """Looks at every file in the very moment it was made."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[int] = set()
        self.widest = 0

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        fd = super().open(path, flags, mode=mode, dir_fd=dir_fd)
        if flags & os.O_CREAT:
            self.asked.add(mode)
            self.widest |= stat.S_IMODE(os.fstat(fd).st_mode)
        return fd


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """The block runs under this umask."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("mask", [0o000, 0o002, 0o022, 0o077, 0o277, 0o477])
def test_files_and_directories_are_private_from_the_first_instant(
    tmp_path: Path, mask: int
) -> None:
    """C14-05: 0700 and 0600, temporaries and the lock included, never executable.

    Method: look at each file as it is made, and at all names in the end; a umask that takes
    the owner's bits leaves files that can still be read and appended to.
    """
    watching = _Watching()
    with umask(mask & 0o077):
        (tmp_path / "new").mkdir(0o700)
        session = open_session(tmp_path / "new" / "store", filesystem=watching)
    with umask(mask):
        session.acquire(timeout_s=0)
        session.create("log", [b"x"])
        session.begin("segment", size_bytes=9)
        session.append("segment", b"y")
        session.finish("segment")
        session.swap([b"1"], expected=0)
        session.archive("log")
    check_equal(watching.asked, {0o600}, "modes asked for")
    check_equal(watching.widest & ~0o600, 0, f"widest mode seen {watching.widest:o}")
    for path in (tmp_path / "new" / "store").rglob("*"):
        wanted = 0o700 if path.is_dir() else 0o600
        if path.name == "archive":
            wanted &= ~mask  # a directory's own bits are not given back
        check_equal(stat.S_IMODE(path.stat().st_mode), wanted, f"mode of {path.name}")
    session.close()


def mended(error: LastgoodError) -> None:
    """Run the command that the error names."""
    found = re.search(r"chmod .*(?=\.$)", str(error))
    if found is None:
        raise AssertionError(f"no command in: {error}")
    subprocess.run(shlex.split(found[0]), check=True)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o610, 0o601, 0o666, 0o777])
def test_a_file_that_others_may_use_is_refused_until_it_is_mended(
    tmp_path: Path, mode: int
) -> None:
    """C14-05: the error names the command, and after it the file is read.

    Method: in a store whose path needs quoting.
    """
    place = tmp_path / "it's a store; $(false)"
    session = open_session(place)
    session.create("name", [b"x"])
    (place / SESSION / "name").chmod(mode)
    for _ in range(2):
        with pytest.raises(DamagedError, match=f"{mode:04o}") as raised:
            session.read("name", max_bytes=9)
    with pytest.raises(DamagedError):
        session.rewrite("name", b"x")
    mended(raised.value)
    check_equal(session.read("name", max_bytes=9), b"x", "the mended file")
    session.close()


@pytest.mark.parametrize("mode", [0o755, 0o750, 0o770, 0o701, 0o711, 0o777, 0o1777])
def test_a_session_directory_that_others_may_enter_is_refused(tmp_path: Path, mode: int) -> None:
    """C14-05: for reading and for writing, until the command that is named was run."""
    open_session(tmp_path).close()
    (tmp_path / SESSION).chmod(mode)
    with pytest.raises(DamagedError):
        open_session(tmp_path, access="read")
    with pytest.raises(DamagedError) as raised:
        open_session(tmp_path)
    mended(raised.value)
    open_session(tmp_path).close()


def test_a_root_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    """T7: who can write to the root can swap whole sessions; reading it is their right."""
    root = tmp_path / "store"
    root.mkdir()
    for mode in (0o775, 0o757, 0o777, 0o1777):
        root.chmod(mode)
        with pytest.raises(DamagedError) as raised:
            open_session(root)
        mended(raised.value)
        open_session(root).close()
    for mode in (0o700, 0o755, 0o711, 0o2755):
        root.chmod(mode)
        open_session(root).close()


def test_an_archive_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    """C14-05: the archive is held to the same as its session."""
    session = open_session(tmp_path)
    session.create("name", [b"x"])
    (tmp_path / SESSION / "archive").mkdir(0o755)
    (tmp_path / SESSION / "archive").chmod(0o755)
    with pytest.raises(DamagedError):
        session.archive("name")
    check(session.read("name", max_bytes=9) == b"x", "the record left for a refused archive")
    session.close()
