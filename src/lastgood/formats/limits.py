"""Limits: decided by the reader, each with a typed error before anything is written or believed.

A hostile file costs at most these, before and after it is authenticated (T8).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_SEQUENCE: Final = 10**15
"""Sequences and revisions are exactly int, 1 to this."""

_MIB: Final = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one store may make a process do.

    Raise a limit for every reader and writer of a store, or what one of them
    saved, another refuses.
    """

    payload_bytes: int = 16 * _MIB
    """A checkpoint's payload, encoded. 64 MiB of small objects take about 2 GiB when parsed."""
    header_bytes: int = 8 * 1024
    """A record's header line. A manifest's payload has ``manifest_bytes``."""
    manifest_bytes: int = _MIB
    """A manifest's payload: 1,000 milestones and 8 operations take about 350 KB."""
    depth: int = 200
    """Nested lists and dicts in a state; the parser itself ends at 253 when encoding."""
    milestones: int = 1_000
    directory_entries: int = 100_000
    """Entries examined in one session's directory."""
    lock_wait_s: float = 10.0
    """How long to wait for another holder of the session, or of the same handle."""

    def record_bytes(self, payload_bytes: int) -> int:
        """The largest file whose payload has at most ``payload_bytes`` bytes."""
        return payload_bytes + self.header_bytes + 256 + 3
