"""Which bytes of a log segment somebody believes; by its lines alone, nothing is verified here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fault_injection.damage.files import Files, kind_of, leaf
from lastgood.formats.event import APPLIED, DONE, OURS
from lastgood.formats.names import Kind

_WITHIN = (DONE, APPLIED)
"""Types of ours that hold an event of the program's."""


def believed(path: str, files: Files) -> bytes:
    """The events of a segment of an honest log, without the last one's line feed.

    What lies behind the length that a later segment names is believed by nobody, and neither are
    reserved zeros.
    """
    data = files[path].data or b""
    folder = path.removesuffix(leaf(path))
    for other in sorted(files):
        if other.startswith(folder) and kind_of(other) is Kind.SEGMENT and other != path:
            named = _before(files[other].data or b"")
            if named.get("segment") == leaf(path):
                return data[: named["offset"]].removesuffix(b"\n")
    return data.rstrip(b"\0").removesuffix(b"\n")


def is_intact(path: str, data: bytes, files: Files) -> bool:
    """Whether changed bytes still begin with all that is believed of a segment."""
    return data.startswith(believed(path, files))


def is_torn(path: str, data: bytes, files: Files) -> bool:
    """Whether changed bytes are what a crash leaves of the last writes into a segment.

    From some line on, that line never arrived or has a NUL, which is a sector that did not; and
    no line behind it says that it was durable.
    """
    honest = believed(path, files).split(b"\n")
    intact = 0
    for was, line in zip(honest, data.split(b"\n"), strict=False):
        if was != line:
            break
        intact += 1
    bad, behind = _cut(data, intact)
    if not bad:
        return not behind.strip(b"\0")
    is_missing = b"\0" in bad or (not behind and honest[intact].startswith(bad))
    synced = [_field(line, "synced") for line in honest[intact + 1 :] if line in bad + behind]
    return is_missing and max(synced, default=0) < _field(honest[intact], "seq")


def _cut(data: bytes, lines: int) -> tuple[bytes, bytes]:
    """The line behind so many, without reserved zeros, and what follows it."""
    rest = b"\n".join(data.split(b"\n")[lines:]).rstrip(b"\0")
    bad, feed, behind = rest.partition(b"\n")
    return bad, feed + behind


def _field(line: bytes, name: str) -> int:
    found: Any = json.loads(line)
    number: int = found["e"][name]
    return number


def events(data: bytes) -> Iterator[tuple[int, str, Any]]:
    """Number, type and data of every line of a segment that reads as an event of the program's.

    A fenced owner's late one is among them, which the log passes over.
    """
    for line in data.split(b"\n"):
        try:
            found: Any = json.loads(line.strip(b"\0"))["e"]
            kind, what = found["type"], found["data"]
            if kind in _WITHIN and what["event"] is not None:
                kind, what = what["event"]["type"], what["event"]["data"]
            said = found["seq"], kind, what
        except (ValueError, KeyError, TypeError):
            continue
        if not said[1].startswith(OURS):
            yield said


def _before(data: bytes) -> dict[str, Any]:
    """The anchor that a segment's first line names; empty if it has no whole first line."""
    try:
        found: Any = json.loads(data[: data.index(b"\n")])["e"]["data"]
    except (ValueError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}
