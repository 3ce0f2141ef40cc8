"""Fields: exactly the known ones, of exactly their types."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError, LastgoodError, UnknownFormatError, UsageError
from lastgood.formats.fields import Fields, check_given
from tests.support.check import check_equal
from tests.support.values import same, values

NAMES = ("a", "b")


@pytest.mark.parametrize(
    "value",
    [
        {}, {"a": 1}, {"b": 1, "a": 1}, {"a": 1, "b": 1, "c": 1}, {"A": 1, "b": 1},
        {"a": 1, "b ": 1}, None, [], ["a", "b"], "ab", 5, True,
    ],
    ids=repr,
)  # fmt: skip
def test_other_set_or_order_of_fields_is_unknown(value: Any) -> None:
    """Nothing is ignored and nothing gets a default (C13-02): exit 4."""
    with pytest.raises(UnknownFormatError):
        Fields(value, NAMES, what="test", name="test")


def taken(method: str, value: Any, **bounds: Any) -> Any:
    return getattr(Fields({"f": value}, ("f",), what="test", name="test"), method)("f", **bounds)


TAKEN: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("integer", {}, [0, 1, 10**15], [-1, 10**15 + 1, True, False, 1.0, "1", None, [], {}]),
    ("integer", {"low": 1, "high": 3}, [1, 3], [0, 4]),
    ("text", {"limit_chars": 3}, ["", "abc", "字字字"], ["abcd", 5, None, True, [], {}, ["a"]]),
    (
        "hex", {"digits": 4}, ["00ff", "1234"],
        ["00fF", "00f", "00ff0", "00fg", "٠٠٠٠", "", " 0ff", "0ff\n", None, 0, 1234],
    ),
    ("optional_hex", {"digits": 4}, [None, "00ff"], ["00FF", "", 0, False, []]),
    (
        "time", {}, ["2026-12-01T07:00:00.000000Z"],
        ["2026-12-01T07:00:00Z", "2026-12-01T07:00:00.000000", "2026-12-01 07:00:00.000000Z",
         "2026-12-01T07:00:00.000000+00:00", "٢026-12-01T07:00:00.000000Z", "", None, 1764572400,
         "2026-12-01T07:00:00.000000Z\n", "2026-12-01T07:00:00.00000Z"],
    ),
    ("array", {"limit": 2}, [[], [1, None]], [[1, 2, 3], {}, "ab", None, 0]),
]  # fmt: skip


@pytest.mark.parametrize(("method", "bounds", "legal", "illegal"), TAKEN)
def test_field_is_taken_only_in_its_type_and_range(
    method: str, bounds: dict[str, Any], legal: list[Any], illegal: list[Any]
) -> None:
    """A value of another type or beyond its limit is damage, at both edges (G6)."""
    for value in legal:
        check_equal(taken(method, value, **bounds), value, f"{method} of {value!r}")
    for value in illegal:
        with pytest.raises(DamagedError):
            taken(method, value, **bounds)


@pytest.mark.parametrize("value", [0, False, 0.0, "", [], None])
def test_exactly_tells_types_apart(value: Any) -> None:
    """``False`` is not ``0`` and ``[]`` not ``null``."""
    taken("exactly", value, expected=value)
    for other in [0, False, 0.0, "", [], None, 1, "x", [0]]:
        if type(other) is not type(value) or other != value:
            with pytest.raises(DamagedError):
                taken("exactly", value, expected=other)


@given(values(), st.sampled_from([(method, bounds) for method, bounds, _, _ in TAKEN]))
def test_any_value_is_taken_as_it_is_or_damage(value: Any, how: tuple[str, dict[str, Any]]) -> None:
    """Whatever an authenticated field holds, nothing but one typed error comes out."""
    method, bounds = how
    try:
        found = taken(method, value, **bounds)
    except LastgoodError as error:
        check_equal(error.exit_code, 2, "exit code")
        return
    check_equal(same(found, value), True, "taken unchanged")


@given(st.text(alphabet=st.characters() | st.sampled_from("\ud800\udfff"), max_size=12))
def test_given_text_is_refused_before_writing_if_it_would_be_when_read(text: str) -> None:
    """What a caller may put into a record, every reader takes (C9-08)."""
    from lastgood.formats import canonical

    try:
        check_given(text, limit_chars=8, what="label")
    except UsageError:
        whole = not any(0xD800 <= ord(char) < 0xE000 for char in text)
        check_equal(len(text) <= 8 and whole, False, "refused although it is legal")
        return
    again = canonical.decode(canonical.encode(text))
    check_equal(taken("text", again, limit_chars=8), text, "text read back")


@pytest.mark.parametrize("value", [None, 5, b"a", ["a"], "x" * 9, "\ud800"])
def test_given_text_of_a_wrong_kind_is_a_usage_error(value: object) -> None:
    """A label that no reader would take is refused while it can still be changed."""
    with pytest.raises(UsageError):
        check_given(value, limit_chars=8, what="label")
