"""The one place that makes randomness.

Random bytes name temporaries and operations and make keys and salts; no
decision is taken by them, so a test may replace this source by a counter.
"""

from __future__ import annotations

import os
from typing import Protocol


class Entropy(Protocol):
    """A source of bytes that nobody can guess."""

    def __call__(self, size_bytes: int, /) -> bytes:
        """Return ``size_bytes`` fresh bytes."""
        ...


def system_entropy(size_bytes: int, /) -> bytes:
    """Return ``size_bytes`` bytes of the operating system's generator."""
    return os.urandom(size_bytes)
