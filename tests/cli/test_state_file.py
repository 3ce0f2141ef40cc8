"""The strict reader of a state: the same value, or a refusal that names its place."""

from __future__ import annotations

import base64
import errno
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.cli import state_file
from lastgood.errors import LastgoodError, LimitError, StateError, StorageError, UsageError
from lastgood.formats.limits import Limits
from lastgood.storage.filesystem import OsFileSystem
from tests.support import values
from tests.support.check import check, check_equal
from tests.support.require import require_corpora
from tests.support.values import same

REFUSED: list[tuple[bytes, str]] = [
    (b"", "line 1 column 1"),
    (b" \n ", "line 2 column 2"),
    (b"{", "line 1 column 2"),
    (b'{"a": 1,}', "line 1 column 9"),
    (b"[1,]", "line 1 column 4"),
    (b"{'a': 1}", "line 1 column 2"),
    (b"{} {}", "line 1 column 4"),
    (b"{}\x00", "line 1 column 3"),
    (b"[1]\x0c", "line 1 column 4"),
    (b"\xc2\xa01", "line 1 column 1"),
    (b"// x\n1", "line 1 column 1"),
    (b"01", "line 1 column 2"),
    (b"+1", "line 1 column 1"),
    (b".5", "line 1 column 1"),
    (b"1.", "line 1 column 2"),
    (b"0x10", "line 1 column 2"),
    (b"nan", "line 1 column 1"),
    (b"True", "line 1 column 1"),
    (b'"a\tb"', "line 1 column 3"),
    (b'"a\nb"', "line 1 column 3"),
    (b'"\\x41"', "line 1 column 2"),
    (b'"abc', "line 1 column 1"),
    (b"NaN", "line 1 column 1"),
    (b'{"a": [1,\n  -Infinity]}', "line 2 column 3"),
    (b"[Infinity]", "line 1 column 2"),
    (b"[1, 1e999]", "line 1 column 5"),
    (b"[-1e400]", "line 1 column 2"),
    (b"1" + b"0" * 400 + b".5", "line 1 column 1"),
    (b"18446744073709551616", "line 1 column 1"),
    (b"[0, -9223372036854775809]", "line 1 column 5"),
    (b"[" + b"9" * 5_000 + b"]", "line 1 column 2"),
    (b'{"a": 1, "a": 2}', "line 1 column 10"),
    (b'{"a": 1,\n "\\u0061": 1}', "line 2 column 2"),
    (b'{"x": {"a":1}, "y": [{"b":1, "b" :1}]}', "line 1 column 30"),
    (b'{"": 0, "b": 1, "": 0}', "line 1 column 17"),
    (b"\xef\xbb\xbf{}", "line 1 column 1"),
    (b"\xff\xfe{\x00}\x00", "line 1 column 1"),
    (b'["a",\n"\xc3\x28"]', "line 2 column 2"),
    (b'"\xed\xa0\x80"', "line 1 column 2"),
    (b'"\xc0\xaf"', "line 1 column 2"),
    (b"[" * 100_000, ""),
    (b"[" * 5_000 + b"]" * 5_000, ""),
]
TAKEN: list[tuple[bytes, Any]] = [
    (b'\t\r\n {"a" : [ ] }\n', {"a": []}),
    (b"1.0000000000000000001", 1.0),
    (b"1e-999", 0.0),
    (b"-0", -0.0),
    (b"-0.0e5", -0.0),
    (b"1E+2", 100.0),
    (b"18446744073709551615", 2**64 - 1),
    (b"-9223372036854775808", -(2**63)),
    (b"100000000000000000000.0", 1e20),
    (b'"\\ud83d\\ude00 \\u0000 \\/"', "\U0001f600 \x00 /"),
    (b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}', {"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]}),
    (b'{"a": "a", "b": ": , {", "NaN": "1e999"}', {"a": "a", "b": ": , {", "NaN": "1e999"}),
]


@pytest.mark.parametrize(("data", "place"), REFUSED, ids=lambda value: repr(value)[:30])
def test_text_that_is_not_surely_one_value_is_refused_with_its_place(
    data: bytes, place: str
) -> None:
    """Nothing is saved that another reader of the same text could take for another value."""
    with pytest.raises(StateError) as caught:
        state_file.parse(data)
    check(caught.value.path == place or not place, f"{caught.value}")
    check(str(caught.value).isprintable(), "an unprintable message")


