"""May this checkpoint follow the current one (I3, I5, I6)?

=================================================  ==================================
sequence, content                                  verdict
=================================================  ==================================
that of a kept generation, same payload bytes      ``unchanged``: a no-op
that of a kept generation, other payload bytes     ``SequenceConflictError``
below the current, no fingerprint it lacks         ``superseded``: nothing is written
below the current, a fingerprint it lacks          ``ConflictError``
above the current, all of its fingerprints         ``save``
above the current, one of them missing             ``FingerprintLossError``
=================================================  ==================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from lastgood.errors import ConflictError, FingerprintLossError, SequenceConflictError

Succession = Literal["save", "unchanged", "superseded"]


def succeed(
    sequence: int,
    *,
    sha256: str,
    fingerprints: frozenset[str],
    current_sequence: int,
    current_fingerprints: frozenset[str],
    kept: Mapping[int, str],
) -> Succession:
    """Judge a checkpoint that is to be saved.

    Args:
        sequence: Its sequence.
        sha256: SHA-256 of its payload, as hex.
        fingerprints: Its fingerprints.
        current_sequence: The current checkpoint's sequence, 0 if there is none.
        current_fingerprints: The current checkpoint's fingerprints.
        kept: SHA-256 of the payload of each kept generation, by sequence.

    Raises:
        SequenceConflictError: The sequence holds other content (I3).
        ConflictError: It is older, and knows an effect that the current one does not (I5).
        FingerprintLossError: It lacks a fingerprint of the current one (I6).
    """
    if sequence in kept:
        if kept[sequence] != sha256:
            raise SequenceConflictError(f"Sequence {sequence} holds other content already")
        return "unchanged"
    if sequence < current_sequence:
        if not fingerprints <= current_fingerprints:
            raise ConflictError(
                f"Sequence {sequence} is older than the current {current_sequence} and holds "
                "side effects that it does not know"
            )
        return "superseded"
    lost = len(current_fingerprints - fingerprints)
    if lost:
        raise FingerprintLossError(
            f"{lost} of the {len(current_fingerprints)} side-effect fingerprints of sequence "
            f"{current_sequence} are missing"
        )
    return "save"
