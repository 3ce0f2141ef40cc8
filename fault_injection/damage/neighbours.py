"""Authentic records that do not belong here: of another session, store or key, of a newer program.

They are made by real programs, as alike to the session under test as can be: with the same
numbers, the same epoch and the same states where it holds checkpoints alone, with the same events
where it has a log.
"""

from __future__ import annotations

from typing import Any, Final

from fault_injection.damage.belief import Subject
from fault_injection.damage.files import Files, spread
from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Tree
from fault_injection.workloads import roots
from fault_injection.workloads.keys import KEYS
from lastgood import Checkpoint, CheckpointPolicy, Keyring
from lastgood.formats import names
from lastgood.formats.event import Event
from lastgood.formats.keyfile import KeyEntry, KeyFile, Secret
from lastgood.keyring import kid_of
from lastgood.store import Store

_OTHER_SECRET: Final = Secret(bytes(range(100, 132)))
_OTHER_STORE: Final = "5707e000000000000000000000000002"
_NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)


def _keyring(store: str, secret: Secret) -> Keyring:
    created = "2026-01-01T00:00:00.000000Z"
    entry = KeyEntry(kid=kid_of(secret), state="primary", created=created, secret=secret)
    return Keyring(KeyFile(store=store, keys=(entry,)))


OTHER_KEY: Final = _keyring(KEYS.store_id, _OTHER_SECRET)
OTHER_STORE: Final = _keyring(_OTHER_STORE, Secret(bytes(range(32))))


def foreign(kind: str, tree: Tree, subject: Subject) -> Files:
    """A stranger's files, under the paths of ``subject``.

    Args:
        kind: ``foreign-session``, ``foreign-store`` or ``foreign-key``.
        tree: What the session under test looks like.
        subject: It.
    """
    session = subject.session if kind != "foreign-session" else f"{subject.session}-other"
    keys = {"foreign-store": OTHER_STORE, "foreign-key": OTHER_KEY}.get(kind, KEYS)
    made = spread(_alike(tree, subject, session=session, keys=keys))
    theirs = f"{subject.store}/{names.directory(names.session_id(session))}"
    ours = f"{subject.store}/{subject.directory}"
    own = {f"{subject.store}/{names.STORE}"} if kind != "foreign-session" else set()
    return {
        path.replace(theirs, ours): node
        for path, node in made.items()
        if node.data is not None and (path.startswith(f"{theirs}/") or path in own)
    }


def newer(tree: Tree, subject: Subject) -> Tree:
    """What a program of the next schema version leaves behind it."""
    machine = MemoryMachine(tree, seed="newer")
    schema = subject.schema + 1
    with roots.store(machine, subject.at, keys=KEYS) as store:
        if subject.has_log:
            with _session(store, subject, subject.session, schema) as session:
                session.append("newer", {"schema": schema})
                session.save()
        else:
            with store.checkpoints(subject.session, schema_version=schema) as opened:
                sequence = opened.current_sequence + 1
                opened.save(Checkpoint(sequence, {"schema": schema}, opened.fingerprints))
    return machine.disk.tree()


def _alike(tree: Tree, subject: Subject, *, session: str, keys: Keyring) -> Tree:
    reader = MemoryMachine(tree, seed="model")
    machine = MemoryMachine(seed="stranger")
    with (
        roots.store(reader, subject.at, keys=KEYS) as model,
        roots.store(machine, subject.at, keys=keys) as store,
    ):
        if subject.has_log:
            _same_events(model, store, subject, session)
        else:
            _same_checkpoints(model, store, subject, session)
    return machine.disk.tree()


def _same_checkpoints(model: Store, store: Store, subject: Subject, session: str) -> None:
    """So many openings and saves that the newest names and numbers are the same."""
    schema = subject.schema
    with model.checkpoints(subject.session, mode="read", schema_version=schema) as read:
        report = read.check()
        rows = [row.sequence for row in report.rows if row.role in ("current", "previous")]
        saved = [read.load(sequence) for sequence in sorted(rows)]
    newest = report.selection.manifest if report.selection else None
    epoch, revision = (newest.epoch, newest.revision) if newest else (1, 1)
    fillers = max(0, min(revision - epoch - len(saved), min(rows, default=1) - 1))
    for _ in range(epoch - 1):
        store.checkpoints(session, schema_version=schema).close()
    with store.checkpoints(session, schema_version=schema) as opened:
        for sequence in range(1, fillers + 1):
            opened.save(Checkpoint(sequence, {"filler": sequence}))
        for found in saved:
            opened.save(Checkpoint(found.sequence, found.state, found.fingerprints))


def _same_events(model: Store, store: Store, subject: Subject, session: str) -> None:
    with model.history(subject.session) as history:
        events = [(event.type, event.data) for event in history.events() if not event.is_ours]
    half = len(events) // 2
    for part in (events[:half], events[half:]):
        with _session(store, subject, session, subject.schema) as opened:
            opened.append_many(part)
            opened.save()


def _session(store: Store, subject: Subject, session: str, schema: int) -> Any:
    def kept(state: Any, event: Event) -> Any:
        return state

    return store.session(
        session,
        reducer=kept,
        initial={},
        schema_version=schema,
        migrations={older: lambda state: state for older in range(1, schema)},
        policy=_NEVER,
        program=subject.program,
    )
