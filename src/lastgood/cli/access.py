"""From the words of a command to keys and a store."""

from __future__ import annotations

import re
import shlex
from typing import Any, Final

from lastgood.cli.command import Command
from lastgood.errors import KeyMissingError, UnknownSessionError, UsageError, printable
from lastgood.formats.limits import Limits
from lastgood.formats.names import SessionId, session_id
from lastgood.keyring import Keyring
from lastgood.store import Store, open_store

_DESCRIPTOR: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


def session_of(command: Command) -> SessionId:
    """The session that a command names, checked before anything is opened.

    Raises:
        InvalidIdError: It is no session id.
    """
    return session_id(command.session)


def limits_of(command: Command) -> Limits:
    """The limits that a command sets.

    Raises:
        UsageError: One is out of range.
    """
    chosen: dict[str, Any] = dict(command.raised)
    if command.lock_timeout_s is not None:
        chosen["lock_wait_s"] = command.lock_timeout_s
    return Limits(**chosen)


def store_of(command: Command) -> Store:
    """Open the store that a command names; its record, if there is one, is authenticated.

    Raises:
        UsageError: No root was named.
        LastgoodError: As ``Keyring`` and ``open_store``.
    """
    if not command.root:
        raise UsageError(
            "No store was named", do="Name its directory with --root or in LASTGOOD_ROOT"
        )
    if command.root.startswith("memory:"):
        raise UsageError(
            "A store in memory would end with this command",
            do="Name a directory with --root or in LASTGOOD_ROOT",
        )
    return open_store(
        command.root,
        keys=keyring_of(command),
        limits=limits_of(command),
        network_filesystem=command.network_filesystem,
    )


def keyring_of(command: Command) -> Keyring:
    """The keys that a command names.

    ``env:NAME``, ``fd:N`` and ``exec:/program args…`` are sources; everything else is a path,
    ``./env:x`` for a file of such a name.

    Raises:
        KeyMissingError: None were named, or they cannot be had.
        KeyFileError: They will not do.
        UsageError: The source is not written as one.
    """
    given = command.keys
    if not given:
        raise KeyMissingError("No keys were named")
    scheme, colon, rest = given.partition(":")
    if not colon or scheme not in ("env", "fd", "exec"):
        return Keyring.from_file(given)
    if scheme == "env" and rest and "=" not in rest:
        return Keyring.from_environment(rest)
    if scheme == "fd" and _DESCRIPTOR.fullmatch(rest):
        return Keyring.from_descriptor(int(rest))
    if scheme == "exec":
        return Keyring.from_command(_words(rest))
    raise UsageError(
        f"{printable(given)} names no keys",
        do="Write them as a path, env:NAME, fd:N or 'exec:/path/to/program args'",
    )


def unknown(session: str, store: Store) -> UnknownSessionError:
    """The error for a session that is not there."""
    return UnknownSessionError(
        f"There is no session {printable(session)} in {printable(store.location)}"
    )


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # its message is not repeated: arguments may be secret
        raise UsageError("The key command has a quotation mark or backslash too many") from None
