"""Where the tests of this room keep their stores: in memory where that is offered.

A store in memory makes a save six times as fast, and a death or a race no different; loss of
power is not in question here.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.scenes import Scenes
from tests.crash.sessions import Sessions

_MEMORY = Path("/dev/shm")


def _parent() -> str | None:
    return str(_MEMORY) if os.access(_MEMORY, os.W_OK | os.X_OK) else None


@pytest.fixture(scope="session")
def scenes() -> Iterator[Scenes]:
    """Stores to begin with."""
    base = Path(tempfile.mkdtemp(prefix="lastgood-", dir=_parent()))
    yield Scenes(base)
    shutil.rmtree(base)


@pytest.fixture
def fast(scenes: Scenes) -> Iterator[Path]:
    """A path for one store, not made yet."""
    with scenes.copy("absent") as place:
        yield place


@pytest.fixture(scope="session")
def sessions() -> Iterator[Sessions]:
    """Sessions with a log to begin with."""
    base = Path(tempfile.mkdtemp(prefix="lastgood-", dir=_parent()))
    yield Sessions(base)
    shutil.rmtree(base)
