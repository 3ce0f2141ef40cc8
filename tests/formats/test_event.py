"""A line of the event log: one legal form, authenticated before it is parsed, bound to its session.

Every line here is forged by the product's signer where it says something illegal, so that a
refusal is never only the MAC's.
"""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import (
    DamagedError,
    KeyMissingError,
    KeyRevokedError,
    LastgoodError,
    LimitError,
    StateError,
    UnknownFormatError,
    UsageError,
)
from lastgood.formats import event, names
from lastgood.formats.event import Event
from lastgood.formats.keyfile import KeyEntry, KeyFile, KeyState, Secret
from lastgood.formats.limits import Limits
from lastgood.keyring import Keyring, kid_of
from tests.keys.samples import pae, rfc5869
from tests.log.world import event_keys, signed
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.damage import deletions, duplicates, flips, insertions
from tests.support.values import TEXTS, same, values

NAME = names.segment(1, 1)
KEYS = event_keys()
SEPARATORS = "\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e \r \r\n \n \x00 \ufeff"
HOSTILE: list[Any] = [
    {"a": {"mac": "0" * 64, "kid": "1" * 32, "e": {"seq": 1}}, "b": '{"mac":"'},
    {"mac": "0" * 64, "kid": "1" * 32, "e": {}},
    [{"mac": ""}, [{"mac": ""}]],
    SEPARATORS,
    {SEPARATORS: [SEPARATORS, {"\x00": "\x00"}]},
    "\\n\\u0000 \\",
]


def made(data: Any = None, *, kind: str = "paid", sequence: int = 5, **fields: Any) -> Event:
    usual = {"previous": "ab" * 32, "synced": 4, "epoch": 2, "at": records.CREATED, **fields}
    return Event(sequence=sequence, type=kind, data=data, **usual)


def line_of(value: Event, *, limits: Limits | None = None) -> bytes:
    return event.encode(value, keys=KEYS, limits=limits or Limits())[0]


def fields_of(value: Event) -> dict[str, Any]:
    return json.loads(line_of(value))["e"]


def decode(line: bytes) -> event.Line:
    return event.decode(line.removesuffix(b"\n"), keys=KEYS, name=NAME)


def refusal(line: bytes) -> LastgoodError:
    with pytest.raises(LastgoodError) as caught:
        decode(line)
    return caught.value


WHOLE = made({"id": 7, "a": ["b", None, 1.5]})
LINE = line_of(WHOLE)


@given(
    values() | st.sampled_from(HOSTILE),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=event.MAX_TYPE_CHARS),
    st.integers(1, 10**15),
    st.integers(1, 10**15),
)
def test_event_that_is_encoded_is_decoded(data: Any, kind: str, sequence: int, epoch: int) -> None:
    """decode(encode(x)) == x, of the same types, for every plain JSON value and every type."""
    kind = kind.replace(event.OURS, "mine.")
    value = made(data, kind=kind, sequence=sequence, epoch=epoch, synced=sequence - 1)
    line, mac = event.encode(value, keys=KEYS, limits=Limits())
    found = decode(line)
    check_equal((found.event, found.mac, found.kid), (value, mac, KEYS.kid), "the line")
    check(same(found.event.data, data), f"types of {found.event.data!r}")


@given(values() | st.sampled_from(HOSTILE) | TEXTS)
def test_line_holds_one_line_feed_and_no_nul_whatever_is_in_it(data: Any) -> None:
    """C10-01: byte 0x0A ends a line and stands nowhere else; NUL stands nowhere (torn tail)."""
    line = line_of(made({"a": data}))
    check_equal((line.count(b"\n"), line[-1:], b"\0" in line), (1, b"\n", False), repr(line))


def test_line_has_the_documented_bytes() -> None:
    """The format as the module documents it, and the MAC by its definition alone.

    Method: the whole line written a second time; HKDF, PAE and HMAC from RFC and definition.
    """
    root = rfc5869(
        records.MASTER,
        pae(b"session", records.STORE.encode(), names.directory(records.SESSION).encode()),
    )
    kid = rfc5869(records.MASTER, pae(b"kid"))[:16].hex()
    body = (
        f'{{"seq":5,"prev":"{"ab" * 32}","synced":4,"epoch":2,"at":"{records.CREATED}",'
        '"type":"paid","data":{"id":7,"a":["b",null,1.5]}}'
    )
    items = ("lastgood/1/event", kid, records.STORE, "nightly", body)
    mac = hmac.digest(
        rfc5869(root, pae(b"event", b"event")), pae(*(i.encode() for i in items)), "sha256"
    ).hex()
    check_equal(LINE.decode(), f'{{"mac":"{mac}","kid":"{kid}","e":{body}}}\n', "the line")


