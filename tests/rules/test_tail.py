"""The torn tail: each rule alone decides; what a crash may leave, and nothing else, is torn (R2).

The log of these tests lies in one segment: a first line, events that were acknowledged one by
one, and a last write of one or more events. Judged by ``Walk`` and ``judge`` alone, without I/O.
"""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    KeyMissingError,
    KeyRevokedError,
    LastgoodError,
    UnknownFormatError,
)
from lastgood.formats import anchor, event, names
from lastgood.formats.anchor import EMPTY
from lastgood.formats.event import BEGINNING, EventKeys
from lastgood.formats.segment import BadLine, Walk, begin_of
from lastgood.rules import tail
from lastgood.rules.tail import Torn
from tests.log.world import body, continued, event_keys, resigned, signed
from tests.support import records
from tests.support.check import check, check_equal

NAME = names.segment(1, 1)
KEYS = event_keys()
SECTOR = 512
RESERVED = 4096


def first_line(at: str = records.CREATED) -> bytes:
    fields = {"seq": 1, "prev": EMPTY.head, "synced": 0, "epoch": 1, "at": at}
    return signed(fields | {"type": event.SEGMENT, "data": anchor.encode(EMPTY)})


def singly(count: int, *, pads: tuple[int, ...] = ()) -> list[bytes]:
    """``count`` lines, each acknowledged before the next was written."""
    made = [first_line()]
    while len(made) < count:
        pad = pads[len(made) - 1] if len(made) <= len(pads) else 0
        made.append(continued(made[-1], data="x" * pad))
    return made


def batch(before: bytes, *pads: int) -> list[bytes]:
    """Lines of one write: none of them says that another was synced."""
    synced = body(before)["seq"]
    made = [before]
    for pad in pads:
        made.append(continued(made[-1], data="y" * pad, synced=synced))
    return made[1:]


def walked(data: bytes, keys: EventKeys = KEYS) -> Walk:
    walk = Walk(data, begin=begin_of(NAME, EMPTY), keys=keys)
    for _ in walk:
        pass
    return walk


def judged(
    data: bytes, *, newest: bool = True, attested: int = 0, keys: EventKeys = KEYS
) -> Torn | int:
    """The torn tail, or how many lines there are without one."""
    walk = walked(data, keys)
    if walk.bad is None:
        return walk.end.count
    return tail.judge(
        data,
        walk.bad,
        segment=NAME,
        stop=walk.stop,
        is_newest=newest,
        attested=attested,
        keys=keys,
    )


def refused(data: bytes, **said: Any) -> LastgoodError:
    with pytest.raises(LastgoodError) as caught:
        judged(data, **said)
    return caught.value


FIVE = singly(5)
TEXT = b"".join(FIVE)
LAST = len(TEXT) - len(FIVE[-1])
TORN = TEXT[:-50] + bytes(50 + RESERVED)
"""The last line's end never arrived."""


def test_line_whose_end_never_arrived_is_torn() -> None:
    """R2: where it begins, how much of it is there, and which event is missing, are told."""
    found = judged(TORN, attested=4)
    check_equal(found, Torn(NAME, LAST, len(FIVE[-1]) - 50, 5), "the torn tail")
    for part in (NAME, f"offset {LAST}", f"{len(FIVE[-1]) - 50} bytes", "event 5"):
        check(part in str(found), f"{part} is not told: {found}")


def test_every_line_of_a_log_cut_anywhere_is_torn_only_above_every_anchor() -> None:
    """Rule 4. Method: the data ends at every byte; every anchor from 0 to 5."""
    for size in range(len(FIVE[0]), len(TEXT)):
        data = TEXT[:size] + bytes(RESERVED)
        whole = sum(size >= sum(map(len, FIVE[: n + 1])) - 1 for n in range(5))
        inside = size not in {sum(map(len, FIVE[: n + 1])) - e for n in range(5) for e in (0, 1)}
        for attested in range(6):
            if not inside:
                check_equal(judged(data, attested=attested), whole, f"{size} bytes")
            elif attested <= whole:
                found = judged(data, attested=attested)
                check(isinstance(found, Torn) and found.sequence == whole + 1, f"{size} bytes")
            else:
                error = refused(data, attested=attested)
                check_equal(type(error), DamagedError, f"{size} bytes, attested {attested}")


def test_line_that_verifies_and_does_not_belong_is_never_torn() -> None:
    """Rule 1: it was sealed with our key, so no crash made it. Method: a fork at a torn end."""
    fork = continued(FIVE[3], data="other")
    error = refused(TEXT + fork[:-1] + bytes(RESERVED))
    check_equal(type(error), ForkDetectedError, str(error))
    newer = resigned(FIVE[4], type="lastgood.folded")
    error = refused(b"".join(FIVE[:4]) + newer[:-1] + bytes(RESERVED))
    check_equal(type(error), UnknownFormatError, str(error))


