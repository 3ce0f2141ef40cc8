"""Authentic records that no writer makes: what is sealed with our key is still not trusted blindly.

The seal line itself is under the MAC only as kind, algorithm and kid, so its byte form is tested
by every change, and everything in header and payload by records that were sealed on purpose.
"""

from __future__ import annotations

import hashlib
import itertools
import re
from collections.abc import Iterator
from typing import Any

import pytest

from lastgood.errors import LastgoodError, UnknownFormatError
from lastgood.formats import canonical, seal
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal

KINDS = pytest.mark.parametrize("kind", records.KINDS)


def refusal(kind: str, data: bytes) -> LastgoodError:
    """The error by which ``data`` is refused; its class is checked to be of exit 2 to 5."""
    with pytest.raises(LastgoodError) as caught:
        records.read(kind, data)
    check(2 <= caught.value.exit_code <= 5, f"exit {caught.value.exit_code}: {caught.value}")
    return caught.value


# --- the seal line --------------------------------------------------------------------------


def first_line(kind: str) -> tuple[str, bytes]:
    first, rest = records.record(kind).split(b"\n", 1)
    return first.decode(), b"\n" + rest


@KINDS
def test_seal_line_has_exactly_one_byte_form(kind: str) -> None:
    """The line is matched as bytes: every other byte at every place is refused (T6).

    Method: each place of the line gets each of the 255 other bytes.
    """
    data = records.record(kind)
    size = data.index(b"\n") + 1
    context, sealer = records.context(kind), records.keys(kind)
    for place, byte in itertools.product(range(size), range(256)):
        if data[place] == byte:
            continue
        changed = data[:place] + bytes([byte]) + data[place + 1 :]
        try:
            seal.unseal_header(changed, context=context, sealer=sealer, limits=Limits(), name="t")
        except LastgoodError as error:
            if 2 <= error.exit_code <= 5:
                continue
        raise AssertionError(f"byte {byte} at {place} was accepted or misnamed")


LINES: list[tuple[str, str, str]] = [
    ("upper-case mac", r'"mac":"([0-9a-f]+)"', "upper"),
    ("upper-case kid", r'"kid":"([0-9a-f]+)"', "upper"),
    ("mac cut", r'("mac":"[0-9a-f]+)[0-9a-f]"', r'\1"'),
    ("mac long", r'("mac":"[0-9a-f]+)"', r'\g<1>0"'),
    ("mac empty", r'"mac":"[0-9a-f]+"', '"mac":""'),
    ("mac null", r'"mac":"[0-9a-f]+"', '"mac":null'),
    ("no mac", r',"mac":"[0-9a-f]+"', ""),
    ("second mac", r'("mac":"[0-9a-f]+")', r"\1,\1"),
    ("mac first", r'\{(.*),("mac":"[0-9a-f]+")\}', r"{\2,\1}"),
    ("kid cut", r'("kid":"[0-9a-f]+)[0-9a-f]"', r'\1"'),
    ("kid null", r'"kid":"[0-9a-f]+"', '"kid":null'),
    ("no kid", r'"kid":"[0-9a-f]+",', ""),
    ("escape in kid", r'"kid":"[0-9a-f]{6}', r'"kid":"\\\\u001b'),
    ("version text", r'"lastgood":1', '"lastgood":"1"'),
    ("version 01", r'"lastgood":1', '"lastgood":01'),
    ("version 1.0", r'"lastgood":1', '"lastgood":1.0'),
    ("version -1", r'"lastgood":1', '"lastgood":-1'),
    ("version 0", r'"lastgood":1', '"lastgood":0'),
    ("version true", r'"lastgood":1', '"lastgood":true'),
    ("version long", r'"lastgood":1', '"lastgood":11111'),
    ("version Arabic", r'"lastgood":1', '"lastgood":١'),
    ("space", r",", ", "),
    ("space after", r"\}$", "} "),
    ("space before", r"^", " "),
    ("return", r"\}$", "}\\r"),
    ("BOM", r"^", "\ufeff"),
    ("extra field", r"\}$", ',"crit":[]}'),
    ("alg none", r'"alg":"HS256"', '"alg":"none"'),
    ("alg null", r'"alg":"HS256"', '"alg":null'),
    ("alg empty", r'"alg":"HS256"', '"alg":""'),
    ("kind upper", r'"kind":"([a-z]+)"', "upper"),
    ("kind escaped", r'"kind":"(.)', '"kind":"\\\\u0073'),
    ("renamed", r'"lastgood"', '"Lastgood"'),
]


