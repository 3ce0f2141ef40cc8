"""The program of the sessions under test: a shelf that named items are put on, and its acts.

Every append puts one item, whose name is the act's; the items of one ``append_many`` share the
part before the dot: ``b.1``, ``b.2``. A save is named after the last item that it holds:
``save-b.2``, and gives a fingerprint that follows from its name. So a judge knows every byte of
the state from the names alone. An item whose name begins with ``big`` is large enough to leave
an owner's first segment without room for the next line.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fault_injection.machine import Machine
from fault_injection.workloads import roots
from fault_injection.workloads.keys import KEYS
from fault_injection.world import Told, World
from lastgood import CheckpointPolicy, Session
from lastgood.claim import Owner
from lastgood.errors import DurabilityUnknownError, FencedError, LastgoodError
from lastgood.formats import names
from lastgood.formats.event import Event
from lastgood.formats.session import Program
from lastgood.replaying import Determinism
from lastgood.storage.filesystem import FileSystem
from lastgood.store import Store

SESSION: Final = "nightly"
DIRECTORY: Final = names.directory(names.session_id(SESSION))
PROGRAM: Final = Program("shelf", "1")
APPEND: Final = "append"
SAVE: Final = "save"
REBUILD: Final = "rebuild"
LATE: Final = "late"
REPAIR: Final = "repair"
PUT: Final = "put"
_NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())
_BIG_BYTES: Final = 63_800
_PAD_BYTES: Final = 100
_MAYBE: Final = (DurabilityUnknownError, FencedError)

State = dict[str, Any]


def given(item: str) -> tuple[str, dict[str, str]]:
    """The event that puts ``item``."""
    return PUT, {"item": item, "pad": "x" * (_BIG_BYTES if item.startswith("big") else _PAD_BYTES)}


def fingerprint(save: str) -> str:
    """What a save of that name says was done."""
    return f"fx:v1:{hashlib.sha256(save.encode()).hexdigest()}"


def state_of(items: Sequence[str], at: Sequence[int], *, schema: int) -> State:
    """The state that holds ``items``, put by the events ``at``."""
    state: State = {"items": list(items), "at": list(at)}
    return state if schema == 1 else {**state, "count": len(items)}


def put(state: State, event: Event) -> State:
    """The reducer, of both schemas."""
    data: Any = event.data
    schema = 2 if "count" in state else 1
    return state_of([*state["items"], data["item"]], [*state["at"], event.sequence], schema=schema)


def counted(state: Any) -> Any:
    """The migration from schema 1 to schema 2."""
    return {**state, "count": len(state["items"])}


@contextmanager
def store(machine: Machine, *, system: FileSystem | None = None) -> Iterator[Store]:
    """The store, in a process of its own."""
    with roots.store(machine, keys=KEYS, system=system) as opened:
        yield opened


@contextmanager
def opened(
    machine: Machine,
    *,
    system: FileSystem | None = None,
    schema: int = 1,
    determinism: Determinism = "trust",
) -> Iterator[Session[State]]:
    """The session, owned by a process of its own."""
    with (
        store(machine, system=system) as held,
        held.session(
            SESSION,
            reducer=put,
            initial=state_of((), (), schema=schema),
            schema_version=schema,
            migrations={} if schema == 1 else {1: counted},
            policy=_NEVER,
            program=PROGRAM,
            determinism=determinism,
        ) as session,
    ):
        yield session


def owner(machine: Machine) -> Owner:
    """A person at the command line, for what people decide."""
    return Owner(program=PROGRAM, writer="person", clock=machine.clock, entropy=machine.entropy)


# --- acts ---------------------------------------------------------------------------------


@contextmanager
def asked(world: World, *names: str, kind: str) -> Iterator[None]:
    """Acts that one call asks for; refused by a definite error, open after one that is not."""
    for name in names:
        world.begin(name, kind=kind)
    try:
        yield
    except _MAYBE:
        raise
    except LastgoodError:
        for name in names:
            world.end(name, "refused")
        raise
    for name in names:
        world.end(name, "acknowledged")


def append(session: Session[State], world: World, *items: str, kind: str = APPEND) -> None:
    """One call that puts ``items``."""
    with asked(world, *items, kind=kind):
        session.append_many([given(item) for item in items])


def save(session: Session[State], world: World) -> None:
    """Save what was put, with a fingerprint."""
    name = named(session.state["items"])
    with asked(world, name, kind=SAVE):
        session.save(fingerprints=[fingerprint(name)])


def named(items: Sequence[str], *, kind: str = SAVE) -> str:
    """The name of the act that makes a checkpoint of ``items``."""
    return f"{kind}-{items[-1]}"


def found(session: Session[State]) -> list[str]:
    """The names of the acts that an opening found: items, and the checkpoint it began from."""
    state, since = session.state, session.resumed.checkpoint
    held = [item for item, at in zip(state["items"], state["at"], strict=True) if at <= since]
    return [*state["items"], *([named(held)] if held else [])]


def checkpoints(told: Told) -> Told:
    """The acts that make a checkpoint."""
    return Told(tuple(act for act in told.acts if act.kind in (SAVE, REBUILD)))


def half(items: Sequence[str], asked_for: Sequence[str]) -> list[str]:
    """Items that are there without one that the same call put before them."""
    missing: set[str] = set()
    wrong = []
    for item in asked_for:
        call = item.partition(".")[0]
        if item not in items:
            missing.add(call)
        elif call in missing:
            wrong.append(item)
    return wrong
