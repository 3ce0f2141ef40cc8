"""C1: a torn, zero-filled or damaged event log, on a whole store and by the command line.

The log has ten events, the last checkpoint stands at event 8 (``tests.log.world``).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood import open_store
from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    LogGapError,
    RollbackDetectedError,
    UnknownFormatError,
)
from lastgood.formats import names
from tests.cases.harness import said_well
from tests.log import world
from tests.log.world import (
    FIRST,
    appended,
    body,
    changed,
    content,
    continued,
    filled,
    goes_on,
    grown,
    lines,
    placed,
    refused,
    resigned,
    signed,
    ten,
    with_lines,
)
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.require import require_corpora
from tests.support.trees import Tree

CHECKPOINT = world.path(names.checkpoint(8))


def reported(tree: Tree, top: Path) -> tuple[str, int]:
    """What verifying says, and its exit code; it changes nothing (G8)."""
    place = trees.plant(tree, top)
    before = trees.picture(place)
    report = trees.read(place).report
    trees.check_untouched(place, before, "verifying")
    shutil.rmtree(place)
    if report is None:
        raise AssertionError("there is no report")
    return report.verdict, report.exit_code


def stops(tree: Tree, top: Path, kind: type[LastgoodError] = DamagedError) -> LastgoodError:
    """The refusal, of verification and opening; the report has it too, nothing was touched."""
    error = refused(tree, top / "refused")
    check(isinstance(error, kind), f"{type(error)}: {error}")
    check_equal(reported(tree, top / "reported"), ("stopped", error.exit_code), str(error))
    said_well(error)
    return error


@pytest.mark.slow
@pytest.mark.normal_only
def test_c01_01_last_line_cut_at_every_byte_is_a_torn_tail(tmp_path: Path) -> None:
    """C1-01 (a): exactly events 1 to 9; the notice names offset and bytes; verifying exits 6.

    Method: the rest reads zero, from every byte of the last line on. The torn bytes stay, the
    next append makes a segment that continues event 9, and all of it verifies again.
    """
    tree = ten()
    last = len(lines(tree)[-1])
    text = world.text(tree)
    for kept in range(1, last - 1):
        data = text[: len(text) - last + kept]
        state = changed(tree, filled(data, content(tree)))
        went = goes_on(state, tmp_path / "store")
        offset = len(text) - last
        check_equal((went.end, went.torn), (9, (FIRST, offset, kept)), f"{kept} bytes")
        check_equal(went.seen, list(range(3, 10)), f"{kept} bytes")
        told = (
            f"{kept} bytes from offset {offset} on are what a crash leaves of a write of event 10"
        )
        check(any(told in notice for notice in went.notices), f"{went.notices}")
        check_equal(went.tree[CHECKPOINT], tree[CHECKPOINT], "the checkpoint")
        if kept % 16 == 1:
            verdict = reported(state, tmp_path / "reported")
            check_equal(verdict, ("recoverable", 6), f"{kept} bytes")


@pytest.mark.slow
@pytest.mark.normal_only
def test_c01_01_last_line_cut_off_the_file_stops(tmp_path: Path) -> None:
    """C1-01 (b): a file that is shorter is no crash: an integrity error, and nothing changed.

    Method: the file ends at every byte of the last line, which takes the reserved zeros with it.
    """
    tree = ten()
    last = len(lines(tree)[-1])
    text = world.text(tree)
    for kept in range(last):
        error = refused(changed(tree, text[: len(text) - last + kept]), tmp_path / "store")
        check_equal(type(error), DamagedError, f"{kept} bytes: {error}")
        said_well(error, FIRST)
    check("lastgood repair SESSION --tail" in str(error), f"the one command: {error}")


def test_c01_02_append_behind_a_torn_tail_never_glues(tmp_path: Path) -> None:
    """C1-02 (a): the product writes behind a torn tail into a segment of its own.

    Method: torn at four places, then an append; no byte of the torn segment is another.
    """
    tree = ten()
    for less in (2, 40, 200, 280):
        state = changed(tree, filled(world.text(tree)[:-less], content(tree)))
        went = goes_on(state, tmp_path / "store")
        check_equal(content(went.tree), content(state), "the torn segment")
        check_equal(lines(went.tree, names.segment(10, 2))[0][:8], b'{"mac":"', "the new one")


@pytest.mark.slow
def test_c01_02_foreign_bytes_glued_into_a_line_stop(tmp_path: Path) -> None:
    """C1-02 (b): at the exact offset, saying what follows; nothing is applied, nothing skipped.

    Method: event 9, a part of event 10 of every 9th length, then events 11 and 12 as another
    writer that does not look would append them.
    """
    tree = grown(
        lambda session: (
            appended(*range(3, 9))(session),
            session.save(),
            appended(9, 10, 11, 12)(session),
        )
    )
    made = lines(tree)
    offset = len(b"".join(made[:9]))
    for size in range(1, len(made[9]), 9):
        state = with_lines(tree, [*made[:9], made[9][:size], made[10], made[11]])
        error = stops(state, tmp_path)
        placed(error, name=FIRST, line=10, offset=offset, records=2)


@pytest.mark.parametrize("more", [1, 7, 511, 512, 4096, 4 * 1024 * 1024])
def test_c01_04_zeros_behind_the_log_are_its_normal_end(more: int, tmp_path: Path) -> None:
    """C1-04: N zeros more change nothing, and verifying is good or says that nothing is wrong."""
    tree = ten()
    state = changed(tree, content(tree) + bytes(more))
    check_equal(
        reported(state, tmp_path / "reported"), reported(tree, tmp_path / "plain"), "verdict"
    )
    went = goes_on(state, tmp_path / "store")
    check_equal((went.end, went.torn, went.seen), (10, None, list(range(3, 11))), f"{more} zeros")


@pytest.mark.slow
@pytest.mark.parametrize("unit", [512, 4096])
def test_c01_04_last_record_zeroed_from_a_sector_on_is_torn(unit: int, tmp_path: Path) -> None:
    """C1-04: from any sector of the last record on; zeros before a later record are damage.

    Method: a last record of 9 KB, zeroed from each border of a unit to its end; then the same with
    an event behind it, whose ``synced`` covers the gap.
    """
    tree = ten(9000)
    start = len(b"".join(lines(tree)[:-1]))
    text = world.text(tree)
    further = continued(lines(tree)[-1], data=world.datum(11))
    borders = range(-(-start // unit) * unit, len(text), unit)
    check(len(borders) >= 2, f"{borders}")
    for border in borders:
        state = changed(tree, text[:border] + bytes(len(content(tree)) - border))
        went = goes_on(state, tmp_path / "store")
        torn = None if border == start else (FIRST, start, border - start)
        check_equal((went.end, went.torn), (9, torn), f"zeros from {border}")
        gap = text[:border] + bytes(len(text) - border) + further
        error = stops(changed(tree, filled(gap, content(tree))), tmp_path)
        placed(error, name=FIRST, line=10, offset=start, records=1)


def _flip(line: bytes) -> bytes:
    return line[:200] + bytes([line[200] ^ 1]) + line[201:]


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte flipped": _flip,
    "30 bytes cut out": lambda line: line[:150] + line[180:],
    "30 bytes cut off": lambda line: line[:-31] + b"\n",
    "a blank line": lambda line: b"\n",
    "blanks": lambda line: b" " * (len(line) - 1) + b"\n",
    "garbage": lambda line: b"\xff" * (len(line) - 1) + b"\n",
    "zeros": lambda line: bytes(len(line)),
    "its line feed": lambda line: line[:-1] + b" ",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
@pytest.mark.parametrize("anchor", [8, 12])
def test_c01_05_damaged_record_in_the_middle_stops(
    damage: Callable[[bytes], bytes], anchor: int, tmp_path: Path
) -> None:
    """C1-05: line 11, its offset, and that 9 further records follow; no prefix, no skipping.

    Method: 20 records, the 11th damaged, with the checkpoint's anchor below it and above it. What
    stands before it can still be read by who looks.
    """

    def program(session: Any) -> None:
        appended(*range(3, anchor + 1))(session)
        session.save()
        appended(*range(anchor + 1, 21))(session)

    tree = grown(program)
    made = lines(tree)
    check_equal(len(made), 20, "records")
    state = with_lines(tree, [*made[:10], damage(made[10]), *made[11:]])
    error = stops(state, tmp_path)
    offset = len(b"".join(made[:10]))
    placed(error, name=FIRST, line=11, offset=offset, records=9)
    end, bad = world.valid_prefix(content(state), FIRST)
    check_equal((end.count, bad is not None and bad.offset), (10, offset), "what can be read")


def _alien(tree: Tree, **fields: Any) -> Tree:
    """The last event told otherwise, sealed rightly; ``None`` takes a field away."""
    told = body(lines(tree)[-1]) | fields
    told = {name: value for name, value in told.items() if value is not None}
    return with_lines(tree, [*lines(tree)[:-1], signed(told)])


def _more(tree: Tree, *made: bytes) -> Tree:
    return with_lines(tree, [*lines(tree), *made])


ORDINALS: dict[str, tuple[Callable[[Tree], Tree], type[LastgoodError]]] = {
    "a second, different 10": (
        lambda tree: _more(tree, continued(lines(tree)[8], data=world.datum(666))),
        ForkDetectedError,
    ),
    "an identical 10": (lambda tree: _more(tree, lines(tree)[9]), DamagedError),
    "an earlier one again": (lambda tree: _more(tree, lines(tree)[4]), ForkDetectedError),
    "a gap": (lambda tree: with_lines(tree, [*lines(tree)[:8], lines(tree)[9]]), LogGapError),
    "a gap that is chained": (
        lambda tree: _more(tree, continued(lines(tree)[9], seq=12)),
        LogGapError,
    ),
    "no seq": (lambda tree: _alien(tree, seq=None), UnknownFormatError),
    "seq as text": (lambda tree: _alien(tree, seq="10"), DamagedError),
    "seq as a float": (lambda tree: _alien(tree, seq=10.0), DamagedError),
    "seq true": (lambda tree: _alien(tree, seq=True), DamagedError),
    "seq 0": (lambda tree: _alien(tree, seq=0, synced=0), DamagedError),
    "another prev": (lambda tree: _alien(tree, prev="ab" * 32), ForkDetectedError),
    "another epoch": (lambda tree: _alien(tree, epoch=2), DamagedError),
    "synced by itself": (lambda tree: _alien(tree, synced=10), DamagedError),
}


@pytest.mark.parametrize("case", ORDINALS.values(), ids=list(ORDINALS))
def test_c01_07_sequence_that_is_used_again_missing_or_no_number_stops(
    case: tuple[Callable[[Tree], Tree], type[LastgoodError]], tmp_path: Path
) -> None:
    """C1-07: other content is a fork, the same again is damage, a gap is one; never applied twice.

    Method: lines that the product's own signer sealed. The session is still listed.
    """
    change, kind = case
    state = change(ten())
    stops(state, tmp_path, kind)
    place = trees.plant(state, tmp_path / "listed")
    with open_store(place, keys=world.KEYS) as store:
        listed = [entry.record.session for entry in store.sessions() if entry.record]
    check_equal(listed, [world.SESSION], "sessions")


def _fixture(name: str) -> tuple[list[int], list[bytes]]:
    """The numbers of the operations in a log of the other store, and its raw lines."""
    raw = (require_corpora("beats_memlog") / f"{name}.log.json").read_bytes().split(b"\n")
    found = []
    for line in raw:
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "op" in told:
            found.append(told["id"])
    return found, raw


@pytest.mark.needs_corpora
def test_c01_09_header_of_an_operation_without_its_body_stops(tmp_path: Path) -> None:
    """C1-09: a line that announces an event and ends there, terminated, is damage, not torn.

    Method: the other store's header without body; here that is a line's frame without ``e``.
    """
    numbers, raw = _fixture("incomplete_op")
    check_equal((numbers, len(raw)), ([2], 2), "one header, nothing behind it")
    tree = ten()
    frame = continued(lines(tree)[-1])[:119]
    check_equal(frame[-4:], b'"e":', "the frame")
    for header in (frame, frame + b"{}}", raw[0]):
        error = stops(_more(tree, header + b"\n"), tmp_path)
        placed(error, name=FIRST, line=11, offset=len(world.text(tree)), records=0)


@pytest.mark.needs_corpora
def test_c01_09_terminated_garbage_at_the_end_stops(tmp_path: Path) -> None:
    """C1-09: a last line that is bad, ends in a line feed and holds no NUL is not a torn tail.

    Method: as many events as the other store's log holds, and its last line behind them.
    """
    numbers, raw = _fixture("logfile_incomplete")
    garbage = next(line for line in raw if line.startswith(b'{"op":"set",') and b"id" not in line)

    def program(session: Any) -> None:
        session.save()
        appended(*numbers)(session)

    tree = grown(program)
    error = stops(_more(tree, garbage + b"\n"), tmp_path)
    line = len(numbers) + 3
    placed(error, name=FIRST, line=line, offset=len(world.text(tree)), records=0)
    check("lastgood repair SESSION --tail" in str(error), f"the one command: {error}")


@pytest.mark.needs_corpora
def test_c01_09_log_older_than_the_checkpoint_is_a_rollback(tmp_path: Path) -> None:
    """C1-09: a log whose records are all older than the checkpoint's anchor is never ignored.

    Method: as many events as the other store's old log, put back beside a later checkpoint; the
    file as it was then, and the later file with those events alone.
    """
    numbers, _ = _fixture("old_entries_in_log")
    old = grown(appended(*numbers))

    def program(session: Any) -> None:
        appended(*numbers, 5, 6)(session)
        session.save()

    later = grown(program)
    count = len(lines(old))
    for state in (changed(later, content(old)), with_lines(later, lines(later)[:count])):
        error = stops(state, tmp_path, RollbackDetectedError)
        check(f"event {count + 2} was acknowledged" in str(error), str(error))


@pytest.mark.needs_corpora
def test_c01_09_log_that_begins_behind_a_missing_range_is_a_gap(tmp_path: Path) -> None:
    """C1-09: numbers that do not follow what is there are a gap, and a number twice is a fork.

    Method: the other store's numbers, 3, 3 and 3, behind a log that ends at 1, where 2 is missing.
    """
    numbers, _ = _fixture("commit_wrong_id")
    check_equal(numbers, [3, 3, 3], "its numbers")
    tree = grown(lambda session: None)
    first, second = lines(tree)
    state = with_lines(tree, [first, *(continued(second, seq=n) for n in numbers)])
    error = stops(state, tmp_path, LogGapError)
    check("event 3 follows event 1" in str(error), str(error))
    third = [continued(second, data=world.datum(n)) for n in range(3)]
    stops(with_lines(tree, [first, second, *third]), tmp_path, ForkDetectedError)
    check_equal(
        len({resigned(line, at="2026-12-01T07:00:00.000000Z") for line in third}), 3, "3 events"
    )
