"""What becomes of one write: pieces in any order, sizes at their boundaries, zeros and garbage."""

from __future__ import annotations

from fault_injection.memory.operations import Operation, Sync, Write
from fault_injection.power.choices import choices
from fault_injection.power.rules import ALICE, WEAK
from fault_injection.power.tearing import LOST, Fate, fates, written
from tests.injection.disks import base, contents, created, fed, left
from tests.support.check import check, check_equal

A, B, C = b"a" * 512, b"b" * 512, b"c" * 512
OLD = b"." * 1536


def test_sectors_of_an_overwrite_arrive_in_any_order() -> None:
    """F2: every subset of the sectors, over the old bytes.

    Method: overwrite three sectors of a durable file, torn at sectors.
    """
    held = contents(left(WEAK, [Write(2, 0, A + B + C)], on=base(a=OLD), tearing="sector"), "a")
    wanted = {
        (A if first else OLD[:512]) + (B if second else OLD[:512]) + (C if third else OLD[:512])
        for first in (0, 1)
        for second in (0, 1)
        for third in (0, 1)
    }
    check_equal(held, wanted, "outcomes")


def test_a_write_of_which_not_every_subset_is_tried_is_not_called_exhaustive() -> None:
    """*Exhaustive* is said where each disk that the model permits was tried.

    Method: writes of four and of five pieces, torn so; reserved zeros, of which their sizes count;
    and one of five pieces that is durable.
    """
    five, zeros = Write(2, 0, b"x" * 5 * 512), Write(2, 1536, bytes(40 * 512))
    cases: list[tuple[list[Operation], bool]] = [
        ([Write(2, 0, b"x" * 4 * 512)], True),
        ([five], False),
        ([zeros], True),
        ([Write(2, 1536, bytes(513 * 512))], False),
        ([five, Sync(2)], True),
    ]
    for operations, is_exhaustive in cases:
        tried = choices(fed(WEAK, operations, on=base(a=OLD), tearing="sector"))
        check_equal(tried.is_exhaustive, is_exhaustive, f"{operations}"[:60])
    check(choices(fed(WEAK, [five], on=base(a=OLD))).is_exhaustive, "one block, torn at blocks")


def test_a_write_within_a_block_is_not_torn_at_blocks() -> None:
    """F2: at the granularity of blocks it is there or not.

    Method: the same overwrite, torn at blocks; then one that crosses a block's end.
    """
    held = contents(left(WEAK, [Write(2, 0, A + B + C)], on=base(a=OLD)), "a")
    check_equal(held, {OLD, A + B + C}, "within a block")
    long = b"." * 5000
    crossing = contents(left(WEAK, [Write(2, 4000, b"x" * 200)], on=base(a=long)), "a")
    check_equal(
        crossing,
        {
            long,
            long[:4000] + b"x" * 96 + long[4096:],
            long[:4096] + b"x" * 104 + long[4200:],
            long[:4000] + b"x" * 200 + long[4200:],
        },
        "across the end of a block",
    )


def test_a_file_that_grows_has_its_sizes_at_the_boundaries() -> None:
    """F2: the size before, after, or at the end of the last piece that arrived.

    Method: append two sectors to one, torn at sectors.
    """
    held = contents(left(WEAK, [Write(2, 512, B + C)], on=base(a=A), tearing="sector"), "a")
    hole = bytes(512)
    wanted = {A, A + B, A + B + C, A + B + hole, A + hole + C, A + hole * 2}
    check_equal(held, wanted, "outcomes")


def test_what_overlaps_the_old_end_may_arrive_without_the_growth() -> None:
    """F2: bytes within the size before may be new while the size is old.

    Method: write across the end of a durable file.
    """
    held = contents(left(WEAK, [Write(2, 2, b"XYZ")], on=base(a=b"abc")), "a")
    check_equal(held, {b"abc", b"abX", b"abc\0\0", b"abXYZ"}, "outcomes")


