"""The root of RFC 6962, against its recursive definition and against published roots."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.formats.merkle import MerkleTree
from tests.support.check import check, check_equal
from tests.support.require import require_corpora

# The eight entries that the published roots of small trees are made from.
ENTRIES: Final = tuple(
    bytes.fromhex(text)
    for text in (
        "", "00", "10", "2021", "3031", "40414243", "5051525354555657",
        "606162636465666768696a6b6c6d6e6f",
    )
)  # fmt: skip
EMPTY: Final = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def root_of(leaves: Sequence[bytes]) -> str:
    """The root, by the product."""
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    check_equal(tree.size, len(leaves), "the size")
    return tree.root()


def defined(leaves: Sequence[bytes]) -> bytes:
    """The root as section 2.1 defines it: split at the largest power of two below the size."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    at = 1
    while at * 2 < len(leaves):
        at *= 2
    return hashlib.sha256(b"\x01" + defined(leaves[:at]) + defined(leaves[at:])).digest()


@given(st.lists(st.binary(max_size=40), max_size=70))
def test_a_root_is_what_the_recursive_definition_gives(leaves: list[bytes]) -> None:
    """G9: whoever has the lines can compute the root without our code.

    Method: random leaves, compared with a recursion that shares nothing with the product.
    """
    check_equal(root_of(leaves), defined(leaves).hex(), f"root of {len(leaves)} leaves")


def test_every_size_up_to_a_few_hundred_has_its_defined_root() -> None:
    """G9: at each size, also around powers of two, where carries run through all levels.

    Method: one tree that grows, asked at every size; asking changes nothing.
    """
    tree, leaves = MerkleTree(), [b"%d" % number for number in range(260)]
    check_equal(tree.root(), EMPTY, "the root of nothing")
    for number, leaf in enumerate(leaves):
        tree.add(leaf)
        expected = defined(leaves[: number + 1]).hex()
        check_equal((tree.root(), tree.root()), (expected, expected), f"root of {number + 1}")


@given(st.lists(st.binary(max_size=8), min_size=1, max_size=20), st.data())
def test_any_other_list_of_lines_has_another_root(leaves: list[bytes], data: st.DataObject) -> None:
    """G9: the root commits to every line, their number and their order.

    Method: change, drop, repeat, swap or join lines; and put a node in the place of a leaf.
    """
    at = data.draw(st.integers(0, len(leaves) - 1))
    others = [
        [*leaves[:at], leaves[at] + b"x", *leaves[at + 1 :]],
        leaves[:at] + leaves[at + 1 :],
        [*leaves, leaves[at]],
        [b"".join(leaves), b""],
        [defined(leaves)],
    ]
    if at and leaves[at] != leaves[at - 1]:
        others.append([*leaves[: at - 1], leaves[at], leaves[at - 1], *leaves[at + 1 :]])
    for other in others:
        if other != leaves:
            check(root_of(other) != root_of(leaves), f"{other} and {leaves} have one root")


@pytest.mark.needs_corpora
def test_published_roots_of_the_eight_entries_are_found() -> None:
    """G9, RFC 6962: the roots of others, made by other code, are ours.

    Method: every happy path of the public consistency proofs over at most eight entries.
    """
    folder = require_corpora("merkle_proofs") / "testdata" / "consistency"
    known: dict[int, str] = {}
    for path in sorted(folder.rglob("happy-path.json")):
        proof = json.loads(path.read_text())
        for size, root in ((proof["size1"], proof["root1"]), (proof["size2"], proof["root2"])):
            if 0 < size <= len(ENTRIES):
                known[size] = base64.b64decode(root).hex()
    check(len(known) >= 5, f"only sizes {sorted(known)} are published")
    for size, root in known.items():
        check_equal(root_of(ENTRIES[:size]), root, f"the root of {size} entries")


@pytest.mark.needs_corpora
def test_published_inclusion_proofs_lead_to_our_roots() -> None:
    """G9, RFC 6962: leaf and node hashes are those that others prove with.

    Method: for every public inclusion proof over at most eight entries, the root that it is for,
    and its leaf's place in our list.
    """
    folder = require_corpora("merkle_proofs") / "testdata" / "inclusion"
    count = 0
    for path in sorted(folder.rglob("happy-path.json")):
        proof = json.loads(path.read_text())
        size, index = proof["treeSize"], proof["leafIdx"]
        if 0 < size <= len(ENTRIES):
            count += 1
            told = f"{path.parent.name}: leaf {index} of {size}"
            leaf = hashlib.sha256(b"\x00" + ENTRIES[index]).digest()
            check_equal(base64.b64decode(proof["leafHash"]).hex(), leaf.hex(), f"{told}: leaf")
            check_equal(base64.b64decode(proof["root"]).hex(), root_of(ENTRIES[:size]), told)
    check(count >= 3, f"{count} proofs")
