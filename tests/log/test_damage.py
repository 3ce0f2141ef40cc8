"""G3 in the log: one change anywhere, and full verification stops; resume stops where it reads.

The only changes that pass are those that a crash leaves, too: they are told here by the
definition, and each is above every anchor.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import DamagedError, LastgoodError, RollbackDetectedError
from lastgood.rules.tail import Torn
from tests.log import world
from tests.log.world import (
    FIRST,
    KEYS,
    SPREAD,
    changed,
    content,
    goes_on,
    lines,
    mac_of,
    opened,
    placed,
    refused,
    spread,
    ten,
    unverified,
    verified,
    with_lines,
)
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

REGIONS: dict[str, Callable[[bytes], int]] = {
    "mac": lambda line: line.index(mac_of(line).encode()) + 20,
    "kid": lambda line: line.index(KEYS.sealer("").kid.encode()) + 9,
    "frame": lambda line: line.index(b'","e":') + 1,
    "seq": lambda line: line.index(b'"seq":') + 6,
    "body": lambda line: len(line) // 2,
    "end": lambda line: len(line) - 2,
    "line feed": lambda line: len(line) - 1,
}


def flipped(tree: Tree, name: str, place: int, *, bit: int = 0) -> Tree:
    data = bytearray(content(tree, name))
    data[place] ^= 1 << bit
    return changed(tree, bytes(data), name)


def starts(tree: Tree, name: str) -> list[int]:
    """Where each line of a segment begins, and where the last one ends."""
    found = [0]
    for line in lines(tree, name):
        found.append(found[-1] + len(line))
    return found


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("region", REGIONS)
def test_flipped_byte_in_any_record_stops(region: str, tmp_path: Path) -> None:
    """G3: every record of every segment, before and after the anchor; file, line and offset told.

    Method: one byte of the region in each of the 20 records in turn. Verifying reads everything;
    an opening reads from the older generation's segment on, and refuses what it reads.
    """
    tree = spread()
    for name in SPREAD:
        begins = starts(tree, name)
        for number, line in enumerate(lines(tree, name)):
            state = flipped(tree, name, begins[number] + REGIONS[region](line))
            if name == FIRST:
                error = unverified(state, tmp_path / "store")
                place = trees.plant(state, tmp_path / "unread")
                with opened(place) as session:
                    check_equal(session.resumed.end, 20, "what is not read does not stop")
                shutil.rmtree(place)
            else:
                error = refused(state, tmp_path / "store")
            left = len(begins) - 2 - number
            # A changed line feed makes two lines one, so the record behind is found in it.
            placed(error, name=name, line=number + 1, offset=begins[number], records=left)
            check_equal(error.exit_code, 2, f"{error}")


@pytest.mark.slow
@pytest.mark.normal_only
def test_every_bit_of_a_record_stops(tmp_path: Path) -> None:
    """G3: before the anchor and at the unattested end. Method: each bit of events 7 and 10.

    Only a byte that becomes NUL in the last record is what a lost sector leaves; a flip of one bit
    makes none.
    """
    tree = ten()
    begins = starts(tree, FIRST)
    place = trees.plant(tree, tmp_path / "store")
    file = world.directory(place) / FIRST
    whole = file.read_bytes()
    for number in (6, 9):
        for at in range(begins[number], begins[number + 1]):
            for bit in range(8):
                data = bytearray(whole)
                data[at] ^= 1 << bit
                file.write_bytes(data)
                with pytest.raises(DamagedError) as caught:
                    verified(place)
                check_equal(caught.value.offset, begins[number], f"bit {bit} of byte {at}")


@pytest.mark.slow
@pytest.mark.normal_only
def test_nul_anywhere_stops_but_in_the_last_write(tmp_path: Path) -> None:
    """G3: a byte set to NUL is a lost sector only if nothing proves that its event was synced.

    Method: each byte of the log of ten events, and of the same with a last write of three events
    behind event 8. It passes only in the last write, as a torn tail that begins in its very line.
    """
    for batch in (1, 3):
        tree = ten(batch=batch)
        begins = starts(tree, FIRST)
        last = len(begins) - 1 - batch
        place = trees.plant(tree, tmp_path / f"store{batch}")
        file = world.directory(place) / FIRST
        whole = file.read_bytes()
        for number in range(len(begins) - 1):
            for at in range(begins[number], begins[number + 1]):
                file.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
                found: Torn | LastgoodError | None
                try:
                    found = verified(place).torn
                except LastgoodError as error:
                    found = error
                if at == begins[-1] - 1:
                    check_equal(found, None, "the last line feed")
                elif number < last:
                    check_equal(type(found), DamagedError, f"byte {at} of event {number + 1}")
                else:
                    check_equal(
                        (type(found), getattr(found, "offset", None)),
                        (Torn, begins[number]),
                        f"byte {at} of event {number + 1}: {found}",
                    )


def test_every_length_of_an_end_zeroed_stops_below_the_anchor(tmp_path: Path) -> None:
    """C1-01, C1-04: zeros from any byte on to the end: above the anchor a torn tail, else a stop.

    Method: zeros from every 16th byte, and from each line's beginning and end, with anchor 8.
    """
    tree = ten()
    begins = starts(tree, FIRST)
    size = begins[-1]
    place = trees.plant(tree, tmp_path / "store")
    file = world.directory(place) / FIRST
    whole = file.read_bytes()
    for at in sorted({*range(0, size, 16), *begins, *(b - 1 for b in begins[1:])}):
        file.write_bytes(whole[:at] + bytes(len(whole) - at))
        # What is left of the eighth line is all of it, or all but its line feed.
        if at >= begins[8]:
            found = verified(place)
            check_equal(found.end.count, 8 + (at >= begins[9] - 1) + (at >= size - 1), f"from {at}")
        else:
            with pytest.raises((DamagedError, RollbackDetectedError)):
                verified(place)


LENGTHS = (1, 7, 511, 512, 4096, 4 * 1024 * 1024)


@pytest.mark.parametrize("more", LENGTHS)
def test_zeros_appended_to_a_log_change_nothing(more: int, tmp_path: Path) -> None:
    """C1-04: any number of zeros behind the last line feed is the normal end of an open segment.

    Method: open, closed, and with a torn last line; each with N zeros more.
    """
    tree = ten()
    went = goes_on(changed(tree, content(tree) + bytes(more)), tmp_path / "store")
    check_equal((went.end, went.torn), (10, None), "an open segment")
    cut = world.text(tree)[:-40]
    went = goes_on(changed(tree, cut + bytes(more)), tmp_path / "store")
    check_equal((went.end, went.torn is not None), (9, True), "a torn line")
    shut = world.closed(tree)
    name = world.segments(shut)[-1]
    went = goes_on(changed(shut, content(shut, name) + bytes(more), name), tmp_path / "store")
    check_equal((went.end, went.torn), (13, None), "a closed segment")


def test_zeros_before_a_record_that_was_written_later_are_damage(tmp_path: Path) -> None:
    """C1-04: a later record whose ``synced`` covers the gap proves that it was acknowledged.

    Method: event 9, above the anchor, zeroed whole, from its middle, and its line feed alone;
    event 10 behind it says that 9 was synced.
    """
    tree = ten()
    begins = starts(tree, FIRST)
    whole = content(tree)
    for start in (begins[8], (begins[8] + begins[9]) // 2, begins[9] - 1):
        data = whole[:start] + bytes(begins[9] - start) + whole[begins[9] :]
        error = refused(changed(tree, data), tmp_path / "store")
        placed(error, name=FIRST, line=9, offset=begins[8], records=1)


def test_bytes_changed_behind_a_named_length_are_not_the_log(tmp_path: Path) -> None:
    """R2: what lies behind the length that a first line names is never believed, nor asked.

    Method: garbage, a line that authenticates, and zeros behind the first segment's length.
    """
    tree = spread()
    extra = world.continued(lines(tree)[-1], data=world.datum(666))
    for behind in (b"garbage", b"garbage\n", extra, extra[:50]):
        state = with_lines(tree, [*lines(tree), behind])
        went = goes_on(state, tmp_path / "store")
        check_equal((went.end, 666 in went.seen), (20, False), f"{behind[:20]!r}")


def test_foreign_bytes_at_the_end_stop(tmp_path: Path) -> None:
    """G3: bytes behind the last line that are no beginning of a line are nobody's torn write.

    Method: with and without a line feed, in an open and behind a closed segment.
    """
    tree, shut = ten(), world.closed(ten())
    for state, name in ((tree, FIRST), (shut, world.segments(shut)[-1])):
        for foreign in (b"x", b"\n", b"{}\n", b'{"op":"set", ', b"\0\0x"):
            data = world.text(state, name) + foreign
            for reserved in (0, 512):
                if foreign == b"\0\0x" and reserved:
                    continue  # a write of which little arrived: a torn tail
                error = refused(changed(state, data + bytes(reserved), name), tmp_path / "store")
                check_equal(type(error), DamagedError, f"{foreign!r}, {reserved}: {error}")
                check_equal(getattr(error, "name", ""), name, str(error))


def test_shortened_segment_stops_at_every_length(tmp_path: Path) -> None:
    """Rule 3: a crash never shortens a segment below its lines. Method: closed and rolled segments.

    Each is cut to every 8th length and at each line's end; only its reserved bytes may go, and
    those of the newest not without the line that closes it.
    """
    shut = world.closed(spread())
    for name in world.segments(shut):
        text, begins = world.text(shut, name), starts(shut, name)
        for size in sorted({*range(0, len(text), 8), *begins[:-1], len(text) - 1}):
            error = unverified(changed(shut, text[:size], name), tmp_path / "store")
            check(error.exit_code in (2, 3), f"{name} cut to {size}: {error}")
        place = trees.plant(changed(shut, text, name), tmp_path / "whole")
        check_equal(verified(place).end.count, 23, f"{name} without reserved bytes")
        shutil.rmtree(place)
    error = unverified(
        changed(spread(), world.text(spread(), SPREAD[2]), SPREAD[2]), tmp_path / "s"
    )
    check("it was shortened" in str(error), f"an open one: {error}")
