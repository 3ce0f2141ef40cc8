"""Torn tails through a whole store: what a crash left at the log's end is gone round, and kept.

``world.goes_on`` opens each state, appends, dies, and checks that no segment and no checkpoint
was changed, that the append made a segment of its own, that the whole log verifies again, and that
the next opening has the very state of this one.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from lastgood.formats import names
from tests.log import world
from tests.log.world import FIRST, Went, changed, content, filled, goes_on, grown, lines, path, ten
from tests.support.check import check, check_equal
from tests.support.trees import Tree

SECTOR = 512
SECOND = names.segment(11, 2)


def expect(went: Went, *, end: int, torn: tuple[str, int, int] | None, what: str) -> None:
    """Fail unless exactly the events up to ``end`` were found, and the rest was told."""
    check_equal(went.end, end, f"{what}: the last event")
    check_equal(went.seen, list(range(3, end + 1)), f"{what}: the state")
    check_equal(went.torn, torn, f"{what}: the torn tail")
    if torn is not None:
        name, offset, size_bytes = torn
        told = f"{name}: {size_bytes} bytes from offset {offset} on"
        check(any(told in notice for notice in went.notices), f"{what}: {went.notices}")


def lost(tree: Tree, first: int, sectors: int, chosen: int) -> Tree:
    """``tree`` without some sectors of the write that ``first`` began: bit by bit of ``chosen``."""
    data = bytearray(content(tree))
    end = len(world.text(tree))
    for place in range(sectors):
        if chosen >> place & 1:
            at = first // SECTOR * SECTOR + place * SECTOR
            begin, stop = max(at, first), min(at + SECTOR, end)
            data[begin:stop] = bytes(stop - begin)
    return changed(tree, bytes(data))


def spanned(first: int, end: int) -> int:
    """How many sectors the bytes from ``first`` to ``end`` touch."""
    return (end - 1) // SECTOR - first // SECTOR + 1


def arrived(tree: Tree, made: list[bytes], first: int) -> int:
    """How many lines of a write count, by the definition: from what is there alone."""
    data = content(tree)
    ends = [first]
    for line in made:
        ends.append(ends[-1] + len(line))
    for count, (start, end) in enumerate(pairwise(ends)):
        line = made[count]
        whole = data[start:end] == line
        last = data[start : end - 1] == line[:-1] and not data[end - 1 :].strip(b"\0")
        if not (whole or last):
            return count
    return len(made)


WRITES = {
    "a line of one sector": (0, 1),
    "a line of four sectors": (1400, 1),
    "a line of eight sectors": (3400, 1),
    "a batch of two": (300, 2),
    "a batch of three": (600, 3),
    "a batch of six": (200, 6),
}


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("case", WRITES)
def test_any_sectors_of_the_last_write_lost_leave_a_prefix_to_go_on_from(
    case: str, tmp_path: Path
) -> None:
    """G2, C1-01: events 1 to 8 and the whole lines of the last write that follow, nothing else.

    Method: every subset of the sectors of the last write, which begins behind event 9 or, for a
    batch, behind event 8; the outcome is said by the bytes that arrived.
    """
    pad, batch = WRITES[case]
    tree = ten(pad, batch=batch)
    made = lines(tree)
    before = len(made) - batch
    first = sum(map(len, made[:before]))
    sectors = spanned(first, first + sum(map(len, made[before:])))
    check(sectors <= 9, f"{sectors} sectors")
    ends = set()
    for chosen in range(2**sectors):
        state = lost(tree, first, sectors, chosen)
        count = before + arrived(state, made[before:], first)
        start = sum(map(len, made[:count]))
        left = len(world.text(state)) - start
        torn = (FIRST, start, left) if left > 0 else None
        what = f"{case}, sectors lost {chosen:b}"
        expect(goes_on(state, tmp_path / "store"), end=count, torn=torn, what=what)
        ends.add(count)
    check({before, len(made)} <= ends, f"{case}: {ends}")
    print(f"{case}: {2**sectors} states, last events {sorted(ends)}")


def test_last_line_that_lost_only_its_line_feed_counts(tmp_path: Path) -> None:
    """R2: it verifies, and its end is where its bytes end; the log goes on from there.

    Method: the last byte zero, in a line that ends a sector, and in one that does not.
    """
    for pad in (0, *range(300, 303)):
        tree = ten(pad)
        text = world.text(tree)
        state = changed(tree, filled(text[:-1], content(tree)))
        went = goes_on(state, tmp_path / "store")
        expect(went, end=10, torn=None, what=f"pad {pad}")
        named = world.body(lines(went.tree, SECOND)[0])["data"]
        check_equal(named["offset"], len(text) - 1, "the length that the next segment names")


def test_torn_tail_behind_a_torn_tail_is_gone_round_each_time(tmp_path: Path) -> None:
    """R2: a death at each opening's append leaves a torn tail each time; none is ever believed.

    Method: five openings, each of which tears the end of the one before.
    """
    tree, ends = ten(), []
    for _ in range(5):
        name = max(world.segments(tree), key=lambda n: n[-10:])
        text = world.text(tree, name)
        tree = changed(tree, filled(text[:-30], content(tree, name)), name)
        went = goes_on(tree, tmp_path / "store")
        check(went.torn is not None and went.torn[0] == name, f"{went.torn}")
        ends.append(went.end)
        tree = went.tree
    check_equal(ends, [9, 11, 13, 15, 17], "the last event that each opening found")
    check_equal(len(world.segments(tree)), 6, "segments")


@pytest.mark.slow
@pytest.mark.normal_only
def test_first_write_of_a_segment_torn_anywhere_is_skipped(tmp_path: Path) -> None:
    """R2: a segment without a whole first line is no part of the log; kept, reported, gone round.

    Method: a second opening's first write (first line and ``lastgood.resumed``), ended at every
    byte; and every subset of its sectors. What counts is said by the bytes that arrived.
    """
    tree = grown(lambda session: None, onto=ten())
    made = lines(tree, SECOND)
    check_equal(len(made), 2, "lines of the first write")
    text = b"".join(made)
    like = content(tree, SECOND)
    states = [text[:size] + bytes(len(like) - size) for size in range(len(text))]
    sectors = spanned(0, len(text))
    for chosen in range(2**sectors):
        sparse = bytearray(like)
        for place in range(sectors):
            if chosen >> place & 1:
                sparse[place * SECTOR : (place + 1) * SECTOR] = bytes(SECTOR)
        states.append(bytes(sparse))
    seen = set()
    for number, data in enumerate(states):
        state = changed(tree, data, SECOND)
        feeds = [len(made[0]), len(text)]
        count = 10
        for end in feeds:
            whole = data[:end] == text[:end]
            if whole or (data[: end - 1] == text[: end - 1] and not any(data[end - 1 :])):
                count += 1
            else:
                break
        went = goes_on(state, tmp_path / "store")
        check_equal((went.end, went.seen), (count, list(range(3, 11))), f"state {number}")
        skipped = any(f"{SECOND} holds no whole first line" in notice for notice in went.notices)
        check_equal(skipped, count == 10, f"state {number}: {went.notices}")
        seen.add(count)
    check_equal(seen, {10, 11, 12}, "the last events")


def test_several_skipped_segments_are_gone_round(tmp_path: Path) -> None:
    """R2: owners that died before their first append leave empty or torn segments, any number.

    Method: epochs 2 to 5 die one after the other, with an empty segment and with a torn first
    line in turn; the fifth opening goes on from event 10 over all of them.
    """
    tree = ten()
    for epoch in range(2, 6):
        tree = grown(lambda session: None, onto=tree)
        name = names.segment(11, epoch)
        data = b"" if epoch % 2 else world.text(tree, name)[:100]
        tree = changed(tree, filled(data, content(tree, name)), name)
    went = goes_on(tree, tmp_path / "store")
    check_equal((went.end, went.seen), (10, list(range(3, 11))), "what was found")
    skipped = [n for n in went.notices if "holds no whole first line" in n]
    check_equal(len(skipped), 4, f"skipped: {went.notices}")


def test_append_that_failed_and_a_death_right_after_stop_nobody(tmp_path: Path) -> None:
    """G2, F5: a failed append may show in the page cache; the owner that goes on begins before it.

    Method: event 11 is whole, and nobody was told that it is stored: the same handle took the
    session again behind event 10, made its segment, and died before, or in, its first append.
    """
    tree = grown(lambda session: None, onto=ten())
    extra = world.continued(lines(tree)[-1], data=world.datum(11))
    failed = world.with_lines(tree, [*lines(tree), extra])
    first = world.text(tree, SECOND)
    for size in (0, 1, 100, len(first) // 3):
        state = changed(failed, filled(first[:size], content(tree, SECOND)), SECOND)
        went = goes_on(state, tmp_path / "store")
        expect(went, end=11, torn=None, what=f"{size} bytes of the first append")


def test_failed_event_is_never_believed_once_the_next_owner_appended(tmp_path: Path) -> None:
    """R2: what lies behind the length that a first line names is not part of the log.

    Method: the same event 11, torn or whole, behind event 10; the next segment names event 10.
    """
    tree = grown(world.appended(13), onto=ten())
    extra = world.continued(lines(tree)[-1], data=world.datum(11))
    for size in (50, len(extra) - 1, len(extra)):
        made = [*lines(tree), extra[:size]]
        went = goes_on(world.with_lines(tree, made), tmp_path / "store")
        check_equal((went.end, went.seen), (13, [*range(3, 11), 13]), f"{size} bytes")


def test_zeros_behind_a_closed_log_are_reserved_bytes(tmp_path: Path) -> None:
    """C1-04: a clean close cuts the zeros; a crash may bring them back."""
    tree = world.closed(ten(), world.appended(13))
    check_equal(content(tree, SECOND)[-1:], b"\n", "the end of a closed segment")
    went = goes_on(tree, tmp_path / "store")
    check_equal((went.end, went.torn), (14, None), "closed")
    again = tree | {path(SECOND): content(tree, SECOND) + bytes(60_000)}
    check_equal(goes_on(again, tmp_path / "store").end, 14, "with zeros behind it")
