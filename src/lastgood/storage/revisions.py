"""The compare-and-swap of manifests: numbers decide, the pointer follows (S6, S7, R4).

A revision is claimed by creating its number, ``manifest-000042.json``, which one writer
can do; ``manifest.json`` is then moved onto the same inode, for people and a fast start.
A claim is never withdrawn, because a winner may stand on it already.

Storage compares *numbers* only. What a record says is not known here without the keys:
whether the pointer is authentic, older or ahead is judged by the caller.
"""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator, Sequence

from lastgood.errors import (
    ConflictError,
    DurabilityUnknownError,
    FencedError,
    StorageError,
    printable,
)
from lastgood.formats import names
from lastgood.storage import publish
from lastgood.storage.directory import ROOM, Directory, reported, unknown
from lastgood.storage.filesystem import READ

_WHOLE_DIRECTORY_NEEDED = {errno.EBUSY, errno.EXDEV, errno.EPERM}


class OwnRevision:
    """A revision that this process made, held by a descriptor on its very file.

    Nobody else's file can have the number of an inode that is held. So one look at the
    pointer's name tells whether the pointer still is this one, however full the directory is.

    Args:
        directory: The session's.
        number: The revision.
        temporary: What will be published as this revision.

    Raises:
        FencedError: ``temporary`` is gone.
        DamagedError, StorageError: It cannot be opened, or is not what was prepared.
    """

    def __init__(self, directory: Directory, number: int, *, temporary: str) -> None:
        self.number = number
        self._directory = directory
        self._fd, self._status = publish.hold(directory, temporary, flags=READ)
        self._is_held = True

    def confirm(self) -> None:
        """Return only if the pointer is this revision's file; one system call.

        Raises:
            FencedError: It is another's, or gone.
            StorageError: That cannot be known.
        """
        with reported(f"Looking at {names.POINTER}"):
            same = self._directory.leads_to(names.POINTER, self._status)
        if not same:
            raise FencedError(f"{names.POINTER} is no longer revision {self.number} of this owner")

    def release(self) -> None:
        """Give the descriptor back; idempotent, never raises."""
        held, self._is_held = self._is_held, False
        if held:
            self._directory.give_back(self._fd)


def swap(
    directory: Directory, data: Sequence[bytes], *, expected: int, random: bytes
) -> OwnRevision:
    """Make ``data`` the manifest of revision ``expected + 1``, if nothing newer is there.

    Args:
        directory: The session's.
        data: The manifest record.
        expected: The revision the caller stands on; 0 before the first.
        random: 8 bytes for the temporary's name.

    Returns:
        Revision ``expected + 1``, held; the caller releases it.

    Raises:
        ConflictError: ``expected`` is not the newest revision, or somebody took the next one
            meanwhile. Our claim, where it was made, stays.
        DurabilityUnknownError: Claimed or moved, but not known to survive.
        StorageError: Nothing took effect.
    """
    revision = expected + 1
    _check_base(directory, expected)
    temporary = publish.prepare(directory, names.POINTER, data, random=random)
    made: OwnRevision | None = None
    try:
        made = OwnRevision(directory, revision, temporary=temporary)
        # S6 claim. Crash before it: an unnamed temporary; after it: claimed, R4 moves the pointer.
        publish.link_new(directory, temporary, names.manifest(revision), data)
        # S6 confirm: a number below the newest is free again once it was pruned, so that a
        # paused writer can take it. Whoever finds something newer has lost.
        with unknown(f"Confirming revision {revision}"):
            newest = max(_numbers(directory), default=0)
        if newest > revision:
            raise ConflictError(f"Revision {newest} exists, this writer is still at {expected}")
        # S7 point. The rename consumes the temporary; an owner who swept it has fenced us.
        _point(directory, temporary)
        with unknown(f"Making revision {revision} durable"):
            directory.sync()
    except BaseException:
        if made is not None:
            made.release()
        publish.discard(directory, temporary)
        raise
    return made


def settle(
    directory: Directory,
    revision: int,
    *,
    number_missing: bool,
    pointer_behind: bool,
    random: bytes,
) -> None:
    """Finish what an interrupted swap left; one fsync, and none if nothing was to be done.

    Raises:
        ConflictError: Something newer than ``revision`` is there: look again (R1).
        DurabilityUnknownError: Finished, but not known to survive.
        StorageError: Not all of it could be finished; what was, stays.
    """
    with reported("Looking for what an interrupted save left"):
        listed = [name for name, _ in directory.entries()]
    _refuse_newer(max(map(_number, listed), default=0), revision)
    # Sweeping comes first: it takes from a paused writer what it would rename or link.
    swept = [_sweep(directory, name) for name in listed if names.is_temporary(name)]
    if number_missing:
        _name_pointer(directory, revision, random=random)
    if pointer_behind:
        _raise_pointer(directory, revision, random=random)
    if swept or number_missing or pointer_behind:
        with unknown("Making what was settled durable"):
            directory.sync()


