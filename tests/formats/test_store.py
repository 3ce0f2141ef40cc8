"""``store.json``: the record that makes a directory a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError, SplicedError
from lastgood.formats import seal, store
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal


@given(st.text(max_size=seal.MAX_WRITER_CHARS))
def test_store_record_that_is_encoded_is_decoded(writer: str) -> None:
    """decode(encode(x)) == x."""
    value = store.StoreRecord(records.STORE, records.CREATED, writer)
    data = b"".join(store.encode(value, sealer=records.keys("store")))
    check_equal(records.read("store", data), value, "store record")


def test_store_id_is_pinned_outside_the_store() -> None:
    """The record is never the source of the id it is believed under (T5, T6).

    Method: an intact record of another store under its own keys; then one that names another
    store inside and is sealed in this one's context.
    """
    foreign = records.record("store", store_id=records.OTHER_STORE)
    with pytest.raises(DamagedError, match="seal does not hold"):
        records.read("store", foreign)
    inside = records.draft("store").edited("header.store", records.OTHER_STORE).record()
    with pytest.raises(SplicedError, match="another store"):
        records.read("store", inside)


def test_store_record_fits_its_own_limit() -> None:
    """A bounded read takes every legal store record (T8)."""
    value = store.StoreRecord(records.STORE, records.CREATED, "\U0010ffff" * seal.MAX_WRITER_CHARS)
    data = b"".join(store.encode(value, sealer=records.keys("store")))
    check(len(data) <= store.MAX_BYTES, f"{len(data)} bytes")
    check_equal(
        store.decode(
            data, store_id=records.STORE, sealer=records.keys("store"), limits=Limits(), name="t"
        ),
        value,
        "the longest record",
    )
