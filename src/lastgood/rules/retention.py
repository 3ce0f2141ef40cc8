"""What a prune may remove (S9, I4).

It follows lineage, never time or a listing's order, so planted files cannot push good
generations out. Nothing above the current checkpoint is ever removed: it may be a newer
owner's, published and not yet claimed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from lastgood.errors import UsageError
from lastgood.formats.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept beyond two generations and the milestones.

    Attributes:
        archive: ``none`` removes an older generation; ``all`` moves it to ``archive/``.
    """

    archive: Literal["none", "all"] = "none"

    def __post_init__(self) -> None:
        """Refuse what is not a retention before anything is opened."""
        if self.archive not in ("none", "all"):
            raise UsageError("The retention's archive is 'none' or 'all'")


def prunable_revisions(newest: Manifest, numbers: Iterable[int]) -> tuple[int, ...]:
    """The numbered manifests below the newest two."""
    return tuple(sorted(n for n in numbers if n < newest.revision - 1))


def prunable_sequences(newest: Manifest, sequences: Iterable[int]) -> tuple[int, ...]:
    """The checkpoints below the current one that ``newest`` does not name, newest first."""
    if newest.current is None:
        return ()
    kept = newest.kept_sequences()
    below = newest.current.sequence
    return tuple(sorted((s for s in sequences if s < below and s not in kept), reverse=True))