@pytest.mark.parametrize(("data", "value"), TAKEN, ids=lambda value: repr(value)[:30])
def test_text_of_one_value_is_taken_as_that(data: bytes, value: Any) -> None:
    """Numbers mean IEEE doubles as everywhere in JSON; integers of 64 bits stay exact."""
    got = state_file.parse(data)
    check(same(got, value), repr(got))


@given(values.values(), st.sampled_from([None, 0, 2, "\t"]), st.booleans())
def test_any_value_survives_any_spelling(value: Any, indent: Any, ascii_only: bool) -> None:
    """Indent, separators and escapes change nothing. Method: any value, spelled by Python."""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    got = state_file.parse(text.encode("utf-8"))
    check(same(got, value), f"{got!r} of {text}")


@given(st.binary(max_size=40) | st.text('[]{}:,"\\ -0189.eEuaNn\n', max_size=40).map(str.encode))
def test_any_bytes_are_a_value_or_a_typed_refusal(data: bytes) -> None:
    """No input ends in another error, and what is taken is what a plain parser sees too."""
    try:
        got = state_file.parse(data)
    except StateError as error:
        check(str(error).isprintable(), repr(str(error)))
    else:
        check(json.loads(data) == got, repr(got))


def test_each_of_the_naughty_strings_comes_through(tmp_path: Path) -> None:
    """C10-05: odd characters as key and value. Method: all of a public list, in one file."""
    folder = require_corpora("blns")
    encoded = json.loads((folder / "blns.base64.json").read_text(encoding="ascii"))
    naughty = [base64.b64decode(text).decode("utf-8") for text in encoded]
    check(len(naughty) > 500, "the list is not whole")
    state = {text: [text] for text in naughty}
    (tmp_path / "s").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
    check(same(state_file.read(str(tmp_path / "s"), limits=Limits()), state), "another value")


class Counting(OsFileSystem):
    """Counts what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def read(self, fd: int, size_bytes: int) -> bytes:
        data = super().read(fd, size_bytes)
        self.read_bytes += len(data)
        return data


def test_file_over_the_limit_is_refused_before_all_of_it_is_read(tmp_path: Path) -> None:
    """T8: a huge or endless file costs no more than the limit. Method: count bytes; /dev/zero."""
    (tmp_path / "s").write_bytes(b" " * 5_000)
    filesystem = Counting()
    for name in (str(tmp_path / "s"), "/dev/zero"):
        filesystem.read_bytes = 0
        with pytest.raises(LimitError):
            state_file.read(name, limits=Limits(payload_bytes=1_000), filesystem=filesystem)
        check_equal(filesystem.read_bytes, 1_001, "bytes read")


class Failing(OsFileSystem):
    """Cannot read."""

    def read(self, fd: int, size_bytes: int) -> bytes:
        raise OSError(errno.EIO, "I/O")


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("missing", UsageError),
        ("missing/below", UsageError),
        ("plain/below", UsageError),
        (".", UsageError),
        ("loop", StorageError),
        ("n" * 300, StorageError),
        ("unreadable", StorageError),
    ],
)
def test_file_that_cannot_be_read_is_a_typed_error(
    name: str, error: type[LastgoodError], tmp_path: Path
) -> None:
    """Not there is a usage error; cannot be read is an I/O error, never an empty state."""
    (tmp_path / "plain").touch()
    (tmp_path / "unreadable").touch()
    (tmp_path / "loop").symlink_to("loop")
    filesystem = Failing() if name == "unreadable" else OsFileSystem()
    with pytest.raises(error):
        state_file.read(str(tmp_path / name), limits=Limits(), filesystem=filesystem)


def test_terminal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who forgets the state is told, and does not stare at a silent command."""
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr(os, "isatty", lambda fd: fd == 0)
    with pytest.raises(UsageError, match="terminal"):
        state_file.read("-", limits=Limits())


def test_closed_standard_input_is_no_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed standard input is told, and no other file is read in its place."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="closed"):
        state_file.read("-", limits=Limits())
