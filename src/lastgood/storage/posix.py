"""Storage in a directory of a POSIX file system.

How a record is published is in ``publish``, how a revision is claimed in ``revisions``,
how the log is written in ``segments``, what is trusted in ``directory`` and ``contents``,
who owns a session in ``lock``, what every directory of records can do in ``records``. This
module puts them together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence

from lastgood.clock import Clock, SystemClock
from lastgood.entropy import Entropy, system_entropy
from lastgood.errors import (
    ConflictError,
    DurabilityUnknownError,
    FencedError,
    LimitError,
    NotStoredError,
    StorageError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.limits import Limits
from lastgood.storage import archive, contents, mounts, publish, revisions
from lastgood.storage.directory import Directory, component, open_directory, reported
from lastgood.storage.filesystem import FileSystem, OsFileSystem
from lastgood.storage.interface import Access, OwnedStorage, Storage
from lastgood.storage.lock import SessionLock
from lastgood.storage.making import make_directories, make_session
from lastgood.storage.records import HeldPlace, PosixRecords, overwriting
from lastgood.storage.segments import Segments


class PosixRoot:
    """A store in a directory, which need not exist before the first write.

    Args:
        path: The directory; links in the path are resolved once, here.
        filesystem: The operating system, or what a test puts in its place.
        clock: Measures waits for a lock.
        entropy: Names temporaries.
        limits: How many entries of a session's directory are examined.
        network_filesystem: ``"accept"`` if only one machine ever writes to this store, though
            others could.

    Raises:
        ConfigurationError: This platform cannot keep a store in a directory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        filesystem: FileSystem | None = None,
        clock: Clock | None = None,
        entropy: Entropy = system_entropy,
        limits: Limits | None = None,
        network_filesystem: mounts.NetworkFileSystem = "refuse",
    ) -> None:
        self._filesystem = filesystem or OsFileSystem()
        self._clock = clock or SystemClock()
        self._entropy = entropy
        self._limits = limits or Limits()
        self._network = network_filesystem
        self._path = self._filesystem.realpath(os.fspath(path))
        self._held: dict[Access, Directory] = {}
        # Reentrant: a signal handler may close the root in the middle of its own opening.
        self._mutex = threading.RLock()

    def records(self) -> Storage:
        """The store's own records (``store.json``); the first ``create`` makes the directory."""
        return PosixRecords(self, entropy=self._entropy)

    def directories(self) -> Iterator[str]:
        """Yield the names in the root, in no order; none where there is no root yet."""
        try:
            root = self.directory("read")
        except NotStoredError:
            return
        with reported(f"Listing {printable(self._path)}"):
            for name, _ in root.entries():
                yield name

    def session(self, directory: str, *, access: Access) -> OwnedStorage:
        """Open the directory of one session; ``write`` makes it, durably.

        Raises:
            NotStoredError: ``read``, and it does not exist.
            DamagedError: It, or the root, is not a directory to trust.
            ConfigurationError: ``write``, on a network file system.
            StorageError: It cannot be opened or made.
        """
        label = f"{self._path}/{component(directory)}"
        root = self.directory(access).again()
        try:
            if access == "write":
                mounts.refuse_network(self._filesystem, label, network=self._network)
                make_session(root, directory)
            opened = open_directory(
                self._filesystem,
                directory,
                parent=root,
                label=label,
                role="session",
                access=access,
                entry_limit=self._limits.directory_entries,
            )
        except BaseException:
            root.close()
            raise
        return PosixStorage(
            opened,
            root=root,
            name=directory,
            access=access,
            clock=self._clock,
            entropy=self._entropy,
        )

    def location(self) -> str:
        """The directory's resolved path."""
        return self._path

    def notices(self) -> tuple[str, ...]:
        """What a person should know of the file system that this is on."""
        return mounts.notices(self._filesystem, self._path)

    def close(self) -> None:
        """Give back descriptors; sessions keep their own."""
        with self._mutex:
            while self._held:
                _, directory = self._held.popitem()
                directory.close()

    def directory(self, access: Access) -> Directory:
        """The root, opened once for reading and once, where needed, for writing.

        Raises:
            NotStoredError: ``read``, and it does not exist; ``write`` makes it.
            DamagedError: It is not a directory to trust.
            ConfigurationError: ``write``, on a network file system.
        """
        with self._mutex:
            held = self._held.get(access)
            if held is None:
                if access == "write":
                    mounts.refuse_network(self._filesystem, self._path, network=self._network)
                    make_directories(self._filesystem, self._path)
                held = self._held[access] = open_directory(
                    self._filesystem,
                    self._path,
                    parent=None,
                    label=self._path,
                    role="root",
                    access=access,
                    entry_limit=None,  # a store may have any number of sessions
                )
            return held


