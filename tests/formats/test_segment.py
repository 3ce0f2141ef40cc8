"""A segment of the log: lines in one chain, and where they end; judged line by line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    LogGapError,
    SplicedError,
    UnknownFormatError,
)
from lastgood.formats import anchor, event, names, segment
from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.formats.limits import Limits
from lastgood.formats.segment import BadLine, Walk, begin_of, read_first
from tests.log.world import body, continued, event_keys, mac_of, resigned, signed
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.damage import flips

NAME = names.segment(1, 1)
KEYS = event_keys()
KIB = 1024


def chain(count: int, *, before: LogAnchor = EMPTY, epoch: int = 1) -> list[bytes]:
    """A first line and ``count - 1`` events behind it."""
    usual = {"at": records.CREATED, "type": event.SEGMENT, "data": anchor.encode(before)}
    first = {"seq": before.count + 1, "prev": before.head, "synced": before.count, "epoch": epoch}
    made = [signed(first | usual)]
    while len(made) < count:
        made.append(continued(made[-1], data={"id": len(made)}))
    return made


FIVE = chain(5)


def walked(data: bytes, *, until: int | None = None) -> tuple[list[int], BadLine | None, LogAnchor]:
    walk = Walk(data, begin=begin_of(NAME, EMPTY), keys=KEYS, until=until)
    return [line.event.sequence for line in walk], walk.bad, walk.end


def bad_at(made: list[bytes], *, place: int) -> LastgoodError:
    """The problem of line ``place``, counted from 1, where the walk must end."""
    passed, bad, end = walked(b"".join(made) + bytes(64))
    if bad is None:
        raise AssertionError(f"all was believed: {passed}")
    start = sum(map(len, made[: place - 1]))
    check_equal((passed, bad.offset), (list(range(1, place)), start), f"the end: {bad.problem}")
    check_equal((bad.sequence, end.offset), (place, start), "what should stand there")
    return bad.problem


def test_lines_are_passed_up_to_the_reserved_zeros() -> None:
    """The walk ends at the last line, whatever is reserved; its end is the anchor there."""
    text = b"".join(FIVE)
    for reserved in (0, 1, 511, 512, 4096, 65536):
        end = LogAnchor(5, NAME, len(text), mac_of(FIVE[-1]))
        check_equal(walked(text + bytes(reserved)), ([1, 2, 3, 4, 5], None, end), f"{reserved}")
    check_equal(walked(b""), ([], None, begin_of(NAME, EMPTY)), "an empty segment")
    check_equal(walked(bytes(512)), ([], None, begin_of(NAME, EMPTY)), "zeros alone")


def test_lines_are_passed_up_to_a_named_length_and_no_further() -> None:
    """What lies behind the length that a successor names is not even looked at.

    Method: the length at every byte; only at line feeds does it end a line.
    """
    text = b"".join(FIVE)
    ends = {sum(map(len, FIVE[:count])): count for count in range(6)}
    for until in range(len(text) + 1):
        passed, bad, _ = walked(text + b"garbage", until=until)
        if until in ends:
            check_equal((len(passed), bad), (ends[until], None), f"until {until}")
            continue
        check(bad is not None and len(passed) < 5, f"until {until}: {passed}")


def test_last_line_without_its_line_feed_counts_only_where_that_never_arrived() -> None:
    """A line feed reads as zero where its sector was lost; where nothing follows, it was cut off.

    Method: the last byte zero, and the last byte gone, with and without a named length.
    """
    text = b"".join(FIVE)[:-1]
    for until in (None, len(text)):
        passed, bad, end = walked(text + bytes(9), until=until)
        check_equal((len(passed), bad, end.offset), (5, None, len(text)), f"lost, {until}")
    for until in (None, len(text), len(text) + 1):
        passed, bad, _ = walked(text, until=until)
        if bad is None:
            raise AssertionError(f"cut off, until {until}: {passed}")
        check_equal((len(passed), type(bad.problem)), (4, DamagedError), f"cut off, until {until}")
        check("line feed was cut off" in str(bad.problem), str(bad.problem))


def test_every_changed_byte_ends_the_walk_at_its_line() -> None:
    """G6: a flipped bit anywhere, in a line feed too, ends it at that line.

    Method: every byte with one bit flipped, and with its highest bit flipped.
    """
    text = b"".join(FIVE)
    ends = [sum(map(len, FIVE[: count + 1])) for count in range(5)]
    for place in range(len(text)):
        for bit in (0, 7):
            changed = bytearray(text)
            changed[place] ^= 1 << bit
            line = next(number for number, end in enumerate(ends) if place < end)
            passed, bad, _ = walked(bytes(changed) + bytes(99))
            check(bad is not None and len(passed) == line, f"bit {bit} of byte {place}: {passed}")


DAMAGE: dict[str, tuple[Callable[[], list[bytes]], type[LastgoodError], int]] = {
    "a line left out": (lambda: FIVE[:2] + FIVE[3:], LogGapError, 3),
    "a line twice": (lambda: FIVE[:3] + FIVE[2:], DamagedError, 4),
    "an earlier line again": (lambda: [*FIVE[:4], FIVE[1]], ForkDetectedError, 5),
    "two lines swapped": (lambda: [FIVE[0], FIVE[1], FIVE[3], FIVE[2], FIVE[4]], LogGapError, 3),
    "another event of the last number": (
        lambda: [*FIVE, continued(FIVE[3], data="other")],
        ForkDetectedError,
        6,
    ),
    "another event in its place": (
        lambda: [*FIVE[:3], continued(FIVE[2], data="other"), FIVE[4]],
        ForkDetectedError,
        5,
    ),
    "another history": (
        lambda: [*FIVE[:4], resigned(FIVE[4], prev="0" * 64)],
        ForkDetectedError,
        5,
    ),
    "another epoch": (lambda: [*FIVE[:4], resigned(FIVE[4], epoch=2)], SplicedError, 5),
    "a blank line": (lambda: [*FIVE[:3], b"\n", *FIVE[3:]], DamagedError, 4),
    "no seq": (
        lambda: [*FIVE[:4], signed({k: v for k, v in body(FIVE[4]).items() if k != "seq"})],
        UnknownFormatError,
        5,
    ),
    "seq as text": (lambda: [*FIVE[:4], resigned(FIVE[4], seq="5")], DamagedError, 5),
    "an unknown type of ours": (
        lambda: [*FIVE[:4], resigned(FIVE[4], type="lastgood.folded")],
        UnknownFormatError,
        5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", DAMAGE.values(), ids=list(DAMAGE))
def test_line_that_does_not_continue_the_chain_ends_the_walk(case: Any) -> None:
    """C1-07: gap, duplicate, fork, splice, each by its own error; nothing is skipped."""
    made, kind, place = case
    check_equal(type(bad_at(made(), place=place)), kind, "the problem")


def test_walk_tells_a_line_that_no_crash_makes() -> None:
    """What authenticates and does not belong was sealed with our key: no torn tail (rule 1)."""
    for made, authentic in (([*FIVE, FIVE[4]], True), ([*FIVE, FIVE[4][:-9] + b"\n"], False)):
        bad = walked(b"".join(made) + bytes(64))[1]
        check_equal(bad is not None and bad.is_authentic, authentic, f"{bad}")


BEFORE = LogAnchor(5, NAME, 1234, "c5" * 32)
THERE = names.segment(6, 2)


def test_first_line_names_the_end_before_it() -> None:
    """The chain is followed backwards by first lines, with or without what follows them."""
    made = b"".join(chain(3, before=BEFORE, epoch=2))
    first = made[: made.index(b"\n") + 1]
    for data in (made, made + bytes(512), first, first + bytes(512), first[:-1] + bytes(512)):
        check_equal(read_first(data, name=THERE, keys=KEYS), BEFORE, f"{data[-20:]!r}")


def test_first_line_is_one_line_even_if_only_a_later_line_feed_arrived() -> None:
    """A lost line feed is not made up for by the one of the line behind it.

    Method: a first line, a lost rest, and the last line feed of the write.
    """
    first = chain(1, before=BEFORE, epoch=2)[0]
    with pytest.raises(DamagedError):
        read_first(first[:-1] + bytes(400) + b"\n" + bytes(512), name=THERE, keys=KEYS)


FIRST = chain(1, before=BEFORE, epoch=2)[0]
WRONG_FIRST: dict[str, tuple[bytes, type[LastgoodError]]] = {
    "an empty file": (b"", DamagedError),
    "zeros": (bytes(512), DamagedError),
    "a torn line": (FIRST[:100] + bytes(512), DamagedError),
    "a zero before it": (b"\0" + FIRST, DamagedError),
    "a line feed before it": (b"\n" + FIRST, DamagedError),
    "another first sequence": (resigned(FIRST, seq=7), SplicedError),
    "another epoch": (resigned(FIRST, epoch=3), SplicedError),
    "an event of the caller's": (resigned(FIRST, type="paid"), SplicedError),
    "a line that closes": (resigned(FIRST, type=event.CLOSED, data=None), SplicedError),
    "no anchor": (resigned(FIRST, data=None), SplicedError),
    "another count": (
        resigned(FIRST, data=anchor.encode(BEFORE) | {"count": 4}),
        SplicedError,
    ),
    "another head": (
        resigned(FIRST, data=anchor.encode(BEFORE) | {"head": "00" * 32}),
        SplicedError,
    ),
    "a segment that is none": (
        resigned(FIRST, data=anchor.encode(BEFORE) | {"segment": "lock"}),
        DamagedError,
    ),
    "an unknown field": (
        resigned(FIRST, data=anchor.encode(BEFORE) | {"x": 1}),
        UnknownFormatError,
    ),
}


@pytest.mark.parametrize("case", WRONG_FIRST.values(), ids=list(WRONG_FIRST))
def test_first_line_of_another_segment_is_refused(case: tuple[bytes, type[LastgoodError]]) -> None:
    """T5: a segment is what its name says, and continues what it names; else it is refused."""
    data, kind = case
    with pytest.raises(LastgoodError) as caught:
        read_first(data + bytes(64), name=THERE, keys=KEYS)
    check_equal(type(caught.value), kind, str(caught.value))


def test_every_bit_of_a_first_line_is_authenticated() -> None:
    """G6. Method: every bit flipped, the line feed's too."""
    for what, data in flips(FIRST):
        with pytest.raises(DamagedError):
            read_first(data + FIRST, name=THERE, keys=KEYS)
        check(data != FIRST, what)