@KINDS
@pytest.mark.parametrize(("pattern", "with_"), [x[1:] for x in LINES], ids=[x[0] for x in LINES])
def test_other_spelling_of_the_seal_line_is_no_seal(kind: str, pattern: str, with_: str) -> None:
    """Nothing in the line can be spelled, ordered, left out or added otherwise (T6)."""
    first, rest = first_line(kind)
    if with_ == "upper":
        other = re.sub(pattern, lambda m: m[0].replace(m[1], m[1].upper()), first, count=1)
    else:
        other = re.sub(pattern, with_, first, count=1)
    check(other != first, "nothing was changed")
    error = refusal(kind, other.encode() + rest)
    check("first line is not a seal" in str(error), f"for another reason: {error}")


@KINDS
@pytest.mark.parametrize("version", ["2", "9", "1000", "9999"])
def test_unknown_version_is_an_unknown_format(kind: str, version: str) -> None:
    """A later seal stops as unknown, never as damage: exit 4 (T6). Method: properly sealed."""
    header = records.draft(kind).edited("header.format", int(version)).header
    data = records.forge(canonical.encode(header), b"{}", kind=kind, version=version)
    check_equal(type(refusal(kind, data)), UnknownFormatError, "class")


@KINDS
@pytest.mark.parametrize("alg", ["NONE", "HS1", "HS512", "HS256-", "RS256", "A256GCM", "0"])
def test_unknown_algorithm_is_refused_though_sealed_under_its_name(kind: str, alg: str) -> None:
    """The algorithm is a property of the key, not a choice of the file (T6)."""
    _, header, payload, _ = records.record(kind).split(b"\n")
    data = records.forge(header, payload, kind=kind, alg=alg)
    check_equal(type(refusal(kind, data)), UnknownFormatError, "class")


@KINDS
@pytest.mark.parametrize("claimed", [*records.KINDS, "mark", "event", "x" * 20])
def test_kind_of_the_line_must_be_the_one_asked_for(kind: str, claimed: str) -> None:
    """A record never chooses what it is read as (T5)."""
    if claimed == kind:
        records.read(kind, records.record(kind))
        return
    first, rest = first_line(kind)
    data = first.replace(f'"kind":"{kind}"', f'"kind":"{claimed}"').encode() + rest
    refusal(kind, data)


def test_header_format_must_agree_with_the_seal() -> None:
    """Version of the seal and format of the header are one number (T6): exit 4."""
    for value in (0, 2, True, 1.0, "1", None, [1], records.ABSENT):
        error = refusal(
            "manifest", records.draft("manifest").edited("header.format", value).record()
        )
        check_equal(type(error), UnknownFormatError, f"class for {value!r}")


def test_encryption_that_is_not_known_is_refused() -> None:
    """The reserved field never passes silently: a later encrypted record stops here (T1)."""
    for value in ("A256GCM", {}, {"alg": "A256GCM"}, False, 0, "", records.ABSENT):
        draft = records.draft("checkpoint").edited("header.encryption", value)
        check_equal(type(refusal("checkpoint", draft.record())), UnknownFormatError, f"{value!r}")
        with pytest.raises(UnknownFormatError):  # the stream reads no field beside these
            records.stream("checkpoint", [draft.record()])


# --- header: its form and its set of fields -------------------------------------------------


