"""Directories that are held open, and what must be true of them and of the files in them.

Every name is one component, resolved from a held descriptor, never by a path: whoever
replaces a directory by a link to elsewhere leads nobody anywhere (T7). What a name leads
to is judged by ``fstat`` of what was opened, never by a look at the name beforehand.

* A session's directory: a directory, ours, no bits for group and others.
* The store's root: a directory, ours or root's, not writable for group and others.
* A file: regular, of the owner of its directory, no bits but its owner's.

*Ours* is the effective user. Root may read, and only read, what somebody else owns, if
the directory and all files in it have that one owner.
"""

from __future__ import annotations

import contextlib
import errno
import shlex
import stat
from collections.abc import Iterator, Sequence
from typing import Literal

from lastgood.errors import (
    DamagedError,
    DurabilityUnknownError,
    LastgoodError,
    LimitError,
    NotStoredError,
    StorageError,
    UsageError,
    printable,
)
from lastgood.storage.filesystem import (
    DIRECTORY,
    PRIVATE_FILE,
    READ,
    FileSystem,
    Status,
)
from lastgood.storage.interface import Access

CHUNK_BYTES = 256 * 1024

ROOM = 16
"""Entries left free before a claim: a session filled to its limit could not be opened again."""

Role = Literal["root", "session"]

# What the open of a name says when it is not the plain file or directory that it should be:
# a symlink, a directory, something below a file, a socket or a FIFO without a reader.
_NOT_WHAT_IT_SHOULD_BE = {errno.ELOOP, errno.EISDIR, errno.ENOTDIR, errno.ENXIO, errno.ENODEV}
_GROUP_AND_OTHERS = 0o077
_NOT_PRIVATE = 0o7077
"""Of a file: no writer of ours gives set-user-id, set-group-id or sticky bits either."""
_WRITABLE_BY_OTHERS = 0o022


@contextlib.contextmanager
def reported(doing: str, *, safe: str | None = None, do: str | None = None) -> Iterator[None]:
    """Turn the system's refusal of the block into a definite ``StorageError``."""
    try:
        yield
    except OSError as error:
        raise StorageError(doing, errno=error.errno or 0, safe=safe, do=do) from error


@contextlib.contextmanager
def unknown(doing: str, *, safe: str | None = None, do: str | None = None) -> Iterator[None]:
    """Turn every refusal of the block into ``DurabilityUnknownError``: its ground has shifted."""
    try:
        yield
    except (OSError, StorageError, LimitError, DamagedError) as error:
        number = getattr(error, "errno", None) or 0
        raise DurabilityUnknownError(doing, errno=number, safe=safe, do=do) from error


def component(name: str) -> str:
    """Return ``name`` if it is one component, so that it cannot lead out of its directory.

    Raises:
        UsageError: It is not.
    """
    if not name or name in {".", ".."} or "/" in name or "\0" in name:
        raise UsageError(f"{printable(name)!r} is not the name of a file")
    return name


