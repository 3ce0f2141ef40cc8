"""What a typed state becomes by a save and a load, and the comparison that tells states apart."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from lastgood.errors import StateError
from lastgood.formats import canonical
from lastgood.formats.limits import Limits
from lastgood.formats.state import encode_with_state
from lastgood.typed_state import StateType
from tests.support.values import same


def stored(data: Any) -> Any:
    """JSON data after a save and a load."""
    return canonical.decode(encode_with_state({"state": data}, limits=Limits()))["state"]


def given_back(conversion: StateType[Any], state: Any) -> Any:
    """A state after a save and a load."""
    return conversion.from_json(stored(conversion.to_json(state)))


def alike(one: Any, other: Any) -> bool:
    """Whether two states are equal and of the same types throughout, whatever their ``==`` says."""
    if type(one) is not type(other):
        return False
    if dataclasses.is_dataclass(one):
        names = [field.name for field in dataclasses.fields(one)]
        return all(alike(getattr(one, name), getattr(other, name)) for name in names)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict):
        return list(one) == list(other) and all(alike(one[key], other[key]) for key in one)
    return same(one, other)


def unstorable(conversion: StateType[Any], state: Any) -> StateError:
    """The refusal of a state that is to be saved."""
    with pytest.raises(StateError, match="The state cannot be stored") as caught:
        conversion.to_json(state)
    return caught.value


def unreadable(conversion: StateType[Any], data: Any) -> StateError:
    """The refusal of data that was loaded."""
    with pytest.raises(StateError, match="What is stored is no ") as caught:
        conversion.from_json(data)
    return caught.value
