"""Limits: decided by the reader, each with a typed error before anything is written or believed.

A hostile file costs at most these, before and after it is authenticated (T8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lastgood.errors import UsageError, printable

MAX_SEQUENCE: Final = 10**15
"""Sequences and revisions are exactly int, 1 to this."""

HEAD_BYTES: Final = 16 * 1024
"""Every back end gives so much of a file at once: seal and header, whatever the limit."""

_MIB: Final = 1024 * 1024
_SEAL_LINE_BYTES: Final = 256
_MILESTONE_BYTES: Final = 1024
_MANIFEST_BYTES: Final = 16 * 1024
_HIGHEST: Final = 10**15
_LONGEST_WAIT_S: Final = 10.0**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one store may make a process do.

    Raise a limit for every reader and writer of a store, or what one of them
    saved, another refuses.

    Raises:
        UsageError: A limit is no number in range, or a manifest of so many milestones would be
            over the limit of manifests, so that nobody could read what was saved.
    """

    payload_bytes: int = 16 * _MIB
    """A checkpoint's payload, encoded. 64 MiB of small objects take about 2 GiB when parsed."""
    header_bytes: int = 8 * 1024
    """A record's header line, 4 KiB to 15 KiB. A manifest's payload has ``manifest_bytes``."""
    manifest_bytes: int = _MIB
    """A manifest's payload: 16 KiB, and 1 KiB more for each of the milestones, or more."""
    event_bytes: int = 4 * _MIB
    """One line of the event log, encoded, 4 KiB or more."""
    depth: int = 200
    """Nested lists and dicts in a state; the parser itself ends at 253 when encoding."""
    milestones: int = 1_000
    directory_entries: int = 100_000
    """Entries examined in one session's directory."""
    lock_wait_s: float = 10.0
    """How long to wait for another holder of the session, or of the same handle."""

    def __post_init__(self) -> None:
        """Refuse what would only show later, in the middle of a save."""
        _check("payload_bytes", self.payload_bytes, low=1)
        _check("header_bytes", self.header_bytes, low=4 * 1024, high=15 * 1024)
        _check("event_bytes", self.event_bytes, low=4 * 1024)
        _check("depth", self.depth, low=1)
        _check("milestones", self.milestones, low=0)
        least = _MANIFEST_BYTES + self.milestones * _MILESTONE_BYTES
        _check("manifest_bytes", self.manifest_bytes, low=least)
        _check("directory_entries", self.directory_entries, low=1)
        wait_s = self.lock_wait_s
        if type(wait_s) not in (int, float) or not 0 <= wait_s <= _LONGEST_WAIT_S:
            raise UsageError("The limit lock_wait_s is a number of seconds from 0 to 10^9")

    def record_bytes(self, payload_bytes: int) -> int:
        """The largest file whose payload has at most ``payload_bytes`` bytes."""
        return payload_bytes + self.header_bytes + _SEAL_LINE_BYTES + 3


def _check(name: str, value: object, *, low: int, high: int = _HIGHEST) -> None:
    if type(value) is not int or not low <= value <= high:
        shown = value if type(value) is int and abs(value) < 10**20 else type(value).__name__
        raise UsageError(f"The limit {name} is an int from {low} to {high}, not {printable(shown)}")
