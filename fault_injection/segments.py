"""Which bytes of a log segment somebody believes; by its lines alone, nothing is verified here."""

from __future__ import annotations

import json
from typing import Any

from fault_injection.files import Files, kind_of, leaf
from lastgood.formats.names import Kind


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


def _before(data: bytes) -> dict[str, Any]:
    """The anchor that a segment's first line names; empty if it has no whole first line."""
    try:
        found: Any = json.loads(data[: data.index(b"\n")])["e"]["data"]
    except (ValueError, KeyError):
        return {}
    return found if isinstance(found, dict) else {}