@KINDS
@pytest.mark.parametrize(
    "line",
    [b"", b" ", b"null", b"[]", b"5", b'"x"', b"true", b"{", b"}", b"not json", b"\x00", b"\xff",
     b"[" * 5_000, b'{"format":1,"format":1}', b"NaN", b"{} ", b"\x80\x04N."],
    ids=lambda line: repr(line[:12]),
)  # fmt: skip
def test_sealed_header_that_is_no_header_is_refused(kind: str, line: bytes) -> None:
    """Authentic is not yet well-formed: still one typed error."""
    refusal(kind, records.forge(line, b"{}", kind=kind))


@KINDS
def test_header_in_another_form_is_refused(kind: str) -> None:
    """One header, one form (C10-02). Method: properly sealed respellings of the honest one."""
    _, header, payload, _ = records.record(kind).split(b"\n")
    respelled = [
        header.replace(b",", b", "), header.replace(b":", b": ", 1), header + b" ", b" " + header,
        b"\xef\xbb\xbf" + header, header.replace(b'"store"', b'"st\\u006fre"'), header + b"\r",
        header.replace(b"{", b'{"format":1,', 1), header[:-1] + b',"store":"x"}',
        header.replace(b'"length":', b'"length":0,"length":'), header + b"{}", header[:-1],
    ]  # fmt: skip
    for line in respelled:
        check(line != header, "nothing was changed")
        refusal(kind, records.forge(line, payload, kind=kind))


@KINDS
def test_missing_unknown_and_reordered_fields_are_refused(kind: str) -> None:
    """Exactly the known fields in their order, nothing ignored, no default (C13-02).

    Method: each field of header and payload left out, each pair of neighbours swapped, an
    unknown one at each place; all of it properly sealed.
    """
    honest = records.draft(kind)
    tried = 0
    for part in ("header", "payload"):
        fields: dict[str, Any] = getattr(honest, part)
        pairs = list(fields.items())
        variants = [dict(pairs[:i] + pairs[i + 1 :]) for i in range(len(pairs))]
        variants += [
            dict([*pairs[:i], pairs[i + 1], pairs[i], *pairs[i + 2 :]])
            for i in range(len(pairs) - 1)
        ]
        variants += [dict([*pairs[:i], ("x", 1), *pairs[i:]]) for i in range(len(pairs) + 1)]
        for variant in variants:
            whole = {"header": honest.header, "payload": honest.payload} | {part: variant}
            pinned = (
                frozenset({"length", "sha256"} - set(variant)) if part == "header" else frozenset()
            )
            changed = records.Draft(kind, whole["header"], whole["payload"], pinned)
            refusal(kind, changed.record())
            tried += 1
    check(tried >= 3 * len(honest.header), "too few variants")


@KINDS
def test_duplicated_field_in_the_payload_is_refused(kind: str) -> None:
    """No reader can see another value than the one that was checked (C10-02)."""
    _, _, payload, _ = records.record(kind).split(b"\n")
    doubled = [payload.replace(b"{", b'{"x":1,"x":1,', 1), payload[:-1] + b',"state":1}']
    for name in records.draft(kind).payload:
        field = f'"{name}":'.encode()
        doubled.append(payload.replace(field, field + b"null," + field, 1))
    for changed in doubled:
        line = records.header_line(changed, kind=kind)
        refusal(kind, records.forge(line, changed, kind=kind))


# --- header: length, hash, size --------------------------------------------------------------


@KINDS
@pytest.mark.parametrize(
    "value",
    [-1, -(2**63), 0, 1, 10**9, 2**63, 2**64 - 1, True, False, 1.0, 0.0, "2", None, [], {},
     records.ABSENT],
    ids=lambda value: "absent" if value is records.ABSENT else repr(value),
)  # fmt: skip
def test_length_that_is_not_the_payloads_is_refused(kind: str, value: object) -> None:
    """A length never makes a reader read more, less, or from another place (T8)."""
    data = records.draft(kind).edited("header.length", value).record()
    refusal(kind, data)
    with pytest.raises(LastgoodError):
        records.stream(kind, [data])