class Directory:
    """A directory held by a descriptor, with the rules for what is opened in it.

    Args:
        filesystem: The operating system.
        fd: The descriptor; it belongs to this object from here on.
        label: What messages call the directory: its path.
        role: The store's root, or a session's directory (or its archive).
        owner: The user who must own every file in it.
        entry_limit: Entries to examine at most; None where a store's size is its user's.

    Attributes:
        is_doubtful: A sync of it has failed, and who takes the session has not made it durable
            since (R1): nothing leaves it for the archive meanwhile (F5).
    """

    def __init__(
        self,
        filesystem: FileSystem,
        *,
        fd: int,
        label: str,
        role: Role,
        owner: int,
        entry_limit: int | None,
    ) -> None:
        self.filesystem = filesystem
        self.label = label
        self.role: Role = role
        self.owner = owner
        self.entry_limit = entry_limit
        self.is_doubtful = False
        self._fd: int | None = fd

    @property
    def fd(self) -> int:
        """The descriptor.

        Raises:
            UsageError: Given back; the number may be somebody else's file by now.
        """
        if self._fd is None:
            raise UsageError("This storage is closed")
        return self._fd

    @property
    def is_closed(self) -> bool:
        """Whether the descriptor was given back."""
        return self._fd is None

    def close(self) -> None:
        """Give the descriptor back; idempotent, never raises."""
        fd, self._fd = self._fd, None
        if fd is not None:
            with contextlib.suppress(OSError):  # nothing was written through it
                self.filesystem.close(fd)

    def again(self) -> Directory:
        """Hold the same directory by a descriptor of its own."""
        with reported(f"Opening {printable(self.label)} again"):
            fd = self.filesystem.open(".", DIRECTORY, dir_fd=self.fd)
        return Directory(
            self.filesystem,
            fd=fd,
            label=self.label,
            role=self.role,
            owner=self.owner,
            entry_limit=self.entry_limit,
        )

    def sync(self) -> None:
        """Make the entries durable; ``OSError`` if that is not known."""
        try:
            self.filesystem.fsync(self.fd)
        except OSError:
            self.is_doubtful = True
            raise

    def entries(self, *, room: int = 0) -> Iterator[tuple[str, int]]:
        """Yield every name with its inode, at most ``entry_limit`` of them (T8).

        Args:
            room: How many more must still be able to come.

        Raises:
            LimitError: There are more.
            OSError: It cannot be listed.
        """
        for count, entry in enumerate(self.filesystem.listdir(self.fd), start=1):
            if self.entry_limit is not None and count > self.entry_limit - room:
                kept = f", and {room} of them are kept free for what is under way" if room else ""
                raise LimitError(
                    f"{printable(self.label)} has {count} entries or more; {self.entry_limit} are "
                    f"examined at most{kept}",
                    do="Move what does not belong to lastgood out of it, or raise the limit",
                )
            yield entry

    def subdirectory(self, name: str) -> Directory:
        """Open a directory in this one: as a session's, and of the same owner.

        Raises:
            NotStoredError: There is none.
            DamagedError: It is not a private directory of that owner.
            StorageError: It cannot be opened.
        """
        inner = open_directory(
            self.filesystem,
            component(name),
            parent=self,
            label=f"{self.label}/{name}",
            role="session",
            access="read",
            entry_limit=self.entry_limit,
        )
        if inner.owner != self.owner:
            inner.close()
            raise DamagedError(f"it does not belong to user {self.owner}", name=inner.label)
        return inner

    def open_file(self, name: str, *, flags: int = READ) -> tuple[int, Status]:
        """Open a file and return its descriptor and its status, checked.

        Raises:
            NotStoredError: There is none.
            DamagedError: Not a private regular file of the directory's owner.
            StorageError: It cannot be opened.
        """
        with _opening(name):
            fd = self.filesystem.open(component(name), flags, mode=PRIVATE_FILE, dir_fd=self.fd)
        try:
            with reported(f"Looking at {printable(name)}"):
                status = self.filesystem.fstat(fd)
            self._check_file(name, status)
        except BaseException:
            self.give_back(fd)
            raise
        return fd, status

    def give_back(self, fd: int) -> None:
        """Close a descriptor through which nothing was written, or whose write has failed."""
        with contextlib.suppress(OSError):
            self.filesystem.close(fd)

    def leads_to(self, name: str, status: Status) -> bool:
        """Whether ``name`` is a name of the file that has ``status``, which must be held open.

        Raises:
            OSError: That cannot be known; a name that is not there is known.
        """
        try:
            named = self.filesystem.stat(name, dir_fd=self.fd)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == (status.st_dev, status.st_ino)

    def holds(self, name: str, data: Sequence[bytes]) -> bool:
        """Whether ``name`` holds exactly the concatenation of ``data``.

        Raises:
            OSError: That cannot be known; a name that is not there is known.
        """
        try:
            fd = self.filesystem.open(name, READ, dir_fd=self.fd)
        except OSError as error:
            if error.errno == errno.ENOENT or error.errno in _NOT_WHAT_IT_SHOULD_BE:
                return False
            raise
        try:
            status = self.filesystem.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_size != sum(map(len, data)):
                return False
            return all(self._reads(fd, piece) for piece in data)
        finally:
            self.give_back(fd)

    def _reads(self, fd: int, piece: bytes) -> bool:
        """Whether the next bytes of ``fd`` are ``piece``."""
        expected = memoryview(piece)
        while expected:
            chunk = self.filesystem.read(fd, min(len(expected), CHUNK_BYTES))
            if not chunk or expected[: len(chunk)] != chunk:
                return False
            expected = expected[len(chunk) :]
        return True

    def _check_file(self, name: str, status: Status) -> None:
        if not stat.S_ISREG(status.st_mode):
            raise DamagedError("it is not a regular file", name=name)
        if status.st_uid != self.owner:
            raise _of_another(status, user=self.owner, name=name)
        if status.st_mode & _NOT_PRIVATE:
            raise DamagedError(
                f"its mode is {stat.S_IMODE(status.st_mode):04o}, which gives others a right to it",
                name=name,
                do=mend("600", f"{self.label}/{name}"),
            )


