"""JSON values to test with, and the one comparison that tells them apart."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

INTEGERS = st.integers(-(2**63), 2**64 - 1) | st.sampled_from(
    [0, -1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63)]
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, -0.0, 1.0, 1e16, 1e22, 1e308, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308]
)
TEXTS = st.text(max_size=30) | st.sampled_from(
    ["", "\x00", "\u2028\u2029\x85", "\x0b\x0c\x1c\x1e\r\n", "😀", "\ufeff", "\U0010ffff", "\ufffe"]
)


def values(leaf: st.SearchStrategy[Any] | None = None) -> st.SearchStrategy[Any]:
    """Any plain JSON value, or one that also has ``leaf`` somewhere."""
    legal = st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS
    return st.recursive(
        legal if leaf is None else legal | leaf,
        lambda inner: st.lists(inner, max_size=6) | st.dictionaries(TEXTS, inner, max_size=6),
        max_leaves=20,
    )


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, of the same types, and their keys in the same order.

    ``True`` is not ``1``, ``1`` is not ``1.0``, ``0.0`` is not ``-0.0``.
    """
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return bool(one == other)
