"""C10: format and parser ambiguity. One reading of every byte, in every reader."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from lastgood.errors import DamagedError, InvalidIdError, LastgoodError, printable
from lastgood.formats import checkpoint, names
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.require import require_corpora
from tests.support.values import same

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


def sealed(state: Any) -> bytes:
    """A sealed checkpoint that holds ``state``."""
    payload = checkpoint.encode_payload(
        checkpoint.Checkpoint(110, state), schema_version=1, limits=Limits()
    )
    return b"".join(records.checkpoint_record(payload=payload))


def state_of(data: bytes) -> Any:
    """The state in a sealed checkpoint."""
    _, body = records.read("checkpoint", data)
    return body.checkpoint.state


def resealed(payload: bytes, *, kind: str = "checkpoint") -> bytes:
    """``payload`` under an honest header and a right seal."""
    return records.forge(records.header_line(payload, kind=kind), payload, kind=kind)


@pytest.mark.parametrize("separator", SEPARATORS, ids=ascii)
def test_c10_01_separator_within_a_text_never_splits_a_record(separator: str) -> None:
    """C10-01: only byte 0x0A separates lines, and no text puts one into a record.

    Method: each separator as value, key, label, program and session id where legal.
    """
    state = {f"a{separator}b": [f"{separator}{separator}", f"x{separator}"]}
    data = sealed(state)
    check_equal(data.count(b"\n"), 3, "line feeds in the record")
    check(same(state_of(data), state), "another state")
    label = (
        records.draft("manifest").edited("payload.milestones.0.label", f"a{separator}b").record()
    )
    found = records.read("manifest", label)
    check_equal(found.milestones[0].label, f"a{separator}b", "label")
    check_equal(label.count(b"\n"), 3, "line feeds in the manifest")


@pytest.mark.parametrize("separator", ["\u2028", "\u2029"], ids=ascii)
def test_c10_01_separator_in_a_session_id_is_data(separator: str) -> None:
    """C10-01: a legal id with a line separator names one session, in every record."""
    session_id = names.session_id(f"a{separator}b")
    data = b"".join(records.checkpoint_record(session_id))
    check_equal(len(data.split(b"\n")), 4, "lines")


@pytest.mark.parametrize(
    "separator", ["\x85", "\x0b", "\x0c", "\x1c", "\x1e", "\r", "\n"], ids=ascii
)
def test_c10_01_raw_control_of_a_foreign_writer_is_damage(separator: str) -> None:
    """C10-01: what our writer escapes is refused raw, even sealed; U+0085 is no control of JSON."""
    payload = records.PAYLOAD.replace(b"b before a", f"b{separator}a".encode(), 1)
    check(payload != records.PAYLOAD, "nothing was changed")
    if separator == "\x85":
        check(state_of(resealed(payload)) is not None, "NEL is an ordinary character of JSON")
        return
    with pytest.raises(DamagedError):
        state_of(resealed(payload))


FIELDS = [
    ("checkpoint", name)
    for name in ("state", "sequence", "schemaVersion", "sideEffectFingerprints", "log", "paid")
] + [("manifest", name) for name in ("current", "sequence", "digest", "label", "operations")]


@pytest.mark.parametrize(("kind", "name"), FIELDS)
@pytest.mark.parametrize("place", ["before", "after", "same"])
def test_c10_02_duplicate_key_in_a_payload_is_damage(kind: str, name: str, place: str) -> None:
    """C10-02: no reader sees another value than the one that was checked; nested ones, too.

    Method: text surgery on the honest payload, resealed; and once more without resealing.
    """
    _, _, payload, _ = records.record(kind).split(b"\n")
    start = payload.index(f'"{name}":'.encode()) + len(name) + 3
    value, end = json.JSONDecoder().raw_decode(payload[start:].decode())
    end = start + len(payload[start:].decode()[:end].encode())
    field, stored = f'"{name}":'.encode(), payload[start:end]
    check(value is not None, "the honest record fills this field")
    twice = {
        "before": field + b"null," + field + stored,
        "after": field + stored + b"," + field + b"null",
        "same": field + stored + b"," + field + stored,
    }[place]
    changed = payload[: start - len(field)] + twice + payload[end:]
    check(type(json.loads(changed)) is dict, "the standard library reads it without a word")
    with pytest.raises(DamagedError):
        records.read(kind, resealed(changed, kind=kind))
    with pytest.raises(DamagedError):
        records.read(kind, records.record(kind).replace(payload, changed))


@pytest.mark.parametrize("kind", records.KINDS)
def test_c10_02_duplicate_key_in_a_header_or_seal_is_damage(kind: str) -> None:
    """C10-02: the same for the lines that decide what is believed."""
    first, header, payload, _ = records.record(kind).split(b"\n")
    for name in records.draft(kind).header:
        field = f'"{name}":'.encode()
        for changed in (
            header.replace(field, field + b"1," + field, 1),
            header[:-1] + b"," + field + b"1}",
        ):
            with pytest.raises(LastgoodError) as caught:
                records.read(kind, records.forge(changed, payload, kind=kind))
            check_equal(caught.value.exit_code, 2, f"exit for {name} twice")
    for field in (b'"mac":', b'"kid":', b'"alg":', b'"kind":'):
        doubled = first.replace(field, field + b'"",' + field, 1)
        with pytest.raises(DamagedError):
            records.read(kind, b"\n".join([doubled, header, payload, b""]))


def naughty() -> list[str]:
    """The naughty strings."""
    file = require_corpora("blns") / "blns.base64.json"
    found = json.loads(file.read_text(encoding="utf-8"))
    return [base64.b64decode(text).decode() for text in found]


@pytest.mark.needs_corpora
def test_c10_05_naughty_string_comes_back_as_value_and_key() -> None:
    """C10-05: exact round trip of each string through a sealed checkpoint.

    Method: each by itself as value and key, and all of them in one state.
    """
    strings = naughty()
    check(len(strings) > 500, f"only {len(strings)} strings")
    for text in strings:
        state = {"value": text, text: [text, {text: text}]}
        check(same(state_of(sealed(state)), state), f"another value: {text!a}")
    together = {text: index for index, text in enumerate(strings)}
    check(same(state_of(sealed([strings, together])), [strings, together]), "all of them")


@pytest.mark.needs_corpora
def test_c10_05_naughty_string_is_an_id_or_refused_as_one() -> None:
    """C10-05: as a session id each is kept exactly or refused; none becomes a path."""
    legal = 0
    for text in naughty():
        try:
            session_id = names.session_id(text)
        except InvalidIdError as error:
            hostile = not text or len(text.encode()) > 512 or text.translate(CONTROLS) != text
            check(hostile, f"refused without a reason: {text!a}: {error}")
            continue
        legal += 1
        record = records.session_record(text)
        check_equal((session_id, record.session), (text, text), "id")
        check(names.is_directory(names.directory(session_id)), f"a path: {text!a}")
        data = b"".join(records.checkpoint_record(text))
        check_equal(data.count(b"\n"), 3, f"lines of a record of {text!a}")
    check(legal > 400, f"only {legal} legal ids")


CONTROLS = dict.fromkeys([*range(0x20), *range(0x7F, 0xA0)])
"""Deletes control characters by ``str.translate``."""


@pytest.mark.needs_corpora
def test_c10_05_naughty_string_is_printed_harmlessly() -> None:
    """C10-05: no string repaints a terminal, reorders a line or breaks it (T12)."""
    for text in naughty():
        shown = printable(text, limit_chars=10_000)
        check(shown.isprintable(), f"prints {shown!a}")
        check_equal(shown.translate(CONTROLS), shown, "control characters")


@pytest.mark.parametrize(
    "bad", [b"\xff", b"\xc0\xaf", b"\x80", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\x00"]
)
@pytest.mark.parametrize("kind", ["checkpoint", "manifest", "session"])
def test_c10_06_invalid_utf_8_is_damage_and_never_replaced(bad: bytes, kind: str) -> None:
    """C10-06: a typed error, never UnicodeDecodeError, never U+FFFD; sealed or not."""
    _, header, payload, _ = records.record(kind).split(b"\n")
    place = payload.rindex(b'"', 0, len(payload) - 1)
    broken = payload[:place] + bad + payload[place:]
    with pytest.raises(DamagedError):
        records.read(kind, resealed(broken, kind=kind))
    with pytest.raises(DamagedError):
        records.read(kind, records.record(kind).replace(payload, broken))
    line = header.replace(b"nightly", b"night" + bad)
    with pytest.raises(DamagedError):
        records.read(kind, records.forge(line, payload, kind=kind))