@KINDS
def test_length_one_off_is_refused(kind: str) -> None:
    """Not a byte less, not a byte more, though the hash be right for what is there."""
    actual = len(canonical.encode(records.draft(kind).payload))
    for value in (actual - 1, actual + 1, -actual, actual + 2**32):
        data = records.draft(kind).edited("header.length", value).record()
        refusal(kind, data)
        for more in (b"", b"\n", b" "):
            with pytest.raises(LastgoodError):
                records.stream(kind, [data + more])


@KINDS
def test_negative_length_makes_no_record_of_a_header_alone(kind: str) -> None:
    """A record has three lines, whatever its header says (G6).

    Method: length -1 and the hash of nothing, without a payload line, so that every sum is right.
    """
    draft = records.draft(kind).edited("header.length", -1)
    draft = draft.edited("header.sha256", hashlib.sha256(b"").hexdigest())
    first, header, _, _ = draft.record().split(b"\n")
    data = first + b"\n" + header + b"\n"
    error = refusal(kind, data)
    check("has no length" in str(error), f"for another reason: {error}")
    with pytest.raises(LastgoodError):
        records.stream(kind, [data])


@KINDS
def test_stream_without_a_line_feed_is_given_up_at_the_limit(kind: str) -> None:
    """An endless first line costs a bounded read (T8). Method: a stream that counts its chunks."""
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 1_000

    with pytest.raises(LastgoodError):
        records.stream(kind, endless())
    check(taken <= 10, f"{taken} chunks of 1,000 bytes were read")


@KINDS
@pytest.mark.parametrize(
    "value",
    [
        "0" * 64,
        "F" * 64,
        "0" * 63,
        "",
        "٠" * 64,
        "é" * 64,
        "0" * 64 + "é",
        None,
        0,
        [],
        records.ABSENT,
    ],
    ids=lambda value: "absent" if value is records.ABSENT else ascii(value)[:12],
)
def test_hash_that_is_not_the_payloads_is_refused(kind: str, value: object) -> None:
    """The payload is bound to its header (G6)."""
    data = records.draft(kind).edited("header.sha256", value).record()
    refusal(kind, data)
    with pytest.raises(LastgoodError):
        records.stream(kind, [data])


@KINDS
def test_header_over_its_limit_is_refused_before_its_mac_is_computed(kind: str) -> None:
    """A hostile header costs at most its limit (T8). Method: a sealer that must not be asked."""

    class Untouchable:
        kid = records.keyring().primary_kid

        def key(self, kid: str, purpose: str, kind: str) -> bytes:
            raise RuntimeError("a key was taken for a header over its limit")

    data = records.draft(kind).edited("header.writer", "x" * 8 * 1024).record()
    for hostile in (data, data[:300] + b"x" * 10**6, data.replace(b"\n", b" " * 9_000 + b"\n")):
        with pytest.raises(LastgoodError) as caught:
            seal.unseal_header(
                hostile,
                context=records.context(kind),
                sealer=Untouchable(),
                limits=Limits(),
                name="t",
            )
        check_equal(caught.value.exit_code, 2, "exit code")


@KINDS
def test_lines_of_two_honest_records_never_make_a_third(kind: str) -> None:
    """Seal, header and payload of different good records do not fit together (T2).

    Method: every combination of the three lines of two records that differ in each line.
    """
    draft = records.draft(kind).edited("header.created", "2027-01-01T00:00:00.000000Z")
    if kind != "store":  # whose payload is always {}
        field = {"session": "salt", "checkpoint": "state", "manifest": "previous"}[kind]
        value = {"session": "ff" * 32, "checkpoint": 1, "manifest": None}[kind]
        draft = draft.edited(f"payload.{field}", value)
    honest = [records.record(kind), draft.record()]
    lines = [data.split(b"\n") for data in honest]
    refused = 0
    for one, two, three in itertools.product((0, 1), repeat=3):
        mixed = b"\n".join([lines[one][0], lines[two][1], lines[three][2], b""])
        if mixed in honest:
            records.read(kind, mixed)
        else:
            refusal(kind, mixed)
            refused += 1
    check_equal(refused, 4 if kind == "store" else 6, "combinations refused")
