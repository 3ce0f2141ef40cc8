"""A state that is a dataclass, converted strictly by its type hints."""

from __future__ import annotations

from typing import Any

from lastgood.formats.canonical import JSON
from lastgood.typed_state import hints
from lastgood.typed_state.misfit import MisfitError, unreadable, unstorable
from lastgood.typed_state.proof import prove_same

_TOO_DEEP = "it is nested too deep, or holds itself"


class DataclassState:
    """States of one dataclass.

    Args:
        kind: The dataclass.

    Raises:
        UsageError: A type hint in it is not one that comes back as it was.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._record = hints.read(kind)

    def to_json(self, state: Any) -> JSON:
        """Return ``state`` as JSON data that was read back once.

        Raises:
            StateError: A value is not of its declared type, or its class would not take it back
                or would change it; has the JSON path.
        """
        try:
            data = self._record.to_json(state)
            # Before it is stored: a state that its class has come to refuse could not be loaded.
            self._read(data)
        except MisfitError as misfit:
            raise unstorable(misfit.reason, path=misfit.path) from misfit.__cause__
        except RecursionError as error:
            raise unstorable(_TOO_DEEP, path="$") from error
        return data

    def from_json(self, data: JSON) -> Any:
        """Return the state that ``data`` stands for.

        Raises:
            StateError: A field is missing or unknown, a value has another type, or its class
                refuses it or changes it; has the JSON path.
        """
        try:
            return self._read(data)
        except MisfitError as misfit:
            error = unreadable(misfit.reason, path=misfit.path, kind=self._kind)
            raise error from misfit.__cause__
        except RecursionError as error:
            raise unreadable(_TOO_DEEP, path="$", kind=self._kind) from error

    def _read(self, data: JSON) -> Any:
        """A new state, whose class left it as it was stored."""
        made = self._record.from_json(data)
        prove_same(data, self._record.to_json(made))
        return made
