"""T8: a log costs one segment of memory and time in proportion, whatever was put into it."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.errors import DamagedError
from lastgood.formats import anchor, event, names, segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.event import Event
from lastgood.formats.limits import Limits
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.storage.posix import PosixRoot
from tests.log import world
from tests.log.world import FIRST, event_keys, found_in, log_in, scope, ten
from tests.support import records, trees
from tests.support.check import check, check_equal

MIB = 1024 * 1024


def generated(size_bytes: int, line_bytes: int) -> Iterator[tuple[str, bytes]]:
    """The segments of a log of ``size_bytes``, as one owner rolls them; the last one is open."""
    keys, limits = event_keys(), Limits()
    end, written, reserved = anchor.EMPTY, 0, 0
    datum = {"i": 0, "pad": "x" * line_bytes}
    while written < size_bytes:
        name, start = names.segment(end.count + 1, 1), end
        reserved = segment.size_for(reserved, line_bytes)
        made: list[bytes] = []
        offset = 0
        while True:
            kind, data = ("kept", datum) if made else (event.SEGMENT, anchor.encode(start))
            value = Event(end.count + 1, end.head, end.count, 1, records.CREATED, kind, data)
            line, mac = event.encode(value, keys=keys, limits=limits)
            if offset + len(line) >= reserved:
                break
            made.append(line)
            offset += len(line)
            end = LogAnchor(end.count + 1, name, offset, mac)
        written += offset
        yield name, b"".join(made) + bytes(reserved - offset)


@pytest.mark.slow
@pytest.mark.normal_only
def test_reading_64_mib_of_log_holds_one_segment(tmp_path: Path) -> None:
    """Memory does not grow with the log: the peak is that of one segment and its copies.

    Method: a log of 8 and one of 64 MiB on a disk, in segments of at most 1 MiB; the peak of
    finding, verifying and replaying each, by tracemalloc, within four segments of the largest
    size, and not higher for the longer one by more than one.
    """
    peaks = []
    for size in (8, 64):
        root = PosixRoot(tmp_path / str(size))
        storage = root.session(trees.directory(world.SESSION), access="write")
        count = 0
        for name, data in generated(size * MIB, 8_000):
            storage.create(name, [data])
            count += 1
        reading = LogReading(scope(), storage)
        tracemalloc.start()
        try:
            found = reading.find()
            events = sum(1 for _ in reading.replay(found, after=0))
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        storage.close()
        check_equal((len(found.links), events), (count, found.end.count), f"{size} MiB")
        check(found.size_bytes > size * MIB, f"{found.size_bytes} bytes")
    print(f"peaks of 8 and 64 MiB: {peaks}")
    check(peaks[1] <= 4 * MIB, f"peaks {peaks}")
    check(peaks[1] <= peaks[0] + MIB, f"peaks {peaks}")


@pytest.mark.slow
@pytest.mark.normal_only
def test_largest_line_is_written_torn_and_read(tmp_path: Path) -> None:
    """T8: a line of 4 MiB, the limit, is appended, read again, and torn like any other.

    Method: through the session; then its end, its beginning and its middle lost.
    """
    limit = Limits().event_bytes
    name = names.segment(11, 2)
    probe = world.grown(world.appended(9, pad=1), onto=ten())
    pad = limit - len(world.lines(probe, name)[-1]) + 1
    name = names.segment(13, 2)  # a segment of its own: the first one had no room
    tree = world.grown(world.appended(9, pad=pad), onto=ten())
    text = world.text(tree, name)
    check_equal(len(world.lines(tree, name)[-1]), limit, "the size of the line")
    place = trees.plant(tree, tmp_path / "whole")
    with world.opened(place) as session:
        check_equal(session.resumed.end, 14, "the whole")
        check_equal(session.state["seen"], [*range(3, 11), 9], "the state")
    for begin, end in ((len(text) - 512, len(text)), (2048, 2560), (2 * MIB, 3 * MIB)):
        data = text[:begin] + bytes(end - begin) + text[end:]
        lost = world.changed(tree, world.filled(data, world.content(tree, name)), name)
        place = trees.plant(lost, tmp_path / f"lost {begin}")
        with world.opened(place) as session:
            check_equal((session.resumed.end, session.resumed.torn is not None), (13, True), "torn")


def test_segment_over_its_limit_is_refused_before_it_is_held() -> None:
    """P7, T8: a reader's limit for lines bounds what one segment may cost it."""
    limits = Limits(event_bytes=4096)
    most = segment.max_bytes(limits)
    data = world.content(ten())
    found = found_in({FIRST: data + bytes(most - len(data))}, limits=limits)
    check_equal(found.end.count, 10, "the largest that may be")
    with pytest.raises(DamagedError, match=f"more than the {most}"):
        found_in({FIRST: data + bytes(most - len(data) + 1)}, limits=limits)


def test_thousand_empty_segments_cost_one_reading_each() -> None:
    """T8: planted names cannot make a reading worse than their number.

    Method: reads are counted; every segment is read at most twice, live ones three times.
    """
    tree = ten()
    parts = {FIRST: world.content(tree)}
    parts |= {names.segment(11, epoch): bytes(512) for epoch in range(2, 1002)}
    root = trees.in_memory({world.path(name): data for name, data in parts.items()})
    storage = root.session(trees.directory(world.SESSION), access="read")
    counted = Counted(storage)
    found = LogReading(scope(), counted).find()  # type: ignore[arg-type]
    check_equal((found.end.count, len(found.skipped)), (10, 1000), "what was found")
    check(counted.reads <= 1010, f"{counted.reads} reads")


class Counted:
    """A storage that counts its reads."""

    def __init__(self, inner: object) -> None:
        self._inner = inner
        self.reads = 0

    def __getattr__(self, name: str) -> object:
        if name == "read":
            self.reads += 1
        return getattr(self._inner, name)


def test_replay_stops_when_the_log_is_no_longer_what_was_found() -> None:
    """G6: what is replayed is what was verified: read again, verified again, and as long.

    Method: between finding and replaying, the last event goes, another comes, a byte changes.
    """
    tree = ten()
    data = world.content(tree)
    made = world.lines(tree)
    found = log_in({FIRST: data}).find()
    check_equal(
        [x.event.sequence for x in log_in({FIRST: data}).replay(found)], [*range(1, 11)], ""
    )
    rest = [x.event.sequence for x in log_in({FIRST: data}).replay(found, after=8)]
    check_equal(rest, [9, 10], "behind a checkpoint")
    fewer = world.filled(b"".join(made[:-1]), data)
    other = b"".join([*made[:-1], world.resigned(made[-1], data=world.datum(77))])
    flipped = bytearray(data)
    flipped[len(b"".join(made)) - 30] ^= 1
    for what in (fewer, world.filled(other, data), bytes(flipped)):
        with pytest.raises(DamagedError, match="changed since it was verified"):
            list(log_in({FIRST: what}).replay(found))


def test_nothing_is_a_log_without_events() -> None:
    """R2: a new session has no segment; owners that died at once leave empty ones.

    Method: no segment, and empty ones alone, with and without an anchor.
    """
    check_equal(found_in({}), LogFound(), "no segment")
    empty = {names.segment(1, epoch): bytes(65536) for epoch in (1, 2)}
    found = found_in(empty)
    check_equal((found.end, found.epoch), (anchor.EMPTY, 2), "empty ones")
    check_equal(found.skipped, tuple(empty), "skipped")
