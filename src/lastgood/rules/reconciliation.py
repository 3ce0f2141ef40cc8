"""What to do about side effects: has this one been done?"""

from __future__ import annotations

from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.fingerprint import fingerprint


def should_replay(checkpoint: Checkpoint | None, text: str) -> bool:
    """Whether the effect of fingerprint ``text`` is still to be done.

    Args:
        checkpoint: The loaded checkpoint; None for a new session.
        text: ``fx:v1:`` and 64 lower-case hex characters.

    Returns:
        False if the checkpoint holds exactly this fingerprint, True if it does not.

    Raises:
        FingerprintError: ``text`` is empty, malformed or not a string; never taken for new.
    """
    known = fingerprint(text)
    return checkpoint is None or known not in checkpoint.known
