"""Storages that break the contract in one way fail it: the suite is alive.

Method: a memory storage with one planted fault each; the test that stands for the broken
promise must fail, also under ``python -O``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lastgood.errors import ConflictError, LastgoodError
from lastgood.storage.interface import StorageRoot
from lastgood.storage.memory import MemoryRoot, MemoryStorage
from lastgood.testing import StorageContract
from tests.storage.segment_plants import SEGMENT_PLANTS, Plant, set_method
from tests.support.check import check


def _create_overwrites(session: MemoryStorage) -> None:
    def create(name: str, data: Sequence[bytes]) -> None:
        session.delete(name)
        real(name, data)

    real = session.create
    set_method(session, "create", create)


def _create_of_the_same_is_silent(session: MemoryStorage) -> None:
    def create(name: str, data: Sequence[bytes]) -> None:
        try:
            real(name, data)
        except ConflictError:
            return

    real = session.create
    set_method(session, "create", create)


def _create_drops_a_piece(session: MemoryStorage) -> None:
    real = session.create
    set_method(session, "create", lambda name, data: real(name, data[:1]))


def _create_takes_paths(session: MemoryStorage) -> None:
    real = session.create
    set_method(session, "create", lambda name, data: real(name.replace("/", "_") or "x", data))


def _read_is_unbounded(session: MemoryStorage) -> None:
    real = session.read
    set_method(session, "read", lambda name, *, max_bytes: real(name, max_bytes=1 << 30))


def _read_of_nothing_is_empty(session: MemoryStorage) -> None:
    def read(name: str, *, max_bytes: int) -> bytes:
        try:
            return real(name, max_bytes=max_bytes)
        except LastgoodError:
            return b""

    real = session.read
    set_method(session, "read", read)


def _stream_in_one_piece(session: MemoryStorage) -> None:
    def stream(name: str, *, max_bytes: int) -> Iterator[bytes]:
        yield session.read(name, max_bytes=max_bytes)

    set_method(session, "stream", stream)


def _delete_raises_for_nothing(session: MemoryStorage) -> None:
    def delete(name: str) -> None:
        session.read(name, max_bytes=1 << 30)
        real(name)

    real = session.delete
    set_method(session, "delete", delete)


def _delete_does_nothing(session: MemoryStorage) -> None:
    set_method(session, "delete", lambda name: None)


def _list_hides_foreign_names(session: MemoryStorage) -> None:
    real = session.list
    set_method(
        session, "list", lambda prefix="": tuple(n for n in real(prefix) if "." not in n[:1])
    )


def _list_forgets_the_prefix(session: MemoryStorage) -> None:
    real = session.list
    set_method(session, "list", lambda prefix="": real())


def _swap_ignores_its_base(session: MemoryStorage) -> None:
    def swap(data: Sequence[bytes], *, expected: int) -> int:
        numbers = [int(name[9:15]) for name in session.list("manifest-") if name[9:15].isdigit()]
        real(data, expected=max(numbers, default=0))
        return expected + 1

    real = session.swap
    set_method(session, "swap", swap)


def _swap_compares_bytes(session: MemoryStorage) -> None:
    """ABA: it takes a revision for current whose bytes look like the current one's."""

    def swap(data: Sequence[bytes], *, expected: int) -> int:
        names = sorted(session.list("manifest-"))
        if 0 < expected < len(names):
            same = [session.read(names[at], max_bytes=99) for at in (expected - 1, -1)]
            if same[0] == same[1]:
                return real(data, expected=len(names))
        return real(data, expected=expected)

    real = session.swap
    set_method(session, "swap", swap)


def _swap_forgets_the_pointer(session: MemoryStorage) -> None:
    def swap(data: Sequence[bytes], *, expected: int) -> int:
        session.create(f"manifest-{expected + 1:06d}.json", data)
        return expected + 1

    set_method(session, "swap", swap)


def _lock_excludes_nobody(session: MemoryStorage) -> None:
    set_method(session, "acquire", lambda *, timeout_s: None)


def _confirm_always_returns(session: MemoryStorage) -> None:
    set_method(session, "confirm_held", lambda: None)


def _rewrite_replaces(session: MemoryStorage) -> None:
    def rewrite(name: str, data: bytes, *, offset: int | None = None) -> None:
        session.delete(name)
        session.create(name, [data])

    set_method(session, "rewrite", rewrite)


def _settle_does_nothing(session: MemoryStorage) -> None:
    set_method(session, "settle", lambda revision, *, number_missing, pointer_behind: None)


def _settle_sweeps_all_hidden_names(session: MemoryStorage) -> None:
    def settle(revision: int, **what: bool) -> None:
        real(revision, **what)
        for name in session.list("."):
            session.delete(name)

    real = session.settle
    set_method(session, "settle", settle)


