"""What one reading of a session found, and what was chosen from it: values, no judgement."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from lastgood.errors import LastgoodError
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.seal import Digest
from lastgood.formats.session import SessionRecord

Waiver = Literal[
    "approved-damage",
    "damage",
    "revision-before",
    "generation-before",
    "newer-epoch",
    "log-end",
]
"""What a caller may decide to pass over: a damaged current checkpoint that the newest revision
approves to rebuild, or any; a bad revision before the newest; a bad generation before the
current; checkpoints or a log of a newer epoch than the newest revision that is left; a damaged
end of the log above every anchor."""

REBUILD_APPROVED: Final = "rebuild-approved"
"""Type of the note by which a person approves that the current checkpoint is rebuilt; its data is
that checkpoint's digest."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a witness remembers; ``sequence`` 0 and digest None where no checkpoint was named."""

    revision: int
    manifest_digest: Digest
    sequence: int
    checkpoint_digest: Digest | None


@dataclass(frozen=True, slots=True)
class Witness:
    """What was asked of the witness: its mark, and what a missing one means."""

    mark: Mark | None
    without_mark: Literal["notice", "stop"] = "notice"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one reading of a session found; an error stands where a record does not verify.

    Attributes:
        session: ``session.json``, None if it is not there.
        pointer: ``manifest.json``, None if it is not there.
        numbers: Every revision that has a numbered name, ascending.
        manifests: The numbered manifests that were read: at least the newest two.
        sequences: Every sequence that has a checkpoint's name, ascending.
        headers: The checkpoints whose seal and header were read: the previous generation and
            every one above the current.
        verified: Those whose payload was verified too: the current one, and each above it of
            the newest revision's epoch.
        temporaries: Unpublished names.
        log_epoch: Highest epoch in a segment's name or line; 0 without a log.
        witness: None where no witness is configured.
        schemas: Schema versions that the caller knows; None: any, it will not believe the state.
        waived: What the caller decided to pass over.
    """

    session: SessionRecord | LastgoodError | None
    pointer: Manifest | LastgoodError | None
    numbers: tuple[int, ...]
    manifests: Mapping[int, Manifest | LastgoodError]
    sequences: tuple[int, ...]
    headers: Mapping[int, CheckpointHeader | LastgoodError]
    verified: Mapping[int, Entry | LastgoodError]
    temporaries: tuple[str, ...] = ()
    log_epoch: int = 0
    witness: Witness | None = None
    schemas: Collection[int] | None = None
    waived: Collection[Waiver] = ()

    @property
    def has_log(self) -> bool:
        """Whether the session has an event log."""
        return isinstance(self.session, SessionRecord) and self.session.log is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The verdict *it*, or *a new session*.

    Attributes:
        manifest: The newest revision, None if there is none yet.
        current: The last good checkpoint; None: a new session.
        previous: The generation before it.
        rolled_forward: Whether ``current`` is published and not yet named by a revision.
        number_missing: Whether the newest revision has only the pointer's name.
        pointer_behind: How many revisions the pointer is behind; 0 is the rule.
        leftovers: Names of authentic or unpublished files that lineage does not name.
        notices: What a person should know.
        damage: Why ``current`` cannot be read, where the caller waived that; else None.
    """

    manifest: Manifest | None
    current: Entry | None
    previous: Entry | None = None
    rolled_forward: bool = False
    number_missing: bool = False
    pointer_behind: int = 0
    leftovers: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()
    damage: LastgoodError | None = None

    @property
    def is_settled(self) -> bool:
        """Whether nothing is left for the next owner to finish."""
        return not (self.rolled_forward or self.number_missing or self.pointer_behind)

    def kept(self) -> tuple[Entry, ...]:
        """The checkpoints that are kept: the generations, and the milestones."""
        milestones = self.manifest.milestones if self.manifest else ()
        named = (self.current, self.previous, *(m.entry for m in milestones))
        return tuple(entry for entry in named if entry is not None)
