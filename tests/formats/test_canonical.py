"""Canonical bytes: PAE is injective, JSON has one form."""

from __future__ import annotations

import errno
import math
import string
import subprocess
import sys
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError
from lastgood.formats import canonical
from tests.support.check import check, check_equal
from tests.support.records import pae_oracle
from tests.support.values import same, values

# --- PAE ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ((), "0000000000000000"),
        ((b"",), "0100000000000000" "0000000000000000"),
        ((b"test",), "0100000000000000" "0400000000000000" "74657374"),
        (("test",), "0100000000000000" "0400000000000000" "74657374"),
        (("é",), "0100000000000000" "0200000000000000" "c3a9"),
        ((1,), "0100000000000000" "0800000000000000" "0100000000000000"),
        ((2**64 - 1,), "0100000000000000" "0800000000000000" "ffffffffffffffff"),
        (
            ("a", b"bc", 0),
            "0300000000000000" "0100000000000000" "61" "0200000000000000" "6263"
            "0800000000000000" "0000000000000000",
        ),
    ],
)  # fmt: skip
def test_pae_has_its_known_bytes(items: tuple[bytes | str | int, ...], expected: str) -> None:
    """What a MAC is taken over is fixed for ever (T2). Method: known answers, written by hand."""
    check_equal(canonical.pae(*items).hex(), expected, "PAE")


@given(st.lists(st.binary(max_size=20), max_size=6), st.lists(st.binary(max_size=20), max_size=6))
def test_pae_of_different_lists_differs(one: list[bytes], other: list[bytes]) -> None:
    """No two lists of byte strings give the same bytes, so no field slides into another (T5)."""
    check_equal(canonical.pae(*one) == canonical.pae(*other), one == other, "equal bytes")
    check_equal(canonical.pae(*one), pae_oracle(*one), "bytes")


@given(st.lists(st.binary(max_size=6), min_size=2, max_size=5), st.data())
def test_pae_tells_where_one_item_ends(items: list[bytes], data: st.DataObject) -> None:
    """Moving a border between two items changes the bytes (T5). Method: join two neighbours."""
    at = data.draw(st.integers(0, len(items) - 2))
    joined = [*items[:at], items[at] + items[at + 1], *items[at + 2 :]]
    moved = [*items[:at], items[at] + items[at + 1], b"", *items[at + 2 :]]
    check(canonical.pae(*joined) != canonical.pae(*items), "joined items look alike")
    check_equal(canonical.pae(*moved) == canonical.pae(*items), moved == items, "a moved border")


@pytest.mark.parametrize("number", [-1, 2**64])
def test_pae_refuses_a_number_beyond_8_bytes(number: int) -> None:
    """A number is never cut to fit."""
    with pytest.raises(OverflowError):
        canonical.pae(number)


# --- JSON -----------------------------------------------------------------------------------


@given(values())
def test_what_is_encoded_is_decoded(value: Any) -> None:
    """decode(encode(x)) == x, with the same types, keys in the same order."""
    data = canonical.encode(value)
    check(same(canonical.decode(data), value), f"not the same: {data!r}")
    check_equal(canonical.encode(canonical.decode(data)), data, "bytes of the second encoding")
    check(b"\n" not in data, "a line feed within one line")


