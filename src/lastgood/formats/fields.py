"""Reading the fields of an authenticated object strictly: exactly these, of exactly these types.

An object that was sealed with our key and still does not fit was written by another
version: it stops, nothing is ignored and nothing gets a default.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from lastgood.errors import DamagedError, UnknownFormatError, UsageError, printable
from lastgood.formats.canonical import JSON
from lastgood.formats.limits import MAX_SEQUENCE

_Given = TypeVar("_Given")
_HEX: Final = re.compile(r"[0-9a-f]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_TIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", re.ASCII
)


def check_given(text: object, *, limit_chars: int, what: str) -> None:
    """Return only if ``text``, given by a caller, may go into a record: ``Fields.text`` reads it.

    Raises:
        UsageError: Not a str, longer than ``limit_chars``, or with half a surrogate pair.
    """
    one = f"{'An' if what[:1] in 'aeio' else 'A'} {what}"
    if type(text) is not str:
        raise UsageError(f"{one} is a string, not {printable(type(text).__name__)}")
    if len(text) > limit_chars:
        raise UsageError(f"{one} has at most {limit_chars} characters, not {len(text)}")
    if _SURROGATE.search(text):
        raise UsageError(f"This {what} holds half a surrogate pair")


def check_type(value: _Given, kind: type[_Given], *, what: str) -> _Given:
    """Return ``value``, given by a caller; a wrong type is told at once, not in mid-save.

    Raises:
        UsageError: It is not a ``kind``.
    """
    if isinstance(value, kind):
        return value
    raise UsageError(f"The {what} is a {kind.__name__}, not {printable(type(value).__name__)}")


class Fields:
    """One object whose fields are taken by type."""

    def __init__(self, value: JSON, names: tuple[str, ...], *, what: str, name: str) -> None:
        """Accept ``value`` if it is an object of exactly ``names``, in that order.

        Args:
            value: What ``canonical.decode`` gave.
            names: The format's field table.
            what: What the object is, for messages.
            name: File it came from, for messages.

        Raises:
            UnknownFormatError: A field is unknown, missing or out of its place.
        """
        if type(value) is not dict or tuple(value) != names:
            raise UnknownFormatError(
                f"{printable(name)}: its {what} does not have exactly the known fields"
            )
        self._value = value
        self._what = what
        self._name = name

    def raw(self, field: str) -> JSON:
        """The value as it is."""
        return self._value[field]

    def integer(self, field: str, *, low: int = 0, high: int = MAX_SEQUENCE) -> int:
        """An int, never a bool or a float, from ``low`` to ``high``."""
        value = self._value[field]
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(field)
        return value

    def text(self, field: str, *, limit_chars: int) -> str:
        """A str of at most ``limit_chars`` characters."""
        value = self._value[field]
        if type(value) is not str or len(value) > limit_chars:
            raise self.wrong(field)
        return value

    def hex(self, field: str, *, digits: int) -> str:
        """Exactly ``digits`` lower-case hex characters."""
        value = self.text(field, limit_chars=digits)
        if len(value) != digits or not _HEX.fullmatch(value):
            raise self.wrong(field)
        return value

    def optional_hex(self, field: str, *, digits: int) -> str | None:
        """Null, or as ``hex``."""
        return None if self._value[field] is None else self.hex(field, digits=digits)

    def time(self, field: str) -> str:
        """A time as ``clock.utc_text`` writes it; kept as text, never compared."""
        value = self.text(field, limit_chars=27)
        if not _TIME.fullmatch(value):
            raise self.wrong(field)
        return value

    def array(self, field: str, *, limit: int) -> list[JSON]:
        """A list of at most ``limit`` items."""
        value = self._value[field]
        if type(value) is not list or len(value) > limit:
            raise self.wrong(field)
        return value

    def empty(self, field: str) -> None:
        """A list that is kept for a later version, and empty in this one.

        Raises:
            UnknownFormatError: A later version put something into it; it is not damage.
        """
        if self.array(field, limit=MAX_SEQUENCE):
            raise UnknownFormatError(
                f"{printable(self._name)}: its {self._what} uses {field}, which is not known here"
            )

    def exactly(self, field: str, expected: JSON) -> None:
        """The field must hold ``expected``, of the same type."""
        value = self._value[field]
        if type(value) is not type(expected) or value != expected:
            raise self.wrong(field)

    def wrong(self, field: str) -> DamagedError:
        """The error for a field whose value is not legal."""
        return DamagedError(f"the field {field} of its {self._what} is not legal", name=self._name)
