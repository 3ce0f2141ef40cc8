"""Errors, named by what the operator must do.

One tree. Each class carries a stable ``code`` and the ``exit_code`` of the
command line; each message has three sentences: what happened, what is safe,
what to do. A message never holds payload bytes or key material, and every
text that came from a store is escaped before it is put into one (T12).

Exit codes: 1 usage, input, configuration · 2 integrity · 3 rollback or fork ·
4 schema · 5 key · 6 good, but coverage limited, or recoverable · 7 conflict ·
8 input/output · 9 policy · 10 an effect is undecided · 130 interrupted.
"""

from __future__ import annotations

import errno as errno_names
from collections.abc import Sequence
from typing import ClassVar

from lastgood.escaping import printable as printable  # noqa: PLC0414 - taken from here everywhere

EXIT_GOOD = 0
EXIT_LIMITED = 6
EXIT_SUPERSEDED = 7
EXIT_INTERRUPTED = 130


class LastgoodError(Exception):
    """Root of every error that lastgood raises on purpose.

    Args:
        happened: What happened, as one clause without its full stop.
        safe: What is still safe.
        do: What to do next, naming only commands that exist.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1
    default_safe: ClassVar[str] = "Nothing was changed"
    default_do: ClassVar[str] = "Correct the call and run it again"

    def __init__(self, happened: str, *, safe: str | None = None, do: str | None = None) -> None:
        self.happened = happened
        self.safe = safe if safe is not None else self.default_safe
        self.do = do if do is not None else self.default_do
        super().__init__(happened)

    def __str__(self) -> str:
        """The three sentences; built here, so that a pickled or copied error says the same."""
        return f"{self.happened}. {self.safe}. {self.do}."


# --- 1: usage, input, configuration -------------------------------------------------------


class UsageError(LastgoodError):
    """The call itself is wrong: an argument out of range, a sequence that is not stored."""

    code = "usage"


class UnknownSessionError(LastgoodError):
    """No session of this id is stored here."""

    code = "unknown-session"
    default_do = "List what there is with: lastgood sessions"


class InvalidIdError(LastgoodError):
    """The session id is not one: empty, too long, control characters, not a string."""

    code = "invalid-id"
    default_do = "Use 1 to 512 bytes of UTF-8 without control characters"


class StateError(LastgoodError):
    """The state cannot be stored without changing it; ``path`` is the JSON path of the value."""

    code = "state"
    default_do = "Convert the value to plain JSON data before saving"

    def __init__(
        self,
        reason: str,
        *,
        path: str = "$",
        what: str = "state",
        safe: str | None = None,
        do: str | None = None,
    ) -> None:
        self.path = path
        super().__init__(f"The {what} cannot be stored: {reason} at {path}", safe=safe, do=do)


class ReducerError(LastgoodError):
    """The program's reducer refused an event that was to be appended."""

    code = "reducer"
    default_safe = "The event was not stored, and the state is what it was"
    default_do = "Append what the reducer knows, or mend the reducer"


class FingerprintError(LastgoodError):
    """A fingerprint is malformed or given twice; ``index`` is its place in the caller's list."""

    code = "fingerprint"
    default_do = "Give each fingerprint once, as fx:v1: and 64 lower-case hex characters"

    def __init__(self, reason: str, *, index: int | None = None) -> None:
        self.index = index
        where = "" if index is None else f" at index {index}"
        super().__init__(f"A side-effect fingerprint is {reason}{where}")


class FingerprintLossError(LastgoodError):
    """A save lacks fingerprints that the current checkpoint holds (I6)."""

    code = "fingerprint-loss"
    default_do = "Load the current checkpoint and carry its fingerprints over"


class LimitError(LastgoodError):
    """Something is larger than its limit; nothing was written or believed."""

    code = "limit"
    default_do = "Make it smaller, or raise the limit for every reader and writer of this store"


