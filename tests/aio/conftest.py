"""What holds after every test here: no thread is left, and the event loop complained of nothing."""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator

import pytest

from tests.aio.world import workers
from tests.support.check import check_equal


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """A task that was destroyed, or an error that nobody took, is told to this logger only."""
    told: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("asyncio")
    logger.addHandler(handler)
    before = workers()
    try:
        yield
        gc.collect()
    finally:
        logger.removeHandler(handler)
    check_equal(told, [], "what the event loop complained of")
    check_equal(workers(), before, "threads")
