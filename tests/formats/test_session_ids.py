"""Session ids: data of 1 to 512 bytes, never paths."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import InvalidIdError
from lastgood.formats import names
from tests.support.check import check, check_equal


class Text(str):
    """A str of another type."""

    __slots__ = ()


ILLEGAL = {
    "empty": "", "line feed": "a\n", "NUL": "a\0b", "tab": "\t", "escape": "\x1b[2J",
    "unit separator": "\x1f", "DEL": "\x7f", "C1": "a\x9bb", "first C1": "\x80", "NEL": "\x85",
    "last C1": "\x9f", "lone high": "\ud800", "lone low": "a\udfff", "pair as two": "\ud83d\ude00",
    "4 KiB": "x" * 4096, "513 bytes": "x" * 513, "171 CJK": "字" * 171, "129 astral": "😀" * 129,
    "int": 5, "bool": True, "None": None, "bytes": b"nightly", "list": ["a"], "float": 1.0,
    "subclass": Text("nightly"),
}  # fmt: skip


@pytest.mark.parametrize("value", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_illegal_id_is_refused(value: object) -> None:
    """Nothing else can be an id, and the error does not repeat it (C11-01, T12)."""
    with pytest.raises(InvalidIdError) as caught:
        names.session_id(value)
    check(str(caught.value).isascii(), f"unescaped: {caught.value}")
    check(len(str(caught.value)) < 300, "a long message")


LEGAL = [
    "../x", "x/../../P", "/abs", "..", ".", "a/b", "a\\b", "C:\\x", "~", "%2e%2e%2f", "a:b", " a",
    " ", "a ", "-rf", "$(id)", "CON", "nightly", "0", "null", "\xa0", "\xad", "\u2028", "\u202e",
    "\ufeff", "\ufffe", "\U0010ffff", "é", "e\u0301", "x" * 512, "字" * 85, "字" * 86, "字" * 170,
    "😀" * 128, "x" * 200, "x" * 256,
]  # fmt: skip


@pytest.mark.parametrize("text", LEGAL, ids=map(ascii, LEGAL))
def test_legal_id_is_kept_as_it_is_and_never_a_path(text: str) -> None:
    """An accepted id fits every file name, for only its digest becomes one (C11-01, C11-05)."""
    found = names.session_id(text)
    check_equal(found, text, "id")
    folder = names.directory(found)
    check(names.is_directory(folder), f"not a digest: {folder}")
    check_equal(len(folder), 40, "bytes of the directory's name, for every id")


def test_composed_and_decomposed_ids_are_two_sessions() -> None:
    """No id is normalised (C11-01)."""
    composed = unicodedata.normalize("NFC", "naïve")
    decomposed = unicodedata.normalize("NFD", "naïve")
    folders = {names.directory(names.session_id(text)) for text in (composed, decomposed)}
    check_equal(len(folders), 2, "directories")


@given(st.text(max_size=600))
def test_any_text_is_an_id_or_refused_by_the_stated_rule(text: str) -> None:
    """The rule is the documented one. Method: written a second time, by Unicode category."""
    hostile = any(unicodedata.category(char) in {"Cc", "Cs"} for char in text)
    size = len(text.encode(errors="surrogatepass"))
    if 1 <= size <= 512 and not hostile:
        check_equal(names.session_id(text), text, "id")
    else:
        with pytest.raises(InvalidIdError):
            names.session_id(text)