class PlanError(LastgoodError):
    """A runbook cannot be understood; ``path`` is the place of the value in it."""

    code = "plan"
    default_do = "Correct the plan and run the same command again"

    def __init__(self, happened: str, *, path: str = "") -> None:
        self.path = path
        super().__init__(f"{path}: {happened}" if path else happened)


class StepFailedError(LastgoodError):
    """A step of a runbook failed, and may be run again: no decision is needed for that."""

    code = "step-failed"
    default_safe = "What was done before stays done, and nothing behind it was started"
    default_do = "Mend what stopped it and run the same command again"


class ConfigurationError(LastgoodError):
    """This machine or this configuration cannot do it: an extra, a platform, an option."""

    code = "configuration"


# --- 2: integrity -------------------------------------------------------------------------


class DamagedError(LastgoodError):
    """Stored bytes that no crash can leave: damaged, forged, linked, or of the wrong owner.

    Attributes:
        name: File name within the store, or an empty string.
        line: Line in that file, counted from 1, where it applies.
        offset: Byte offset in that file, where it applies.
    """

    code = "damaged"
    exit_code = 2
    default_safe = "Nothing was changed or deleted, and nothing was started"
    default_do = "Look at every finding with: lastgood verify SESSION"

    def __init__(
        self,
        what: str,
        *,
        name: str = "",
        line: int | None = None,
        offset: int | None = None,
        do: str | None = None,
    ) -> None:
        self.what = what
        self.name = name
        self.line = line
        self.offset = offset
        place = "".join(
            part
            for part in (
                f"{printable(name)}: " if name else "",
                f"line {line}: " if line is not None else "",
                f"offset {offset}: " if offset is not None else "",
            )
        )
        super().__init__(f"Damaged: {place}{what}", do=do)


class SplicedError(DamagedError):
    """An intact record, but of another session, store, kind or sequence."""

    code = "spliced"


class LogGapError(DamagedError):
    """Events are missing between two that are there."""

    code = "log-gap"


class DomainInvariantError(DamagedError):
    """The stored state breaks a rule that the caller registered; nothing is guessed."""

    code = "domain-invariant"


class DivergenceError(DamagedError):
    """State and workspace have parted."""

    code = "divergence"


# --- 3: rollback or fork ------------------------------------------------------------------


class RollbackDetectedError(LastgoodError):
    """The store is older than something that remembers it."""

    code = "rollback"
    exit_code = 3
    default_safe = "Nothing was changed, and nothing was started"
    default_do = "Look at every finding with: lastgood verify SESSION"


class ForkDetectedError(RollbackDetectedError):
    """Two histories of one session exist."""

    code = "fork"


# --- 4: schema ----------------------------------------------------------------------------


class UnknownSchemaError(LastgoodError):
    """The state's schema version is not the one this program knows."""

    code = "unknown-schema"
    exit_code = 4
    default_do = "Run the program version that knows this schema"


class UnknownFormatError(LastgoodError):
    """A record has a format, kind or algorithm that this lastgood does not know."""

    code = "unknown-format"
    exit_code = 4
    default_do = (
        "Use the release that wrote it; if none did, the record is damaged, look at it with: "
        "lastgood verify SESSION"
    )


class MigrationError(LastgoodError):
    """A migration between schema versions is missing or failed."""

    code = "migration"
    exit_code = 4


class ProgramMismatchError(LastgoodError):
    """Another program, or an incompatible version of it, made this session."""

    code = "program-mismatch"
    exit_code = 4


# --- 5: key -------------------------------------------------------------------------------


class KeyMissingError(LastgoodError):
    """No key was given, or it cannot be found."""

    code = "key-missing"
    exit_code = 5
    default_do = (
        "Name the key file with --keys or LASTGOOD_KEYS, or, for a new store, make one with: "
        "lastgood keys new FILE"
    )


class KeyMismatchError(LastgoodError):
    """The store is sealed with a key that this keyring does not hold; nothing says tampering."""

    code = "key-mismatch"
    exit_code = 5
    default_safe = "Nothing was changed; what is stored cannot be verified with this keyring"
    default_do = "Give the key file that this store was made with"


