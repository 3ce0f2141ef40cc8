"""Type hints, read once, when a state's type is registered.

A field may be declared as

* ``str``, ``int``, ``float``, ``bool``, ``None``; ``Any`` for plain JSON data
* ``list[T]``, ``dict[str, T]``, ``tuple[T, ...]``, ``tuple[A, B]``
* ``A | B``, ``Optional[A]``, where JSON tells the members apart: at most one of list and tuple, at
  most one of dict and dataclass, each scalar once
* ``Literal`` of str, int, bool and None; an ``Enum`` whose values are str or int
* another dataclass, also itself; frozen, slotted and inherited ones, too
* ``Annotated`` and ``NewType`` of these

Everything else is refused with the path of the field: what would come back as something else (a
``Sequence``, a ``set``, a ``datetime``) and what does not say what it holds (a bare ``list``).
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any, Final

from lastgood.errors import UsageError, printable
from lastgood.typed_state.forms import (
    Anything,
    DictOf,
    EitherOf,
    Field,
    FixedTuple,
    Form,
    ListOf,
    Member,
    OneOf,
    Record,
    Scalar,
    TupleOf,
)

_SCALARS: Final = frozenset({str, int, float, bool, type(None)})
_LITERALS: Final = frozenset({str, int, bool, type(None)})


def read(kind: type) -> Record:
    """The form of the dataclass ``kind``.

    Raises:
        UsageError: A hint cannot be resolved or is not one of the above, or the class cannot be
            made from its fields; has the path of the field.
    """
    return _Reader(kind).record(kind, "$")


class _Reader:
    """Reads the hints of one state type; each dataclass in it once, so that it may hold itself."""

    def __init__(self, root: type) -> None:
        self._root = root
        self._records: dict[type, Record] = {}
        self._generics = {
            list: self._list,
            dict: self._dict,
            tuple: self._tuple,
            typing.Union: self._union,
            types.UnionType: self._union,
            typing.Literal: self._literal,
        }

    def record(self, kind: type, path: str) -> Record:
        """The form of a dataclass."""
        if kind in self._records:
            return self._records[kind]
        if "__dataclass_fields__" not in vars(kind):
            raise self._refusal(kind, path, "is no dataclass, only derived from one")
        record = self._records[kind] = Record(kind)
        hints = self._hints(kind, path)
        fields = dataclasses.fields(kind)
        self._check_made(kind, [field.name for field in fields if field.init], path)
        found = {}
        for field in fields:
            name = field.name
            if _is_mangled(kind, name):
                raise self._refusal(kind, f"{path}.{name}", "would be stored by a private name")
            found[name] = Field(name, self.form(hints[name], f"{path}.{name}"), field.init)
        record.fields = found
        return record

    def form(self, hint: Any, path: str) -> Form:
        """The form of any hint."""
        while isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        generic = self._generics.get(typing.get_origin(hint))
        if generic is not None:
            return generic(hint, path)
        if hint is Any:
            return Anything()
        if hint is None:
            return Scalar(type(None))
        if isinstance(hint, type):
            return self._class(hint, path)
        raise self._refusal(hint, path)

    def _class(self, kind: type, path: str) -> Form:
        if kind in _SCALARS:
            return Scalar(kind)
        if issubclass(kind, enum.Enum):
            return self._enum(kind, path)
        if dataclasses.is_dataclass(kind):
            return self.record(kind, path)
        raise self._refusal(kind, path)

    def _enum(self, kind: type[enum.Enum], path: str) -> Form:
        values = {type(member.value) for member in kind}
        # A combination of flags is no member, so that it could not be looked up by its value.
        if issubclass(kind, enum.Flag) or not values or not values <= {str, int}:
            raise self._refusal(kind, path, "is no enum whose values are str or int")
        return Member(kind)

    def _list(self, hint: Any, path: str) -> Form:
        (item,) = self._arguments(hint, path)
        return ListOf(self.form(item, f"{path}[*]"))

    def _dict(self, hint: Any, path: str) -> Form:
        key, item = self._arguments(hint, path)
        while isinstance(key, typing.NewType):
            key = key.__supertype__
        if key is not str:
            raise self._refusal(hint, path, "has keys that are not str")
        return DictOf(self.form(item, f"{path}.*"))

    def _tuple(self, hint: Any, path: str) -> Form:
        items = self._arguments(hint, path)
        if len(items) == 2 and items[1] is Ellipsis:
            return TupleOf(self.form(items[0], f"{path}[*]"))
        return FixedTuple([self.form(item, f"{path}[{at}]") for at, item in enumerate(items)])

    def _union(self, hint: Any, path: str) -> Form:
        forms = [self.form(member, path) for member in self._arguments(hint, path)]
        for form in forms:
            if isinstance(form, Anything):
                return form
        told = [kind for form in forms for kind in form.json_types]
        if len(told) != len(set(told)):
            raise self._refusal(hint, path, "has members that JSON does not tell apart")
        return EitherOf(forms)

    def _literal(self, hint: Any, path: str) -> Form:
        values = self._arguments(hint, path)
        if not {type(value) for value in values} <= _LITERALS:
            raise self._refusal(hint, path, "has values that are not str, int, bool or None")
        return OneOf(values)

    def _arguments(self, hint: Any, path: str) -> Sequence[Any]:
        arguments = typing.get_args(hint)
        if not arguments:
            raise self._refusal(hint, path, "does not say what it holds")
        return arguments

    def _hints(self, kind: type, path: str) -> dict[str, Any]:
        try:
            return _resolved(kind)
        except Exception as error:
            raise self._refusal(kind, path, "has a type hint that cannot be resolved") from error

    def _check_made(self, kind: type, names: Sequence[str], path: str) -> None:
        """Return only if the class can be made from its fields, each given by name."""
        try:
            inspect.signature(kind).bind(**dict.fromkeys(names))
        except (TypeError, ValueError) as error:
            reason = "cannot be made from its fields alone (an InitVar, or an __init__ of its own)"
            raise self._refusal(kind, path, reason) from error

    def _refusal(
        self, hint: Any, path: str, reason: str = "does not come back from JSON as it was"
    ) -> UsageError:
        shown = hint.__qualname__ if isinstance(hint, type) else str(hint)
        return UsageError(
            f"The state's type {printable(self._root.__qualname__)} cannot be used: "
            f"{printable(shown)} {reason}, at {printable(path)}",
            do="Declare the field as one of the types that lastgood.typed_state.hints lists",
        )


def _resolved(kind: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(kind)
    except NameError:
        # A class that a function made, and that holds itself: its name is in no module.
        return typing.get_type_hints(kind, localns={kind.__name__: kind})


def _is_mangled(kind: type, name: str) -> bool:
    """Whether ``name`` holds a class's name: ``__secret`` of class A is ``_A__secret``."""
    return any(name.startswith(f"_{base.__name__.lstrip('_')}__") for base in kind.__mro__)
