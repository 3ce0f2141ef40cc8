"""State as the caller's own type at the edge, plain JSON inside.

A session that is given a ``state_type`` hands out and takes values of that type; what is stored is
JSON of field names and values. No class name is ever stored, so classes may be renamed and moved.

======================  =======================================================================
kind                    conversion
======================  =======================================================================
None                    plain JSON data, handed through
a dataclass             strict, by its type hints: ``typed_state.hints`` lists what they may be
a pydantic model class  pydantic's own, in strict JSON mode: extra ``pydantic``
======================  =======================================================================

Both are exact in both directions: a field too many, a field too few or a value of another type is
refused with its JSON path. Nothing is coerced and nothing gets a default while it is read: what an
older program stored is brought up to date by a migration, not by luck.

What comes out of ``to_json`` has been read back once, so that no state is saved that its own class
would refuse, or change, when it is loaded. That each value is one that JSON keeps (finite floats,
integers of 64 bits, whole characters) is proved by the save, as for every state.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Protocol, TypeVar

from lastgood.errors import UsageError, printable
from lastgood.formats.canonical import JSON
from lastgood.typed_state.dataclass_state import DataclassState
from lastgood.typed_state.model_state import is_model, model_state

T = TypeVar("T")


class StateType(Protocol[T]):
    """How states of one type stand as JSON."""

    def to_json(self, state: T) -> JSON:
        """Return ``state`` as JSON data; values of hint ``Any`` are handed through, not copied.

        ``state`` is as it was, on return and on raise.

        Raises:
            StateError: A value is not of its declared type, or the type would not take back or
                would change what is stored; has the JSON path.
        """
        ...

    def from_json(self, data: JSON) -> T:
        """Return the state that ``data`` stands for.

        Raises:
            StateError: A field is missing or unknown, a value has another type, or the type
                refuses it or changes it; has the JSON path.
        """
        ...


class _PlainState:
    """JSON data is what it is."""

    def to_json(self, state: JSON) -> JSON:
        return state

    def from_json(self, data: JSON) -> JSON:
        return data


def state_type(kind: type[T] | None) -> StateType[Any]:
    """Return the conversion of ``kind``, checked as far as its declaration tells.

    Args:
        kind: None for plain JSON data, a dataclass, or a pydantic model class.

    Raises:
        UsageError: It is none of these, or a field's type hint is not one that comes back as it
            was; has the path of the field.
        ConfigurationError: It is a model, and this pydantic cannot be used.
    """
    if kind is None:
        return _PlainState()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return DataclassState(kind)
    if is_model(kind):
        return model_state(kind)
    a_value = f"a value of type {type(kind).__name__}"
    shown = kind.__qualname__ if isinstance(kind, type) else a_value
    raise UsageError(
        f"The state's type is a dataclass, a pydantic model class or None, not {printable(shown)}"
    )