def test_garbage_is_only_where_nothing_arrived_and_only_under_alice() -> None:
    """F2: unwritten blocks of a file that grew may hold anything.

    Method: append two sectors to one under alice; compare with weak.
    """
    operations = [Write(2, 512, B + C)]
    weak = contents(left(WEAK, operations, on=base(a=A), tearing="sector"), "a")
    alice = contents(left(ALICE, operations, on=base(a=A), tearing="sector"), "a")
    check(weak < alice, "alice has all that weak has, and more")
    for data in alice - weak:
        check(data is not None and data.startswith(A) and len(data) == 1536, "size")
        check_equal(data == A + B + C, False, "garbage beside whole")
    check_equal(len(alice - weak), 3, "none, the first, or the last of two arrived")


def test_zeros_that_arrive_differ_from_none_in_the_size_alone() -> None:
    """A reserved segment of zeros has few states, one a size.

    Method: create a file of 16 blocks of zeros.
    """
    held = contents(left(WEAK, created(2, "a", bytes(65536))), "a")
    check_equal(held, {None, *(bytes(4096 * count) for count in range(17))}, "outcomes")
    synced = contents(left(WEAK, [*created(2, "a", bytes(65536)), Sync(2)]), "a")
    check_equal(synced, {None, bytes(65536)}, "once it is synced")


def test_fates_begin_with_lost_end_with_persisted_and_are_told_apart() -> None:
    """What is shown of a torn write says which bytes are there.

    Method: the fates of two blocks that make a file longer, and of a long overwrite.
    """
    told = [one.told for one in _fates(Write(2, 0, b"x" * 8192))]
    check_equal(told[0], "LOST", "first")
    check_equal(told[-1], "persisted", "last")
    check("torn: first 4096 of 8192 bytes" in told, f"the first block, among {told}")
    check("torn: first 4096 of 8192 bytes, size grown" in told, "with the size after")
    check("torn: last 4096 of 8192 bytes" in told, "the last block")
    check_equal(len(told), len(set(told)), "fates that are told alike")
    ten = _fates(Write(2, 0, b"x" * 40960), grows_from=40960)
    holes = [one for one in ten if one.told == "torn: bytes 0 to 4096, 8192 to 40960 of 40960"]
    check_equal(len(holes), 1, "a hole behind the first block")
    check_equal(len(ten), 1 + 9 + 9 + 8 + 8 + 1, "beginnings, ends, holes, single blocks")


def test_a_very_long_write_is_torn_at_a_bounded_number_of_places() -> None:
    """A log segment of a mebibyte has not thousands of states.

    Method: count the fates of a mebibyte at sectors.
    """
    many = fates(Write(2, 0, b"x" * 2**20), grows_from=2**20, tearing="sector", garbage=True)
    check(len(many) < 400, f"{len(many)} fates")
    first = next(one for one in many if one.told.startswith("torn: first 512 of"))
    check_equal(written(b"." * 1024, Write(2, 0, b"x" * 1024), Fate("", ((0, 512),)))[:513],
                b"x" * 512 + b".", "the bytes")  # fmt: skip
    check_equal(first.arrived, ((0, 512),), "the first sector")


def test_a_write_of_nothing_is_there_or_not() -> None:
    """It changes nothing, and has no torn fates.

    Method: the fates of an empty write.
    """
    check_equal([one.told for one in _fates(Write(2, 5, b""))], ["LOST", "persisted"], "fates")
    check_equal(written(b"abc", Write(2, 5, b""), LOST), b"abc", "bytes")


def test_garbage_does_not_fill_a_hole_that_nobody_wrote() -> None:
    """What lies between a file's end and a write behind it is a hole, which reads as zeros.

    Method: write far behind the end under alice.
    """
    held = contents(left(ALICE, [Write(2, 10, b"xy")], on=base(a=b"abc")), "a")
    check(all(data is not None and data[3:10] == bytes(len(data[3:10])) for data in held), "hole")
    check_equal(len(held), 4, "old, grown with zeros, grown with garbage, whole")


def _fates(write: Write, *, grows_from: int = 0) -> tuple[Fate, ...]:
    return fates(write, grows_from=grows_from, tearing="block", garbage=False)