DAMAGES = (flips, deletions, duplicates, insertions)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_byte_of_a_line_is_authenticated(damage: Any) -> None:
    """G6: a byte changed, left out, doubled or put in, anywhere, and the line is refused as damage.

    Method: every place, every bit, through ``decode``, which is given the line without its feed.
    """
    line = LINE.removesuffix(b"\n")
    tried = 0
    for what, data in damage(line):
        error = refusal(data)
        check_equal(type(error), DamagedError, f"{what}: {error}")
        check_equal((error.name, error.exit_code), (NAME, 2), what)  # type: ignore[attr-defined]
        tried += 1
    check(tried >= len(line), f"only {tried} tried")


def test_beginning_of_a_line_is_refused() -> None:
    """G6: a line that is cut is not one. Method: every length."""
    for size in range(len(LINE) - 1):
        check_equal(type(refusal(LINE[:size])), DamagedError, f"{size} bytes")


def test_line_of_another_session_store_or_key_is_refused() -> None:
    """T5, T6: what is authentic elsewhere is damage here, a key id that is not known too.

    A key id alone cannot be changed to another key's, nor a key to another id's.
    """
    body = LINE[LINE.index(b'"e":') + 4 : -2]
    other = records.keyring(bytes(range(100, 132)))
    strangers = {
        "another session": event_keys("weekly"),
        "another store": event_keys(store_id=records.OTHER_STORE),
        "another key": event_keys(keys=other),
    }
    for what, keys in strangers.items():
        line = signed(body, keys=keys)
        check_equal(event.decode(line[:-1], keys=keys, name=NAME).event, WHOLE, f"{what}, there")
        check_equal(type(refusal(line)), DamagedError, what)
    both = _ring(("primary", records.MASTER), ("verify", bytes(range(100, 132))))
    line = signed(body, keys=event_keys(keys=other))
    check_equal(_read(line, both).event, WHOLE, "by a key that may verify")
    swapped = line.replace(event_keys(keys=other).kid.encode(), KEYS.kid.encode())
    with pytest.raises(DamagedError, match="does not verify"):
        _read(swapped, both)


def test_session_id_is_bound_as_text_not_only_by_its_directory() -> None:
    """T5: the caller's id is in the MAC. Method: the same keys, another id beside them."""
    sealer = records.keyring().sealer(names.directory(records.SESSION))
    elsewhere = event.EventKeys(sealer, store_id=records.STORE, session="Nightly")
    with pytest.raises(DamagedError, match="does not verify"):
        event.decode(LINE[:-1], keys=elsewhere, name=NAME)
    elsewhere = event.EventKeys(sealer, store_id=records.OTHER_STORE, session="nightly")
    with pytest.raises(DamagedError, match="does not verify"):
        event.decode(LINE[:-1], keys=elsewhere, name=NAME)


@pytest.mark.parametrize(
    ("state", "kind"), [("revoked", KeyRevokedError), ("destroyed", KeyMissingError)]
)
def test_line_of_a_key_that_may_not_verify_is_the_keys_error(
    state: KeyState, kind: type[LastgoodError]
) -> None:
    """Exit 5, not damage: the line may be as it was written."""
    ring = _ring(("primary", bytes(range(100, 132))), (state, records.MASTER))
    with pytest.raises(kind):
        _read(LINE, ring)


def _ring(*keys: tuple[KeyState, bytes]) -> Keyring:
    entries = []
    for state, master in keys:
        secret = Secret(master)
        kept = None if state == "destroyed" else secret
        entries.append(
            KeyEntry(kid=kid_of(secret), state=state, created=records.CREATED, secret=kept)
        )
    return Keyring(KeyFile(store=records.STORE, keys=tuple(entries)))


def _read(line: bytes, ring: Keyring) -> event.Line:
    sealer = ring.sealer(names.directory(records.SESSION))
    keys = event.EventKeys(sealer, store_id=records.STORE, session="nightly")
    return event.decode(line[:-1], keys=keys, name=NAME)


FIELDS = fields_of(WHOLE)


def _without(field: str) -> dict[str, Any]:
    return {name: value for name, value in FIELDS.items() if name != field}


