"""Splices: an intact record in a place that is not its own, and records that are missing (T5)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import CheckpointStore, Keyring, open_store
from lastgood.errors import DamagedError, LastgoodError, SplicedError
from lastgood.formats import names
from lastgood.storage.memory import MemoryRoot
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.records import MASTER, OTHER_STORE, keyring

NEWEST, BEFORE = names.manifest(4), names.manifest(3)
CURRENT, PREVIOUS = names.checkpoint(30), names.checkpoint(20)


def other_store() -> World:
    """A store of another id under the same master key, with the same sequences."""
    nowhere = Path("never-made")
    world = World("memory", MemoryRoot(), nowhere, nowhere, keys=keyring(store_id=OTHER_STORE))
    world.saved(10, 20, 30)
    return world


def of_session(world: World, name: str) -> bytes:
    world.saved(10, 20, 30, session="weekly")
    return world.files("weekly")[name]


SPLICES: dict[str, tuple[str, Callable[[World], bytes]]] = {
    "checkpoint of another session": (CURRENT, lambda w: of_session(w, CURRENT)),
    "previous of another session": (PREVIOUS, lambda w: of_session(w, PREVIOUS)),
    "manifest of another session": (NEWEST, lambda w: of_session(w, NEWEST)),
    "pointer of another session": (names.POINTER, lambda w: of_session(w, NEWEST)),
    "session record of another session": (names.SESSION, lambda w: of_session(w, names.SESSION)),
    "manifest as checkpoint": (CURRENT, lambda w: w.files()[NEWEST]),
    "checkpoint as manifest": (NEWEST, lambda w: w.files()[CURRENT]),
    "checkpoint as pointer": (names.POINTER, lambda w: w.files()[CURRENT]),
    "session record as checkpoint": (CURRENT, lambda w: w.files()[names.SESSION]),
    "checkpoint as session record": (names.SESSION, lambda w: w.files()[CURRENT]),
    "another sequence": (CURRENT, lambda w: w.files()[PREVIOUS]),
    "another sequence before": (PREVIOUS, lambda w: w.files()[CURRENT]),
    "another revision": (NEWEST, lambda w: w.files()[BEFORE]),
}


@pytest.mark.parametrize("name", SPLICES)
def test_an_intact_record_in_another_place_is_called_a_splice(world: World, name: str) -> None:
    """T5: session, kind, sequence and revision are what the caller asked for, not the file."""
    place, take = SPLICES[name]
    world.saved(10, 20, 30)
    world.put(place, take(world))
    before = world.files()
    with world.reader() as reader:
        for load in (reader.load_latest, reader.verify):
            with pytest.raises(SplicedError) as raised:
                load()
            check_equal(raised.value.exit_code, 2, "the exit code")
            check(place in str(raised.value), f"it names the file: {raised.value}")
    with pytest.raises(SplicedError):
        world.open()
    check_equal(world.files(), before, "the directory")


def test_a_splice_that_no_load_reads_is_called_one_too(world: World) -> None:
    """T5: in a milestone's place, and in the list of all sessions."""
    with world.open() as handle:
        for sequence in (5, 10, 20, 30):
            handle.save(at(sequence), milestone="kept" if sequence == 5 else None)
    world.put("checkpoint-000005.json", of_session(world, CURRENT))
    with world.reader() as reader, pytest.raises(SplicedError, match="session weekly"):
        reader.verify()
    world.put(names.SESSION, world.files("weekly")[names.SESSION])
    with open_store(world.root, keys=world.keys) as store:
        problems = [entry.problem for entry in store.sessions() if entry.problem is not None]
    check_equal([problem.code for problem in problems], ["spliced"], "in the list of all")


def test_the_message_of_a_splice_says_whose_record_it_is(world: World) -> None:
    """A person who copied a directory is told what was copied from where."""
    world.saved(10, 20, 30)
    world.put(CURRENT, of_session(world, CURRENT))
    with world.reader() as reader, pytest.raises(SplicedError) as raised:
        reader.load_latest()
    check("checkpoint record of session weekly" in str(raised.value), str(raised.value))


@pytest.mark.parametrize("name", [CURRENT, PREVIOUS, NEWEST, names.POINTER, names.SESSION])
def test_a_record_of_another_store_under_the_same_key_is_refused(world: World, name: str) -> None:
    """T5: the store id is pinned outside, and is part of every key."""
    world.saved(10, 20, 30)
    world.put(name, other_store().files()[name])
    with world.reader() as reader, pytest.raises(SplicedError) as raised:
        reader.load_latest()
    said = str(raised.value)
    check(name in said and "of another store" in said, f"it names file and splice: {said}")


