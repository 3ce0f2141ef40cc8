"""Who has the key can seal any number; the last ones do not make lastgood write what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lastgood.errors import DurabilityUnknownError, LimitError
from lastgood.formats import manifest, names, seal
from lastgood.formats.limits import MAX_SEQUENCE, Limits
from lastgood.formats.manifest import Manifest
from tests.store.world import SESSION, World, at, make_world
from tests.support import records
from tests.support.check import check_equal


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A store in memory."""
    world = make_world("memory", tmp_path)
    yield world
    world.close()
    world.root.close()


def _newest(world: World) -> Manifest:
    return manifest.decode(
        world.files()[names.POINTER],
        store_id=records.STORE,
        session=SESSION,
        sealer=records.sealer(),
        limits=Limits(),
        name=names.POINTER,
    )


def _put(world: World, made: Manifest) -> seal.Digest:
    """Seal ``made`` with the key, as its number and as the pointer."""
    record = manifest.encode(made, store_id=records.STORE, session=SESSION, sealer=records.sealer())
    for name in (names.manifest(made.revision), names.POINTER):
        world.put(name, b"".join(record))
    return seal.digest_of(record)


def _at_revision(world: World, revision: int) -> None:
    before = replace(_newest(world), revision=revision - 1)
    digest = _put(world, before)
    _put(world, replace(before, revision=revision, previous_manifest=digest))


def _at_last_revision(world: World) -> None:
    _at_revision(world, MAX_SEQUENCE)


def _at_last_epoch(world: World) -> None:
    _put(world, replace(_newest(world), epoch=MAX_SEQUENCE))


@pytest.mark.parametrize("arrange", [_at_last_revision, _at_last_epoch])
def test_a_session_at_its_last_number_is_read_and_refuses_to_be_opened_for_writing(
    world: World, arrange: Callable[[World], None]
) -> None:
    """G3, T8: no revision that no reader would take is ever written, so nothing is locked out."""
    world.saved(10, 20)
    arrange(world)
    before = world.files()
    with pytest.raises(LimitError):
        world.open()
    check_equal(world.files(), before, "the store")
    with world.reader() as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 20, "what is loaded")


def test_the_last_claim_loses_no_state(world: World) -> None:
    """I2: a save that finds no revision left is told so, and what it published is loaded.

    Method: the opening claims the last revision; its save is one too many.
    """
    world.saved(10, 20)
    _at_revision(world, MAX_SEQUENCE - 1)
    with world.open() as handle, pytest.raises(DurabilityUnknownError):
        handle.save(at(30))
    with world.reader() as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 30, "what is loaded")
        check_equal(reader.check().findings, (), "what the check finds")