SHAPES: dict[str, Any] = {
    "an extra field": {**FIELDS, "x": 1},
    "an extra field before": {"x": 1, **FIELDS},
    "another order": dict(reversed(FIELDS.items())),
    "an unknown type of ours": {**FIELDS, "type": "lastgood.folded"},
    "a type that is only our prefix": {**FIELDS, "type": "lastgood."},
    **{f"no {field}": _without(field) for field in FIELDS},
    **{f"{field} in capitals": {**_without(field), field.upper(): 1} for field in FIELDS},
    "a list": list(FIELDS.values()),
    "nothing": None,
    "a number": 5,
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=list(SHAPES))
def test_authentic_line_of_another_shape_is_of_another_release(shape: Any) -> None:
    """C13-02: an unknown field or type of ours, properly signed, stops: exit 4, not dropped."""
    error = refusal(signed(json.dumps(shape, separators=(",", ":")).encode()))
    check_equal(type(error), UnknownFormatError, str(error))
    check(NAME in str(error), f"the file is not named: {error}")


TOO_MANY = 10**15 + 1
WRONG: dict[str, list[Any]] = {
    "seq": [None, True, 0, -1, 1.0, 5.0, "5", "", TOO_MANY, [], {}],
    "prev": [None, 0, "", "ab" * 31, "ab" * 33, "AB" * 32, "xy" * 32, "٠" * 64, []],
    "synced": [None, False, True, -1, 5, 6, 4.0, "4", TOO_MANY, [4]],
    "epoch": [None, True, 0, -1, 2.0, "2", TOO_MANY, {}],
    "at": [None, 0, "", "2026-12-01", "2026-12-01T07:00:00Z", "2026-12-01 07:00:00.000000Z", []],
    "type": [None, True, 0, 1.5, "x" * 201, [], {}],
}


@pytest.mark.parametrize("field", WRONG)
def test_authentic_line_with_a_wrong_value_is_damage(field: str) -> None:
    """C1-07: each field takes its type and range alone; "10" is not 10, True is not 1.

    Method: every wrong value, properly signed.
    """
    for value in WRONG[field]:
        line = signed(FIELDS | {field: value})
        error = refusal(line)
        check_equal(type(error), DamagedError, f"{field} {value!r}: {error}")


