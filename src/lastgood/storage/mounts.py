"""What kind of file system a path lies on, and whether lastgood can keep its word there.

flock and create-only links of network file systems may hold on one machine only, and
then two machines both own a session: refused, unless the user says that theirs do not.
Those that live in memory, or in a container's upper layer, are pointed out.
"""

from __future__ import annotations

import contextlib
import re
from typing import Literal

from lastgood.errors import ConfigurationError, printable
from lastgood.storage.filesystem import READ, FileSystem

NetworkFileSystem = Literal["refuse", "accept"]

_MOUNTINFO = "/proc/self/mountinfo"
_MOUNTINFO_BYTES = 16 * 1024 * 1024
_OCTAL = re.compile(rb"\\([0-7]{3})")

# fmt: off
_NETWORK = frozenset({
    "9p", "afs", "acfs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs",
    "vboxsf", "virtiofs",
})
# fmt: on
_FORGETFUL = {
    "tmpfs": "lives in memory: it is empty after a restart of the machine",
    "ramfs": "lives in memory: it is empty after a restart of the machine",
    "overlay": "is the upper layer of a container: it goes when the container goes",
    "overlayfs": "is the upper layer of a container: it goes when the container goes",
}


def kind(filesystem: FileSystem, path: str) -> str | None:
    """Return the type of the file system that ``path`` lies on, or None where nobody says.

    Args:
        filesystem: The operating system.
        path: Absolute and resolved; it need not exist.
    """
    wanted = path.encode("utf-8", "surrogateescape").rstrip(b"/") + b"/"
    best, found = -1, None
    for line in _mountinfo(filesystem).split(b"\n"):
        left, separator, right = line.partition(b" - ")
        fields = left.split(b" ")
        if not separator or len(fields) < 5:
            continue
        point = _OCTAL.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), fields[4])
        point = point.rstrip(b"/") + b"/"
        # Among mounts on one point the last hides the others.
        if wanted.startswith(point) and len(point) >= best:
            best, found = len(point), right.split(b" ")[0].decode("ascii", "replace")
    return found


def refuse_network(filesystem: FileSystem, path: str, *, network: NetworkFileSystem) -> None:
    """Return if a session below ``path`` can be owned.

    Raises:
        ConfigurationError: It is on a network file system and that was not accepted.
    """
    if network == "accept":
        return
    found = kind(filesystem, path)
    if found is not None and _is_network(found):
        raise ConfigurationError(
            f"{printable(path)} is on a network file system ({printable(found)}), whose locks may "
            "hold on one machine only",
            do="Keep the store on a local disk, or accept network file systems explicitly if only "
            "one machine ever writes to it",
        )


def notices(filesystem: FileSystem, path: str) -> tuple[str, ...]:
    """What a person should know of the file system that ``path`` lies on."""
    found = kind(filesystem, path)
    shown = printable(path)
    if found is None:
        return (f"The kind of file system of {shown} is not known; a network one is not noticed",)
    if _is_network(found):
        return (f"{shown} is on a network file system ({printable(found)}): one writing machine",)
    if found in _FORGETFUL:
        return (f"The file system of {shown} ({found}) {_FORGETFUL[found]}",)
    return ()


def _is_network(found: str) -> bool:
    return found in _NETWORK or found == "fuse" or found.startswith(("fuse.", "fuseblk"))


def _mountinfo(filesystem: FileSystem) -> bytes:
    """The kernel's list of mounts, or nothing where there is none."""
    pieces: list[bytes] = []
    with contextlib.suppress(OSError):
        fd = filesystem.open(_MOUNTINFO, READ)
        try:
            while sum(map(len, pieces)) < _MOUNTINFO_BYTES:
                piece = filesystem.read(fd, 64 * 1024)
                if not piece:
                    return b"".join(pieces)
                pieces.append(piece)
        finally:
            filesystem.close(fd)
    return b""