def _archive_copies(session: MemoryStorage) -> None:
    def archive(name: str, *, as_name: str | None = None) -> None:
        data = session.read(name, max_bytes=99)
        real(name, as_name=as_name)
        session.create(name, [data])

    real = session.archive
    set_method(session, "archive", archive)


def _supersede_looks_at_nothing(session: MemoryStorage) -> None:
    def supersede(
        name: str, data: Sequence[bytes], *, fenced: bytes, as_name: str, revision: int
    ) -> None:
        held = session.read(name, max_bytes=99)
        real(name, data, fenced=held, as_name=as_name, revision=revision)

    real = session.supersede
    set_method(session, "supersede", supersede)


def _supersede_ignores_newer_revisions(session: MemoryStorage) -> None:
    def supersede(
        name: str, data: Sequence[bytes], *, fenced: bytes, as_name: str, revision: int
    ) -> None:
        real(name, data, fenced=fenced, as_name=as_name, revision=10**9)

    real = session.supersede
    set_method(session, "supersede", supersede)


def _close_changes_nothing(session: MemoryStorage) -> None:
    set_method(session, "close", lambda: None)


PLANTS: dict[Plant, str] = {
    _create_overwrites: "test_a_second_create_is_a_conflict_and_changes_nothing",
    _create_of_the_same_is_silent: "test_racing_creates_have_one_winner",
    _create_drops_a_piece: "test_many_pieces_are_written_in_order",
    _create_takes_paths: "test_a_name_never_leads_out_of_its_directory",
    _read_is_unbounded: "test_reads_are_bounded",
    _read_of_nothing_is_empty: "test_a_missing_name_is_not_stored",
    _stream_in_one_piece: "test_created_bytes_of_every_size_are_read_back",
    _delete_raises_for_nothing: "test_delete_is_idempotent_and_frees_the_name",
    _delete_does_nothing: "test_another_handle_sees_what_returned",
    _list_hides_foreign_names: "test_list_follows_every_write",
    _list_forgets_the_prefix: "test_list_follows_every_write",
    _swap_ignores_its_base: "test_a_swap_on_a_stale_revision_is_a_conflict",
    _swap_compares_bytes: "test_equal_bytes_are_not_the_same_revision",
    _swap_forgets_the_pointer: "test_a_swap_on_the_newest_revision_moves_the_manifest",
    _lock_excludes_nobody: "test_the_lock_excludes_every_other_handle",
    _confirm_always_returns: "test_the_lock_excludes_every_other_handle",
    _rewrite_replaces: "test_rewriting_keeps_the_bytes",
    _settle_does_nothing: "test_settling_moves_the_pointer_up",
    _settle_sweeps_all_hidden_names: "test_settling_sweeps_temporaries_and_nothing_else",
    _archive_copies: "test_archiving_moves_and_may_be_repeated",
    _supersede_looks_at_nothing: "test_a_fenced_record_is_superseded_only_if_it_is_still_that_one",
    _supersede_ignores_newer_revisions: (
        "test_a_fenced_record_is_superseded_only_if_it_is_still_that_one"
    ),
    _close_changes_nothing: "test_a_closed_handle_is_of_no_use",
    **SEGMENT_PLANTS,
}


class _PlantedRoot(MemoryRoot):
    def __init__(self, plant: Plant) -> None:
        super().__init__("planted")
        self._plant = plant

    def session(self, directory: str, **options: Any) -> Any:
        session = super().session(directory, **options)
        if not isinstance(session, MemoryStorage):
            raise TypeError("not the storage to plant in")
        self._plant(session)
        return session


def _contract_of(plant: Plant) -> StorageContract:
    class Planted(StorageContract):
        def make_root(self) -> StorageRoot:
            return _PlantedRoot(plant)

    return Planted()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
def test_a_storage_that_breaks_a_promise_fails_the_contract(plant: Plant) -> None:
    """P1 to P7: each planted fault is caught by the test that stands for its promise."""
    contract = _contract_of(plant)
    with pytest.raises((AssertionError, LastgoodError, StopIteration)):
        getattr(contract, PLANTS[plant])()


def test_a_storage_without_a_plant_passes_the_same_tests() -> None:
    """The control of the controls: without a fault none of these tests fails."""
    contract = _contract_of(lambda session: None)
    for name in sorted(set(PLANTS.values())):
        getattr(contract, name)()


def test_a_contract_without_a_place_says_so() -> None:
    """Whoever forgets ``make_root`` is told, and no test passes by it.

    Method: run every test of the bare contract.
    """
    names = [name for name in dir(StorageContract) if name.startswith("test_")]
    check(len(names) > 25, f"only {len(names)} tests")
    for name in names:
        with pytest.raises(NotImplementedError, match="make_root"):
            getattr(StorageContract(), name)()