BODY = LINE[LINE.index(b'"e":') + 4 : -2]
NONCANONICAL: dict[str, bytes] = {
    "white space": BODY.replace(b'"seq":5', b'"seq": 5'),
    "a line feed": BODY.replace(b'"seq":5', b'\n"seq":5'),
    "a second seq": BODY.replace(b'"seq":5', b'"seq":5,"seq":6'),
    "a second seq before": BODY.replace(b'"seq":5', b'"seq":6,"seq":5'),
    "a second data": BODY[:-1] + b',"data":1}',
    "a nested second key": BODY.replace(b'"id":7', b'"id":7,"id":8'),
    "a nested second key before": BODY.replace(b'"id":7', b'"id":8,"id":7'),
    "the same key twice": BODY.replace(b'"id":7', b'"id":7,"id":7'),
    "a number of another spelling": BODY.replace(b'"id":7', b'"id":7.50e0'),
    "an integer beyond 64 bits": BODY.replace(b'"id":7', b'"id":18446744073709551616'),
    "a number too large": BODY.replace(b'"id":7', b'"id":1e999'),
    "NaN": BODY.replace(b'"id":7', b'"id":NaN'),
    "an escape that nobody writes": BODY.replace(b'"paid"', b'"p\\u0061id"'),
    "a byte order mark": b"\xef\xbb\xbf" + BODY,
    "invalid UTF-8": BODY.replace(b"paid", b"pa\xffid"),
    "overlong UTF-8": BODY.replace(b"paid", b"pa\xc0\xafid"),
    "a lone continuation byte": BODY.replace(b"paid", b"pa\x80id"),
    "half a surrogate pair": BODY.replace(b"paid", b"pa\xed\xa0\x80id"),
    "a NUL in text": BODY.replace(b"paid", b"pa\x00id"),
    "a NUL behind": BODY + b"\0",
    "two objects": BODY + BODY,
    "a comma": BODY[:-1] + b",}",
    "cut": BODY[:-9],
    "nothing": b"",
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("text", NONCANONICAL.values(), ids=list(NONCANONICAL))
def test_authentic_line_in_another_form_is_damage(text: bytes) -> None:
    """C10-02, C10-06: what is signed is what is read; one form alone, no second value of a key."""
    if text == NONCANONICAL["a number of another spelling"]:
        check_equal(decode(signed(text)).event.data["id"], 7.5, "a float may be spelled otherwise")
        return
    error = refusal(signed(text))
    check_equal(type(error), DamagedError, str(error))


SURROUNDED: dict[str, bytes] = {
    "a space before": b" " + LINE,
    "a space behind": LINE[:-1] + b" \n",
    "a carriage return": LINE[:-1] + b"\r\n",
    "a NUL": LINE[:-1] + b"\0\n",
    "a second line feed": LINE + b"\n",
    "a byte order mark": b"\xef\xbb\xbf" + LINE,
    "a field before e": LINE.replace(b'"e":', b'"x":1,"e":'),
    "a field behind e": LINE[:-2] + b',"x":1}\n',
    "a second mac": LINE.replace(b'"kid"', b'"mac":"%b","kid"' % (b"0" * 64)),
    "kid before mac": b'{"kid":"%b","mac":"%b",%b'
    % (LINE[81:113], LINE[8:72], LINE[LINE.index(b'"e":') :]),
    "a mac in capitals": LINE[:8] + LINE[8:72].upper() + LINE[72:],
    "a kid in capitals": LINE[:81] + LINE[81:113].upper() + LINE[113:],
}


@pytest.mark.parametrize("line", SURROUNDED.values(), ids=list(SURROUNDED))
def test_line_has_exactly_one_legal_frame(line: bytes) -> None:
    """G6: nothing stands around the authenticated part that is not checked byte by byte."""
    check(line != LINE, "the line is not changed")
    check_equal(type(refusal(line)), DamagedError, "the refusal")


class Colour(str):
    """A string of another type."""


UNSTORABLE: list[tuple[Any, str]] = [
    (float("nan"), "$"),
    ({"a": [1, float("inf")]}, "$.a[1]"),
    ({"a": (1,)}, "$.a"),
    ({"a": {1: 2}}, "$.a"),
    ([{"b": {1, 2}}], "$[0].b"),
    (b"bytes", "$"),
    (2**64, "$"),
    ([0, -(2**63) - 1], "$[1]"),
    ({"a": "\ud800"}, "$.a"),
    ({"a": Colour("red")}, "$.a"),
    ([[[object()]]], "$[0][0][0]"),
]


@pytest.mark.parametrize(("data", "path"), UNSTORABLE)
def test_data_that_would_not_come_back_is_refused_with_its_path(data: Any, path: str) -> None:
    """C9: an event is stored as it is or not at all; the JSON path of the value is told."""
    with pytest.raises(StateError, match="event's data cannot be stored") as caught:
        line_of(made(data))
    check_equal(caught.value.path, path, "the path")


def test_line_over_its_limit_is_refused() -> None:
    """T8: the limit counts the whole line. Method: just within, and one byte more."""
    limits = Limits(event_bytes=4096)
    rest = len(line_of(made(""), limits=limits))
    line = line_of(made("x" * (4096 - rest)), limits=limits)
    check_equal(len(line), 4096, "the largest line")
    check_equal(decode(line).event.data, "x" * (4096 - rest), "its data")
    with pytest.raises(LimitError):
        line_of(made("x" * (4096 - rest + 1)), limits=limits)
    with pytest.raises(LimitError):
        line_of(made([None] * 5000), limits=limits)


def test_data_nested_too_deep_or_holding_itself_is_refused() -> None:
    """T8: a depth that a reader's parser might not stand is never written."""
    deep: list[Any] = []
    for _ in range(Limits().depth - 1):
        deep = [deep]
    check_equal(decode(line_of(made(deep))).event.data, deep, "as deep as may be")
    with pytest.raises(LimitError):
        line_of(made([[deep]]))
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(LimitError):
        line_of(made(ring))


ILLEGAL_TYPES: list[Any] = [
    "", "lastgood.closed", "lastgood.", "lastgood.x", "a\nb", "\x00", "\x1b[2J", "x" * 201,
    None, 5, True, b"paid", ["paid"], "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("text", ILLEGAL_TYPES, ids=ascii)
def test_illegal_type_of_a_caller_is_refused(text: Any) -> None:
    """The caller's types are text, and never ours: nobody can write a line of lastgood's own."""
    with pytest.raises(UsageError):
        event.check_event_type(text)


@pytest.mark.parametrize("text", ["a", "lastgood", "Lastgood.closed", "paid ☃", "x" * 200])
def test_legal_type_of_a_caller_is_kept(text: str) -> None:
    """What is not refused is given back as it is."""
    check_equal(event.check_event_type(text), text, "the type")


@pytest.mark.parametrize("kind", sorted(event.KNOWN))
def test_every_type_of_ours_is_read_and_told_from_the_callers(kind: str) -> None:
    """A reducer never sees them: ``is_ours``."""
    found = decode(line_of(made(None, kind=kind))).event
    check(found.is_ours and found.type == kind, f"{found}")
    check(not WHOLE.is_ours, "the caller's")
