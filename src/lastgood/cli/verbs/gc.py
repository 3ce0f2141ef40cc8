"""``gc``: older segments leave a session's event log, kept elsewhere or erased (G2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from lastgood import trimming
from lastgood.cli import access, person
from lastgood.cli.answer import Answer
from lastgood.cli.command import Command
from lastgood.cli.wording import cell, named
from lastgood.clock import SystemClock
from lastgood.errors import UsageError
from lastgood.formats import names
from lastgood.formats.names import SessionId
from lastgood.storage.posix import PosixRoot
from lastgood.trimming import Keep, Trimmed


def gc(command: Command) -> Answer:
    """Trim a session's log, or tell what would leave it.

    On return what left is durable in the archive, if one was named, and sealed in the log.

    Raises:
        UsageError: The archive will not do.
        UnknownSessionError: There is no such session.
        LastgoodError: As ``trimming.trim``.
    """
    session = access.session_of(command)
    before = names.sequence(command.log_before)
    with access.store_of(command) as store:
        if command.dry_run == "yes":
            found = trimming.plan(store.place, session, clock=SystemClock(), before=before)
            return _answer(command, found, status="would trim" if found.names else "unchanged")
        actor = person.user() if command.actor is None else command.actor
        reason = command.reason or ""
        with _kept(command, session) as keep:
            found = trimming.trim(
                store.place,
                session,
                owner=person.owner(),
                before=before,
                keep=keep,
                actor=actor,
                reason=reason,
            )
    return _answer(
        command,
        found,
        status="trimmed" if found.names else "unchanged",
        actor=actor,
        reason=reason,
    )


@contextlib.contextmanager
def _kept(command: Command, session: SessionId) -> Iterator[Keep | None]:
    """The archive that was named; nothing, if it is to be erased."""
    if command.archive is None:
        yield None
        return
    if not command.archive:
        raise UsageError("The archive's directory is empty text")
    with (
        contextlib.closing(
            PosixRoot(command.archive, network_filesystem=command.network_filesystem)
        ) as root,
        trimming.archive(root, session) as keep,
    ):
        yield keep


def _answer(
    command: Command,
    found: Trimmed,
    *,
    status: str,
    actor: str | None = None,
    reason: str | None = None,
) -> Answer:
    document: dict[str, Any] = {
        "session": found.session,
        "status": status,
        "names": list(found.names),
        "events": found.events,
        "sizeBytes": found.size_bytes,
        "firstKept": found.first_kept,
        "head": found.head or None,
        "root": found.root or None,
        "leftovers": list(found.leftovers),
        "archive": command.archive,
        "actor": actor,
        "reason": reason,
        "revision": found.revision or None,
    }
    lines = [f"{status}  {cell(found.session)}"]
    if found.names:
        first = found.first_kept - found.events
        count = len(found.names)
        of = f"{found.size_bytes} bytes in {count} segment{'s' if count > 1 else ''}"
        lines += [
            f"left     events {first} to {found.first_kept - 1}, {of}",
            f"root     {found.root}",
        ]
    lines += [f"left     {cell(name)}, which no log needs" for name in found.leftovers]
    lines.append(f"kept     from event {found.first_kept} on")
    if status != "would trim" and (found.names or found.leftovers):
        where = "erased" if command.archive is None else f"in {cell(command.archive)}"
        lines += [f"copies   {where}", f"by       {cell(actor)}: {cell(reason)}"]
    remarks: tuple[str, ...] = ()
    if status == "unchanged":
        told = (
            "No whole segment lies below that event and the generation before the current one. "
            "See what is kept with: lastgood verify SESSION"
        )
        remarks = (named(told, session=found.session, place=command.place),)
    return Answer(document=document, text=tuple(lines), remarks=remarks)