def test_size_of_a_segment_grows_with_its_owner_and_leaves_a_nul() -> None:
    """Small sessions stay small; what is to be written fits, with a NUL behind it."""
    sizes = [segment.size_for(0, 100)]
    while len(sizes) < 7:
        sizes.append(segment.size_for(sizes[-1], 100))
    expected = [64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, *[1024 * KIB] * 3]
    check_equal(sizes, expected, "the sizes")
    for line_bytes in (1, 64 * KIB - 1, 64 * KIB, 64 * KIB + 1, 200_000, 4 * KIB * KIB):
        size = segment.size_for(0, line_bytes)
        check(size > line_bytes and size % (64 * KIB) == 0, f"{size} for {line_bytes}")
        check(size <= max(64 * KIB, line_bytes + 64 * KIB), f"{size} for {line_bytes}")
    largest = segment.size_for(KIB * KIB, Limits().event_bytes + 1000)
    check(largest <= segment.max_bytes(Limits()), "the largest that is written may be read")


@pytest.mark.parametrize("name", ["lock", "events-1-1.jsonl", "events-000001-0001.jsonl.tmp", ""])
def test_name_of_no_segment_is_refused(name: str) -> None:
    """Names are parsed by the one grammar; nothing near it is taken for a segment."""
    with pytest.raises(DamagedError):
        segment.parse(name)
    check_equal(segment.parse(THERE).number, 6, "first sequence")
    check_equal(segment.parse(THERE).epoch, 2, "epoch")
