"""C10 in the event log: what one parser cuts or reads otherwise than another, through a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import DamagedError, LastgoodError
from tests.cases.harness import said_well
from tests.log import world
from tests.log.world import (
    FIRST,
    NEVER,
    appended,
    body,
    changed,
    content,
    filled,
    grown,
    lines,
    opened,
    refused,
    signed,
    ten,
    with_lines,
)
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

SEPARATORS = [
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\r",
    "\r\n",
    "\n",
]


def told(state: dict[str, list[Any]], event: Any) -> dict[str, list[Any]]:
    """A reducer that keeps the whole of each event's data and type."""
    state["seen"].append([event.type, event.data])
    return state


@pytest.mark.parametrize("mark", SEPARATORS, ids=ascii)
def test_c10_01_separator_in_an_event_never_splits_its_line(mark: str, tmp_path: Path) -> None:
    """C10-01: one event is one line, in append, batch, checkpoint, resume and verification.

    Method: through the API, as a value, a key, alone and doubled; lines are cut at byte 0x0A only,
    and a death leaves the replay to read them.
    """
    data = [mark, mark * 2, {mark: f"a{mark}b"}, f"{mark}x", f'{{"mac":"{mark}']
    place = tmp_path / "store"
    with opened(place, reducer=told) as session:
        for value in data:
            session.append("kept", value)
        session.save()
        session.append_many([("kept", value) for value in data])
        tree = trees.on_disk(place, [world.SESSION])
    check_equal(len(lines(tree)), 12, "lines")
    seen = [["kept", value] for value in data * 2]
    again = trees.plant(tree, tmp_path / "again")
    with opened(again, reducer=told) as session:
        check_equal(session.state["seen"], seen, "the state")
        check_equal((session.resumed.end, session.resumed.replayed), (12, 5), "what was replayed")
    check_equal(world.verified(again).end.count, 15, "the log")
    check_equal(trees.read(again).reported, 0, "verifying")


def test_c10_01_separator_in_a_type_is_refused() -> None:
    """C10-01: a type with a control character is refused as the caller's mistake."""
    from lastgood.formats.event import check_event_type

    for mark in ("\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r", "\n"):
        with pytest.raises(LastgoodError) as caught:
            check_event_type(f"a{mark}b")
        check_equal(caught.value.exit_code, 1, ascii(mark))


@pytest.mark.parametrize("mark", SEPARATORS[:-1], ids=ascii)
def test_c10_01_raw_separator_of_a_foreign_writer_does_not_split_a_line(
    mark: str, tmp_path: Path
) -> None:
    """C10-01: raw in the bytes, a separator is text of the line, or no JSON; it never ends a line.

    Method: an authentic line with the separator raw inside a string: those that JSON allows are
    read as they are, control characters are damage at that line.
    """
    tree = ten()
    raw = b'{"i":9,"t":"a%bb"}' % mark.encode()
    last = lines(tree)[-1]
    inner = last[last.index(b'"e":') + 4 : -2].replace(b'{"i":10}', raw)
    check(raw in inner, "the separator is in the line")
    state = with_lines(tree, [*lines(tree)[:-1], signed(inner)])
    if mark in "\u2028\u2029\x85":
        place = trees.plant(state, tmp_path / "store")
        with opened(place, reducer=told, policy=NEVER) as session:
            check_equal(session.state["seen"][-1], ["kept", {"i": 9, "t": f"a{mark}b"}], "data")
        return
    stops_at(state, tmp_path, 10)


def stops_at(state: Tree, top: Path, number: int) -> None:
    """Fail unless the log stops at event ``number``, with its line and offset told."""
    error = refused(state, top / "store")
    check_equal(type(error), DamagedError, str(error))
    offset = len(b"".join(content(state).split(b"\n")[: number - 1])) + number - 1
    check_equal((error.line, error.offset), (number, offset), str(error))  # type: ignore[attr-defined]
    said_well(error, FIRST)


DUPLICATES: list[tuple[bytes, bytes]] = [
    (b'"seq":', b'"seq":%d,"seq":'),
    (b'"prev":', b'"prev":"","prev":'),
    (b'"type":', b'"type":"lastgood.closed","type":'),
    (b'"data":', b'"data":{"i":666},"data":'),
    (b'"i":', b'"i":666,"i":'),
    (b"}}", b',"i":666}}'),
    (b"}}", b'},"data":{"i":666}}'),
    (b"}}", b'},"seq":1}'),
]


