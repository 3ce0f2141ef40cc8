"""Places for the tests of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.commands import Place, new_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Fresh keys, and a store that does not exist yet."""
    return new_place(tmp_path)


@pytest.fixture
def kept(place: Place) -> Place:
    """A store in which session ``nightly`` has sequences 1 and 2."""
    place.save("nightly", 1, {"n": 1})
    place.save("nightly", 2, {"n": 2})
    return place
