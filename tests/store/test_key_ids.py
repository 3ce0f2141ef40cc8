"""Wrong keys and altered key ids: a missing key is told from tampering (C12-06)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lastgood import Keyring, open_store
from lastgood.errors import DamagedError, KeyMismatchError, KeyRevokedError, LastgoodError
from lastgood.formats import names
from lastgood.formats.keyfile import KeyEntry, KeyFile, KeyState, Secret
from lastgood.keyring import kid_of
from lastgood.storage.memory import MemoryRoot
from tests.store.world import World, at
from tests.support.check import check, check_equal
from tests.support.records import CREATED, STORE

A, B, C = (bytes([number]) * 32 for number in (1, 2, 3))


def ring(primary: bytes, *others: bytes, state: KeyState = "verify") -> Keyring:
    """A ring for the same store: one primary key and others of ``state``."""
    keys = [(primary, "primary"), *((other, state) for other in others)]
    entries = tuple(
        KeyEntry(kid=kid_of(Secret(key)), state=role, created=CREATED, secret=Secret(key))
        for key, role in keys
    )
    return Keyring(KeyFile(store=STORE, keys=entries))


def uses(world: World, keys: Keyring) -> list[Callable[[], object]]:
    """Every way to begin."""
    return [
        lambda: world.open(keys=keys),
        lambda: world.reader(keys=keys),
        lambda: open_store(world.root, keys=keys),
    ]


def test_a_wrong_keyring_is_told_from_tampering(world: World) -> None:
    """C12-06: every record under a key that is missing is a key error, exit 5; nothing changes."""
    world.keys = ring(A)
    world.saved(10, 20)
    before = world.files()
    for use in uses(world, ring(B)):
        with pytest.raises(KeyMismatchError) as raised:
            use()
        check_equal(raised.value.exit_code, 5, "the exit code")
    check_equal(world.files(), before, "the session's directory")


def test_a_rotated_ring_reads_what_both_keys_sealed_and_goes_on(world: World) -> None:
    """C12-06: {A,B} after a rotation, with saves under either key."""
    world.keys = ring(A)
    world.saved(10, 20)
    world.keys = ring(B, A)
    with world.open() as handle:
        loaded = handle.load_latest()
        check_equal(loaded and loaded.sequence, 20, "what A sealed")
        handle.save(at(30))
        check_equal([handle.load(n).sequence for n in (20, 30)], [20, 30], "what both sealed")
    kids = {row.sequence: row.kid for row in world.report().rows}
    check_equal(kids, {20: kid_of(Secret(A)), 30: kid_of(Secret(B))}, "who sealed what")
    world.keys = ring(A, B)
    check_equal(world.report().verdict, "good", "the order of the ring does not matter")


def test_a_ring_without_the_new_key_is_damage_and_without_the_old_one_a_key_error(
    world: World,
) -> None:
    """C12-06: an unknown id beside known ones is an integrity error; all unknown is a key error."""
    world.keys = ring(A)
    world.saved(10, 20)
    world.keys = ring(B, A)
    world.saved(30, 40)
    with world.reader(keys=ring(A)) as old, pytest.raises(DamagedError) as raised:
        old.load_latest()
    check_equal(raised.value.exit_code, 2, "the exit code beside known records")
    for use in uses(world, ring(B)):
        with pytest.raises(KeyMismatchError):
            use()


@pytest.mark.parametrize("keys", [(B, A), (C, A)])
def test_a_revoked_key_verifies_nothing(world: World, keys: tuple[bytes, bytes]) -> None:
    """C12-06: what a revoked key sealed is not believed, exit 5."""
    world.keys = ring(A)
    world.saved(10)
    for use in uses(world, ring(keys[0], keys[1], state="revoked")):
        with pytest.raises(KeyRevokedError) as raised:
            use()
        check_equal(raised.value.exit_code, 5, "the exit code")
    check_equal(world.report().verdict, "good", "with its own ring all is there")


RECORDS = [
    names.SESSION, names.POINTER, names.manifest(4), names.manifest(3), names.checkpoint(30),
    names.checkpoint(20),
]  # fmt: skip


def other_kid(data: bytes) -> bytes:
    """The same record claiming another key."""
    place = data.index(b'"kid":"') + 7
    return data[:place] + (b"0" if data[place : place + 1] != b"0" else b"1") + data[place + 1 :]


@pytest.mark.parametrize("name", RECORDS)
def test_an_altered_key_id_of_one_record_is_damage(world: World, name: str) -> None:
    """C12-06: beside others that verify, an unknown id was altered: exit 2, never 5."""
    world.saved(10, 20, 30)
    world.put(name, other_kid(world.files()[name]))
    before = world.files()
    with world.reader() as reader:
        with pytest.raises(DamagedError) as raised:
            reader.load_latest()
        check_equal(raised.value.exit_code, 2, "the exit code")
        check(name in str(raised.value), f"it names the file: {raised.value}")
        check_equal(reader.check().exit_code, 2, "the exit code of check")
    with pytest.raises(DamagedError):
        world.open()
    check_equal(world.files(), before, "the directory")


def test_an_altered_key_id_is_damage_wherever_it_is_looked_at(world: World) -> None:
    """C12-06: a milestone that no load reads, and a session in the list of all: never exit 5."""
    with world.open() as handle:
        handle.save(at(10), milestone="kept")
        handle.save(at(20))
        handle.save(at(30))
    world.put("checkpoint-000010.json", other_kid(world.files()["checkpoint-000010.json"]))
    with world.reader() as reader:
        error = reader.check().error
    check(isinstance(error, DamagedError) and "key id" in error.what, f"a milestone: {error}")
    world.put(names.SESSION, other_kid(world.files()[names.SESSION]))
    with open_store(world.root, keys=world.keys) as store:
        (entry,) = store.sessions()
    check(isinstance(entry.problem, DamagedError), f"a session in the list: {entry.problem}")


def test_an_altered_key_id_of_the_store_s_record_is_damage(disk: World) -> None:
    """C12-06: its sessions claim another id, so it is not the ring that is wrong."""
    disk.saved(10)
    disk.damaged = True
    path = disk.path / names.STORE
    path.write_bytes(other_kid(path.read_bytes()))
    for use in uses(disk, disk.keys):
        with pytest.raises(DamagedError) as raised:
            use()
        check(names.STORE in str(raised.value), f"it names the file: {raised.value}")


def test_a_store_without_sessions_under_another_key_is_a_key_error(disk: World) -> None:
    """With nothing beside it, an unknown id says: give the right key."""
    disk.keys = ring(A)
    disk.saved(10)
    for path in disk.directory().iterdir():
        path.unlink()
    disk.directory().rmdir()
    disk.root.close()
    for use in uses(disk, ring(B)):
        with pytest.raises(KeyMismatchError):
            use()


def test_no_error_and_no_view_shows_a_key(world: World) -> None:
    """Errors, reports and handles never hold key material."""
    world.saved(10, 20)
    secret = bytes(range(32))
    shown = [repr(world.report()), repr(world.keys), str(world.report())]
    for use in uses(world, ring(B)):
        with pytest.raises(LastgoodError) as raised:
            use()
        shown += [str(raised.value), repr(raised.value)]
    for text in shown:
        check(secret.hex() not in text and repr(secret) not in text, "no key is shown")
        check(B.hex() not in text and repr(B) not in text, "no key is shown")


def test_two_rings_of_the_same_keys_are_the_same(world: World) -> None:
    """Keys decide, not the object that holds them."""
    world.keys = ring(A)
    world.saved(10)
    with world.open(keys=ring(A, B)) as handle:
        check_equal(handle.save(at(20)).status, "saved", "a save")
    empty = World("memory", MemoryRoot(), world.path, world.outside, keys=ring(A, B))
    empty.saved(1)
    check_equal(empty.report().rows[0].kid, kid_of(Secret(A)), "the primary key seals")