def refuse_newer(directory: Directory, revision: int) -> None:
    """Return only if no revision above ``revision`` is there.

    Raises:
        ConflictError: One is.
        StorageError: That cannot be known.
    """
    with reported("Listing the revisions"):
        newest = max(_numbers(directory), default=0)
    _refuse_newer(newest, revision)


def _check_base(directory: Directory, expected: int) -> None:
    """Refuse a stale or foreign base before anything is written; the claim decides races."""
    with reported("Listing the revisions"):
        found = _numbers(directory, room=ROOM)
    newest = max(found, default=0)
    if newest > expected:
        raise ConflictError(f"Revision {newest} exists, this writer is still at {expected}")
    if expected > 0 and expected not in found:
        raise ConflictError(f"Revision {expected}, on which this writer stands, is not there")


def _numbers(directory: Directory, *, room: int = 0) -> set[int]:
    return {number for name, _ in directory.entries(room=room) if (number := _number(name))}


def _number(name: str) -> int:
    """The revision that a name numbers, or 0."""
    parsed = names.parse(name)
    return parsed.number if parsed is not None and parsed.kind is names.Kind.MANIFEST else 0


def _point(directory: Directory, temporary: str) -> None:
    try:
        directory.filesystem.rename(
            temporary, names.POINTER, source_fd=directory.fd, target_fd=directory.fd
        )
    except OSError as error:
        raise _not_pointed(error) from error


def _not_pointed(error: OSError) -> DurabilityUnknownError:
    """A pointer that cannot be replaced is never overwritten in place (C6-06)."""
    advice = None
    if error.errno in _WHOLE_DIRECTORY_NEEDED:
        advice = (
            f"Mount the directory of the store, not the single file {names.POINTER} in it, and "
            "run the same save again"
        )
    if error.errno == errno.ENOENT:  # swept: whoever did has the session by now (F13)
        advice = "Another owner took the session meanwhile; open it again and load its newest"
    return DurabilityUnknownError(f"Replacing {names.POINTER}", errno=error.errno or 0, do=advice)


def _sweep(directory: Directory, name: str) -> str:
    # Gone already, or a directory, which is not ours and which no writer can rename over a file.
    harmless = contextlib.suppress(FileNotFoundError, IsADirectoryError)
    with reported(f"Removing {printable(name)}"), harmless:
        directory.filesystem.unlink(name, dir_fd=directory.fd)
    return name


def _name_pointer(directory: Directory, revision: int, *, random: bytes) -> None:
    """Give the pointer's record its number, as the claim would have."""
    filesystem, fd, number = directory.filesystem, directory.fd, names.manifest(revision)
    with _held(directory, names.POINTER, revision, random=random) as temporary:
        try:
            filesystem.link(temporary, number, source_fd=fd, target_fd=fd)
        except FileExistsError as error:
            raise ConflictError(f"{number} appeared while it was settled") from error
        except OSError as error:
            raise StorageError(f"Linking {number}", errno=error.errno or 0) from error


def _raise_pointer(directory: Directory, revision: int, *, random: bytes) -> None:
    """Move the pointer onto the inode of its number."""
    with _held(directory, names.manifest(revision), revision, random=random) as temporary:
        _point(directory, temporary)


@contextlib.contextmanager
def _held(directory: Directory, name: str, revision: int, *, random: bytes) -> Iterator[str]:
    """Hold the record of ``revision`` by a temporary, and confirm that it still is the newest.

    In this order, as in ``swap``: who is paused before the confirmation sees what came meanwhile
    (the pointer never goes down), and who is paused after it is disarmed by the next owner's
    sweep.

    Raises:
        ConflictError: Something newer than ``revision`` is there.
        StorageError: It cannot be held.
    """
    temporary = names.temporary(names.POINTER, random)
    try:
        with reported(f"Linking {printable(name)}"):
            try:
                directory.filesystem.link(
                    name, temporary, source_fd=directory.fd, target_fd=directory.fd
                )
            except FileNotFoundError as error:
                raise ConflictError(f"{name} was pruned while it was settled") from error
            newest = max(_numbers(directory), default=0)
        _refuse_newer(newest, revision)
        yield temporary
    finally:
        # A rename between two names of one inode does nothing and leaves both: if the pointer
        # had been there already, the temporary still is.
        publish.discard(directory, temporary)


def _refuse_newer(newest: int, revision: int) -> None:
    if newest > revision:
        raise ConflictError(f"Revision {newest} appeared while revision {revision} was settled")
