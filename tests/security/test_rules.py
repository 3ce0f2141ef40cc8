"""G6, S2, C3-01, C11-06: names, order, schema, snapshots; planted bugs show that they can fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.security import rules

ALL: list[Callable[[], None]] = [
    rules.foreign_names_are_ignored,
    rules.name_is_compared_with_content,
    rules.order_is_numeric,
    rules.unknown_schema_stops,
    rules.callers_objects_are_copied,
    rules.malformed_fingerprints_are_refused,
]


@pytest.mark.parametrize("holds", ALL, ids=lambda holds: holds.__name__)
def test_what_must_hold_of_names_order_schema_and_snapshots_holds(
    holds: Callable[[], None],
) -> None:
    """G6, S2: see the function's own first line.

    Method: real saves in memory, and authentic records put where no writer would.
    """
    holds()
