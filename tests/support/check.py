"""Checks that also speak under ``python -O``, where a bare ``assert`` says nothing."""

from __future__ import annotations


def check(condition: object, message: str) -> None:
    """Fail the test with ``message`` unless ``condition`` is true.

    Args:
        condition: Taken by its truth value.
        message: The guarantee that does not hold, or what was seen instead.

    Raises:
        AssertionError: ``condition`` is false; raised explicitly, so also under ``-O``.
    """
    if not condition:
        raise AssertionError(message)


def check_equal(got: object, expected: object, what: str) -> None:
    """Fail the test unless ``got`` is ``expected``, in type and value.

    ``True`` is not ``1`` here and ``1.0`` is not ``1``: the records tell them apart.

    Args:
        got: What was seen.
        expected: What the guarantee asks for.
        what: Names the value in the failure message.

    Raises:
        AssertionError: They differ; raised explicitly, so also under ``-O``.
    """
    if type(got) is not type(expected) or got != expected:
        raise AssertionError(f"{what}:\n     got {got!r}\nexpected {expected!r}")
