"""The files that a step reads: their names and the SHA-256 of each, whatever their size.

A pattern is a path, relative to the plan's directory, in which ``*``, ``?`` and ``[…]`` stand for
parts of one name and ``**`` for directories, any number of them, also none. They pass over names
that begin with a dot unless the pattern says the dot, and never go into a directory through a
link; who means what a link leads to names the link. A file that is a link is read as its content.
"""

from __future__ import annotations

import fnmatch
import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lastgood.errors import PlanError, StorageError, printable

_CHUNK_BYTES: Final = 1 << 20
_MAGIC: Final = frozenset("*?[")
_MAX_NAME_CHARS: Final = 4_096


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was found.

    Attributes:
        files: SHA-256 by name, escaped so that it is text and no two are the same; sorted.
        unmatched: Patterns that nothing matches.
    """

    files: dict[str, str]
    unmatched: tuple[str, ...]


def find(patterns: Sequence[str], *, folder: str) -> Inputs:
    """Every file that one of the patterns matches, with its SHA-256.

    Raises:
        PlanError: A pattern names what is no regular file.
        StorageError: Something cannot be read; that is never taken for not being there.
    """
    paths: set[str] = set()
    unmatched: list[str] = []
    for pattern in patterns:
        found = set(_paths(pattern, folder))
        paths |= found
        unmatched += [] if found else [pattern]
    digests = {_name(path, folder): _sha256(path) for path in sorted(paths)}
    return Inputs(dict(sorted(digests.items())), tuple(unmatched))


def _name(path: str, folder: str) -> str:
    below = path.removeprefix(os.path.join(folder, ""))
    return printable(below, limit_chars=_MAX_NAME_CHARS)


def _paths(pattern: str, folder: str) -> Iterator[str]:
    parts = [part for part in pattern.split("/") if part not in ("", ".")]
    at = "/" if pattern.startswith("/") else folder
    try:
        yield from _match(at, parts)
    except OSError as error:
        doing = f"Looking for inputs {printable(pattern)}"
        raise StorageError(doing, errno=error.errno or 0) from error


def _match(at: str, parts: Sequence[str]) -> Iterator[str]:
    """Paths under ``at`` that match; directories only where they are named as such."""
    if not parts:
        yield at
        return
    head, rest = parts[0], parts[1:]
    if head == "**":
        for folder in _folders(at):
            yield from _match(folder, rest or ["*"])
    elif not _MAGIC & set(head):
        path = os.path.join(at, head)
        if os.path.isdir(path) if rest else os.path.lexists(path):
            yield from _match(path, rest)
    else:
        for entry in _entries(at):
            is_wanted = entry.is_dir(follow_symlinks=False) if rest else not entry.is_dir()
            if is_wanted and _is_named(entry.name, head):
                yield from _match(entry.path, rest)


def _folders(top: str) -> Iterator[str]:
    """``top`` and every directory below it that no link leads through."""
    waiting = [top]
    while waiting:
        at = waiting.pop()
        yield at
        waiting += [
            entry.path
            for entry in _entries(at)
            if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
        ]


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_named(name: str, pattern: str) -> bool:
    is_hidden = name.startswith(".") and not pattern.startswith(".")
    return not is_hidden and fnmatch.fnmatchcase(name, pattern)


def _sha256(path: str) -> str:
    """SHA-256 of a regular file, read piece by piece; a FIFO in its place does not block."""
    digest = hashlib.sha256()
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise PlanError(
                    f"The input {printable(path)} is no file; name what is in a directory by **"
                )
            while chunk := os.read(fd, _CHUNK_BYTES):
                digest.update(chunk)
        finally:
            os.close(fd)
    except OSError as error:
        raise StorageError(
            f"Reading the input {printable(path)}", errno=error.errno or 0
        ) from error
    return digest.hexdigest()