def test_bad_line_of_an_older_segment_is_damage() -> None:
    """Rule 2: only the newest segment can have been written when the crash came."""
    check_equal(type(refused(TORN, newest=False)), DamagedError, "an older segment")


def test_segment_that_was_shortened_is_damage() -> None:
    """Rule 3: a crash leaves what was reserved. Method: cut at every byte of the last line."""
    for size in range(LAST + 1, len(TEXT) - 1):
        error = refused(TEXT[:size])
        check_equal(type(error), DamagedError, f"{size} bytes: {error}")


def test_bad_line_that_is_whole_is_damage() -> None:
    """Rule 5, C1-09: terminated and without a NUL it was changed, not torn.

    Method: the last line with each of its bytes changed, but to a line feed or a NUL.
    """
    for place in range(LAST, len(TEXT) - 1):
        data = bytearray(TEXT + bytes(RESERVED))
        data[place] = 0x21 if data[place] != 0x21 else 0x22
        error = refused(bytes(data), attested=3)
        check_equal(type(error), DamagedError, f"byte {place}: {error}")
        check_equal((error.line, error.offset), (5, LAST), f"byte {place}")  # type: ignore[attr-defined]


def test_acknowledged_line_that_rotted_before_a_torn_one_is_damage() -> None:
    """Rule 5: the torn line behind it excuses nothing; its own bytes are all there and wrong.

    Method: event 4 was acknowledged and has one byte changed; event 5 was being written when
    power was lost, cut at every byte. Event 4 must not vanish as part of the torn tail.
    """
    start = LAST - len(FIVE[3])
    for size in range(1, len(FIVE[4]) - 1):
        data = bytearray(TEXT[: LAST + size] + bytes(RESERVED))
        data[start + 200] ^= 1
        error = refused(bytes(data), attested=3)
        check_equal(type(error), DamagedError, f"{size} bytes of the torn line: {error}")
        check_equal(error.offset, start, "where")  # type: ignore[attr-defined]


def test_gap_that_a_later_line_calls_synced_is_damage() -> None:
    """Rule 6, C1-04: zeros before a line whose ``synced`` covers them were acknowledged.

    Method: event 4 zeroed from every byte on to its end, with event 5 whole behind it: written
    after event 4 was acknowledged it proves the damage; of the same write it does not.
    """
    start = LAST - len(FIVE[3])
    shared = b"".join([*FIVE[:3], *batch(FIVE[2], 0, 0)])
    check_equal(len(shared), len(TEXT), "two logs of one length")
    for place in range(start, LAST):
        data = TEXT[:place] + bytes(LAST - place) + TEXT[LAST:] + bytes(RESERVED)
        error = refused(data, attested=3)
        check_equal(type(error), DamagedError, f"from {place}: {error}")
        check("1 further records" in str(error), f"what follows: {error}")
        data = shared[:place] + bytes(LAST - place) + shared[LAST:] + bytes(RESERVED)
        found = judged(data, attested=3)
        check(isinstance(found, Torn) and found.offset == start, f"from {place}: {found}")


def test_later_line_is_found_wherever_it_begins() -> None:
    """Rule 6, C1-02: also behind foreign bytes, in the middle of a line.

    Method: a part of event 4, of every length, glued to event 5, whose line feed is lost.
    """
    glue, behind = FIVE[3], FIVE[4][:-1]
    for size in range(1, len(glue)):
        data = b"".join(FIVE[:3]) + glue[:size].rstrip(b"\n") + behind + bytes(RESERVED)
        error = refused(data, attested=3)
        check_equal(type(error), DamagedError, f"{size} bytes: {error}")
        check("1 further records" in str(error), f"{size} bytes: {error}")


def test_later_line_that_is_not_understood_stops() -> None:
    """Rule 6: a line of a later release is authentic, and may say that the gap was synced.

    Method: a torn event 4, and a whole event 5 whose type of ours, or one field, is not known.
    """
    for fields in ({"type": "lastgood.folded"}, {"x": 1}):
        later = resigned(FIVE[4], **fields)
        error = refused(b"".join(FIVE[:3]) + FIVE[3][:99] + bytes(200) + later + bytes(RESERVED))
        check_equal(type(error), UnknownFormatError, f"{fields}: {error}")


