"""A value that does not fit its type, on the way up to where its whole path is known."""

from __future__ import annotations

from lastgood.errors import StateError, printable

_MAX_PATH_CHARS = 300


class MisfitError(Exception):
    """Internal: never leaves ``typed_state``; becomes a ``StateError``.

    Attributes:
        reason: What is wrong, without the value.
        steps: Where, innermost first: each container adds its step as this passes.
    """

    def __init__(self, reason: str, *steps: str | int) -> None:
        self.reason = reason
        self.steps = list(steps)
        super().__init__(reason)

    @property
    def path(self) -> str:
        """The JSON path."""
        return json_path(self.steps[::-1])


def json_path(steps: list[str | int]) -> str:
    """The JSON path of ``steps``, outermost first, as ``formats.state`` writes it."""
    parts = (f"[{step}]" if type(step) is int else f".{printable(step)}" for step in steps)
    return ("$" + "".join(parts))[:_MAX_PATH_CHARS]


def another_type(expected: str, value: object) -> MisfitError:
    """``value`` is not of the type ``expected``."""
    return MisfitError(f"expected {expected}, not {printable(type(value).__qualname__)},")


def unstorable(reason: str, *, path: str) -> StateError:
    """The error of a state that is to be saved."""
    return StateError(reason, path=path, do="Give each field a value of its declared type")


def unreadable(reason: str, *, path: str, kind: type) -> StateError:
    """The error of stored data that is no state of ``kind``."""
    error = StateError(
        reason,
        path=path,
        do="Run the program version that saved it, or raise the schema version and register "
        "a migration",
    )
    shown = printable(kind.__qualname__)
    error.happened = f"What is stored is no {shown}: {reason} at {path}"
    return error
