"""What tests of this room may ask for."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """What a job warns of when it closes is told by its error."""
    logging.disable()
    yield
    logging.disable(logging.NOTSET)
