"""Forms: how the values of one type hint stand as JSON, exactly, in both directions.

A form knows the exact Python types of its values and the exact types of their JSON, so that a union
can choose by type alone. A subclass is another type: it would come back as its base.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from lastgood.errors import printable
from lastgood.formats import canonical
from lastgood.formats.canonical import JSON
from lastgood.typed_state.misfit import MisfitError, another_type


class Form(Protocol):
    """One of the classes below.

    ``to_json`` and ``from_json`` raise ``MisfitError`` for a value that does not fit.
    """

    @property
    def python_types(self) -> frozenset[type]:
        """The exact types of its values."""
        ...

    @property
    def json_types(self) -> frozenset[type]:
        """The exact types of their JSON."""
        ...

    def to_json(self, value: Any) -> JSON:
        """Return ``value`` as JSON."""
        ...

    def from_json(self, data: JSON) -> Any:
        """Return the value that ``data`` stands for."""
        ...


class Anything:
    """Plain JSON data, whatever it is; a class gets a copy, so that it cannot change the given."""

    python_types: frozenset[type] = frozenset()
    json_types: frozenset[type] = frozenset()

    def to_json(self, value: Any) -> JSON:
        """Return it."""
        return value

    def from_json(self, data: JSON) -> Any:
        """Return a copy of it."""
        if type(data) not in (dict, list):
            return data
        try:
            return canonical.decode(canonical.encode(data))
        except TypeError as error:
            raise MisfitError("it is not plain JSON data") from error


class Scalar:
    """Exactly str, int, float, bool or None: True is no int, and 1 is no float."""

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._name = "None" if kind is type(None) else kind.__name__
        self.python_types = self.json_types = frozenset({kind})

    def to_json(self, value: Any) -> JSON:
        """Return it."""
        if type(value) is not self._kind:
            raise another_type(self._name, value)
        return value

    from_json = to_json


class OneOf:
    """One of the values of a ``Literal``; 1 is not True."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = {(type(value), value) for value in values}
        self.python_types = self.json_types = frozenset(type(value) for value in values)

    def to_json(self, value: Any) -> JSON:
        """Return it."""
        if type(value) not in self.python_types or (type(value), value) not in self._values:
            raise MisfitError("a value that its Literal does not name")
        return value

    from_json = to_json


class Member:
    """A member of an enum, by its value."""

    def __init__(self, kind: type[enum.Enum]) -> None:
        self._kind = kind
        self._members = {(type(member.value), member.value): member for member in kind}
        self.python_types = frozenset({kind})
        self.json_types = frozenset(type(member.value) for member in kind)

    def to_json(self, value: Any) -> JSON:
        """Return its value."""
        if type(value) is not self._kind:
            raise another_type(printable(self._kind.__qualname__), value)
        return value.value

    def from_json(self, data: JSON) -> Any:
        """Return the member of this value."""
        if type(data) not in self.json_types or (type(data), data) not in self._members:
            raise MisfitError(f"no value of {printable(self._kind.__qualname__)}")
        return self._members[type(data), data]


class ListOf:
    """A list whose items have one form."""

    python_types = json_types = frozenset({list})

    def __init__(self, item: Form) -> None:
        self._item = item

    def to_json(self, value: Any) -> JSON:
        """Return a new list."""
        return _each(self._item.to_json, _exactly(list, value))

    def from_json(self, data: JSON) -> Any:
        """Return a new list."""
        return _each(self._item.from_json, _exactly(list, data))


class TupleOf:
    """A tuple of any length whose items have one form; a list in JSON."""

    python_types = frozenset({tuple})
    json_types = frozenset({list})

    def __init__(self, item: Form) -> None:
        self._item = item

    def to_json(self, value: Any) -> JSON:
        """Return a list."""
        return _each(self._item.to_json, _exactly(tuple, value))

    def from_json(self, data: JSON) -> Any:
        """Return a tuple."""
        return tuple(_each(self._item.from_json, _exactly(list, data)))


class FixedTuple:
    """A tuple of so many items, each with a form of its own; a list in JSON."""

    python_types = frozenset({tuple})
    json_types = frozenset({list})

    def __init__(self, items: Sequence[Form]) -> None:
        self._items = tuple(items)

    def to_json(self, value: Any) -> JSON:
        """Return a list."""
        return self._paired(_exactly(tuple, value), [form.to_json for form in self._items])

    def from_json(self, data: JSON) -> Any:
        """Return a tuple."""
        forms = [form.from_json for form in self._items]
        return tuple(self._paired(_exactly(list, data), forms))

    def _paired(self, values: Sequence[Any], converts: Sequence[Callable[[Any], Any]]) -> list[Any]:
        if len(values) != len(converts):
            raise MisfitError(f"expected {len(converts)} items, not {len(values)},")
        done = []
        for index, value in enumerate(values):
            try:
                done.append(converts[index](value))
            except MisfitError as misfit:
                misfit.steps.append(index)
                raise
        return done


