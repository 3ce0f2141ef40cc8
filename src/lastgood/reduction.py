"""What a program makes of a session's events: its reducer, and everything that comes with it.

The state of a session is ``reducer(… reducer(reducer(initial, event 1), event 2) …)``. A
reducer is a function of a state and an event; it may change the state that it is given and
return it. It is run again over the same events after every crash, so it may depend on
nothing else: no clock, no randomness, no file.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar

from lastgood.errors import (
    DomainInvariantError,
    LastgoodError,
    LimitError,
    MigrationError,
    ProgramMismatchError,
    ReducerError,
    StateError,
    UsageError,
    printable,
)
from lastgood.formats import canonical, names
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.event import Event
from lastgood.formats.fields import check_type
from lastgood.formats.limits import MAX_SEQUENCE, Limits
from lastgood.formats.session import Program, SessionRecord
from lastgood.formats.state import encode_with_state
from lastgood.rules.migration import Migration, Migrations
from lastgood.typed_state import StateType, state_type

S = TypeVar("S")

Reducer = Callable[[S, Event], S]
"""The state after an event."""

_REFUSES: Final = "the registered validator refuses it"
_NOT_STORED: Final = "The event was not stored, and the state is what it was"


@dataclass(frozen=True, slots=True)
class Reduction(Generic[S]):
    """A program's side of a session, checked when it is registered.

    Args:
        reducer: The state after an event.
        initial: The state before the first event; a copy of it is used.
        schema_version: Version of the state's shape.
        migrations: Functions from each older version to the next.
        validate: Raises, or returns False, if a state must not be.
        kind: None for plain JSON data, a dataclass, or a pydantic model class.
        program: Name and version, recorded in the session.
        compatible_versions: Versions whose sessions this one may go on with.
        limits: The reader's.

    Raises:
        UsageError: An argument is not what it must be.
        StateError: ``initial`` cannot be stored.
    """

    reducer: Reducer[S]
    initial: S
    schema_version: int
    migrations: Mapping[int, Migration] | None
    validate: Callable[[S], object] | None
    kind: type[S] | None
    program: Program
    compatible_versions: Collection[str]
    limits: Limits
    chain: Migrations = field(init=False)
    typed: StateType[S] = field(init=False)
    beginning: bytes = field(init=False)
    proved: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        """Refuse what would only show in the middle of a session."""
        if not callable(self.reducer) or inspect.iscoroutinefunction(self.reducer):
            raise UsageError("The reducer is a function of a state and an event, no coroutine")
        if self.validate is not None and not callable(self.validate):
            raise UsageError("The validator is a function of a state")
        check_type(self.program, Program, what="program")
        _check_versions(self.compatible_versions)
        names.sequence(self.schema_version, what="schema version")
        chain = Migrations(self.migrations, schema_version=self.schema_version)
        object.__setattr__(self, "chain", chain)
        object.__setattr__(self, "typed", state_type(self.kind))
        object.__setattr__(self, "beginning", self._encoded(self.initial))
        self._check(self.first(), UsageError("The registered validator refuses the initial state"))

    def first(self) -> S:
        """The state before the first event, a new one each time."""
        return self._decoded(self.beginning)

    def copy(self, state: S) -> S:
        """An independent copy of ``state``, also where it outgrew what a save may store.

        Raises:
            StateError: It cannot be stored.
        """
        return self._decoded(self._encoded(state, limits=self._wide))

    def same(self, one: S, other: S) -> bool:
        """Whether two states are stored as the same bytes."""
        return self._encoded(one) == self._encoded(other)

    def to_json(self, state: S) -> JSON:
        """The JSON of ``state``.

        Raises:
            StateError: It cannot be stored; has the JSON path.
        """
        return self.typed.to_json(state)

    def restore(self, checkpoint: Checkpoint, *, name: str) -> S:
        """The state of a checkpoint, brought up to this program's schema (R5).

        It shares nothing with ``checkpoint``: a reducer may change it in place.

        Raises:
            UnknownSchemaError, MigrationError: It cannot be, or is not of the registered type.
        """
        version = checkpoint.schema_version or self.schema_version
        state = self.chain.apply(checkpoint.state, version=version, limits=self.limits, name=name)
        if state is checkpoint.state:
            state = canonical.decode(canonical.encode(state), name=name)
        try:
            return self.typed.from_json(state)
        except StateError as error:
            raise MigrationError(
                f"{printable(name)}: its state is not of the registered type: {error.happened}",
                do="Give the changed type a new schema_version, and a migration that leads to it",
            ) from error

    def replay(self, state: S, event: Event) -> S:
        """The state after a stored event (R6).

        Raises:
            ProgramMismatchError: The reducer does not know it.
        """
        try:
            return self.reducer(state, event)
        except Exception as error:
            raise ProgramMismatchError(
                f"The reducer raised {type(error).__name__} on stored event {event.sequence} of "
                f"type {printable(event.type)}",
                safe="Nothing was changed; every event is stored as it was",
                do="Run the program that wrote it, or mend the reducer",
            ) from error

    def accept(self, state: S, event: Event) -> S:
        """The state after an event that is not stored yet.

        Whether it can be stored is proved for the first event of each type, and by every save:
        to prove it each time would cost as much as a save.

        Raises:
            ReducerError: The reducer refuses it, or returns nothing.
            StateError: The state that it leads to cannot be stored, or the validator refuses it.
        """
        kind = printable(event.type)
        try:
            after = self.reducer(state, event)
        except Exception as error:
            raise ReducerError(
                f"The reducer raised {type(error).__name__} on an event of type {kind}"
            ) from error
        if after is None and state is not None:
            raise ReducerError(
                f"The reducer returned None for an event of type {kind}",
                do="Let it return the state, also where it changed it in place",
            )
        if event.type not in self.proved:
            self._prove(after, kind)
            self.proved.add(event.type)
        refusal = StateError(_REFUSES, safe=_NOT_STORED, do="Append what the validator accepts")
        self._check(after, refusal)
        return after

    @property
    def _wide(self) -> Limits:
        """No limit of size: a state that outgrew what a save may store is shrunk by events."""
        return replace(self.limits, payload_bytes=MAX_SEQUENCE)

    def _prove(self, state: S, kind: str) -> None:
        try:
            self._encoded(state, limits=self._wide)
        except (StateError, LimitError) as error:
            error.safe = _NOT_STORED
            error.do = f"Mend what the reducer returns for an event of type {kind}"
            raise

    def check_domain(self, state: S) -> None:
        """Return only if the caller's own rules hold of a stored state (R6).

        Raises:
            DomainInvariantError: They do not: storage is damaged, or the rules changed.
        """
        self._check(state, DomainInvariantError("the registered validator refuses its state"))

    def check_program(self, record: SessionRecord) -> None:
        """Return only if this program may go on with the session (C8-07).

        Raises:
            ProgramMismatchError: Another one made it; tells the recorded and the offered.
        """
        recorded, offered = record.program, self.program
        if not recorded.name or recorded == offered:
            return
        if recorded.name == offered.name and recorded.version in self.compatible_versions:
            return
        do = "Run the program that made it"
        if recorded.name == offered.name:
            do += ", or declare its version in compatible_versions"
        raise ProgramMismatchError(
            f"The session was made by {_shown(recorded)}, this is {_shown(offered)}", do=do
        )

    def _check(self, state: S, refusal: LastgoodError) -> None:
        if self.validate is None:
            return
        try:
            accepted = self.validate(state) is not False
        except Exception as error:
            raise refusal from error
        if not accepted:
            raise refusal

    def _encoded(self, state: S, *, limits: Limits | None = None) -> bytes:
        bounds = self.limits if limits is None else limits
        return encode_with_state({"state": self.to_json(state)}, limits=bounds)

    def _decoded(self, data: bytes) -> S:
        return self.typed.from_json(canonical.decode(data)["state"])


def _shown(program: Program) -> str:
    name = f"program '{printable(program.name)}'" if program.name else "a program without a name"
    return f"{name}, version '{printable(program.version)}'" if program.version else name


def _check_versions(versions: Any) -> None:
    if isinstance(versions, str) or not isinstance(versions, Collection):
        raise UsageError("The compatible versions are a list of texts")
    if not all(type(version) is str for version in versions):
        raise UsageError("The compatible versions are a list of texts")