NOT_CANONICAL = {
    "empty": b"", "blank": b" ", "trailing space": b"{} ", "leading space": b" {}",
    "inner space": b'{"a": 1}', "line feed": b"{}\n", "tab": b"[\t]", "BOM": b"\xef\xbb\xbf{}",
    "UTF-16": "{}".encode("utf-16"), "two values": b"{}{}", "half": b'{"a":', "NUL": b"{}\x00",
    "duplicate key": b'{"a":1,"a":2}', "same duplicate": b'{"a":1,"a":1}',
    "nested duplicate": b'{"b":[{"a":1,"a":1}]}', "escaped duplicate": b'{"a":1,"\\u0061":1}',
    "65-bit integer": b"18446744073709551616", "below 64 bits": b"-9223372036854775809",
    "huge integer": b"1" * 400, "1e999": b"1e999", "-1e999": b"-1e999", "NaN": b"NaN",
    "Infinity": b"Infinity", "-Infinity": b"-Infinity", "nan": b"nan", "plus": b"+1",
    "leading zero": b"01", "-0": b"-0", "1.": b"1.", ".5": b".5", "hex": b"0x10",
    "float with NUL": b"1.5\x00", "two dots": b"1.5.5", "integer for float": b"1e2x",
    "escaped letter": b'"\\u0041"', "escaped slash": b'"\\/"', "upper-case escape": b'"\\u001F"',
    "lone high": b'"\\ud800"', "lone low": b'"\\udc00"', "escaped pair": b'"\\ud83d\\ude00"',
    "raw control": b'"\x01"', "raw line feed": b'"\n"', "overlong": b'"\xc0\xaf"',
    "0xFF": b'"\xff"', "lone continuation": b'"\x80"', "surrogate bytes": b'"\xed\xa0\x80"',
    "single quotes": b"{'a':1}", "comment": b"{}//", "trailing comma": b"[1,]", "True": b"True",
    "undefined": b"undefined", "DEL escaped": b'"\\u007f"', "pickle": b"\x80\x04K\x01.",
}  # fmt: skip


@pytest.mark.parametrize("data", NOT_CANONICAL.values(), ids=NOT_CANONICAL.keys())
def test_other_form_of_a_value_is_refused(data: bytes) -> None:
    """One value, one form: what two readers could read differently is damage (C10-02, C10-06)."""
    with pytest.raises(DamagedError):
        canonical.decode(data)


@pytest.mark.parametrize(
    ("other", "ours"),
    [
        (b"1e16", 1e16), (b"1e+16", 1e16), (b"1E16", 1e16), (b"1.00", 1.0), (b"-0.00", -0.0),
        (b"0.10000000000000001", 0.1), (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"1.7976931348623157e+308", 1.7976931348623157e308), (b"5e-324", 5e-324),
    ],
)  # fmt: skip
def test_float_in_another_spelling_is_the_same_value(other: bytes, ours: float) -> None:
    """A store written with another release of the serialiser is still readable (C9-08).

    Method: spellings of orjson 3.11.6 and 3.11.7, and longer ones, beside texts that look alike.
    """
    data = b'{"1e16":"1e+16 \\"1e16","a":[' + other + b",1]}"
    check(same(canonical.decode(data), {"1e16": '1e+16 "1e16', "a": [ours, 1]}), "another value")


@pytest.mark.parametrize(
    ("one", "other"),
    [(b"[1.0,1e16]", b"[1,1e16]"), (b"[1e16,1e16]", b'["1e+16",1e16]'),
     (b"[1e16,18446744073709551616]", b"[1e16,1.8446744073709552e19]")],
)  # fmt: skip
def test_other_spelling_of_a_float_hides_nothing_else(one: bytes, other: bytes) -> None:
    """Beside a respelled float, everything else still has one form (C10-02).

    Method: values that are equal in Python, or read as one, never count as respelled.
    """
    check(
        canonical._floats_respelled(one) != canonical._floats_respelled(other),
        "an integer or a text counts as a float",
    )
    with pytest.raises(DamagedError):
        canonical.decode(b'{"a":1e16,"b":1,"b":1}')
    with pytest.raises(DamagedError):
        canonical.decode(b"[1e16,18446744073709551616]")


@pytest.mark.parametrize("depth", [255, 1_023, 1_025, 100_000])
@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
def test_bottomless_nesting_is_refused(depth: int, opening: bytes) -> None:
    """Depth neither crashes the process nor escapes as another error (T8)."""
    closing = {b"[": b"[" + b"]" * depth, b'{"a":': b"0" + b"}" * depth}[opening]
    with pytest.raises(DamagedError):
        canonical.decode(opening * (depth - (opening == b"[")) + closing)


