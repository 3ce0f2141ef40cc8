"""``keys new``: a key file, and with it a store's identity."""

from __future__ import annotations

from lastgood.cli.answer import Answer
from lastgood.cli.command import Command
from lastgood.cli.wording import cell
from lastgood.keyring import Keyring


def new(command: Command) -> Answer:
    """Make a key file that only its owner can read, durably.

    Raises:
        KeyFileError: The name exists, others could replace it, or the store would hold it.
        StorageError: The system refused; nothing is left.
    """
    Keyring.generate().write_new(command.file, outside=command.root)
    made = Keyring.from_file(command.file)
    return Answer(
        document={"file": cell(made.location), "store": made.store_id, "kid": made.primary_kid},
        text=(
            f"made   {cell(made.location)}",
            f"store  {made.store_id}",
            f"kid    {made.primary_kid}",
        ),
        remarks=(
            *made.notices,
            "Keep a copy of this file elsewhere: without it nothing that it sealed can be read",
        ),
    )
