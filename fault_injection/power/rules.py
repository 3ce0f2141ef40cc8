"""The four persistence models: what a loss of power may leave of what was not synced.

=========  ====================================================================================
``alice``  as ``weak``, and a rename over a name is three changes: the old name goes, the new
           one comes, the source goes; bytes that a file gained and that never arrived may be
           garbage
``weak``   a rename sets its target and removes its source independently (F3)
``posix``  a rename happens or does not; changes of names persist in any order
``journal``  names, modes and cuts persist in the order in which they were made, and the sync of
           anything makes all of those before it durable
=========  ====================================================================================

Common to all: a write is lost, there, or torn; a file that grows has its size before or after,
or at a boundary between; the sync of a file makes its bytes durable and not its name, the sync of
a directory its names (F4). Every state of ``journal`` is one of ``posix``, those are states of
``weak``, and those of ``alice``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

ModelName = Literal["alice", "weak", "posix", "journal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a file system promises of what was not synced.

    Attributes:
        name: One word.
        rename_parts: In how many parts a rename over a name persists.
        has_garbage: Whether bytes that never arrived may be anything, not only zeros.
        is_ordered: Whether metadata persists in the order in which it was changed.
    """

    name: ModelName
    rename_parts: Literal[1, 2, 3]
    has_garbage: bool = False
    is_ordered: bool = False


ALICE: Final = Model(name="alice", rename_parts=3, has_garbage=True)
WEAK: Final = Model(name="weak", rename_parts=2)
POSIX: Final = Model(name="posix", rename_parts=1)
JOURNAL: Final = Model(name="journal", rename_parts=1, is_ordered=True)

MODELS: Final = (WEAK, ALICE, POSIX, JOURNAL)
"""Every model, the most telling first."""


def find(name: str) -> Model | None:
    """The model of that name."""
    return next((model for model in MODELS if model.name == name), None)
