"""``show --events``: the log line by line, each authenticated before it is shown (G8, C1-05).

Of a damaged log everything before the damage is shown, then the error: with ``--json`` as the
last document, which every such answer ends with.
"""

from __future__ import annotations

from collections.abc import Generator
from itertools import islice
from typing import Any

from lastgood.cli import access
from lastgood.cli.answer import Answer, Piece, Streamed
from lastgood.cli.command import Command
from lastgood.cli.wording import cell, harmless_json
from lastgood.errors import UsageError
from lastgood.formats import canonical, names
from lastgood.formats.event import Event


def stream(command: Command) -> Streamed:
    """The events of a session from ``--since`` on, at most ``--limit`` of them.

    Raises:
        UsageError: One of the numbers is none.
    """
    names.sequence(command.since)
    if command.limit is not None and command.limit < 1:
        raise UsageError(f"A limit of {command.limit} events shows nothing")
    return Streamed(_pieces(command))


def _pieces(command: Command) -> Generator[Piece, None, Answer]:
    """Every piece, then the rest.

    Raises:
        UnknownSessionError: There is no such session.
        PolicyError: It has no event log.
        LastgoodError: Behind the last event that can be believed: what stops a load.
    """
    session = access.session_of(command)
    shown = last = 0
    with access.store_of(command) as store, store.history(session) as history:
        for event in islice(history.events(since=command.since), command.limit):
            yield _piece(command, event)
            shown, last = shown + 1, event.sequence
        if history.error is not None:  # the limit may have come before it
            raise history.error
        end = 0 if history.found is None else history.found.end.count
        return Answer(
            document={"session": session, "shown": shown, "last": last, "end": end},
            remarks=history.notices,
        )


def _piece(command: Command, event: Event) -> Piece:
    document: dict[str, Any] = {
        "sequence": event.sequence,
        "at": event.at,
        "epoch": event.epoch,
        "type": event.type,
    }
    text = f"{event.sequence:>8}  {event.at}  {cell(event.type)}"
    if command.with_data == "yes":
        document["data"] = event.data
        text += f"  {harmless_json(canonical.encode(event.data)).decode()}"
    return Piece(document, text)
