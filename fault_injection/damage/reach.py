"""What of a session a change reaches: what nobody can do without, or nothing that is believed."""

from __future__ import annotations

from typing import Final

from fault_injection.damage import segments
from fault_injection.damage.belief import Subject
from fault_injection.damage.files import kind_of, leaf
from fault_injection.damage.history import History
from fault_injection.damage.honest import path_of
from fault_injection.damage.tampering import Tampering
from lastgood.formats import names
from lastgood.formats.names import Kind

_LOOSE: Final = 0o077


def hurts_needed(tampering: Tampering, history: History, subject: Subject) -> bool:
    """Whether a record is gone or damaged without which nothing may be believed (design 6)."""
    return any(_is_needed(tampering, history, subject, path) for path in tampering.edits)


def touches_nothing(tampering: Tampering, subject: Subject) -> bool:
    """Whether whatever somebody believes has the bytes it had, and nobody else may read it.

    Then nobody needs to be told of it.
    """
    return all(
        _is_unbelieved(tampering, subject, path) or _is_intact(tampering, path)
        for path in tampering.edits
    )


def may_stop_nobody(tampering: Tampering, subject: Subject) -> bool:
    """Whether it changes only what nobody believes, or adds to that; it may be told, no more.

    A byte behind the log's end is no such thing: no crash leaves it there.
    """
    return _folder(subject) not in tampering.edits and all(
        _is_unbelieved(tampering, subject, path) or kind_of(path) is None
        for path in tampering.edits
    )


def _folder(subject: Subject) -> str:
    return f"{subject.store}/{subject.directory}"


def _is_of(path: str, subject: Subject) -> bool:
    """Whether a file, by its place, can be a record of this session."""
    owner, _, name = path.rpartition("/")
    return owner == _folder(subject) or (name == names.STORE and owner == subject.store)


def _is_needed(tampering: Tampering, history: History, subject: Subject, path: str) -> bool:
    honest, was = tampering.base.honest[subject], tampering.base.files.get(path)
    name, node = leaf(path), tampering.edits[path]
    known = {*honest.needed, *honest.sound, honest.before}
    if was is None or not _is_of(path, subject) or name not in known:
        return False
    if node is None:
        is_before = kind_of(name) is Kind.MANIFEST and not _has_newest(tampering, subject)
        return name not in honest.sound and not is_before
    if node.data is None or node.mode & _LOOSE:
        return True
    if name == honest.before:
        return node.data.split(b"\n")[:2] != (was.data or b"").split(b"\n")[:2]
    if name == names.POINTER:
        return node.data not in {version.data for version, _ in history.versions(path)}
    return node.data != was.data


def _has_newest(tampering: Tampering, subject: Subject) -> bool:
    """Whether the newest revision is still there, so that the one before it must be."""
    paths = sorted(path_of(name, subject) for name in tampering.base.honest[subject].sound)
    newest = next((path for path in paths if path in tampering.base.files), "")
    was = tampering.base.files.get(newest)
    return any(tampering.files.get(path) == was for path in paths)


def _is_unbelieved(tampering: Tampering, subject: Subject, path: str) -> bool:
    honest = tampering.base.honest[subject]
    kind, node = kind_of(path), tampering.edits[path]
    if path == _folder(subject):
        return False
    if not _is_of(path, subject) or kind in (Kind.LOCK, Kind.TEMPORARY):
        return True
    if node is None and kind in (Kind.POINTER, Kind.MANIFEST) and honest.belief.is_nothing:
        here = (other for other in tampering.files if _is_of(other, subject))
        # The verdict is *new*, and nothing is there that could be missed.
        return not {Kind.CHECKPOINT, Kind.SEGMENT} & set(map(kind_of, here))
    return path in tampering.base.files and leaf(path) in honest.leftovers


def _is_intact(tampering: Tampering, path: str) -> bool:
    was, node = tampering.base.files.get(path), tampering.edits[path]
    if was is None or node is None or was.data is None or node.data is None:
        return False
    if node.mode & _LOOSE and node.mode != was.mode:
        return False
    is_segment = kind_of(path) is Kind.SEGMENT
    return node.data == was.data or (
        is_segment and segments.is_intact(path, node.data, tampering.base.files)
    )
