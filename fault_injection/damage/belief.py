"""What lastgood believes of a tree: to whoever reads it, and to whoever opens it for writing.

This is no judgement and knows no workload: it opens what is there as the program that made it
would, and says what came back, so that the answers to two trees can be compared.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Tree
from fault_injection.workloads import roots
from fault_injection.workloads.keys import KEYS
from lastgood import Checkpoint, CheckpointStore
from lastgood.errors import LastgoodError
from lastgood.formats import canonical, names
from lastgood.formats.event import Event
from lastgood.formats.session import Program
from lastgood.report import Report
from lastgood.store import Store

NOBODY: Final = "nothing"
"""Content of a session that holds neither a checkpoint nor an event."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A session, and how the program that made it opens it.

    Attributes:
        session: Its id.
        store: Path of its store, without a leading slash.
        directory: Where it lies below the store.
        has_log: Whether it has an event log.
        schema: Version of its newest state.
        program: Who made it.
    """

    session: str
    store: str
    directory: str
    has_log: bool
    schema: int
    program: Program

    @property
    def at(self) -> str:
        """Path of its store, as processes know it."""
        return f"/{self.store}"


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of a session; of a new one, nothing.

    Attributes:
        sequence: Of the checkpoint, 0: none.
        base: Digest of its state and fingerprints.
        events: The program's events behind it: numbers, and digests of what they say.
        end: Number of the last event, lastgood's own included; 0 without a log.
        epoch: Of the newest revision; of a writer, its own; 0: there is none.
    """

    sequence: int = 0
    base: str = NOBODY
    events: tuple[tuple[int, str], ...] = ()
    end: int = 0
    epoch: int = 0

    @property
    def is_nothing(self) -> bool:
        """Whether there is neither a checkpoint nor an event of the program's."""
        return self.base == NOBODY and not self.events

    def agrees_with(self, other: Belief, *, until: int) -> bool:
        """Whether both say the same of all that both speak of, up to event ``until``."""
        if self.sequence == other.sequence and self.base != other.base:
            return False
        above = max(self.sequence, other.sequence)
        mine, theirs = (
            [event for event in one.events if above < event[0] <= until] for one in (self, other)
        )
        return mine == theirs

    def is_same_state(self, other: Belief) -> bool:
        """Whether a program goes on with the same, if all that both say was once the truth.

        With a log the events are the truth, and a checkpoint only shortens their replay: what
        both replay must be the same.
        """
        if self.end or other.end:
            return self.end == other.end and self.agrees_with(other, until=self.end)
        return replace(self, epoch=0) == replace(other, epoch=0)

    def __str__(self) -> str:
        """For people."""
        if self.is_nothing:
            return f"a session without a state, epoch {self.epoch}"
        return f"checkpoint {self.sequence}, events to {self.end}, epoch {self.epoch}"


@dataclass(frozen=True, slots=True)
class Looked:
    """What one process found.

    Attributes:
        belief: What it believes; an error stands where it stops.
        left: What was there afterwards.
        report: What ``check`` says; None where the store could not be opened, or of a writer.
    """

    belief: Belief | LastgoodError
    left: Tree
    report: Report | None = None

    @property
    def reported(self) -> int:
        """Exit code of ``lastgood verify``."""
        if self.report is not None:
            return self.report.exit_code
        return self.belief.exit_code if isinstance(self.belief, LastgoodError) else 0

    @property
    def is_told(self) -> bool:
        """Whether a check says anything at all beside *good*."""
        found = self.report
        return self.reported != 0 or (
            found is not None and bool(found.leftovers or found.foreign or found.notices)
        )


def subjects(tree: Tree) -> tuple[Subject, ...]:
    """The sessions of an honest tree, by directory.

    Raises:
        LastgoodError: It is not honest.
    """
    roots = [path.removesuffix(f"/{names.STORE}") for path, _ in tree.paths() if _is_store(path)]
    return tuple(subject for root in roots for subject in _sessions(tree, root))


def _is_store(path: str) -> bool:
    return path.endswith(f"/{names.STORE}")


def _sessions(tree: Tree, root: str) -> Iterator[Subject]:
    with roots.store(MemoryMachine(tree), f"/{root}", keys=KEYS) as store:
        for entry in sorted(store.sessions(), key=lambda entry: entry.directory):
            if entry.record is None:
                raise entry.problem or ValueError(f"{entry.directory} was never begun")
            yield Subject(
                session=entry.record.session,
                store=root,
                directory=entry.directory,
                has_log=entry.record.log is not None,
                schema=_schema(store, entry.record.session),
                program=entry.record.program,
            )


