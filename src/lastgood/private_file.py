"""A file that only its owner, and root, can read or replace: how a key file is read and made.

``read`` goes by numbered checks, each on what is held open, so that nothing can be changed
between a check and its use (T7):

* K1 Resolve the path of the file's directory and hold the directory open.
* K2 It and every directory above it belong to us or root, and nobody else can put another name
  there: not writable by group or others, or sticky. What nobody can replace needs no second look.
* K3 Open the file once, by its name in the held directory, following no link, waiting for no
  writer of a FIFO.
* K4 Of what was opened: a regular file, of us or root, without group or other bits, with this one
  name, within the limit.
* K5 Read it once, bounded, from that descriptor.

Access lists and capabilities beyond mode bits are not looked at.
"""

from __future__ import annotations

import contextlib
import errno as errnos
import os
import shlex
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NewType

from lastgood.entropy import Entropy
from lastgood.errors import KeyFileError, KeyMissingError, LastgoodError, StorageError, printable
from lastgood.formats import names
from lastgood.storage.filesystem import CREATE_NEW, DIRECTORY, READ, FileSystem, Status

Identity = NewType("Identity", tuple[int, int])
"""Device and inode of a directory or file: what it is, whatever names lead to it."""

_NOT_THERE = (errnos.ENOENT, errnos.ENOTDIR)
# Where O_NOFOLLOW met a link; the second on some BSD-like systems.
_A_LINK = (errnos.ELOOP, errnos.EMLINK)


@dataclass(frozen=True, slots=True)
class Location:
    """Where a private file lies.

    Attributes:
        path: Absolute, its directory's links resolved.
        directories: Identity of its directory and of all above it.
    """

    path: str
    directories: frozenset[Identity]


@dataclass(frozen=True, slots=True)
class PrivateFile:
    """What was read, and from where.

    Attributes:
        data: All bytes; secret.
        location: Where it lies.
        notices: What a person should know of this place.
    """

    data: bytes = field(repr=False, compare=False)
    location: Location
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Held:
    """The held directory (K1), checked (K2), and the file's name in it."""

    fd: int
    name: str
    location: Location

    @property
    def shown(self) -> str:
        """The file's path, for messages."""
        return printable(self.location.path)


def read(path: str | os.PathLike[str], *, max_bytes: int, filesystem: FileSystem) -> PrivateFile:
    """Read a private file, by K1 to K5.

    Args:
        path: Its name; ``~`` stands for the home directory.
        max_bytes: Limit of its size.
        filesystem: The seam.

    Raises:
        KeyMissingError: There is no such file: known, not merely unreadable.
        KeyFileError: It cannot be read, or K2 or K4 does not hold; names the command that mends it.
    """
    with _hold(path, filesystem=filesystem, absent=_no_file) as held:
        try:
            fd = filesystem.open(held.name, READ | os.O_NOCTTY, dir_fd=held.fd)  # K3
        except OSError as error:
            raise _not_opened(held.location.path, error) from None
        try:
            _check_file(filesystem.fstat(fd), held, euid=filesystem.geteuid(), max_bytes=max_bytes)
            data = read_to_end(fd, max_bytes=max_bytes, filesystem=filesystem)  # K5
        except OSError as error:
            raise KeyFileError(f"{held.shown} cannot be read: {_reason(error)}") from None
        finally:
            _close(fd, filesystem=filesystem)
        return PrivateFile(data, held.location, _notices(held, filesystem=filesystem))


def create(
    path: str | os.PathLike[str],
    data: bytes,
    *,
    filesystem: FileSystem,
    entropy: Entropy,
    outside: str = "",
) -> None:
    """Create a private file, durably, all of it or nothing.

    Temporary (exclusive, 0600) → write → fsync → link without replacing → unlink the temporary
    → fsync the directory → read back by K1 to K5.

    On raise every name that was made is gone again: unlike a checkpoint, on which another owner
    may stand, keys that were never handed out can be withdrawn. Killed half-way, it leaves a
    temporary that nothing reads, or a whole file that nothing was sealed with.

    Args:
        path: Its name; ``~`` stands for the home directory, which must exist as all directories.
        data: All bytes.
        filesystem: The seam.
        entropy: Makes the temporary's name.
        outside: A store under which it may not lie; empty: none is known.

    Raises:
        KeyFileError: The name exists, its directory does not, K2 or K4 does not hold, or it
            would lie under the store.
        StorageError: The system refused.
    """
    with _hold(path, filesystem=filesystem, absent=_no_directory) as held:
        if outside:
            check_outside(held.location, os.path.expanduser(outside), filesystem=filesystem)
        temporary = names.temporary(held.name, entropy(names.TOKEN_BYTES))
        ours: Identity | None = None
        try:
            ours = _write_durably(temporary, data, held=held, filesystem=filesystem)
            _publish(temporary, ours, held=held, filesystem=filesystem)
            filesystem.unlink(temporary, dir_fd=held.fd)
            filesystem.fsync(held.fd)
            if read(path, max_bytes=len(data), filesystem=filesystem).data != data:
                raise KeyFileError(f"{held.shown} does not hold what was written")
        except OSError as error:
            _withdraw(temporary, ours, held=held, filesystem=filesystem)
            raise _not_created(held, error) from None
        except BaseException:
            _withdraw(temporary, ours, held=held, filesystem=filesystem)
            raise


