"""``save`` and ``load``: state in, state out."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from lastgood.checkpoints import CheckpointStore
from lastgood.cli import access, state_file
from lastgood.cli.answer import Answer
from lastgood.cli.command import Command
from lastgood.cli.wording import cell
from lastgood.errors import (
    EXIT_SUPERSEDED,
    PolicyError,
    StateError,
    UnknownSchemaError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.formats import canonical, names
from lastgood.formats import state as state_check
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.fingerprint import fingerprints
from lastgood.formats.session import Program
from lastgood.saving import SaveReceipt
from lastgood.store import Store
from lastgood.version import VERSION

_EVENTS_BEHIND: Final = (
    "{} events came after this state; only the session's program can apply them. See them with: "
    "lastgood show SESSION --events"
)
_PROGRAM: Final = Program("lastgood.cli", VERSION)


def save(command: Command) -> Answer:
    """Save a state, with the fingerprints that are known already and those that are given.

    Everything that was given is judged before the store is opened. On return with exit code
    0 it is durable.

    Raises:
        LastgoodError: As ``CheckpointStore.save``.
    """
    session = access.session_of(command)
    given = fingerprints(command.effects)
    draft = Checkpoint(names.sequence(command.sequence), None, given, command.schema_version)
    if command.keys == "fd:0" and command.state == state_file.STDIN:
        raise UsageError("Keys and state cannot both be read from standard input")
    state = state_file.read(command.state, limits=access.limits_of(command))
    with (
        access.store_of(command) as store,
        _owned(store, session, command.schema_version) as checkpoints,
    ):
        carried = _carried(checkpoints, draft.sequence)
        new = set(given).difference(carried)
        done = (*carried, *(fingerprint for fingerprint in given if fingerprint in new))
        receipt = checkpoints.save(
            replace(draft, state=state, fingerprints=done), milestone=command.milestone
        )
        return _receipt(receipt, notices=checkpoints.notices)


def _owned(store: Store, session: str, schema_version: int) -> CheckpointStore:
    try:
        return store.checkpoints(session, schema_version=schema_version, program=_PROGRAM)
    except PolicyError as error:
        error.do = (
            "Let the session's program append events and save, with Store.session of the Python "
            "library"
        )
        raise


def load(command: Command) -> Answer:
    """Load the state of the last good checkpoint, or of the one at ``--sequence``.

    Raises:
        UnknownSessionError: There is no such session, or it has no checkpoint yet, and nothing
            was given with ``--if-new``.
        LastgoodError: As ``CheckpointStore.load``; nothing else is loaded instead.
    """
    session = access.session_of(command)
    beginning = _beginning(command)
    with (
        access.store_of(command) as store,
        store.checkpoints(
            session, mode="read", schema_version=command.schema_version
        ) as checkpoints,
    ):
        behind = None
        if command.sequence is None:
            found = checkpoints.load_latest()
            behind = _behind(store, session, found)
        else:
            found = checkpoints.load(command.sequence)
        found = found or beginning
        if found is None:
            raise UnknownSessionError(
                f"Session {printable(session)} holds no checkpoint in {printable(store.location)}"
            )
        return Answer(
            document={
                "session": session,
                "sequence": None if found is beginning else found.sequence,
                "schemaVersion": found.schema_version,
                "sideEffectFingerprints": list(found.fingerprints),
                "state": found.state,
                "eventsBehind": behind,
            },
            data=canonical.encode(found.state),
            remarks=(
                *([_EVENTS_BEHIND.format(behind)] if behind else []),
                *(checkpoints.notices if command.verbose == "yes" else ()),
            ),
        )


def _behind(store: Store, session: str, found: Checkpoint | None) -> int | None:
    """How many of a program's events came after ``found``; None in a session without a log.

    Raises:
        UsageError: There are events and no checkpoint: nothing stands in for their state.
    """
    try:
        with store.history(session, extent="recent") as history:
            behind = history.behind(found.sequence if found else 0)
    except (PolicyError, UnknownSessionError):
        return None
    if found is None:
        raise UsageError(
            f"Session {printable(session)} holds {behind} events of its program's and no "
            "checkpoint yet",
            do="Open it with its program, or see its events with: lastgood show SESSION --events",
        )
    return behind


def _beginning(command: Command) -> Checkpoint | None:
    """What stands for the checkpoint of a new session, judged as a state to save is.

    Raises:
        StateError, LimitError: It could not be saved.
    """
    if command.if_new is None:
        return None
    try:
        state = state_file.parse(os.fsencode(command.if_new))
        state_check.encode_with_state({"state": state}, limits=access.limits_of(command))
    except StateError as error:
        error.do = "Mend the JSON text that was given with --if-new"
        raise
    return Checkpoint(1, state, (), command.schema_version)


def _carried(checkpoints: CheckpointStore, sequence: int) -> tuple[str, ...]:
    """The fingerprints that a save at ``sequence`` goes on from.

    Those of the current checkpoint (I6); but a save at a lower sequence can only repeat what
    is stored there (I3), or be superseded (I5), so it goes on from what is stored there.
    """
    current = checkpoints.current_sequence
    if sequence >= current:
        return checkpoints.fingerprints
    try:
        return tuple(checkpoints.load(sequence).fingerprints)
    except (UsageError, UnknownSchemaError):
        return ()  # not stored, or surely other content


def _receipt(receipt: SaveReceipt, *, notices: tuple[str, ...]) -> Answer:
    document = {
        "session": receipt.session,
        "sequence": receipt.sequence,
        "status": receipt.status,
        "durable": receipt.is_durable,
        "digest": receipt.digest,
        "revision": receipt.revision,
        "manifestDigest": receipt.manifest_digest,
    }
    remarks = (*receipt.warnings, *notices)
    if receipt.status == "superseded":
        stale = (
            f"Superseded: sequence {receipt.sequence} is lower than the current one. This state "
            "was not stored and is not durable. Load the current one with: lastgood load SESSION."
        )
        return Answer(document=document, exit_code=EXIT_SUPERSEDED, remarks=(stale, *remarks))
    line = f"{receipt.status}  {cell(receipt.session)}  sequence {receipt.sequence}"
    return Answer(document=document, text=(f"{line}  digest {receipt.digest}",), remarks=remarks)