def _of_another(status: Status, *, user: int, name: str) -> DamagedError:
    return DamagedError(
        f"it belongs to user {status.st_uid}, not to user {user}",
        name=name,
        do="Run this as the user whom the whole store belongs to; if only this is of another, "
        "find out who changed it",
    )


def mend(mode: str, path: str) -> str:
    """The advice that ends a complaint about a mode."""
    command = f"chmod {mode} {shlex.quote(printable(path, limit_chars=4096))}"
    return f"Find out who changed it, then mend it with: {command}"


def open_directory(
    filesystem: FileSystem,
    name: str,
    *,
    parent: Directory | None,
    label: str,
    role: Role,
    access: Access,
    entry_limit: int | None,
) -> Directory:
    """Open a directory and check that it is one to trust with a ``role``.

    Args:
        filesystem: The operating system.
        name: One component below ``parent``, or a resolved path without one.
        parent: Where it lies.
        label: Its path, for messages.
        role: What it is for; the module says what each asks for.
        access: Only who reads, and is root, may use what belongs to somebody else.
        entry_limit: Entries to examine in it at most.

    Raises:
        NotStoredError: There is none.
        DamagedError: It is not such a directory.
        StorageError: It cannot be opened.
    """
    try:
        with _opening(label):
            fd = filesystem.open(name, DIRECTORY, dir_fd=None if parent is None else parent.fd)
    except DamagedError as error:
        if role == "root":
            error.do = "Name the directory of the store"
        raise
    try:
        with reported(f"Looking at {printable(label)}"):
            status = filesystem.fstat(fd)
            user = filesystem.geteuid()
        _check_directory(status, label=label, role=role, user=user, access=access)
    except BaseException:
        with contextlib.suppress(OSError):
            filesystem.close(fd)
        raise
    owner = status.st_uid if user == 0 and access == "read" else user
    return Directory(
        filesystem, fd=fd, label=label, role=role, owner=owner, entry_limit=entry_limit
    )


def make_private(filesystem: FileSystem, fd: int) -> None:
    """Give a file that was just created both bits of its owner.

    A umask can only take bits away, so nobody else ever had one. One that takes the
    owner's would leave a file that nobody can load again, so they are given back: through
    the descriptor, before anything is written, and only where one is missing.
    """
    if filesystem.fstat(fd).st_mode & stat.S_IRWXU != PRIVATE_FILE:
        filesystem.fchmod(fd, PRIVATE_FILE)


def _check_directory(status: Status, *, label: str, role: Role, user: int, access: Access) -> None:
    shown = stat.S_IMODE(status.st_mode)
    if not stat.S_ISDIR(status.st_mode):
        raise DamagedError("it is not a directory", name=label)
    reads_as_root = user == 0 and access == "read"
    roots_own = role == "root" and status.st_uid == 0
    if status.st_uid != user and not reads_as_root and not roots_own:
        raise _of_another(status, user=user, name=label)
    if role == "root" and shown & _WRITABLE_BY_OTHERS:
        raise DamagedError(
            f"its mode is {shown:04o}, others may replace what is in it",
            name=label,
            do=mend("go-w", label),
        )
    if role == "session" and shown & _GROUP_AND_OTHERS:
        raise DamagedError(
            f"its mode is {shown:04o}, others may enter or change it",
            name=label,
            do=mend("700", label),
        )


@contextlib.contextmanager
def _opening(name: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotStoredError(f"Opening {printable(name)}", errno=errno.ENOENT) from error
    except OSError as error:
        raise _refused(name, error) from error


def _refused(name: str, error: OSError) -> LastgoodError:
    number = error.errno or 0
    if number in _NOT_WHAT_IT_SHOULD_BE:
        what = "it is a link" if number == errno.ELOOP else "it is of another type than it should"
        return DamagedError(what, name=name)
    advice = None
    if number in {errno.EACCES, errno.EPERM}:
        advice = (
            "Look at owner and mode: directories of sessions have 0700, files in them 0600, and "
            "both belong to the user who runs this"
        )
    return StorageError(f"Opening {printable(name)}", errno=number, do=advice)
