"""Making directories so that they are there after a power loss, however often one is interrupted.

Each new directory is made for its owner alone and its parent is fsynced before anything
is made in it. So at most the deepest one that exists can be visible and not durable, left
by a process that was killed between the two: its parent is fsynced, too, unless a
``store.json`` says that this was done.
"""

from __future__ import annotations

import contextlib
import errno
import os

from lastgood.errors import printable
from lastgood.formats import names
from lastgood.storage.directory import Directory, reported
from lastgood.storage.filesystem import DIRECTORY, FileSystem


def make_directories(filesystem: FileSystem, path: str) -> None:
    """Make ``path``, absolute and resolved, with all that is missing above it, durably.

    Raises:
        StorageError: It could not be made; what was made above it stays.
    """
    with reported(f"Making {printable(path)}"):
        existing, missing = _split(filesystem, path)
        if not missing and _exists(filesystem, f"{path}/{names.STORE}"):
            return
        _sync_parent(filesystem, existing)
        fd = filesystem.open(existing, DIRECTORY)
        try:
            for name in missing:
                with contextlib.suppress(FileExistsError):
                    filesystem.mkdir(name, dir_fd=fd)
                filesystem.fsync(fd)
                inner = filesystem.open(name, DIRECTORY, dir_fd=fd)
                fd, outer = inner, fd
                filesystem.close(outer)
        finally:
            filesystem.close(fd)


def make_session(root: Directory, name: str) -> None:
    """Make the directory of a session, durably.

    The root is fsynced before, too: the ``store.json`` in it may be what a killed process left
    visible and not durable, and a session without it is damage to whoever comes after a loss of
    power (F11). A directory that exists may have been made by a process that was killed before
    the fsync; its owner's ``persist`` (R1) makes that up before anything is built on it.

    Raises:
        StorageError: It could not be made.
    """
    with reported(f"Making the session's directory {printable(name)}"):
        if _exists(root.filesystem, name, dir_fd=root.fd):
            return
        root.sync()
        try:
            root.filesystem.mkdir(name, dir_fd=root.fd)
        except FileExistsError:
            return
        root.sync()


def _split(filesystem: FileSystem, path: str) -> tuple[str, list[str]]:
    """The deepest part of ``path`` that exists, and the names that are missing below it."""
    missing: list[str] = []
    while not _exists(filesystem, path):
        path, name = os.path.split(path)
        missing.insert(0, name)
    return path, missing


def _exists(filesystem: FileSystem, path: str, *, dir_fd: int | None = None) -> bool:
    try:
        filesystem.stat(path, dir_fd=dir_fd)
    except FileNotFoundError:
        return False
    return True


def _sync_parent(filesystem: FileSystem, path: str) -> None:
    try:
        fd = filesystem.open(os.path.dirname(path), DIRECTORY)
    except OSError as error:
        # Whoever makes a directory has opened its parent. This one cannot be opened, so the
        # directory was not made by a process of ours that was killed.
        if error.errno in {errno.EACCES, errno.EPERM}:
            return
        raise
    try:
        filesystem.fsync(fd)
    finally:
        filesystem.close(fd)
