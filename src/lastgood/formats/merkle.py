"""The Merkle tree hash of RFC 6962, section 2.1: one root over many lines, for outsiders.

Unkeyed, so that who has the lines can compute it without our keys. It commits to every line, their
number and their order; a leaf and a node are hashed under different prefixes, so that neither can
stand for the other.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

_LEAF = b"\x00"
_NODE = b"\x01"


@dataclass(slots=True)
class MerkleTree:
    """A tree that leaves are added to; memory grows with the logarithm of their number.

    Attributes:
        size: How many leaves it has.
    """

    size: int = 0
    _perfect: list[bytes] = field(default_factory=list)
    """Roots of perfect subtrees, the largest first: one for each bit of ``size``."""

    def add(self, leaf: bytes) -> None:
        """Add a leaf at the end."""
        node = hashlib.sha256(_LEAF + leaf).digest()
        carry = self.size
        while carry & 1:
            node = hashlib.sha256(_NODE + self._perfect.pop() + node).digest()
            carry >>= 1
        self._perfect.append(node)
        self.size += 1

    def root(self) -> str:
        """The hash of the tree, 64 hex characters; SHA-256 of nothing without leaves."""
        if not self._perfect:
            return hashlib.sha256(b"").hexdigest()
        *rest, node = self._perfect
        for left in reversed(rest):
            node = hashlib.sha256(_NODE + left + node).digest()
        return node.hex()
