"""Which file systems are refused, pointed out, or fine."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lastgood.errors import ConfigurationError
from lastgood.storage import mounts
from lastgood.storage.filesystem import OsFileSystem
from lastgood.storage.posix import PosixRoot
from tests.storage.places import SESSION
from tests.support.check import check, check_equal


class _Mounted(OsFileSystem):
    """The real file system, with mounts as told."""

    def __init__(self, text: str | None, *, chunk_bytes: int = 1 << 16) -> None:
        super().__init__()
        self._text = text
        self._chunk_bytes = chunk_bytes

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        if path != "/proc/self/mountinfo":
            return super().open(path, flags, mode=mode, dir_fd=dir_fd)
        if self._text is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        reading, writing = os.pipe()
        os.write(writing, self._text.encode())
        os.close(writing)
        return reading

    def read(self, fd: int, size_bytes: int) -> bytes:
        return super().read(fd, min(size_bytes, self._chunk_bytes))


def mounted(point: str, kind: str, *, optional: str = "") -> str:
    """One line of mountinfo."""
    return f"36 35 98:0 / {point} rw,noatime{optional} - {kind} /dev/root rw,errors=continue\n"


REFUSED = ["nfs", "nfs4", "cifs", "smb3", "fuse", "fuse.sshfs", "fuseblk", "9p", "virtiofs", "ceph"]


@pytest.mark.parametrize("kind", REFUSED)
def test_a_network_file_system_is_refused_unless_accepted(tmp_path: Path, kind: str) -> None:
    """backends 4: its locks may exclude nobody, so that a store is owned only if told to.

    Method: pretend that the store lies on one; read, write, and write with acceptance.
    """
    filesystem = _Mounted(mounted("/", "ext4") + mounted(str(tmp_path), kind, optional=" master:1"))
    root = PosixRoot(tmp_path / "store", filesystem=filesystem)
    with pytest.raises(ConfigurationError, match="network file system"):
        root.records().create("store.json", [b"x"])
    with pytest.raises(ConfigurationError, match="network file system"):
        root.session(SESSION, access="write")
    check_equal(list(tmp_path.iterdir()), [], "what a refused store made")
    accepting = PosixRoot(tmp_path / "store", filesystem=filesystem, network_filesystem="accept")
    accepting.session(SESSION, access="write").create("name", [b"x"])
    check("network file system" in accepting.notices()[0], "an accepted one is pointed out")
    reader = root.session(SESSION, access="read")
    check_equal(reader.read("name", max_bytes=9), b"x", "reading needs no lock")


def test_a_session_on_a_mount_of_its_own_is_looked_at_too(tmp_path: Path) -> None:
    """backends 4: a directory below the root may be a mount of another kind."""
    store = tmp_path / "store"
    text = mounted("/", "ext4") + mounted(f"{store}/{SESSION}", "nfs4")
    root = PosixRoot(store, filesystem=_Mounted(text))
    root.records().create("store.json", [b"x"])
    with pytest.raises(ConfigurationError, match="nfs4"):
        root.session(SESSION, access="write")


@pytest.mark.parametrize("kind", ["tmpfs", "ramfs", "overlay"])
def test_what_forgets_is_pointed_out(tmp_path: Path, kind: str) -> None:
    """Design 11: memory and container layers are allowed with a notice."""
    root = PosixRoot(tmp_path / "store", filesystem=_Mounted(mounted("/", kind)))
    root.session(SESSION, access="write").close()
    check(kind in root.notices()[0], f"notices: {root.notices()}")


@pytest.mark.parametrize("text", [None, "", "garbage\n\n - \n1 2 3 / - ext4\n"])
def test_an_unknown_kind_is_said_to_be_unknown(tmp_path: Path, text: str | None) -> None:
    """Style 7: what was not checked is visible, and stops nobody."""
    root = PosixRoot(tmp_path / "store", filesystem=_Mounted(text))
    root.session(SESSION, access="write").close()
    check("not known" in root.notices()[0], f"notices: {root.notices()}")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/", "ext4"),
        ("/home", "ext4"),
        ("/mnt", "xfs"),
        ("/mnt/", "xfs"),
        ("/mnt/a", "xfs"),
        ("/mnt2", "ext4"),
        ("/mnt/nfs/store", "nfs4"),
        ("/mnt/nfs-not", "xfs"),
        ("/with space/x", "btrfs"),
        ("/back\\slash", "zfs"),
        ("/twice/x", "tmpfs"),
    ],
)
def test_the_deepest_and_last_mount_decides(path: str, expected: str) -> None:
    """The kernel's rule: the longest mount point that leads to a path; of two on one, the later.

    Method: a table of mounts with escaped points, read in pieces of 7 bytes.
    """
    text = "".join(
        [
            mounted("/", "ext4"),
            mounted("/mnt", "xfs", optional=" shared:1 master:2"),
            mounted("/mnt/nfs", "nfs4"),
            mounted("/twice", "nfs"),
            mounted("/twice", "tmpfs"),
            mounted("/with\\040space", "btrfs"),
            mounted("/back\\134slash", "zfs"),
        ]
    )
    check_equal(mounts.kind(_Mounted(text, chunk_bytes=7), path), expected, f"kind of {path}")


def test_this_machine_says_what_it_mounts(tmp_path: Path) -> None:
    """The real list is understood: ``/proc`` is proc, and a temporary directory is something."""
    check_equal(mounts.kind(OsFileSystem(), "/proc/self"), "proc", "kind of /proc")
    check(mounts.kind(OsFileSystem(), str(tmp_path)), "the kind of a temporary directory")
