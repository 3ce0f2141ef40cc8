"""What a call changes below it: the schema that recorders write and persistence models read.

An inode is a number, 1 the root of the disk; it is never used again. Data and names are two
things here, as they are on a disk: a file is made without a name, and an ``Entry`` gives it one.

=============  ===============================================================================
``Make``       an inode begins to exist, empty, with a mode; it has no name yet
``Write``      bytes at an offset of a file
``Truncate``   a file gets a size; what it gains are zeros
``Mode``       an inode gets a mode
``Entry``      a directory's name leads to an inode, which it did not before
``Removal``    a directory's name leads nowhere any more
``Rename``     a name of one directory goes, a name of a directory leads to its inode
``Sync``       all that was asked of an inode before is on the medium: of a file its bytes and
               size, of a directory its entries
``SyncFailed`` a sync that reported an error: what was not durable may or may not be, and no
               later sync of that inode will change that (F5)
=============  ===============================================================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROOT: Final = 1
"""The inode of the disk's root directory."""


@dataclass(frozen=True, slots=True)
class Make:
    """An inode begins to exist."""

    inode: int
    is_directory: bool
    mode: int


@dataclass(frozen=True, slots=True)
class Write:
    """Bytes at an offset of a file."""

    inode: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file gets a size."""

    inode: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Mode:
    """An inode gets a mode."""

    inode: int
    mode: int


@dataclass(frozen=True, slots=True)
class Entry:
    """A name leads to an inode."""

    directory: int
    name: str
    inode: int


@dataclass(frozen=True, slots=True)
class Removal:
    """A name leads nowhere any more."""

    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Rename:
    """``source`` goes, ``target`` leads to its inode; another inode may have been there."""

    source_directory: int
    source: str
    target_directory: int
    target: str
    inode: int


@dataclass(frozen=True, slots=True)
class Sync:
    """An inode is durable: fsync, and fdatasync, which leaves out nothing that is needed."""

    inode: int


@dataclass(frozen=True, slots=True)
class SyncFailed:
    """A sync of an inode reported an error."""

    inode: int


Operation = Make | Write | Truncate | Mode | Entry | Removal | Rename | Sync | SyncFailed


def is_sync(operation: Operation) -> bool:
    """Whether it changes nothing that is seen: what was changed before becomes durable, or not."""
    return isinstance(operation, Sync | SyncFailed)
