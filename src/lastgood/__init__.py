"""lastgood: state that can be killed at any instant and goes on from the last good checkpoint.

Everything public is named here; each name is imported when it is first used, so that a
program, and the command line, load only what they need.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from lastgood.version import VERSION

if TYPE_CHECKING:
    from lastgood import errors as errors
    from lastgood.checkpoints import CheckpointStore as CheckpointStore
    from lastgood.effect import Effect as Effect
    from lastgood.errors import LastgoodError as LastgoodError
    from lastgood.formats.checkpoint import Checkpoint as Checkpoint
    from lastgood.formats.event import Event as Event
    from lastgood.formats.limits import Limits as Limits
    from lastgood.formats.session import Program as Program
    from lastgood.inspection import Report as Report
    from lastgood.keyring import Keyring as Keyring
    from lastgood.resume import Resumed as Resumed
    from lastgood.rules.cadence import CheckpointPolicy as CheckpointPolicy
    from lastgood.rules.reconciliation import should_replay as should_replay
    from lastgood.rules.retention import Retention as Retention
    from lastgood.saving import SaveReceipt as SaveReceipt
    from lastgood.session import Session as Session
    from lastgood.store import Store as Store
    from lastgood.store import open_store as open_store

__version__: Final = VERSION

_HOME: Final = {
    "Checkpoint": "lastgood.formats.checkpoint",
    "CheckpointStore": "lastgood.checkpoints",
    "CheckpointPolicy": "lastgood.rules.cadence",
    "Effect": "lastgood.effect",
    "Event": "lastgood.formats.event",
    "Keyring": "lastgood.keyring",
    "LastgoodError": "lastgood.errors",
    "Limits": "lastgood.formats.limits",
    "Program": "lastgood.formats.session",
    "Report": "lastgood.inspection",
    "Resumed": "lastgood.resume",
    "Retention": "lastgood.rules.retention",
    "SaveReceipt": "lastgood.saving",
    "Session": "lastgood.session",
    "Store": "lastgood.store",
    "open_store": "lastgood.store",
    "should_replay": "lastgood.rules.reconciliation",
}

__all__ = [
    "Checkpoint",
    "CheckpointPolicy",
    "CheckpointStore",
    "Effect",
    "Event",
    "Keyring",
    "LastgoodError",
    "Limits",
    "Program",
    "Report",
    "Resumed",
    "Retention",
    "SaveReceipt",
    "Session",
    "Store",
    "__version__",
    "errors",
    "open_store",
    "should_replay",
]


if not TYPE_CHECKING:  # else a type checker would take every misspelt name for one of ours

    def __getattr__(name: str) -> object:
        """Import a public name when it is first asked for."""
        if name in ("errors", "aio"):  # aio stays out of __all__: it imports asyncio
            return importlib.import_module(f"lastgood.{name}")
        if name not in _HOME:
            raise AttributeError(f"module 'lastgood' has no attribute {name!r}")
        return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
