"""From an older schema to the current one (R5): a chain of pure functions, checked when registered.

One function for each step, from the state of version n to that of version n + 1::

    def split_name(state):                      # 1 -> 2
        state["first"], state["last"] = state.pop("name").split(" ", 1)
        return state

    Migrations({1: split_name}, schema_version=2)

A step sees the state and nothing else: neither fingerprints nor sequence, so that it can change
neither. It gets a copy of its own, may change it, and returns the new state; it is run twice on
equal copies and must give the same bytes. One that reads a clock, a random number or a file is
told by that wherever two runs differ; what differs only from one process to the next (the order
of a set) is not seen here. A field whose value cannot be computed must raise, never be guessed.

=================================================  ===================================
the state's version                                verdict
=================================================  ===================================
the current one                                    the state itself, no step runs
older, and a chain leads from it to the current    each step in turn
older, and no chain leads from it                  ``UnknownSchemaError``
newer                                              ``UnknownSchemaError`` (C13-01)
=================================================  ===================================
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Final

from lastgood.errors import (
    LimitError,
    MigrationError,
    StateError,
    UnknownSchemaError,
    UsageError,
    printable,
)
from lastgood.formats import canonical, names
from lastgood.formats.canonical import JSON
from lastgood.formats.limits import Limits
from lastgood.formats.state import encode_with_state

Migration = Callable[[JSON], JSON]
"""From the state of version n to the state of version n + 1."""

_SAFE: Final = "Nothing was changed; what is stored is as it was"
_DO: Final = "Correct the migration and run it again"


class Migrations:
    """What leads from each older schema to the current one.

    Args:
        steps: The function that leads on from each version; none, or without a gap up to the
            current version. Each takes one positional argument and is no coroutine or generator.
        schema_version: The current version.

    Raises:
        UsageError: A version is no int or out of range, the chain has a gap, or a step is not
            a function of one state.
    """

    __slots__ = ("_oldest", "_schema_version", "_steps")

    def __init__(self, steps: Mapping[int, Migration] | None, *, schema_version: int) -> None:
        self._schema_version: int = names.sequence(schema_version, what="schema version")
        self._steps = _checked(steps, schema_version=self._schema_version)
        self._oldest = min(self._steps, default=self._schema_version)

    @property
    def oldest(self) -> int:
        """The oldest schema that can be brought up to date."""
        return self._oldest

    @property
    def readable(self) -> range:
        """Every schema that can be brought up to date, the current one among them."""
        return range(self._oldest, self._schema_version + 1)

    def apply(self, state: JSON, *, version: int, limits: Limits, name: str = "") -> JSON:
        """Bring ``state`` up to the current schema, in memory.

        On return the new state is plain JSON data within ``limits`` and shares nothing with the
        old one, unless no step was needed. On return and on raise ``state`` is as it was.

        Args:
            state: Plain JSON data of schema ``version``.
            version: Its schema.
            limits: For what each step gets and returns.
            name: File it came from, for messages.

        Raises:
            UnknownSchemaError: It is newer than the current schema, or older than any chain.
            MigrationError: A step raised, returned what cannot be stored, or is not repeatable.
            StateError: ``state`` itself is not plain JSON data; has its JSON path.
            LimitError: ``state`` itself is deeper or larger than ``limits``.
        """
        version = names.sequence(version, what="schema version")
        self._check_readable(version, name=name)
        if version == self._schema_version:
            return state
        data = _encoded(state, limits=limits)
        for older in range(version, self._schema_version):
            data = _Step(self._steps[older], older, name).taken(data, limits=limits)
        return _decoded(data)

    def _check_readable(self, version: int, *, name: str) -> None:
        what = f"{printable(name) if name else 'The state'} has schema version {version}"
        if version > self._schema_version:
            raise UnknownSchemaError(
                f"{what}, the newest that this program knows is {self._schema_version}",
                do=f"Run the program version that knows schema {version}",
            )
        if version < self._oldest:
            raise UnknownSchemaError(
                f"{what}, the oldest that this program can bring to {self._schema_version} "
                f"is {self._oldest}",
                do=f"Register the migrations that lead from {version} to {self._oldest}",
            )


def _checked(steps: Mapping[int, Migration] | None, *, schema_version: int) -> dict[int, Migration]:
    """A copy of ``steps``: what the caller does to the mapping afterwards does not matter."""
    if steps is None:
        return {}
    if not isinstance(steps, Mapping):
        raise UsageError(
            "The migrations are a mapping from schema version to function, "
            f"not {printable(type(steps).__name__)}"
        )
    copy = dict(steps)
    for version, step in copy.items():
        known = names.sequence(version, what="schema version of a migration")
        if known >= schema_version:
            raise UsageError(
                f"The migration {known} -> {known + 1} leads above the current "
                f"schema version {schema_version}"
            )
        _check_callable(step, version=known)
    _check_gaps(copy, schema_version=schema_version)
    return copy


def _check_gaps(steps: Mapping[int, Migration], *, schema_version: int) -> None:
    expected = min(steps, default=schema_version)
    for version in [*sorted(steps), schema_version]:
        if version != expected:
            raise UsageError(
                f"The migrations have a gap: none leads from schema version {expected} "
                f"to {expected + 1}"
            )
        expected += 1


def _check_callable(step: object, *, version: int) -> None:
    what = f"The migration {version} -> {version + 1}"
    if not callable(step):
        raise UsageError(f"{what} is not a function, but {printable(type(step).__name__)}")
    for function in (step, type(step).__call__):  # an object is what its class makes of a call
        if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
            raise UsageError(f"{what} is asynchronous; a migration is a plain function")
        if inspect.isgeneratorfunction(function):
            raise UsageError(f"{what} is a generator; a migration returns the new state")
    try:
        # What the call itself takes, not what a decorator says of the function behind it.
        inspect.signature(step, follow_wrapped=False).bind(None)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{what} does not take exactly one positional argument") from error


class _Step:
    """One step on its way: what it may do wrong is told by its number, never by its content."""

    __slots__ = ("_function", "_what")

    def __init__(self, function: Migration, older: int, name: str) -> None:
        self._function = function
        of = f" of {printable(name)}" if name else ""
        self._what = f"The migration {older} -> {older + 1}{of}"

    def taken(self, data: bytes, *, limits: Limits) -> bytes:
        """The new state of ``data``, after two runs that agree."""
        first = self._run(data, limits=limits)
        # The first result is bytes before the second run begins, so that a list which the
        # function keeps and fills in each run is seen to differ.
        if self._run(data, limits=limits) != first:
            raise self._refusal(
                "is not repeatable: two runs on the same state gave different states",
                do="Take clocks, random numbers and memory of earlier runs out of it",
            )
        return first

    def _run(self, data: bytes, *, limits: Limits) -> bytes:
        given = _decoded(data)
        had_none = given is None
        try:
            result = self._function(given)
        except Exception as error:
            kind = printable(type(error).__qualname__)
            raise self._refusal(f"raised {kind}") from error
        if inspect.iscoroutine(result):
            result.close()  # it never runs; unclosed, the interpreter would warn of that instead
            raise self._refusal("returned a coroutine instead of a state")
        if result is None and not had_none:
            # The commonest mistake: it changed its argument and returned nothing. As state it
            # would be legal, and everything would be lost.
            raise self._refusal("returned None", do="Let it return the new state")
        try:
            return _encoded(result, limits=limits)
        except (StateError, LimitError) as error:
            reason = error.happened[:1].lower() + error.happened[1:]
            raise self._refusal(f"gave a result that is refused: {reason}") from error

    def _refusal(self, happened: str, *, do: str = _DO) -> MigrationError:
        return MigrationError(f"{self._what} {happened}", safe=_SAFE, do=do)


def _encoded(state: JSON, *, limits: Limits) -> bytes:
    return encode_with_state({"state": state}, limits=limits)


def _decoded(data: bytes) -> JSON:
    """A deep copy that nobody else holds."""
    return canonical.decode(data)["state"]