def read(tree: Tree, subject: Subject, *, depth: Literal["whole", "short"] = "whole") -> Looked:
    """Load and check, by a process that only reads; ``short`` checks only what loads."""
    machine = MemoryMachine(tree, seed="reader")
    report: Report | None = None
    belief: Belief | LastgoodError
    try:
        with (
            roots.store(machine, subject.at, keys=KEYS) as store,
            _checkpoints(store, subject, "read") as opened,
        ):
            try:
                loaded = _loaded(store, opened, subject)
            except LastgoodError as error:
                belief = error
                if depth == "whole":
                    report = opened.check()
            else:
                report = opened.check()
                manifest = report.selection.manifest if report.selection else None
                belief = replace(loaded, epoch=manifest.epoch if manifest else 0)
    except LastgoodError as error:
        belief = error
    return Looked(belief, machine.disk.tree(), report)


def own(tree: Tree, subject: Subject) -> Looked:
    """Open for writing, load, and close."""
    machine = MemoryMachine(tree, seed="owner")
    belief: Belief | LastgoodError
    try:
        with roots.store(machine, subject.at, keys=KEYS) as store:
            if subject.has_log:
                belief = _resumed(store, subject)
            else:
                with _checkpoints(store, subject, "write") as opened:
                    found = opened.load_latest()
                    sequence = found.sequence if found else 0
                    belief = Belief(sequence, _kept(found), epoch=opened.fencing_token)
    except LastgoodError as error:
        belief = error
    return Looked(belief, machine.disk.tree())


def stored(data: bytes, subject: Subject) -> tuple[int, str]:
    """A checkpoint's record, as in ``Belief``: sequence and base; nothing is verified here.

    Raises:
        ValueError, LookupError: It is none.
    """
    found = json.loads(data.split(b"\n")[2])
    state = found["state"]
    known = [state, found["sideEffectFingerprints"]]
    return found["sequence"], _state(state) if subject.has_log else _digest(known)


def said(sequence: int, kind: str, data: object) -> tuple[int, str]:
    """One event, as in ``Belief.events``."""
    return sequence, _digest([kind, data])


def _checkpoints(store: Store, subject: Subject, mode: Literal["read", "write"]) -> CheckpointStore:
    return store.checkpoints(
        subject.session, mode=mode, schema_version=subject.schema, program=subject.program
    )


def _schema(store: Store, session: str) -> int:
    newest = store.newest(session)
    return 1 if newest is None else newest[0].schema_version or 1


class _Seen:
    """A reducer that leaves the state alone and keeps what it is given, once each."""

    def __init__(self) -> None:
        self._events: dict[int, tuple[int, str]] = {}

    def __call__(self, state: Any, event: Event) -> Any:
        self._events[event.sequence] = said(event.sequence, event.type, event.data)
        return state

    @property
    def events(self) -> tuple[tuple[int, str], ...]:
        return tuple(self._events.values())


def _program(subject: Subject, seen: _Seen) -> dict[str, Any]:
    return {
        "reducer": seen,
        "initial": {},
        "schema_version": subject.schema,
        "migrations": {older: lambda state: state for older in range(1, subject.schema)},
        "program": subject.program,
    }


def _loaded(store: Store, opened: CheckpointStore, subject: Subject) -> Belief:
    """What a reader has; the epoch is told by a check."""
    if not subject.has_log:
        found = opened.load_latest()
        return Belief(found.sequence if found else 0, _kept(found))
    seen = _Seen()
    rehearsed = store.rehearse(subject.session, **_program(subject, seen))
    if rehearsed is None:
        return Belief()
    return Belief(rehearsed.checkpoint, _state(rehearsed.state), seen.events, rehearsed.end)


def _resumed(store: Store, subject: Subject) -> Belief:
    seen = _Seen()
    with store.session(subject.session, **_program(subject, seen)) as session:
        found, state = session.resumed, _state(session.state)
        epoch = session.fencing_token
        return Belief(found.checkpoint, state, seen.events, found.end, epoch)


def _kept(found: Checkpoint | None) -> str:
    return _digest([found.state, list(found.fingerprints)]) if found else NOBODY


def _state(state: object) -> str:
    return _digest(state) if state else NOBODY


def _digest(told: Any) -> str:
    return hashlib.blake2b(canonical.encode(told), digest_size=8).hexdigest()