class DictOf:
    """A dict with keys of exactly str, whose values have one form."""

    python_types = json_types = frozenset({dict})

    def __init__(self, item: Form) -> None:
        self._item = item

    def to_json(self, value: Any) -> JSON:
        """Return a new dict, in the same order."""
        return _each_value(self._item.to_json, _exactly(dict, value))

    def from_json(self, data: JSON) -> Any:
        """Return a new dict, in the same order."""
        return _each_value(self._item.from_json, _exactly(dict, data))


class EitherOf:
    """A union of forms whose types are all different, in Python and in JSON."""

    def __init__(self, forms: Sequence[Form]) -> None:
        self._by_python = {kind: form for form in forms for kind in form.python_types}
        self._by_json = {kind: form for form in forms for kind in form.json_types}
        self.python_types = frozenset(self._by_python)
        self.json_types = frozenset(self._by_json)

    def to_json(self, value: Any) -> JSON:
        """As the form of its type says."""
        form = self._by_python.get(type(value))
        if form is None:
            raise another_type(_names(self.python_types), value)
        return form.to_json(value)

    def from_json(self, data: JSON) -> Any:
        """As the form of its type says."""
        form = self._by_json.get(type(data))
        if form is None:
            raise another_type(_names(self.json_types), data)
        return form.from_json(data)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    Attributes:
        name: In Python and in JSON.
        form: Of its values.
        in_init: Whether the class is given it when it is made; else it is set afterwards.
    """

    name: str
    form: Form
    in_init: bool


class Record:
    """A dataclass: an object of exactly its fields. May hold itself, so its fields come later."""

    json_types = frozenset({dict})

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._name = printable(kind.__qualname__)
        self.python_types = frozenset({kind})
        self.fields: Mapping[str, Field] = {}

    def to_json(self, value: Any) -> JSON:
        """Return a dict of its fields, in their order."""
        if type(value) is not self._kind:
            raise another_type(self._name, value)
        done = {}
        for name, field in self.fields.items():
            try:
                done[name] = field.form.to_json(_attribute(value, name))
            except MisfitError as misfit:
                misfit.steps.append(name)
                raise
        return done

    def from_json(self, data: JSON) -> Any:
        """Return a new one, made by its class."""
        given = _exactly(dict, data)
        for name in self.fields:
            if name not in given:
                raise MisfitError("a missing field", name)
        if len(given) > len(self.fields):
            raise MisfitError("an unknown field", next(n for n in given if n not in self.fields))
        values = {}
        for name, field in self.fields.items():
            try:
                values[name] = field.form.from_json(given[name])
            except MisfitError as misfit:
                misfit.steps.append(name)
                raise
        return self._made(values)

    def _made(self, values: Mapping[str, Any]) -> Any:
        fields = self.fields
        try:
            made = self._kind(**{name: values[name] for name in values if fields[name].in_init})
            for name in values:
                if not fields[name].in_init:
                    # Past a frozen class's own __setattr__, as its generated __init__ does it.
                    object.__setattr__(made, name, values[name])
        except Exception as error:
            kind = printable(type(error).__qualname__)
            raise MisfitError(f"{self._name} raised {kind} when it was made") from error
        return made


def _attribute(value: object, name: str) -> Any:
    try:
        return getattr(value, name)
    except AttributeError as error:
        raise MisfitError("a field without a value") from error


def _exactly(kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise another_type(kind.__name__, value)
    return value


def _each(convert: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    done = []
    for index, value in enumerate(values):
        try:
            done.append(convert(value))
        except MisfitError as misfit:
            misfit.steps.append(index)
            raise
    return done


def _each_value(convert: Callable[[Any], Any], values: Mapping[Any, Any]) -> dict[str, Any]:
    done = {}
    for key, value in values.items():
        if type(key) is not str:
            raise MisfitError(f"a key of type {printable(type(key).__qualname__)}, not str,")
        try:
            done[key] = convert(value)
        except MisfitError as misfit:
            misfit.steps.append(key)
            raise
    return done


def _names(kinds: frozenset[type]) -> str:
    shown = sorted("None" if kind is type(None) else kind.__qualname__ for kind in kinds)
    return printable(" or ".join(shown))