@given(
    st.binary(max_size=40) | st.text(alphabet='{}[],:"\\u0123aen.+- ', max_size=30).map(str.encode)
)
def test_any_bytes_are_canonical_or_damaged(data: bytes) -> None:
    """Whatever stands in a verified part, the outcome is a value of that form or one error."""
    try:
        value = canonical.decode(data)
    except DamagedError:
        return
    check_equal(canonical.encode(value), data, "the one form")


# --- what the code relies on in the serialiser ------------------------------------------------


class Text(str):
    """A str of another type."""

    __slots__ = ()


@pytest.mark.parametrize(
    "key",
    [1, True, None, 1.5, ("a",), b"a", Text("a"), frozenset()],
    ids=lambda key: type(key).__name__,
)
def test_serialiser_refuses_keys_that_are_not_exactly_str(key: Any) -> None:
    """``formats.state`` leaves keys to the serialiser: if one day it takes these, this fails."""
    with pytest.raises(TypeError):
        canonical.encode({key: 1})


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 10**400])
def test_serialiser_refuses_integers_beyond_64_bits(value: int) -> None:
    """``formats.state`` leaves integers to the serialiser."""
    with pytest.raises(TypeError):
        canonical.encode([value])


@pytest.mark.parametrize("text", ["\ud800", "a\udc88b", "\ude00\ud83d"])
def test_serialiser_refuses_half_a_surrogate_pair(text: str) -> None:
    """``formats.state`` leaves surrogates to the serialiser, in values and keys (C9-02)."""
    with pytest.raises(TypeError):
        canonical.encode([text])
    with pytest.raises(TypeError):
        canonical.encode({text: 1})


def test_serialiser_refuses_depth_beyond_its_own_limit() -> None:
    """A cycle is an error of the serialiser, never a crash of the process (T8)."""
    cycle: list[Any] = []
    cycle.append(cycle)
    with pytest.raises(TypeError):
        canonical.encode(cycle)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, (1,)])
def test_serialiser_changes_these_silently(value: Any) -> None:
    """Why ``formats.state`` proves fidelity first. If this fails, its walk may become simpler."""
    again = orjson.loads(canonical.encode([value]))[0]
    check(type(again) is not type(value), f"kept: {again!r}")


def test_escapes_are_the_shortest() -> None:
    """The one form of each character below 0x80. Method: known answers, written by hand."""
    short = {
        "\b": "\\b",
        "\t": "\\t",
        "\n": "\\n",
        "\f": "\\f",
        "\r": "\\r",
        '"': '\\"',
        "\\": "\\\\",
    }
    for point in range(0x80):
        char = chr(point)
        plain = char in string.printable or point == 0x7F
        expected = short.get(char, char if plain and point >= 0x20 else f"\\u{point:04x}")
        check_equal(canonical.encode(char), f'"{expected}"'.encode(), f"U+{point:04X}")


_SHORT_OF_MEMORY = """
import resource
from lastgood.errors import StorageError
from lastgood.formats import canonical
data = b"[" + b"1," * (8 * 1024 * 1024) + b"1]"
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (32 << 20),) * 2)
try:
    canonical.decode(data, name="x.json")
except StorageError as error:
    print(error.errno, error.happened)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process's memory so")
def test_want_of_memory_is_not_called_damage() -> None:
    """G3: a good record that this process has no room to parse is unread, and nothing else.

    Method: a process that may take 32 MiB more parses 16 MiB, for which the parser wants 190.
    """
    words = [sys.executable, "-c", _SHORT_OF_MEMORY]
    told = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60).stdout
    check_equal(told, f"{errno.ENOMEM} Parsing x.json: ENOMEM\n", "what was raised")


def test_any_other_complaint_of_the_parser_stays_damage() -> None:
    """Only the parser's own words mean memory; a text that holds them does not."""
    for data in (b'{"Not enough memory":', b"Not enough memory", b""):
        with pytest.raises(DamagedError):
            canonical.decode(data, name="x.json")
