"""Segments as files: missing, twice, renamed, swapped, from elsewhere or from earlier (R2, R4).

Of the log of three segments an opening reads the last two, verification all. Every refusal leaves
every name, byte and time as it was (``world.refused``).
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import Session
from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    LogGapError,
    RollbackDetectedError,
    SplicedError,
    UnknownFormatError,
)
from lastgood.formats import anchor, event, names, segment
from lastgood.formats.limits import Limits
from tests.log import world
from tests.log.world import (
    FIRST,
    SPREAD,
    body,
    changed,
    content,
    event_keys,
    filled,
    goes_on,
    grown,
    lines,
    opened,
    path,
    refused,
    resigned,
    signed,
    spread,
    ten,
    unverified,
    verified,
    with_lines,
)
from tests.support import records, trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

_, SECOND, THIRD = SPREAD


def without(tree: Tree, *gone: str) -> Tree:
    return {name: data for name, data in tree.items() if name not in {path(n) for n in gone}}


def renamed(tree: Tree, old: str, new: str) -> Tree:
    return without(tree, old) | {path(new): content(tree, old)}


def swapped(tree: Tree, one: str, other: str) -> Tree:
    return tree | {path(one): content(tree, other), path(other): content(tree, one)}


def elsewhere(tree: Tree, name: str, **where: str) -> Tree:
    """The same events, sealed for another session or store under the same key."""
    keys = event_keys(
        where.get("session", world.SESSION), store_id=where.get("store", records.STORE)
    )
    made, head = [], body(lines(tree, name)[0])["prev"]
    for line in lines(tree, name):
        made.append(signed(body(line) | {"prev": head}, keys=keys))
        head = world.mac_of(made[-1])
    return with_lines(tree, made, name)


def retold(tree: Tree) -> Tree:
    """The last segment by another history: the same numbers, another event 18, sealed rightly."""
    made = lines(tree, THIRD)[:2]
    for line in lines(tree, THIRD)[2:]:
        told = body(line)
        data = world.datum(666) if told["seq"] == 18 else told["data"]
        made.append(resigned(line, prev=world.mac_of(made[-1]), data=data))
    return with_lines(tree, made, THIRD)


def first_line(before: anchor.LogAnchor, epoch: int, **fields: object) -> bytes:
    """An authentic first line behind ``before``."""
    usual = {"seq": before.count + 1, "prev": before.head, "synced": before.count, "epoch": epoch}
    told = {"at": records.CREATED, "type": event.SEGMENT, "data": anchor.encode(before)}
    return signed(usual | told | fields)


def planted(tree: Tree, name: str, data: bytes) -> Tree:
    return tree | {path(name): filled(data, bytes(segment.FIRST_BYTES))}


@functools.cache
def unattested() -> Tree:
    """The same log, but nothing attests what the third owner wrote: no anchor refuses a change."""
    return grown(world.appended(13, 14, 15), world.appended(18, 19, 20), onto=ten())


def renaming(**said: object) -> Tree:
    """The last segment behind another end, as its first line says; chained and sealed rightly."""
    tree = unattested()
    first, *rest = lines(tree, THIRD)
    made = [resigned(first, data=body(first)["data"] | said)]
    for line in rest:
        made.append(resigned(line, prev=world.mac_of(made[-1])))
    return with_lines(tree, made, THIRD)


def end_of(count: int) -> int:
    """Where event ``count`` ends in the second segment."""
    return world.anchor_after(unattested(), count, SECOND).offset


def late(tree: Tree) -> Tree:
    """An intact segment of the second owner behind the third owner's end."""
    before = world.anchor_after(tree, 20, THIRD)
    return planted(tree, names.segment(21, 2), first_line(before, 2))


def inserted(tree: Tree) -> Tree:
    """An intact segment of the second owner that nobody continues."""
    before = world.anchor_after(tree, 13, SECOND)
    return planted(tree, names.segment(14, 2), first_line(before, 2))


def oversized() -> bytes:
    """The last segment with more reserved zeros than any segment may have."""
    return filled(world.text(spread(), THIRD), bytes(segment.max_bytes(Limits()) + 1))


def earlier() -> Tree:
    """The last segment when it held events 16 and 17 alone."""
    return with_lines(spread(), lines(spread(), THIRD)[:2], THIRD)


