"""A store of many sessions: opened, listed as a stream, damage shown and not hidden."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood import CheckpointStore, Keyring, Limits, Program, Retention, Store, open_store
from lastgood.errors import DamagedError, KeyFileError, LastgoodError, SplicedError
from lastgood.formats import names
from lastgood.storage.memory import MemoryRoot
from tests.store.world import SESSION, World, at
from tests.support.check import check, check_equal
from tests.support.records import keyring

IDS = [
    "Abc",
    "abc",
    "caf\u00e9",
    "cafe\u0301",
    "../../etc/passwd",
    "a/b",
    ".",
    "x" * 512,
    "🙂",
    " ",
]


def listed(world: World) -> dict[str, str]:
    """Session id, or the problem's code, by directory."""
    with open_store(world.root, keys=world.keys) as store:
        return {
            e.directory: e.record.session if e.record else (e.problem.code if e.problem else "")
            for e in store.sessions()
        }


def test_every_session_is_listed_and_each_is_another(world: World) -> None:
    """C11-01: ids are data, never paths; upper and lower case and both forms of é differ."""
    for number, session in enumerate(IDS, start=1):
        world.saved(number, session=session)
    check_equal(sorted(listed(world).values()), sorted(IDS), "sessions")
    for number, session in enumerate(IDS, start=1):
        with world.reader(session) as reader:
            loaded = reader.load_latest()
            check_equal(loaded and loaded.sequence, number, f"what {session!r} holds")
    if world.engine == "posix":
        made = sorted(path.name for path in world.path.iterdir())
        check_equal(made, sorted([*listed(world), names.STORE]), "nothing else was made")


def test_an_empty_place_has_no_sessions_and_opening_it_makes_nothing(world: World) -> None:
    """G8: opening a store and listing it are reading."""
    with open_store(world.root, keys=world.keys) as store:
        check_equal(list(store.sessions()), [], "sessions")
    check(not world.path.exists(), "nothing was made")


def test_a_session_that_was_opened_and_never_saved_is_listed(world: World) -> None:
    """It has a record, and a program that made it."""
    world.open(program=Program("invoices", "3")).close()
    with open_store(world.root, keys=world.keys) as store:
        (entry,) = store.sessions()
    check_equal(entry.record and entry.record.program, Program("invoices", "3"), "its program")


def test_a_damaged_session_is_shown_with_its_problem_and_hides_no_other(world: World) -> None:
    """Closed by default: nothing that is there is left out."""
    for session in ("one", "two", "three", "four"):
        world.saved(1, session=session)
    data = world.files("one")[names.SESSION]
    world.put(names.SESSION, data[:-20], session="one")
    world.put(names.SESSION, data, session="two")
    world.drop(names.SESSION, session="three")
    found = listed(world)
    by_id = {s: found[names.directory(names.session_id(s))] for s in ("one", "two", "three")}
    expected = {"one": "damaged", "two": "spliced", "three": "damaged"}
    check_equal(by_id, expected, "problems")
    check_equal(found[names.directory(names.session_id("four"))], "four", "the sound one")


def test_a_directory_in_which_nothing_was_begun_is_no_problem(world: World) -> None:
    """Killed between the directory and its first record: neither a session nor damage."""
    world.saved(1)
    with world.storage("begun", access="write"):
        pass
    check_equal(sorted(listed(world).values()), ["", "nightly"], "what is listed")
    with world.reader("begun") as reader:
        check_equal((reader.load_latest(), reader.check().verdict), (None, "new"), "a new session")
    with world.open("begun") as handle:
        check_equal(handle.save(at(1)).status, "saved", "it can be begun")


@pytest.mark.parametrize("left", ["checkpoint-000030.json", "manifest.json", "archive/"])
def test_records_without_their_session_are_never_taken_for_nothing(world: World, left: str) -> None:
    """G3: whatever record is left alone, ``sessions`` shows a problem and no verdict is good.

    Method: all of a session is deleted but one kind of file; an archive counts as well.
    """
    world.saved(10, 20, 30, retention=Retention("all"))
    with world.storage(SESSION, access="read") as storage:
        every = {*storage.list(), *storage.list("archive/")}
    for name in every:
        if not name.startswith(left) and name != names.LOCK:
            world.drop(name)
    check_equal(list(listed(world).values()), ["damaged"], "what is listed")
    with world.reader() as reader:
        check_equal(reader.check().exit_code, 2, "the verdict")