def check_outside(location: Location, root: str, *, filesystem: FileSystem) -> None:
    """Return only if no directory above ``location`` is ``root``.

    Raises:
        KeyFileError: It lies under ``root``, or that cannot be told.
    """
    try:
        inside = _identity(filesystem.stat(filesystem.realpath(root))) in location.directories
    except OSError as error:
        if error.errno in _NOT_THERE:
            return  # what does not exist holds no file
        raise KeyFileError(
            f"Whether {printable(location.path)} lies under the store {printable(root)} cannot be "
            f"told: {_reason(error)}"
        ) from None
    if inside:
        raise KeyFileError(
            f"The key file {printable(location.path)} lies inside the store {printable(root)}, so "
            "that who gets the store gets its keys",
            do="Keep it in a directory outside of the store, and name that",
        )


def read_to_end(fd: int, *, max_bytes: int, filesystem: FileSystem) -> bytes:
    """Return all bytes from ``fd`` to its end, or the first ``max_bytes + 1`` if there are more.

    Raises:
        OSError: As read(2).
    """
    data = bytearray()
    # At the limit nothing is asked for, nothing comes, and the loop ends.
    while piece := filesystem.read(fd, max_bytes + 1 - len(data)):
        data += piece
    return bytes(data)


# --- K1, K2: directories ------------------------------------------------------------------


@contextlib.contextmanager
def _hold(
    path: str | os.PathLike[str],
    *,
    filesystem: FileSystem,
    absent: Callable[[str], LastgoodError],
) -> Iterator[_Held]:
    """Hold the directory of ``path`` (K1), checked up to the root (K2)."""
    directory, name = _split(path)
    real = directory
    try:
        real = filesystem.realpath(directory)
        fd = filesystem.open(real, DIRECTORY)
    except OSError as error:
        if error.errno in _NOT_THERE:
            raise absent(os.path.join(real, name)) from None
        raise _refused(real, error) from None
    try:
        above = _check_directories(fd, real, filesystem=filesystem)
        yield _Held(fd, name, Location(os.path.join(real, name), above))
    finally:
        _close(fd, filesystem=filesystem)


def _split(path: str | os.PathLike[str]) -> tuple[str, str]:
    """The directory and the name that ``path`` means."""
    text = os.path.expanduser(os.fsdecode(path))
    directory, name = os.path.split(text)
    try:
        possible = name not in ("", ".", "..") and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise KeyFileError(f"'{printable(text)}' is not the name of a file", do="Name the key file")
    return directory or ".", name


def _check_directories(fd: int, real: str, *, filesystem: FileSystem) -> frozenset[Identity]:
    """K2 for the held directory and all above it; their names only serve the messages."""
    euid = filesystem.geteuid()
    found = set()
    for step, name in _upwards(real):
        try:
            status = filesystem.stat(step, dir_fd=fd)
        except OSError as error:
            raise KeyFileError(f"{printable(name)} cannot be checked: {_reason(error)}") from None
        _check_directory(status, name, euid=euid)
        found.add(_identity(status))
    return frozenset(found)


def _upwards(real: str) -> Iterator[tuple[str, str]]:
    """Each directory from ``real`` up to the root, as a path from the held one and by name."""
    step, name = ".", real
    while True:
        yield step, name
        above = os.path.dirname(name)
        if above == name:
            return
        step, name = os.path.join(step, ".."), above


