"""The keys of every workload: fixed, and no secret, so that a state has its bytes."""

from __future__ import annotations

from typing import Final

from lastgood.formats.keyfile import KeyEntry, KeyFile, Secret
from lastgood.keyring import Keyring, kid_of

_SECRET: Final = Secret(bytes(range(32)))
KEYS: Final = Keyring(
    KeyFile(
        store="5707e000000000000000000000000001",
        keys=(
            KeyEntry(
                kid=kid_of(_SECRET),
                state="primary",
                created="2026-01-01T00:00:00.000000Z",
                secret=_SECRET,
            ),
        ),
    )
)