Change = Callable[[], Tree]
READ: dict[str, tuple[Change, type[LastgoodError]]] = {
    "second missing": (lambda: without(spread(), SECOND), LogGapError),
    "third missing": (lambda: without(spread(), THIRD), RollbackDetectedError),
    "all missing": (lambda: without(spread(), *SPREAD), RollbackDetectedError),
    "all zeroed": (
        lambda: spread() | {path(n): bytes(65536) for n in SPREAD},
        RollbackDetectedError,
    ),
    "second emptied": (lambda: changed(spread(), b"", SECOND), DamagedError),
    "third emptied": (lambda: changed(spread(), b"", THIRD), DamagedError),
    "second zeroed": (lambda: changed(spread(), bytes(65536), SECOND), DamagedError),
    "third zeroed": (lambda: changed(spread(), bytes(65536), THIRD), RollbackDetectedError),
    "third of another sequence": (
        lambda: renamed(spread(), THIRD, names.segment(17, 3)),
        SplicedError,
    ),
    "third of an older epoch": (
        lambda: renamed(spread(), THIRD, names.segment(16, 2)),
        SplicedError,
    ),
    "third of a future epoch": (
        lambda: renamed(spread(), THIRD, names.segment(16, 4)),
        RollbackDetectedError,
    ),
    "second of another sequence": (
        lambda: renamed(spread(), SECOND, names.segment(12, 2)),
        LogGapError,
    ),
    "third twice": (
        lambda: spread() | {path(names.segment(21, 3)): content(spread(), THIRD)},
        SplicedError,
    ),
    "second twice": (
        lambda: spread() | {path(names.segment(16, 2)): content(spread(), SECOND)},
        SplicedError,
    ),
    "an empty one of a future epoch": (
        lambda: planted(spread(), names.segment(21, 4), b""),
        RollbackDetectedError,
    ),
    "an empty one behind a gap": (
        lambda: planted(spread(), names.segment(22, 3), b""),
        LogGapError,
    ),
    "swapped": (lambda: swapped(spread(), SECOND, THIRD), SplicedError),
    "third of another session": (
        lambda: elsewhere(spread(), THIRD, session="weekly"),
        DamagedError,
    ),
    "third of another store": (
        lambda: elsewhere(spread(), THIRD, store=records.OTHER_STORE),
        DamagedError,
    ),
    "second of another session": (
        lambda: elsewhere(spread(), SECOND, session="weekly"),
        DamagedError,
    ),
    "third from earlier": (earlier, RollbackDetectedError),
    "the log from earlier": (
        lambda: without(spread(), SECOND, THIRD) | {path(FIRST): content(ten())},
        RollbackDetectedError,
    ),
    "another history": (lambda: retold(spread()), ForkDetectedError),
    "third names a shorter end": (lambda: renaming(offset=end_of(14)), ForkDetectedError),
    "third names a longer end": (lambda: renaming(offset=end_of(15) + 9), DamagedError),
    "third names itself": (lambda: renaming(segment=THIRD), SplicedError),
    "third names a newer one": (lambda: renaming(segment=names.segment(17, 3)), SplicedError),
    "third names one that is not there": (
        lambda: renaming(segment=names.segment(12, 2)),
        LogGapError,
    ),
    "third torn in its first line, with nothing behind": (
        lambda: changed(spread(), filled(lines(spread(), THIRD)[0][:99], bytes(65536)), THIRD),
        DamagedError,
    ),
    "an older owner's behind the end": (lambda: late(spread()), ForkDetectedError),
    "intact, and continued by nobody": (lambda: inserted(spread()), ForkDetectedError),
    "of a later release": (
        lambda: with_lines(
            spread(), [resigned(lines(spread(), THIRD)[0], type="lastgood.folded")], THIRD
        ),
        UnknownFormatError,
    ),
    "over the limit": (lambda: changed(spread(), oversized(), THIRD), DamagedError),
}
UNREAD: dict[str, tuple[Change, type[LastgoodError]]] = {
    "first missing": (lambda: without(spread(), FIRST), LogGapError),
    "first emptied": (lambda: changed(spread(), b"", FIRST), DamagedError),
    "first zeroed": (lambda: changed(spread(), bytes(65536), FIRST), DamagedError),
    "first twice": (
        lambda: spread() | {path(names.segment(1, 2)): content(spread(), FIRST)},
        SplicedError,
    ),
    "first of another session": (
        lambda: elsewhere(spread(), FIRST, session="weekly"),
        DamagedError,
    ),
    "first shortened by an event": (
        lambda: with_lines(spread(), lines(spread())[:-1]),
        DamagedError,
    ),
    "first by another history": (
        lambda: with_lines(
            spread(), [*lines(spread())[:-1], resigned(lines(spread())[-1], data=world.datum(6))]
        ),
        DamagedError,
    ),
}


