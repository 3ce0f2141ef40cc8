"""Randomness: names of temporaries, salts and keys."""

from __future__ import annotations

import pytest

from lastgood.entropy import Entropy, system_entropy
from tests.support.check import check_equal


@pytest.mark.parametrize("size_bytes", [0, 1, 8, 16, 32, 4096])
def test_as_many_bytes_as_asked_for(size_bytes: int) -> None:
    """A key or salt is never short."""
    source: Entropy = system_entropy
    check_equal(len(source(size_bytes)), size_bytes, "bytes")


def test_no_two_draws_are_equal() -> None:
    """Temporary names do not collide (C4-04). Method: 10,000 draws of the size of a name."""
    check_equal(len({system_entropy(8) for _ in range(10_000)}), 10_000, "different draws")
