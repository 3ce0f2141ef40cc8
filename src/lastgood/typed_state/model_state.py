"""A state that is a pydantic model, converted by pydantic in strict JSON mode.

Field names are stored, never aliases; computed fields are not stored. Beyond what pydantic's strict
mode refuses, what it would let pass is refused here: an unknown field that the model would drop, a
missing one that would get its default, an int for a float, and, before anything is saved, whatever
would not come back: an excluded field or private attribute with a value of its own, an instance of
a subclass, a value assigned without validation. A set of two and more is refused as well: its order
differs from process to process, so that the same state would be stored as other bytes (I3).

Pydantic's own errors quote values of the state, so they are not chained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lastgood.errors import ConfigurationError, UsageError, printable
from lastgood.formats import canonical
from lastgood.formats.canonical import JSON
from lastgood.typed_state.misfit import MisfitError, another_type, unreadable, unstorable
from lastgood.typed_state.proof import prove_same, prove_shape

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_OLDEST: Final = (2, 11)
_INSTALL: Final = "Install it with: pip install 'lastgood[pydantic]'"
_REASONS: Final = {"missing": "a missing field", "extra_forbidden": "an unknown field"}


def is_model(kind: object) -> bool:
    """Whether ``kind`` looks like a model class, told without importing pydantic."""
    return isinstance(kind, type) and hasattr(kind, "__pydantic_core_schema__")


def model_state(kind: Any) -> ModelState:
    """Return the conversion of the model class ``kind``.

    Raises:
        ConfigurationError: Pydantic is not installed, or too old.
        UsageError: It is no model class, or one that names a type that cannot be resolved.
    """
    try:
        import pydantic  # noqa: PLC0415  # an extra, and slow to load
    except ImportError as error:
        raise ConfigurationError(
            "States that are pydantic models need pydantic, which is not installed", do=_INSTALL
        ) from error
    if tuple(map(int, pydantic.VERSION.split(".")[:2])) < _OLDEST:
        raise ConfigurationError(
            f"States that are pydantic models need pydantic 2.11, this is {pydantic.VERSION}",
            do=_INSTALL,
        )
    name = printable(kind.__qualname__)
    if not issubclass(kind, pydantic.BaseModel):
        raise UsageError(f"The state's type {name} is no pydantic model class")
    if kind.model_rebuild(raise_errors=False) is False:
        raise UsageError(f"The state's type {name} names a type that cannot be resolved")
    return ModelState(kind, pydantic.ValidationError)


class ModelState:
    """States of one model class; made by ``model_state``."""

    def __init__(self, kind: type[BaseModel], refusal: type[ValidationError]) -> None:
        self._kind = kind
        self._refusal = refusal

    def to_json(self, state: Any) -> JSON:
        """Return ``state`` as JSON data that was read back once.

        Raises:
            StateError: It is not exactly of the model class, or would not come back as it is; has
                the JSON path as far as it is known.
        """
        try:
            if type(state) is not self._kind:
                raise another_type(printable(self._kind.__qualname__), state)
            data = self._dumped(state, "json")
            self._prove_given_back(state, self._made(data))
        except MisfitError as misfit:
            raise unstorable(misfit.reason, path=misfit.path) from misfit.__cause__
        return data

    def from_json(self, data: JSON) -> Any:
        """Return the state that ``data`` stands for.

        Raises:
            StateError: A field is missing or unknown, a value has another type, or the model
                refuses it; has the JSON path as far as it is known.
        """
        try:
            return self._made(data)
        except MisfitError as misfit:
            error = unreadable(misfit.reason, path=misfit.path, kind=self._kind)
            raise error from misfit.__cause__

    def _made(self, data: JSON) -> BaseModel:
        try:
            text = canonical.encode(data)
            made = self._kind.model_validate_json(text, strict=True, by_alias=False, by_name=True)
        except self._refusal as error:
            raise _misfit(error, data) from None
        except Exception as error:
            kind = printable(type(error).__qualname__)
            raise MisfitError(f"the model raised {kind} when it was made") from error
        prove_shape(data, self._dumped(made, "json"))
        return made

    def _dumped(self, state: BaseModel, mode: str) -> Any:
        try:
            return state.model_dump(mode=mode, by_alias=False, round_trip=True, warnings="error")
        except Exception as error:  # noqa: BLE001  # told by its type; its text quotes values
            kind = printable(type(error).__qualname__)
            raise MisfitError(f"the model raised {kind} when it was written") from None

    def _prove_given_back(self, state: BaseModel, made: BaseModel) -> None:
        given = self._dumped(state, "python")
        _refuse_sets(given)
        prove_same(given, self._dumped(made, "python"))
        try:
            is_same = bool(made == state)
        except Exception as error:
            kind = printable(type(error).__qualname__)
            raise MisfitError(f"the model raised {kind} when it was compared") from error
        if not is_same:
            raise MisfitError("an excluded field, a private attribute or an instance of a subclass")


def _misfit(error: ValidationError, data: JSON) -> MisfitError:
    """The first thing that pydantic complains about, by its code: its text may quote the value."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    code, steps = first["type"], _steps(first["loc"], first["type"], data)
    reason = _REASONS.get(code, f"the model says {printable(code)}")
    return MisfitError(reason, *reversed(steps))


def _steps(location: tuple[str | int, ...], code: str, data: JSON) -> list[str | int]:
    """What of ``location`` is a place in ``data``: pydantic also names members of unions there."""
    steps: list[str | int] = []
    for part in location:
        is_index = type(data) is list and type(part) is int and part < len(data)
        if is_index or (type(data) is dict and part in data):
            data = data[part]
            steps.append(part)
    return [*steps, location[-1]] if code == "missing" else steps


def _refuse_sets(value: Any) -> None:
    if isinstance(value, set | frozenset) and len(value) > 1:
        raise MisfitError("a set, which has no order (keep a list, or serialise it sorted),")
    if type(value) not in (dict, list, tuple):
        return
    for step, item in value.items() if type(value) is dict else enumerate(value):
        try:
            _refuse_sets(item)
        except MisfitError as misfit:
            misfit.steps.append(step)
            raise