def test_a_whole_store_of_another_id_is_refused(world: World) -> None:
    """The store id is the caller's: another store in the same place is not believed."""
    world.saved(10)
    stranger = keyring(store_id=OTHER_STORE)
    for use in (
        lambda: world.open(keys=stranger),
        lambda: world.reader(keys=stranger),
        lambda: open_store(world.root, keys=stranger),
        lambda: world.reader(store_id=OTHER_STORE),
    ):
        with pytest.raises(DamagedError):
            use()


def test_several_stores_under_one_key_are_told_by_their_id() -> None:
    """``store_id`` pins another store for the same key."""
    root, keys = MemoryRoot(), keyring()
    with CheckpointStore(root, "nightly", keys=keys, store_id=OTHER_STORE) as handle:
        handle.save(at(10))
    with open_store(root, keys=keys, store_id=OTHER_STORE) as store:
        loaded = store.checkpoints("nightly", mode="read").load_latest()
        check_equal(loaded and loaded.sequence, 10, "what is loaded")
    with pytest.raises(DamagedError):
        open_store(root, keys=keys)


@pytest.mark.parametrize("store_id", ["", "x", "0" * 31, "0" * 33, "G" * 32, "A" * 32, 5, b"0"])
def test_a_store_id_that_is_none_is_refused(store_id: Any) -> None:
    """A typing error in the pin is a usage error, and nothing is made."""
    root = MemoryRoot()
    with pytest.raises(LastgoodError) as raised:
        CheckpointStore(root, "nightly", keys=keyring(), store_id=store_id)
    check_equal(raised.value.code, "usage", "the code")
    check_equal(list(root.directories()), [], "what was made")


def test_a_session_s_directory_under_another_name_is_not_that_session(disk: World) -> None:
    """A directory that was renamed or copied to another session's name is refused."""
    disk.saved(10)
    disk.directory().rename(disk.path / names.directory(names.session_id("weekly")))
    disk.damaged = True
    with disk.reader("weekly") as reader, pytest.raises(SplicedError):
        reader.load_latest()
    with pytest.raises(SplicedError):
        disk.open("weekly")


MISSING = [names.SESSION, names.POINTER, NEWEST, BEFORE, CURRENT, PREVIOUS]


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_record_stops_unless_a_crash_could_have_taken_it(world: World, name: str) -> None:
    """Rows 2, 7, 8 and 9: the pointer and the newest number are there twice, all else once."""
    world.saved(10, 20, 30)
    world.drop(name)
    before = world.files()
    with world.reader() as reader:
        if name in (names.POINTER, NEWEST):
            loaded = reader.load_latest()
            check_equal(loaded and loaded.sequence, 30, "what is loaded")
            check_equal(reader.check().verdict, "recoverable", "the verdict")
        else:
            with pytest.raises(DamagedError) as raised:
                reader.load_latest()
            check(name in str(raised.value), f"it names the file: {raised.value}")
    check_equal(world.files(), before, "a reader changes nothing")
    if name in (names.POINTER, NEWEST):
        with world.open() as handle:
            handle.save(at(40))
        check_equal(world.report().verdict, "good", "the next owner has finished it")
        world.verify()
    else:
        with pytest.raises(DamagedError):
            world.open()
        check_equal(world.files(), before, "an opening changes nothing")


@pytest.mark.parametrize("data", [b"", b"x", bytes(500), b"{}\n"])
def test_a_damaged_record_of_the_store_stops_everything(disk: World, data: bytes) -> None:
    """store.json: nothing is read, made or owned past it."""
    disk.saved(10)
    (disk.path / names.STORE).write_bytes(data)
    _expect_stop(disk)


def test_a_missing_record_of_the_store_beside_sessions_stops_everything(disk: World) -> None:
    """Row 9: session directories and no store.json; it is not made anew."""
    disk.saved(10)
    (disk.path / names.STORE).unlink()
    _expect_stop(disk)
    check(not (disk.path / names.STORE).exists(), "it was not made anew")


def _expect_stop(disk: World) -> None:
    disk.damaged = True
    before = disk.files()
    for use in (disk.open, disk.reader, lambda: open_store(disk.root, keys=disk.keys)):
        with pytest.raises(DamagedError) as raised:
            use()
        check(names.STORE in str(raised.value), f"it names the file: {raised.value}")
    check_equal(disk.files(), before, "the session's directory")


def test_the_key_s_own_store_id_is_never_taken_from_the_store(world: World) -> None:
    """A ring with a store id of its own and the same master key is a stranger."""
    world.saved(10)
    ring: Keyring = keyring(MASTER, store_id="f" * 32)
    with pytest.raises(DamagedError):
        world.reader(keys=ring)
