"""The table of selection: rows about the pointer and the numbered manifests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from lastgood.errors import DamagedError, ForkDetectedError, LastgoodError, SplicedError
from lastgood.formats import names
from lastgood.formats.manifest import Manifest
from tests.rules.disk import Disk, Writer, digest, judge, settled
from tests.support.check import check, check_equal

NEWEST = names.manifest(4)
BEFORE = names.manifest(3)

Change = Callable[[Writer], None]


def drop(*dropped: str) -> Change:
    def change(writer: Writer) -> None:
        for name in dropped:
            del writer.disk[name]

    return change


def put(name: str, record: LastgoodError) -> Change:
    return lambda writer: writer.disk.__setitem__(name, record)


def edit(name: str, **fields: object) -> Change:
    """Another authentic manifest in the place of ``name``."""

    def change(writer: Writer) -> None:
        record = writer.disk[name]
        if not isinstance(record, Manifest):
            raise TypeError(name)
        writer.disk[name] = replace(record, **fields)  # type: ignore[arg-type]

    return change


def copy(source: str, target: str) -> Change:
    return lambda writer: writer.disk.__setitem__(target, writer.disk[source])


def old_pointer(revision: int) -> Change:
    """The pointer as it was at ``revision``."""

    def change(writer: Writer) -> None:
        writer.disk[names.POINTER] = writer.past[names.manifest(revision)][-1]

    return change


def unpruned(*revisions: int) -> Change:
    """Numbered manifests that a prune which failed has left."""

    def change(writer: Writer) -> None:
        for revision in revisions:
            name = names.manifest(revision)
            writer.disk[name] = writer.past[name][-1]

    return change


def both(*changes: Change) -> Change:
    def change(writer: Writer) -> None:
        for one in changes:
            one(writer)

    return change


GOOD: dict[str, tuple[Change, bool, int, int]] = {
    # change; whether the number is missing, how far the pointer is behind, how many notices
    "pointer missing": (drop(names.POINTER), False, 1, 0),
    "pointer one behind": (old_pointer(3), False, 1, 0),
    "pointer two behind": (both(unpruned(2), old_pointer(2)), False, 2, 1),
    "pointer three behind": (both(unpruned(1, 2), old_pointer(1)), False, 3, 1),
    "newest number missing": (drop(NEWEST), True, 0, 0),
    "numbers not pruned": (unpruned(1, 2), False, 0, 0),
}


@pytest.mark.parametrize("name", GOOD)
def test_numbers_decide_and_the_pointer_follows(name: str) -> None:
    """Row 2: a pointer that is missing or older changes nothing; more than one is reported."""
    change, number_missing, behind, notices = GOOD[name]
    writer = settled()
    change(writer)
    found = judge(writer.disk)
    check_equal(found.current, writer.newest and writer.newest.current, "the current checkpoint")
    check_equal(found.number_missing, number_missing, "whether the newest number is missing")
    check_equal(found.pointer_behind, behind, "how far the pointer is behind")
    check_equal(len(found.notices), notices, f"notices, of which there are {found.notices}")
    check_equal(found.is_settled, not (number_missing or behind), "whether all is finished")


STOPS: dict[str, tuple[Change, type[LastgoodError]]] = {
    "pointer does not verify": (put(names.POINTER, DamagedError("flipped")), DamagedError),
    "newest does not verify": (put(NEWEST, DamagedError("flipped")), DamagedError),
    "the one before does not verify": (put(BEFORE, DamagedError("flipped")), DamagedError),
    "pointer differs from the newest": (
        edit(names.POINTER, digest=digest("other")), DamagedError,
    ),
    "pointer differs from the one before": (
        both(old_pointer(3), edit(names.POINTER, digest=digest("other"))), DamagedError,
    ),
    "pointer two ahead": (edit(names.POINTER, revision=6), DamagedError),
    "pointer ahead, both numbers gone": (drop(NEWEST, BEFORE), DamagedError),
    "pointer of a revision whose number is gone": (old_pointer(2), DamagedError),
    "pointer of the first revision, long gone": (old_pointer(1), DamagedError),
    "the one before is missing": (drop(BEFORE), DamagedError),
    "the one before is missing, pointer too": (drop(BEFORE, names.POINTER), DamagedError),
    "newest does not link": (
        both(edit(NEWEST, previous_manifest=digest("other")), copy(NEWEST, names.POINTER)),
        ForkDetectedError,
    ),
    "pointer one ahead does not link": (
        both(drop(NEWEST), edit(names.POINTER, previous_manifest=digest("other"))),
        ForkDetectedError,
    ),
    "epoch falls": (
        both(edit(BEFORE, epoch=2), copy(NEWEST, names.POINTER)), ForkDetectedError,
    ),
    "newest number holds the one before": (copy(BEFORE, NEWEST), SplicedError),
    "the one before holds the newest": (copy(NEWEST, BEFORE), SplicedError),
    "a copy under the next number": (copy(NEWEST, names.manifest(5)), SplicedError),
    "a copy under a far number": (copy(NEWEST, names.manifest(10**15)), SplicedError),
    "the newest number is renamed": (
        both(copy(NEWEST, names.manifest(5)), drop(NEWEST)), SplicedError,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STOPS)
def test_manifests_that_no_crash_leaves_stop(name: str) -> None:
    """Row 8: damage, splices, gaps and forks among the manifests; nothing older is taken."""
    change, error = STOPS[name]
    writer = settled()
    change(writer)
    with pytest.raises(LastgoodError) as raised:
        judge(writer.disk)
    check_equal(type(raised.value), error, "the class of the error")


def test_the_first_revision_needs_none_before_it() -> None:
    """Row 8, the exception: revision 1 has no predecessor, also without its own number."""
    for missing in (names.POINTER, names.manifest(1)):
        writer = Writer()
        writer.open()
        del writer.disk[missing]
        found = judge(writer.disk)
        check(found.manifest == writer.newest, f"revision 1 is the newest without {missing}")


def test_old_manifests_that_nobody_pruned_are_leftovers() -> None:
    """Row 11: numbers below the newest two, and temporaries, are reported by name."""
    writer = settled()
    temporary = names.temporary(names.POINTER, bytes(8))
    writer.disk[names.manifest(2)] = writer.past[names.manifest(2)][-1]
    writer.disk[temporary] = DamagedError("half a file")
    check_equal(judge(writer.disk).leftovers, (names.manifest(2), temporary), "leftovers")


def test_an_older_consistent_copy_is_an_earlier_crash_state() -> None:
    """Without a witness a whole older copy cannot be told, and loads as it once did (G7)."""
    writer = settled()
    older: Disk = dict(writer.disk)
    before = judge(older)
    writer.save(40)
    writer.save(50)
    check_equal(judge(older), before, "the verdict on the older copy")