def test_a_file_in_the_place_of_a_session_is_shown(disk: World) -> None:
    """T7: what stands in a directory's place is shown as damage, not passed over."""
    disk.saved(1)
    (disk.path / ("0" * 40)).write_bytes(b"x")
    disk.damaged = True
    check_equal(listed(disk)["0" * 40], "damaged", "what is shown for it")


def test_sessions_are_a_stream(world: World) -> None:
    """Constant memory: the first is there before the rest is read."""
    for number in range(5):
        world.saved(1, session=f"session {number}")
    with open_store(world.root, keys=world.keys) as store:
        stream = store.sessions()
        check(isinstance(stream, Iterator), "an iterator, not a list")
        first = list(itertools.islice(stream, 2))
        check_equal(len(first), 2, "the first two")
        check_equal(len({e.directory for e in [*first, *stream]}), 5, "all of them, each once")


def test_a_store_opens_sessions_with_its_own_keys_and_limits(world: World) -> None:
    """``checkpoints`` is ``CheckpointStore`` with what the store was opened with."""
    with open_store(world.root, keys=world.keys, limits=Limits(payload_bytes=1_000)) as store:
        with store.checkpoints("nightly", schema_version=2) as handle:
            handle.save(at(1))
            with pytest.raises(LastgoodError) as raised:
                handle.save(at(2, state="x" * 1_000))
            check_equal(raised.value.code, "limit", "the code")
        with store.checkpoints("nightly", mode="read", schema_version=2) as reader:
            loaded = reader.load_latest()
        check_equal(loaded and loaded.schema_version, 2, "what is loaded")


def test_a_store_says_where_it_is_and_what_to_know(world: World) -> None:
    """Location and notices, for people."""
    with open_store(world.root, keys=world.keys) as store:
        check(isinstance(store, Store), "a store")
        expected = str(world.path) if world.engine == "posix" else "memory:test"
        check_equal(store.location, expected, "the location")
        forgets = any("memory" in notice for notice in store.notices)
        check(forgets or world.engine == "posix", f"notices: {store.notices}")


def test_the_same_path_by_open_store_and_by_a_handle_is_the_same_store(disk: World) -> None:
    """A path that does not exist yet is made by the first session that is opened for writing."""
    with open_store(str(disk.path), keys=disk.keys) as store:
        check(not disk.path.exists(), "opening makes nothing")
        with store.checkpoints("nightly") as handle:
            handle.save(at(1))
    check_equal(list(listed(disk).values()), ["nightly"], "sessions")


def test_keys_under_the_store_are_refused(tmp_path: Path) -> None:
    """T1: whoever copies the store would have the keys with it."""
    root = tmp_path / "store"
    root.mkdir(mode=0o700)
    keyring().write_new(root / "keys.json")
    inside = Keyring.from_file(root / "keys.json")
    with pytest.raises(KeyFileError):
        open_store(root, keys=inside)
    for mode in ("write", "read"):
        with pytest.raises(KeyFileError):
            CheckpointStore(root, "nightly", keys=inside, mode=mode)
    check_equal([path.name for path in root.iterdir()], ["keys.json"], "what lies there")


def test_a_spliced_session_record_names_the_splice(world: World) -> None:
    """A directory that was copied to another session's name is told from damage."""
    world.saved(1, session="one")
    world.saved(1, session="two")
    record = world.files("two")[names.SESSION]
    world.put(names.SESSION, record, session="one")
    with world.reader("one") as reader, pytest.raises(SplicedError):
        reader.load_latest()


def test_sessions_of_a_store_that_cannot_be_believed_are_not_listed() -> None:
    """A store record that does not verify stops the list itself."""
    root = MemoryRoot()
    world = World("memory", root, Path("none"), Path("none"))
    world.saved(1)
    store = open_store(root, keys=world.keys)
    records = root.records()
    data = records.read(names.STORE, max_bytes=10_000)
    records.delete(names.STORE)
    records.create(names.STORE, [data[:-5]])
    with pytest.raises(DamagedError):
        list(store.sessions())