@pytest.mark.parametrize(
    "error", [KeyRevokedError("revoked"), KeyMissingError("destroyed")], ids=repr
)
def test_key_that_may_not_verify_is_told_as_that(error: LastgoodError) -> None:
    """Exit 5: nothing was found about the bytes, so they are neither torn nor damaged."""
    bad = BadLine(LAST, 5, error, is_authentic=False)
    for data in (TEXT + bytes(RESERVED), TORN):
        with pytest.raises(type(error)):
            tail.judge(
                data, bad, segment=NAME, stop=len(TEXT), is_newest=True, attested=0, keys=KEYS
            )


def survivors(made: list[bytes], lost: list[bool], *, offset: int) -> tuple[bytes, int]:
    """What a crash leaves of one write, and how many of its lines count, by the definition.

    Each sector holds its new bytes or, where they were lost, reserved zeros. A line counts if
    all its bytes arrived and those before it count, too; without its line feed only if nothing
    at all arrived behind it.
    """
    whole = b"".join(made)
    kept = bytes(b * (not lost[(offset + at) // SECTOR]) for at, b in enumerate(whole))
    count, ends = 0, [0]
    for line in made:
        ends.append(ends[-1] + len(line))
    for start, end in pairwise(ends):
        fed = kept[start:end] == whole[start:end]
        last = kept[start : end - 1] == whole[start : end - 1] and not any(kept[end - 1 :])
        if not (fed or last):
            break
        count += 1
    return kept, count


WRITES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one line of one sector": ((), (10,)),
    "one line over a border": ((30,), (200,)),
    "one line of three sectors": ((), (900,)),
    "one line of eight sectors": ((), (3400,)),
    "two lines": ((), (100, 700)),
    "a long and a short line": ((), (1800, 0)),
    "a short and a long line": ((), (0, 1800)),
    "three lines of several sectors": ((), (700, 900, 600)),
    "seven short lines": ((), (0, 10, 20, 30, 40, 50, 60)),
    "lines whose feeds begin a sector": ((), ()),
}


def _written(case: str) -> tuple[list[bytes], list[bytes]]:
    pads, sizes = WRITES[case]
    before = singly(4, pads=pads)
    if sizes:
        return before, batch(before[-1], *sizes)
    # Each line ends so that its line feed is the first byte of a sector.
    made: list[bytes] = []
    offset = len(b"".join(before))
    while len(made) < 4:
        synced = body(before[-1])["seq"]
        last = [*before, *made][-1]
        short = continued(last, data="", synced=synced)
        pad = (1 - offset - len(short)) % SECTOR
        made.append(continued(last, data="z" * pad, synced=synced))
        offset += len(made[-1])
    check_equal(offset % SECTOR, 1, "where the next line begins")
    return before, made


@pytest.mark.parametrize("case", WRITES)
def test_every_subset_of_the_sectors_of_a_write_leaves_a_prefix(case: str) -> None:
    """G2: sectors of one write persist in any order; the lines that are whole from the start count.

    Method: all subsets of the sectors of the last write, up to 2^9; what must be found is said by
    the definition, from the bytes that arrived. Nothing else is found, and none of them stops.
    """
    before, made = _written(case)
    offset = len(b"".join(before))
    size = sum(map(len, made))
    sectors = range(offset // SECTOR, (offset + size - 1) // SECTOR + 1)
    check(len(sectors) <= 9, f"{len(sectors)} sectors")
    outcomes = set()
    for chosen in range(2 ** len(sectors)):
        gone = [False] * (sectors.stop + 1)
        for place, sector in enumerate(sectors):
            gone[sector] = bool(chosen >> place & 1)
        kept, count = survivors(made, gone, offset=offset)
        data = b"".join(before) + kept + bytes(RESERVED)
        found = judged(data, attested=len(before))
        expected = len(before) + count
        left = len(kept.rstrip(b"\0")) > sum(map(len, made[:count]))
        if left:
            check(isinstance(found, Torn), f"{case}, lost {chosen:b}: {found}")
            check_equal(found.sequence, expected + 1, f"lost {chosen:b}")  # type: ignore[union-attr]
        else:
            check_equal(found, expected, f"{case}, lost {chosen:b}")
        outcomes.add((count, left))
    check((len(made), False) in outcomes and len(outcomes) > 1, f"{case}: {outcomes}")


def test_torn_line_full_of_nested_lines_is_torn() -> None:
    """G2: data may hold what looks like lines, thousands of them; a crash while it is written too.

    Method: an event whose data is a log, with lines of this very session among it, cut at many
    places; nested lines are longer together than any budget for looking at them.
    """
    nested = [{"mac": "0" * 64, "kid": KEYS.kid, "e": {"seq": n}} for n in range(2000)]
    before = singly(4)
    real = [json.loads(line) for line in before]
    line = continued(before[-1], data=[nested, real, nested])
    start = len(b"".join(before))
    check(line.count(BEGINNING) > 4000, "nested beginnings")
    for size in [*range(100, len(line) - 1, len(line) // 23), len(line) - 2]:
        found = judged(b"".join(before) + line[:size] + bytes(RESERVED), attested=4)
        check(isinstance(found, Torn) and found.offset == start, f"{size} bytes: {found}")


class Counting(EventKeys):
    """Keys that count the bytes which are authenticated."""

    authenticated = 0

    def mac(self, kid: str, body: bytes) -> bytes:
        self.authenticated += len(body)
        return super().mac(kid, body)


MIB = 1024 * 1024
FAKE = b'{"mac":"%b","kid":"%b","e":{}}' % (b"0" * 64, KEYS.kid.encode())
REGIONS = {
    "beginnings": BEGINNING,
    "beginnings after NULs": b"\0" + BEGINNING,
    "beginnings after line feeds": b"\n" + BEGINNING,
    "lines": FAKE + b"\n",
    "lines in a line": FAKE,
    "lines between NULs": b"\0" + FAKE,
    "heads": FAKE[:-3],
}


@pytest.mark.slow
@pytest.mark.parametrize("piece", REGIONS.values(), ids=list(REGIONS))
def test_region_full_of_beginnings_is_judged_in_bounded_time(piece: bytes) -> None:
    """T8: what is looked at is a small multiple of the region, whatever fills it.

    Method: half a MiB and 4 MiB of each piece behind a sound log; the bytes that are authenticated
    are counted, and the time of the processor, not of the wall, grows no faster than the region:
    eight times, where looking to the region's end from every piece takes sixty-four times.
    """
    taken_s = []
    for size_bytes in (MIB // 2, 4 * MIB):
        region = b'{"mac":' + piece * (size_bytes // len(piece)) + b"}"
        keys = Counting(
            records.sealer(records.SESSION), store_id=records.STORE, session=records.SESSION
        )
        begun_s = time.process_time()
        try:
            found: Torn | int | LastgoodError = judged(
                TEXT + region + bytes(RESERVED), attested=5, keys=keys
            )
        except DamagedError as error:
            found = error
        taken_s.append(time.process_time() - begun_s)
        check(isinstance(found, Torn | DamagedError), f"{found}")
        check(keys.authenticated <= 20 * len(region), f"{keys.authenticated} bytes authenticated")
    check(taken_s[1] <= 20 * taken_s[0] + 1, f"seconds: {taken_s}")


def test_later_line_is_found_behind_a_region_that_is_costly() -> None:
    """Rule 6 holds where a crash leaves lines, however many beginnings stand before them.

    Method: beginnings over the budget, then a NUL, or a line feed, and a line that says synced.
    """
    for end in (b"\0", b"\n"):
        costly = b'{"mac":' + FAKE * 3000 + end
        data = b"".join(FIVE[:3]) + costly.replace(b"\n", b"\0\n") + FIVE[4] + bytes(RESERVED)
        error = refused(data, attested=3)
        check_equal(type(error), DamagedError, f"{end!r}: {error}")
        check("1 further records" in str(error), f"{end!r}: {error}")


def test_changed_line_feed_of_the_last_line_is_damage() -> None:
    """Rule 5: the line is whole but for a line feed that is another byte: no crash changes bytes.

    Method: the last byte of the log set to each other value; a zero is a lost sector, and then the
    line counts.
    """
    for byte in range(256):
        data = TEXT[:-1] + bytes([byte]) + bytes(RESERVED)
        if byte in b"\n\0":
            check_equal(judged(data), 5, f"{byte}")
        else:
            check_equal(type(refused(data, attested=3)), DamagedError, f"{byte}")


def test_end_that_is_no_beginning_of_a_line_is_damage() -> None:
    """Rule 5: what arrived of a write is right; foreign bytes behind the log are not a torn line.

    Method: each beginning of a line is torn; each with its last byte changed, and others, are not.
    """
    whole = len(BEGINNING) + 1
    line = continued(FIVE[-1], data="later")
    for size in range(1, whole):
        found = judged(TEXT + line[:size] + bytes(RESERVED))
        check(isinstance(found, Torn) and found.sequence == 6, f"{size} bytes: {found}")
        error = refused(TEXT + line[: size - 1] + b"x" + bytes(RESERVED))
        check_equal(type(error), DamagedError, f"{size} bytes, the last one changed")
    for foreign in (b"x", b" ", b"\r", b"}", b'{"op":"set", ', b"\xff" * 600, b'{"e":'):
        error = refused(TEXT + foreign + bytes(RESERVED))
        check_equal(type(error), DamagedError, f"{foreign[:9]!r}")