def _check_directory(status: Status, name: str, *, euid: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if status.st_uid not in (euid, 0):
        raise KeyFileError(
            f"The directory {printable(name)} belongs to user {status.st_uid}, who can replace "
            "the key file in it",
            do="Move the key file to a directory of yours",
        )
    if mode & 0o022 and not mode & stat.S_ISVTX:
        raise KeyFileError(
            f"Others can replace the key file, because {printable(name)} has mode {mode:04o}",
            do=f"Close it with: chmod go-w {_quoted(name)}",
        )


# --- K4: the file -------------------------------------------------------------------------


def _check_file(status: Status, held: _Held, *, euid: int, max_bytes: int) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not stat.S_ISREG(status.st_mode):
        raise KeyFileError(f"{held.shown} is not a regular file")
    if status.st_uid not in (euid, 0):
        raise KeyFileError(
            f"The key file {held.shown} belongs to user {status.st_uid}",
            do="Make a copy that is your own, with mode 600, and name that",
        )
    if mode & 0o077:
        raise KeyFileError(
            f"Others can use the key file {held.shown}, because it has mode {mode:04o}",
            do=f"Close it with: chmod 600 {_quoted(held.location.path)}",
        )
    if status.st_nlink != 1:
        raise KeyFileError(
            f"The key file {held.shown} has {status.st_nlink} names (hard links), so it could be "
            "read or changed under another one",
            do="Remove the other names, or make a copy with mode 600 and name that",
        )
    if status.st_size > max_bytes:
        raise KeyFileError(f"The key file {held.shown} is larger than {max_bytes} bytes")


def _notices(held: _Held, *, filesystem: FileSystem) -> tuple[str, ...]:
    """Places from which keys leak by a copy, a push or an agent that reads what lies around."""
    found = []
    # What cannot be seen here is no reason to stop: this is advice.
    with contextlib.suppress(OSError):
        here = _identity(filesystem.stat("."))
        # Below the root lies everything, so there it would say nothing.
        if here in held.location.directories and here != _identity(filesystem.stat("/")):
            found.append(f"The key file {held.shown} lies under the working directory")
    for step, name in _upwards(os.path.dirname(held.location.path)):
        with contextlib.suppress(OSError):
            filesystem.stat(os.path.join(step, ".git"), dir_fd=held.fd)
            found.append(f"The key file {held.shown} lies in the git checkout {printable(name)}")
            break
    return tuple(found)


# --- making one ---------------------------------------------------------------------------


def _write_durably(name: str, data: bytes, *, held: _Held, filesystem: FileSystem) -> Identity:
    fd = filesystem.open(name, CREATE_NEW, dir_fd=held.fd)
    try:
        rest = memoryview(data)
        while rest:
            written = filesystem.writev(fd, [rest])
            if written <= 0:
                raise OSError(errnos.EIO, "nothing was written")
            rest = rest[written:]
        filesystem.fsync(fd)
        written_to = _identity(filesystem.fstat(fd))
    except BaseException:
        _close(fd, filesystem=filesystem)
        raise
    filesystem.close(fd)  # some file systems report a failed write only here
    return written_to


def _publish(temporary: str, ours: Identity, *, held: _Held, filesystem: FileSystem) -> None:
    try:
        filesystem.link(temporary, held.name, source_fd=held.fd, target_fd=held.fd)
    except OSError:
        # The answer may have been lost on its way (NFS): what the name holds decides.
        if _found(held.name, held=held, filesystem=filesystem) != ours:
            raise


def _found(name: str, *, held: _Held, filesystem: FileSystem) -> Identity | None:
    try:
        return _identity(filesystem.stat(name, dir_fd=held.fd))
    except OSError:
        return None


def _withdraw(
    temporary: str, ours: Identity | None, *, held: _Held, filesystem: FileSystem
) -> None:
    """Remove what was made; a file of this name that is not ours stays."""
    # Gone already, or cannot be removed: the error that led here says more.
    with contextlib.suppress(OSError):
        filesystem.unlink(temporary, dir_fd=held.fd)
    with contextlib.suppress(OSError):
        if ours is not None and _found(held.name, held=held, filesystem=filesystem) == ours:
            filesystem.unlink(held.name, dir_fd=held.fd)


def _close(fd: int, *, filesystem: FileSystem) -> None:
    # What was read was read, and after an error there is nothing left to report.
    with contextlib.suppress(OSError):
        filesystem.close(fd)


# --- messages -----------------------------------------------------------------------------


def _no_file(path: str) -> LastgoodError:
    return KeyMissingError(f"There is no key file {printable(path)}")


def _no_directory(path: str) -> LastgoodError:
    directory = os.path.dirname(path)
    return KeyFileError(
        f"The key file cannot be written, because there is no directory {printable(directory)}",
        safe="Nothing was written",
        do=f"Make it with: mkdir -p -m 700 {_quoted(directory)}",
    )


def _not_opened(path: str, error: OSError) -> LastgoodError:
    if error.errno in _NOT_THERE:
        return _no_file(path)
    if error.errno in _A_LINK:
        return KeyFileError(
            f"{printable(path)} is a symbolic link, which could be made to lead elsewhere",
            do="Name the file that it leads to",
        )
    return _refused(path, error)


def _refused(path: str, error: OSError) -> LastgoodError:
    return KeyFileError(
        f"{printable(path)} cannot be opened: {_reason(error)}",
        do="Look at owner and mode: the key file and its directory belong to the user who runs this"
        if error.errno in (errnos.EACCES, errnos.EPERM)
        else None,
    )


def _not_created(held: _Held, error: OSError) -> LastgoodError:
    if error.errno == errnos.EEXIST:
        return KeyFileError(
            f"{held.shown} exists already, and keys are never overwritten",
            safe="It was not touched",
            do="Choose another name",
        )
    return StorageError(
        f"The key file {held.shown} cannot be written",
        errno=error.errno or 0,
        safe="No key file was left there",
        do="Mend what the system complains about, or choose a directory on another file system",
    )


def _identity(status: Status) -> Identity:
    return Identity((status.st_dev, status.st_ino))


def _reason(error: OSError) -> str:
    return errnos.errorcode.get(error.errno or 0, "refused")


def _quoted(path: str) -> str:
    # Whole, up to the longest path of a system: a command that is cut would do something else.
    return shlex.quote(printable(path, limit_chars=4096))