class PosixStorage(PosixRecords):
    """A session's directory (``OwnedStorage``); this object owns both descriptors.

    Args:
        directory: The session's directory.
        root: The root it lies in, by a descriptor of its own.
        name: Its name there.
        access: ``read`` refuses every change.
        clock: Measures waits for the lock.
        entropy: Names temporaries.
    """

    def __init__(
        self,
        directory: Directory,
        *,
        root: Directory,
        name: str,
        access: Access,
        clock: Clock,
        entropy: Entropy,
    ) -> None:
        self._session = HeldPlace(directory, access=access)
        super().__init__(self._session, entropy=entropy)
        self._root = root
        self._name = name
        self._lock = SessionLock(directory, clock=clock)
        self._segments = Segments()
        self._own: revisions.OwnRevision | None = None
        self._is_standing = True  # no swap of this handle broke off

    def acquire(self, *, timeout_s: float) -> None:
        """Take the session lock; see ``SessionLock.acquire``."""
        self._session.directory("write")
        self._lock.acquire(timeout_s=timeout_s)

    def release(self) -> None:
        """Give the lock back; idempotent."""
        self._lock.release()

    def note_holder(self, text: str) -> None:
        """Write who holds the lock, for people."""
        self._lock.note_holder(text)

    def confirm_held(self) -> None:
        """Return only if the lock is held and every name still leads where it led (T7).

        Raises:
            FencedError: The root, the directory or the lock was replaced, or this is a child.
            StorageError: That cannot be known.
        """
        self._lock.confirm()
        self._confirm_same(self._root.label, None, self._root)
        self._confirm_same(self._name, self._root, self._session.directory("write"))

    def swap(self, data: Sequence[bytes], *, expected: int) -> int:
        """Claim revision ``expected + 1`` and move the pointer; see ``revisions.swap``.

        What was made stays held until the next one, for ``confirm_newest``.
        """
        directory = self._session.directory("write")
        random = self._entropy(names.TOKEN_BYTES)
        try:
            made = revisions.swap(directory, data, expected=expected, random=random)
        except BaseException as error:
            if not _changed_nothing(error):
                # Somebody else's revision, or a claim of ours without its pointer, is there.
                self._is_standing = False
                self._hold(None)
            raise
        self._is_standing = True
        self._hold(made)
        return made.number

    def confirm_newest(self, revision: int) -> None:
        """Return only if the pointer is the very file of this handle's swap to ``revision``.

        Raises:
            FencedError: It is not, or the last swap broke off, or this is a forked child.
            UsageError: No swap of this handle made ``revision``, or a later one followed.
            StorageError: That cannot be known.
        """
        self._session.directory("write")
        if not self._is_standing:
            raise FencedError("The last swap of this handle did not come to its end")
        if self._own is None or self._own.number != revision:
            raise UsageError(f"The last swap of this handle did not make revision {revision}")
        self._own.confirm()

    def begin(self, name: str, *, size_bytes: int) -> None:
        """Make a log segment; see ``Segments.begin``."""
        directory = self._session.directory("write")
        random = self._entropy(names.TOKEN_BYTES)
        self._segments.begin(directory, name, size_bytes=size_bytes, random=random)

    def append(self, name: str, data: bytes) -> None:
        """Append to a log segment of this handle; see ``Segments.append``."""
        self._segments.append(self._session.directory("write"), name, data)

    def finish(self, name: str) -> None:
        """Cut a log segment of this handle; see ``Segments.finish``."""
        self._segments.finish(self._session.directory("write"), name)

    def persist(self) -> None:
        """Make root and directory durable as a killed process left them (R1)."""
        directory = self._session.directory("write")
        with reported("Making durable what is there"):
            self._root.sync()
            directory.sync()
            directory.is_doubtful = False

    def rewrite(self, name: str, data: bytes, *, offset: int | None = None) -> None:
        """Write the very bytes that ``name`` holds over themselves, durably.

        Raises:
            ConflictError: It holds other bytes; nothing was written.
            UsageError: ``offset`` is negative.
            StorageError: It is not known to be durable; its content is what it was.
        """
        directory = self._session.directory("write")
        if offset is not None and offset < 0:
            raise UsageError(f"There is no byte {offset} in a file")
        doing = f"Making {printable(name)} durable"
        with overwriting(directory, name) as fd, reported(doing):
            same = (
                directory.holds(name, [data])
                if offset is None
                else contents.has_at(directory.filesystem, fd, data, offset=offset)
            )
            if not same:
                raise ConflictError(f"{printable(name)} changed since it was read")
            publish.write_at(directory.filesystem, fd, data, offset=offset or 0)
            if offset is None:
                directory.filesystem.fsync(fd)
            else:
                directory.filesystem.fdatasync(fd)

    def settle(self, revision: int, *, number_missing: bool, pointer_behind: bool) -> None:
        """Finish what an interrupted swap left (R4); see ``revisions.settle``."""
        revisions.settle(
            self._session.directory("write"),
            revision,
            number_missing=number_missing,
            pointer_behind=pointer_behind,
            random=self._entropy(names.TOKEN_BYTES),
        )

    def archive(self, name: str, *, as_name: str | None = None) -> None:
        """Move ``name`` to ``archive/as_name``; see ``archive.keep``."""
        archive.keep(self._session.directory("write"), name, as_name or name)

    def supersede(
        self, name: str, data: Sequence[bytes], *, fenced: bytes, as_name: str, revision: int
    ) -> None:
        """Create ``name`` over a fenced writer's record, which is kept in the archive (S4).

        Raises:
            ConflictError: It changed since it was read, or a newer revision exists.
            FencedError: Another owner took the session meanwhile.
            DurabilityUnknownError: It holds ``data``, or that cannot be known.
            StorageError: It holds what it held, no temporary is left.
        """
        directory = self._session.directory("write")
        random = self._entropy(names.TOKEN_BYTES)
        temporary = publish.prepare(directory, component(name), data, random=random)
        try:
            archive.copy(directory, name, as_name, expected=fenced)
            # In this order, as in a swap: who is paused before this sees what came meanwhile, who
            # is paused after it is disarmed by the next owner's sweep (F13).
            revisions.refuse_newer(directory, revision)
            # Crash here: the fenced record has a second name, and a temporary is to be swept.
            publish.replace(directory, temporary, name, data)
        except BaseException:
            publish.discard(directory, temporary)
            raise

    def close(self) -> None:
        """Give back the lock and the descriptors; idempotent, and no log segment is cut."""
        self._lock.release()
        self._segments.close()
        self._hold(None)
        self._session.close()
        self._root.close()

    def _hold(self, made: revisions.OwnRevision | None) -> None:
        """Hold this revision, and no longer the one before."""
        before, self._own = self._own, made
        if before is not None:
            before.release()

    def _confirm_same(self, name: str, parent: Directory | None, held: Directory) -> None:
        filesystem = held.filesystem
        with reported(f"Looking at {printable(held.label)}"):
            now = filesystem.fstat(held.fd)
            try:
                named = filesystem.stat(name, dir_fd=None if parent is None else parent.fd)
            except FileNotFoundError:
                named = None
        if named is None or (now.st_dev, now.st_ino) != (named.st_dev, named.st_ino):
            raise FencedError(f"The directory {printable(held.label)} was moved or replaced")


def _changed_nothing(error: BaseException) -> bool:
    """Whether a swap that raised is known to have left numbers and pointer as they were."""
    if isinstance(error, DurabilityUnknownError):
        return False
    return isinstance(error, (StorageError, LimitError, UsageError))
