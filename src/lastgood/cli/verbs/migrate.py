"""``migrate``: a session's state is brought up to its program's schema, offline."""

from __future__ import annotations

from typing import Any

from lastgood.cli import access
from lastgood.cli.answer import Answer
from lastgood.cli.command import Command
from lastgood.cli.program import load_program, rehearsed, running_program
from lastgood.cli.wording import cell
from lastgood.rehearsal import Rehearsed
from lastgood.store import Store


def migrate(command: Command) -> Answer:
    """Resume a session with its program, and save its state in the program's schema.

    It is rehearsed first, by reading only: where that stops, and where there is nothing to
    migrate, nothing is changed. On return with ``migrated`` the new checkpoint is durable.

    Raises:
        UnknownSessionError: There is no such session.
        ConfigurationError: The program cannot be loaded, or left.
        LastgoodError: As ``Store.session``.
    """
    session = access.session_of(command)
    with access.store_of(command) as store:
        program = load_program(command.program, store=store.location)
        with running_program():
            found = store.rehearse(session, **rehearsed(program))
            if found is None:
                raise access.unknown(session, store)
            if found.migrated_from is None:
                return _answer(session, found, status="unchanged")
            if command.dry_run == "yes":
                return _answer(session, found, status="would migrate")
            return _migrated(store, session, program, found)


def _migrated(store: Store, session: str, program: dict[str, Any], found: Rehearsed[Any]) -> Answer:
    with store.session(session, **program) as opened:
        receipt = opened.save()
        resumed = opened.resumed
        return _answer(
            session,
            found,
            status="migrated",
            replayed=resumed.replayed,
            sequence=receipt.sequence,
            digest=receipt.digest,
            remarks=(*receipt.warnings, *opened.notices),
        )


def _answer(
    session: str,
    found: Rehearsed[Any],
    *,
    status: str,
    replayed: int | None = None,
    sequence: int | None = None,
    digest: str | None = None,
    remarks: tuple[str, ...] = (),
) -> Answer:
    replayed = found.replayed if replayed is None else replayed
    older = found.schema_version if found.migrated_from is None else found.migrated_from
    document = {
        "session": session,
        "status": status,
        "fromSchema": older,
        "toSchema": found.schema_version,
        "fromSequence": found.checkpoint,
        "replayed": replayed,
        "sequence": sequence,
        "digest": digest,
    }
    shapes = (
        f"schema {older}"
        if found.migrated_from is None
        else (f"schema {older} to {found.schema_version}")
    )
    start = f"checkpoint {found.checkpoint}" if found.checkpoint else "the initial state"
    line = f"{status}  {cell(session)}  {shapes}  from {start}  {replayed} events replayed"
    if digest is not None:
        line += f"  sequence {sequence}  digest {digest}"
    return Answer(document=document, text=(line,), remarks=remarks or found.notices)
