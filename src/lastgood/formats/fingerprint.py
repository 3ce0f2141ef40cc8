"""Fingerprints: the identity of one exact action, ``fx:v1:`` and 64 lower-case hex characters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from typing import Final, NewType

from lastgood.errors import FingerprintError, printable

Fingerprint = NewType("Fingerprint", str)

_GRAMMAR: Final = re.compile(r"fx:v1:[0-9a-f]{64}")


def fingerprint(text: object, *, index: int | None = None) -> Fingerprint:
    """Return ``text`` as a fingerprint.

    Raises:
        FingerprintError: Empty, upper case, of a wrong length, or not a string; has ``index``.
    """
    if type(text) is not str:
        raise FingerprintError(f"a {printable(type(text).__name__)}, not a string", index=index)
    if not text:
        raise FingerprintError("empty", index=index)
    if not _GRAMMAR.fullmatch(text):
        raise FingerprintError("malformed", index=index)
    return Fingerprint(text)


def fingerprints(texts: Iterable[object]) -> tuple[Fingerprint, ...]:
    """Return ``texts``, in their order, as fingerprints of our own: the caller's list may change.

    Raises:
        FingerprintError: One is malformed, or stands there twice; has its index. Or ``texts`` is
            no list: one text, or a set, whose order would be another in the next process.
    """
    if isinstance(texts, str | bytes):
        raise FingerprintError("given as one text instead of a list")
    if isinstance(texts, Set) or not isinstance(texts, Iterable):
        raise FingerprintError(f"given as a {printable(type(texts).__name__)} instead of a list")
    known: dict[Fingerprint, int] = {}
    for index, text in enumerate(texts):
        one = fingerprint(text, index=index)
        if one in known:
            raise FingerprintError(f"the same as the one at index {known[one]}", index=index)
        known[one] = index
    return tuple(known)