@pytest.mark.parametrize(("old", "new"), DUPLICATES, ids=ascii)
@pytest.mark.parametrize("number", [5, 10])
def test_c10_02_second_key_in_an_authentic_line_stops(
    old: bytes, new: bytes, number: int, tmp_path: Path
) -> None:
    """C10-02: no parser may take the one value and another the other: the form has one of each.

    Method: a key twice, before and after, nested too, in a line below and one above the anchor,
    sealed rightly; the lines behind it are chained on to it.
    """
    tree = ten()
    made = lines(tree)
    line = made[number - 1]
    inner = line[line.index(b'"e":') + 4 : -2]
    told = new % number if b"%d" in new else new
    place = inner.rindex(old)
    forged = signed(inner[:place] + told + inner[place + len(old) :])
    rest = []
    head = world.mac_of(forged)
    for behind in made[number:]:
        rest.append(signed(body(behind) | {"prev": head}))
        head = world.mac_of(rest[-1])
    stops_at(with_lines(tree, [*made[: number - 1], forged, *rest]), tmp_path, number)


def test_c10_02_key_beside_the_authenticated_part_stops(tmp_path: Path) -> None:
    """C10-02: a line's frame has no room for a second ``e``, ``mac`` or ``kid``."""
    tree = ten()
    made = lines(tree)
    line = made[4]
    inner = line[line.index(b'"e":') + 4 : -2]
    for forged in (
        line.replace(b',"e":', b',"e":{"seq":5},"e":', 1),
        line[:-2] + b',"e":' + inner + b"}\n",
        line.replace(b'"kid":', b'"kid":"%b","kid":' % (b"0" * 32), 1),
        line.replace(b'"mac":', b'"mac":"%b","mac":' % (b"0" * 64), 1),
    ):
        stops_at(with_lines(tree, [*made[:4], forged, *made[5:]]), tmp_path, 5)


INVALID = {
    "0xFF": b"\xff",
    "overlong": b"\xc0\xaf",
    "lone continuation": b"\x80",
    "half a pair": b"\xed\xa0\x80",
    "beyond Unicode": b"\xf4\x90\x80\x80",
    "cut short": b"\xe2\x98",
    "NUL": b"\0",
}


@pytest.mark.parametrize("poke", INVALID.values(), ids=list(INVALID))
def test_c10_06_invalid_utf8_stops_with_line_and_offset(poke: bytes, tmp_path: Path) -> None:
    """C10-06: DamagedError, not a decoder's error, nothing is replaced; sealed rightly or not.

    Method: bytes over record 5 of 10, in its body, its frame and its string, the length kept and
    not; then the same inside an authentic line, with the chain behind it.
    """
    tree = grown(
        lambda s: (
            appended(3, 4)(s),
            s.append("kept", {"i": 5, "t": "text" * 4}),
            appended(6, 7, 8)(s),
        )
    )
    made = lines(tree)
    line = made[4]
    for at in (3, 20, 90, line.index(b"texttext") + 2, len(line) - 3):
        for rest in (line[at + len(poke) :], line[at:]):
            poked = line[:at] + poke + rest
            stops_at(with_lines(tree, [*made[:4], poked, *made[5:]]), tmp_path, 5)
    inner = line[line.index(b'"e":') + 4 : -2].replace(b"texttext", b"text" + poke + b"text")
    made[4] = signed(inner)
    for number in range(5, len(made)):
        made[number] = signed(body(made[number]) | {"prev": world.mac_of(made[number - 1])})
    stops_at(with_lines(tree, made), tmp_path, 5)


def test_c10_06_nul_in_the_last_string_is_a_lost_sector_or_damage(tmp_path: Path) -> None:
    """C10-06: a NUL inside a string of the last line reads like a sector that never arrived.

    Method: the same NUL in record 10 of 10, above the anchor, is a torn tail; below it, damage.
    """
    tree = ten(40)
    data = bytearray(content(tree))
    at = data.rindex(b"xxxx")
    data[at] = 0
    went = world.goes_on(changed(tree, bytes(data)), tmp_path / "store")
    check_equal((went.end, went.torn is not None), (9, True), "above the anchor")

    def saved(session: Any) -> None:
        appended(*range(3, 11), pad=40)(session)
        session.save()

    tree = grown(saved)
    text = bytearray(world.text(tree))
    text[text.rindex(b"xxxx")] = 0
    stops_at(changed(tree, filled(bytes(text), content(tree))), tmp_path, 10)
