"""Fingerprints: one form, each once, the caller's order."""

from __future__ import annotations

from typing import Any

import pytest

from lastgood.errors import FingerprintError
from lastgood.formats.fingerprint import fingerprint, fingerprints
from tests.support.check import check_equal
from tests.support.records import fingerprint as legal

HEX = "0123456789abcdef" * 4


class Text(str):
    """A str of another type."""

    __slots__ = ()


@pytest.mark.parametrize(
    "text",
    [
        "", " ", HEX, f"fx:v1:{HEX.upper()}", f"FX:v1:{HEX}", f"fx:v2:{HEX}", f"fx:v1:{HEX[1:]}",
        f"fx:v1:{HEX}0", f"fx:v1:{HEX}\n", f" fx:v1:{HEX}", f"fx:v1:{HEX[:-1]}g",
        f"fx:v1:{'٠' * 64}", f"fx:v1:{'a' * 63}\ud800", f"fx:v1: {HEX[1:]}", None, 5, True, 1.0,
        b"fx:v1:" + HEX.encode(), [legal(1)], Text(legal(1)),
    ],
)  # fmt: skip
def test_malformed_fingerprint_is_refused_with_its_index(text: object) -> None:
    """An effect is known by exactly one form; nothing is repaired (G5)."""
    with pytest.raises(FingerprintError) as caught:
        fingerprints([legal(1), text])
    check_equal(caught.value.index, 1, "index of the malformed one")
    with pytest.raises(FingerprintError):
        fingerprint(text)


def test_duplicate_is_refused_with_both_indices() -> None:
    """A set given as a list with a duplicate is a mistake of the caller, never merged (G5)."""
    with pytest.raises(FingerprintError, match="index 0 at index 2") as caught:
        fingerprints([legal(7), legal(1), legal(7)])
    check_equal(caught.value.index, 2, "index of the second")


@pytest.mark.parametrize(
    "texts", [legal(1), legal(1).encode(), {legal(1), legal(2)}, frozenset({legal(1)}), None, 5]
)
def test_what_is_no_list_is_refused(texts: Any) -> None:
    """A string is no list of characters, and a set has no order to be stored (G5, I3)."""
    with pytest.raises(FingerprintError, match="instead of a list"):
        fingerprints(texts)


def test_order_is_kept_and_the_list_copied() -> None:
    """The caller's list may change afterwards; order is that of the log (I6)."""
    given = [legal(9), legal(1), legal(5)]
    own = fingerprints(given)
    given.clear()
    check_equal(own, (legal(9), legal(1), legal(5)), "fingerprints")
    check_equal(fingerprints(iter([])), (), "none")