class KeyFileError(LastgoodError):
    """The key file is malformed, or somebody else could read or replace it."""

    code = "key-file"
    exit_code = 5
    default_safe = "No key was used"
    default_do = "Mend the key file and run the command again"


class KeyRevokedError(LastgoodError):
    """A record is sealed with a revoked key, and nothing outside the store pins it."""

    code = "key-revoked"
    exit_code = 5


# --- 7: conflict --------------------------------------------------------------------------


class ConflictError(LastgoodError):
    """Another writer moved this session on."""

    code = "conflict"
    exit_code = 7
    default_safe = "What the other writer stored is untouched"
    default_do = "Open the session again, load its newest checkpoint and decide"


class SequenceConflictError(ConflictError):
    """This sequence holds other content (I3): an alarm, one of the two is wrong."""

    code = "sequence-conflict"
    default_safe = "The stored checkpoint is untouched"
    default_do = "Load the stored one and find out which is right; save under a higher sequence"


class LockedError(ConflictError):
    """Another process holds the session.

    Attributes:
        holder: What the lock file says of the holder; information, never believed.
    """

    code = "locked"
    default_safe = "Nothing was changed"
    default_do = "Wait for the holder, or stop it"

    def __init__(self, happened: str, *, holder: str = "unknown") -> None:
        self.holder = holder
        super().__init__(happened)


class BusyError(ConflictError):
    """The same handle is in use, or a writer kept moving the store while it was read."""

    code = "busy"
    default_safe = "Nothing was changed"
    default_do = "Try again"


class FencedError(ConflictError):
    """This handle no longer owns the session; it can never write again."""

    code = "fenced"
    default_safe = "Nothing of this handle will be believed from here on"


class EffectConflictError(ConflictError):
    """An effect's key came with other arguments, or the same effect came twice."""

    code = "effect-conflict"
    default_safe = "Nothing was run; what was done before stays done"
    default_do = "Give each action a key of its own, and the same arguments each time"


# --- 8: input/output ----------------------------------------------------------------------


class StorageError(LastgoodError):
    """The operating system said no, definitely: the operation did not take effect.

    Attributes:
        errno: The system's error number, or 0 where there is none.
    """

    code = "storage"
    exit_code = 8
    default_safe = "Nothing was changed; the last good checkpoint is still the current one"
    default_do = "Mend what the system complains about and run the command again"

    def __init__(
        self, doing: str, *, errno: int = 0, safe: str | None = None, do: str | None = None
    ) -> None:
        self.errno = errno
        self.doing = doing
        reason = errno_names.errorcode.get(errno, f"errno {errno}") if errno else "refused"
        super().__init__(f"{doing}: {reason}", safe=safe, do=do)


class NotStoredError(StorageError):
    """There is no object of this name: known, not merely unreadable."""

    code = "not-stored"


class DurabilityUnknownError(StorageError):
    """The outcome is not known: the old checkpoint or the new one is current.

    The handle is over. Its next call, or the next open, settles it; the same
    bytes saved again then return the receipt.
    """

    code = "durability-unknown"
    default_safe = "Either the old checkpoint or the new one is current, whole"
    default_do = "Run the same save again: it settles which, and repeats nothing"


# --- 9, 10 --------------------------------------------------------------------------------


class PolicyError(LastgoodError):
    """A rule set outside the store forbids it."""

    code = "policy"
    exit_code = 9


class EffectUndecidedError(LastgoodError):
    """An effect was intended, and nobody knows whether it ran.

    Attributes:
        undecided: Every effect that is not decided.
    """

    code = "effect-undecided"
    exit_code = 10
    default_safe = "It was not run again, and what else was done stays done"
    default_do = (
        "Look at its target, then say what became of it with: lastgood effects resolve SESSION "
        "FINGERPRINT --done RESULT --reason TEXT, or with --not-done in place of --done RESULT"
    )

    def __init__(self, happened: str, *, undecided: Sequence[object] = ()) -> None:
        self.undecided = tuple(undecided)
        super().__init__(happened)
