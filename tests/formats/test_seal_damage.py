"""Damaged records: every small change is refused, whole and streamed alike (T2, C12-08)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from lastgood.errors import LastgoodError
from lastgood.formats import seal
from lastgood.formats.limits import Limits
from tests.support import damage, records
from tests.support.check import check, check_equal

KINDS = pytest.mark.parametrize("kind", records.KINDS)
Changes = Iterator[tuple[str, bytes]]


def verdict(kind: str, data: bytes) -> tuple[type[LastgoodError], int] | None:
    """How a whole record is refused: class and exit code, or None if it is accepted."""
    try:
        seal.unseal(
            data,
            context=records.context(kind),
            sealer=records.keys(kind),
            limits=Limits(),
            name=records.file_name(kind),
        )
    except LastgoodError as error:
        return type(error), error.exit_code
    return None


def stream_verdict(kind: str, chunks: list[bytes]) -> tuple[type[LastgoodError], int] | None:
    """How the same record is refused as it streams by."""
    try:
        records.stream(kind, chunks)
    except LastgoodError as error:
        return type(error), error.exit_code
    return None


def check_all_refused(kind: str, changes: Changes) -> int:
    """Refused with exit 2 to 5 and nothing else, both ways alike; gives how many were tried."""
    count = 0
    for count, (what, data) in enumerate(changes, start=1):
        whole = verdict(kind, data)
        if whole is None or not 2 <= whole[1] <= 5:
            raise AssertionError(f"{kind}, {what}: {whole}")
        chunks = damage.seeded_chunks(data, seed=count)
        streamed = stream_verdict(kind, chunks)
        if streamed != whole:
            raise AssertionError(f"{kind}, {what}: {whole} whole, {streamed} by {chunks!r}")
    return count


@KINDS
def test_every_flipped_byte_is_refused(kind: str) -> None:
    """No byte of a record is unprotected. Method: one bit of each byte, another for each."""
    data = records.record(kind)
    low = check_all_refused(kind, damage.flips(data, bits=(0,)))
    case = check_all_refused(kind, damage.flips(data, bits=(5,)))
    check_equal((low, case), (len(data), len(data)), "changes")


@pytest.mark.slow
@KINDS
def test_every_flipped_bit_is_refused(kind: str) -> None:
    """No bit of a record is unprotected (C12-08). Method: all of them."""
    data = records.record(kind)
    check_equal(check_all_refused(kind, damage.flips(data)), 8 * len(data), "changes")


@KINDS
@pytest.mark.parametrize("change", [damage.deletions, damage.duplicates, damage.insertions])
def test_every_shifted_byte_is_refused(kind: str, change: Callable[[bytes], Changes]) -> None:
    """A byte less or more anywhere is seen (C12-08). Method: at each place of the record."""
    data = records.record(kind)
    same = sum(changed == data for _, changed in change(data))
    check_equal(same, 0, "changes that change nothing")
    check(check_all_refused(kind, change(data)) >= len(data), "a place was left out")


@KINDS
def test_every_truncation_is_refused(kind: str) -> None:
    """A record that was cut is never taken for a shorter one (C2-01). Method: each length."""
    data = records.record(kind)
    check_equal(check_all_refused(kind, damage.truncations(data)), len(data), "lengths")


@KINDS
def test_every_extension_is_refused(kind: str) -> None:
    """Nothing may stand behind a record: no prefix is parsed (C2-04)."""
    check(check_all_refused(kind, damage.extensions(records.record(kind))) > 10, "too few")


@KINDS
def test_every_misreading_of_a_file_is_refused(kind: str) -> None:
    """What editors, transfers and disks make of a file is refused (C2-01, C2-02)."""
    check(check_all_refused(kind, damage.misreadings(records.record(kind))) > 15, "too few")


@KINDS
@pytest.mark.slow
def test_two_damaged_places_never_cancel(kind: str) -> None:
    """Two changes are refused as one is. Method: the same bit flipped at pairs of places."""
    data = records.record(kind)

    def pairs() -> Changes:
        for one, other in itertools.combinations(range(0, len(data), 17), 2):
            changed = bytearray(data)
            changed[one] ^= 1
            changed[other] ^= 1
            yield f"bytes {one} and {other} flipped", bytes(changed)

    check(check_all_refused(kind, pairs()) > 200, "too few pairs")


@KINDS
def test_every_chunking_of_a_good_record_is_accepted(kind: str) -> None:
    """How a file is read never decides what is believed (S5, S9)."""
    data = records.record(kind)
    top = seal.unseal_header(
        data,
        context=records.context(kind),
        sealer=records.keys(kind),
        limits=Limits(),
        name="t",
    )
    for how, chunks in damage.chunkings(data, seed=1):
        check_equal(b"".join(chunks), data, f"chunks {how}")
        check_equal(records.stream(kind, chunks), top, f"streamed {how}")
        check_equal(records.stream(kind, iter(chunks)), top, f"streamed from an iterator {how}")


@pytest.mark.parametrize("kind", ["checkpoint", "store"])
def test_every_chunking_of_a_bad_record_is_refused_alike(kind: str) -> None:
    """How a file is read never decides how it is refused (S5, S9).

    Method: cuts, extensions and misreadings, each in every chunking.
    """
    data = records.record(kind)
    changes = [*damage.truncations(data)][:: len(data) // 50]
    changes += [*damage.extensions(data), *damage.misreadings(data)]
    for what, changed in changes:
        whole = verdict(kind, changed)
        check(whole is not None, f"accepted: {what}")
        for how, chunks in damage.chunkings(changed, seed=2):
            check_equal(stream_verdict(kind, chunks), whole, f"{what}, chunks {how}")


def test_stream_of_a_large_payload_is_verified_to_its_end() -> None:
    """The whole payload is hashed, wherever chunks end (S9).

    Method: one byte flipped at each border of 1 MiB, and in the middle.
    """
    payload = b'{"a":"' + b"x" * (3 * 2**20) + b'"}'
    data = records.forge(records.header_line(payload, kind="store"), payload, kind="store")
    begin = len(data) - len(payload) - 1
    pieces = [data[i : i + 65_536] for i in range(0, len(data), 65_536)]
    check_equal(stream_verdict("store", pieces), None, "the good one")
    for place in (begin, begin + 2**20, begin + 2**20 - 1, len(data) // 2, len(data) - 2):
        changed = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        pieces = [changed[i : i + 65_536] for i in range(0, len(data), 65_536)]
        check(stream_verdict("store", pieces) is not None, f"accepted a flip at {place}")
