"""A store for each test, verified whole after it; and nothing outside of it was touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.storage.places import picture
from tests.store.world import Engine, World, make_world
from tests.support.check import check, check_equal


def _watched(engine: Engine, top: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = make_world(engine, top)
    monkeypatch.chdir(world.outside)
    for variable in ("HOME", "TMPDIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(variable, str(world.outside))
    before = picture(world.outside)
    yield world
    world.close()
    if not world.damaged:
        world.verify()
    world.root.close()
    check_equal(picture(world.outside), before, "what lies outside the store")
    places = {path.name for path in top.iterdir()}
    check(places <= {"outside", "inside"}, f"nothing is made beside the store: {places}")


@pytest.fixture(params=["memory", "posix"])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    """A new store, in memory and on a disk."""
    yield from _watched(request.param, tmp_path, monkeypatch)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A new store on a disk, for what memory does not have."""
    yield from _watched("posix", tmp_path, monkeypatch)