@pytest.mark.parametrize("case", READ.values(), ids=list(READ))
def test_changed_segment_that_is_read_stops_the_opening(
    case: tuple[Change, type[LastgoodError]], tmp_path: Path
) -> None:
    """G3, G4: gap, splice, roll-back and fork, each by its error, from the opening too."""
    change, kind = case
    error = refused(change(), tmp_path / "store")
    check_equal(type(error), kind, str(error))
    check(error.exit_code in (2, 3, 4), f"{error.exit_code}")


@pytest.mark.parametrize("case", UNREAD.values(), ids=list(UNREAD))
def test_changed_segment_that_no_resume_reads_stops_verification(
    case: tuple[Change, type[LastgoodError]], tmp_path: Path
) -> None:
    """G3: verification reads all of it. An opening does not need it, and does not change it."""
    change, kind = case
    state = change()
    error = unverified(state, tmp_path / "store")
    check(isinstance(error, kind | ForkDetectedError), f"{type(error)}: {error}")
    place = trees.plant(state, tmp_path / "opened")
    with opened(place) as session:
        check_equal(session.state["seen"][-1], 20, "the state")
        after = trees.on_disk(place, [world.SESSION])
    old = {name for name in state if name.startswith(path("events-"))}
    check_equal([n for n in old if after[n] != state[n]], [], "segments that were changed")
    shutil.rmtree(place)


def test_log_that_a_copy_continued_otherwise_is_a_fork(tmp_path: Path) -> None:
    """G4: a store that was copied and gone on with twice; the log of one beside the records of the
    other is another history, although every byte of it was written by an honest owner.
    """
    tree = ten()

    def further(session: Session[Any]) -> None:
        world.appended(13)(session)
        session.save()

    def otherwise(session: Session[Any]) -> None:
        world.appended(31, 32)(session)
        session.save()

    one, other = grown(further, onto=tree), grown(otherwise, onto=tree)
    check_equal(world.segments(one), world.segments(other), "the same names")
    name = names.segment(11, 2)
    error = refused(changed(one, content(other, name), name), tmp_path / "store")
    check_equal(type(error), ForkDetectedError, str(error))
    # The other way round the log is also too short; either way nothing starts.
    error = refused(changed(other, content(one, name), name), tmp_path / "store")
    check(isinstance(error, RollbackDetectedError), str(error))


def test_segment_of_a_fenced_owner_is_reported_and_never_believed(tmp_path: Path) -> None:
    """T11: an owner that was paused before its first append may still make its segment.

    Method: epoch 2 wakes up after epoch 3 went on from event 15; its segment is intact, and
    behind event 15 as well.
    """
    tree = spread()
    before = world.anchor_after(tree, 15, SECOND)
    first = first_line(before, 2)
    late = [first, world.continued(first, data=world.datum(666))]
    name = names.segment(16, 2)
    for size in (len(b"".join(late)), len(first), 100, 0):
        went = goes_on(planted(tree, name, b"".join(late)[:size]), tmp_path / "store")
        check_equal((went.end, 666 in went.seen), (20, False), f"{size} bytes")
        place = trees.plant(planted(tree, name, b"".join(late)[:size]), tmp_path / "again")
        found = verified(place)
        check_equal(found.stray, (name,), f"{size} bytes")
        check(name in found.notices[0], f"{size} bytes: {found.notices}")
        shutil.rmtree(place)


def test_names_near_a_segments_are_foreign(tmp_path: Path) -> None:
    """C11: only canonical names are segments; what else lies there is never parsed nor changed."""
    tree = spread()
    for name in (
        "events-1-1.jsonl", "events-000021-0003.jsonl.bak", "events-000021-003.jsonl",
        "EVENTS-000021-0003.jsonl", "events-٠٠٠٠٢١-0003.jsonl", "events-000021-0003.json",
    ):  # fmt: skip
        went = goes_on(tree | {path(name): content(tree, THIRD)}, tmp_path / "store")
        check_equal(went.end, 20, name)


@pytest.mark.parametrize("count", [8, 9, 10])
def test_order_of_segments_is_by_number_not_by_text(count: int, tmp_path: Path) -> None:
    """C3-02: epoch 10 follows epoch 9. Method: so many openings that die, from the first on."""
    tree = grown(*[world.appended(number) for number in range(100, 100 + count)])
    check_equal(len(world.segments(tree)), count, "segments")
    went = goes_on(tree, tmp_path / "store")
    check_equal((went.end, went.seen), (3 * count, list(range(100, 100 + count))), "all of it")
