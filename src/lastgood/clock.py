"""The one place that reads a clock.

Wall-clock times are information for people: nothing in a store is ordered,
believed, expired or pruned by them, so any clock is legal, also one that
stands in 1970, jumps back or stops (C3-02, C14-06). Waiting is measured on
the monotonic clock.
"""

from __future__ import annotations

import datetime
import time
from typing import Protocol


class Clock(Protocol):
    """What lastgood asks of time."""

    def now(self) -> datetime.datetime:
        """The wall clock, aware, in UTC."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never run backwards, for time-outs."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Wait for ``duration_s`` seconds."""
        ...


class SystemClock:
    """The clocks of the machine."""

    def now(self) -> datetime.datetime:
        """The machine's wall clock in UTC."""
        return datetime.datetime.now(datetime.UTC)

    def monotonic_s(self) -> float:
        """The machine's monotonic clock."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Sleep; signals are handled meanwhile."""
        time.sleep(duration_s)


def utc_text(moment: datetime.datetime) -> str:
    """Write ``moment`` as it is stored: 27 characters, ``2026-12-01T07:00:00.000000Z``.

    Raises:
        ValueError: It has no time zone; nobody may guess the machine's.
    """
    if moment.utcoffset() is None:
        raise ValueError("a clock gave a time without a time zone")
    in_utc = moment.astimezone(datetime.UTC).replace(tzinfo=None)
    return in_utc.isoformat(timespec="microseconds") + "Z"
