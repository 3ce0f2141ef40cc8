"""Is what was read back what was given? Found at the first place where it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lastgood.typed_state.misfit import MisfitError


def prove_same(given: Any, again: Any) -> None:
    """Return only if both are equal, of the same types throughout; keys in any order.

    Raises:
        MisfitError: They are not.
    """
    _compare(given, again, lambda one, other: one is other or bool(one == other))


def prove_shape(given: Any, again: Any) -> None:
    """Return only if both have the same keys, lengths and types throughout.

    Texts and numbers may be spelled in another way: a state outlives an upgrade of the library
    that spells its dates.

    Raises:
        MisfitError: They do not.
    """
    _compare(given, again, lambda _one, _other: True)


def _compare(given: Any, again: Any, is_same: Callable[[Any, Any], bool]) -> None:
    kind = type(given)
    if type(again) is not kind:
        raise MisfitError("what comes back is of another type,")
    if kind is dict:
        _compare_keys(given, again)
        for key, value in given.items():
            _descend(key, value, again[key], is_same)
    elif kind in (list, tuple):
        if len(given) != len(again):
            raise MisfitError("what comes back has another number of items,")
        for index, value in enumerate(given):
            _descend(index, value, again[index], is_same)
    elif not is_same(given, again):
        raise MisfitError("what comes back is another value,")


def _compare_keys(given: dict[Any, Any], again: dict[Any, Any]) -> None:
    for key in given:
        if key not in again:
            raise MisfitError("an unknown field", key)
    for key in again:
        if key not in given:
            raise MisfitError("a missing field", key)


def _descend(step: Any, given: Any, again: Any, is_same: Callable[[Any, Any], bool]) -> None:
    try:
        _compare(given, again, is_same)
    except MisfitError as misfit:
        misfit.steps.append(step)
        raise
