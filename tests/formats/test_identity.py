"""Identities: one form for each action, the same in every process and every language (G5)."""

from __future__ import annotations

import hmac
import json
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import LimitError, StateError, UsageError
from lastgood.formats.identity import MAX_KEY_CHARS, MAX_KIND_CHARS, Identity
from lastgood.formats.limits import Limits
from tests.golden import make
from tests.support.check import check, check_equal

SALT = bytes(range(32))
VECTORS = json.loads((Path(make.__file__).parent / "fingerprints-v1.json").read_bytes())


def of(args: Any = None, **others: Any) -> str:
    """The fingerprint of an action."""
    return Identity(kind="pay", key="7", args=args, **others).fingerprint(SALT, limits=Limits())


# The text of the format once more, without a line of lastgood's code.


def pae(*items: bytes) -> bytes:
    def number(value: int) -> bytes:
        return struct.pack("<Q", value)

    return number(len(items)) + b"".join(number(len(item)) + item for item in items)


def value(one: Any) -> bytes:
    if one is None or one is True or one is False:
        return {None: b"n", True: b"t", False: b"f"}[one]
    if isinstance(one, int):
        return f"i{one}".encode()
    if isinstance(one, float):
        if one == int(one) and abs(one) <= 9007199254740992:
            return f"i{int(one)}".encode()
        return b"d" + struct.pack("<d", one)
    if isinstance(one, str):
        return b"s" + one.encode()
    if isinstance(one, list):
        return b"a" + pae(*(value(item) for item in one))
    parts = [p for key in sorted(one, key=str.encode) for p in (key.encode(), value(one[key]))]
    return b"o" + pae(*parts)


def expected(action: dict[str, Any], salt: bytes) -> tuple[str, str]:
    kind, key = action["kind"].encode(), action["key"].encode()
    occurrence = struct.pack("<Q", action.get("occurrence", 0))
    whole = pae(
        b"lastgood/1/effect", kind, key, value(action.get("args")), value(action.get("cwd")),
        value(action.get("inputs", {})), value(action.get("target")),
        value(action.get("policy_version")), occurrence,
    )  # fmt: skip
    of_key = pae(b"lastgood/1/effect-key", kind, key, occurrence)
    one, other = (hmac.new(salt, data, "sha256").hexdigest() for data in (whole, of_key))
    return f"fx:v1:{one}", other


@pytest.mark.parametrize("place", range(len(VECTORS["vectors"])))
def test_golden_vector_is_what_the_text_of_the_format_says(place: int) -> None:
    """A fingerprint is computed by anybody who has the salt, from the documented text (G5)."""
    vector, salt = VECTORS["vectors"][place], bytes.fromhex(VECTORS["salt"])
    found = (vector["fingerprint"], vector["keyDigest"])
    check_equal(found, expected(vector["action"], salt), "fingerprint and key digest")
    made = Identity(**vector["action"])
    check_equal(made.fingerprint(salt, limits=Limits()), vector["fingerprint"], "made today")
    check_equal(made.key_digest(salt), vector["keyDigest"], "key digest made today")


def test_golden_vectors_are_kept_as_they_were_made() -> None:
    """A vector is added, never edited: a known effect would be a new one (G5)."""
    kept = (Path(make.__file__).parent / "fingerprints-v1.json").read_bytes()
    check_equal(make.made("fingerprints-v1.json"), kept, "the file as today's code makes it")
    prints = [vector["fingerprint"] for vector in VECTORS["vectors"]]
    check_equal(len(set(prints)), len(make.IDENTITIES), "each action has a fingerprint of its own")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (True, 1), (1, "1"), (None, False), (None, 0), ("", None), ({}, {"a": None}), ([], {}),
        ([1, 2], [2, 1]), ([[1], 2], [[1, 2]]), ({"a": {"b": 1}}, {"a": 1, "b": 1}),
        ("e\u0301", "é"),
        (9007199254740993, 9007199254740992.0), (1, -1), (0.1, 0.1 + 1e-17 * 4), ("a\u0000", "a"),
    ],
)  # fmt: skip
def test_different_arguments_are_different_actions(one: Any, other: Any) -> None:
    """``true``, ``1``, ``"1"``, null and an absent key all differ (design 8)."""
    if one == other and type(one) is type(other):
        pytest.fail("the example is none")
    check(of(one) != of(other), f"{one!r} and {other!r} are told apart")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0), (0, -0.0), (2**53, 2.0**53), ({"a": 1, "b": [2.0]}, {"b": [2], "a": 1.0}),
    ],
)  # fmt: skip
def test_same_numbers_and_keys_in_another_order_are_the_same_action(one: Any, other: Any) -> None:
    """1 and 1.0 are one number, and an object has no order (the documented rule)."""
    check_equal(of(one), of(other), f"{one!r} and {other!r}")


def test_every_part_of_an_identity_counts() -> None:
    """Directory, inputs, target, policy and occurrence are parts of the action (design 8)."""
    found = [
        of(), of(cwd="a"), of(target="a"), of(policy_version="a"), of(inputs={"a": "a"}),
        of(inputs={"a": "b"}), of(occurrence=1), of("a"), of(cwd=""), of(target=""),
    ]  # fmt: skip
    check_equal(len(set(found)), len(found), "fingerprints")
    key = Identity(kind="pay", key="7").key_digest(SALT)
    check_equal(Identity(kind="pay", key="7", args=[1]).key_digest(SALT), key, "of other args")
    check(Identity(kind="pay", key="7", occurrence=1).key_digest(SALT) != key, "of another one")


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LEAVES = [
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    TEXT,
]
JSON = st.recursive(
    st.one_of(*LEAVES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(JSON)
def test_any_arguments_give_what_the_text_of_the_format_says(args: Any) -> None:
    """No value has two forms, and none is left out."""
    wanted, _ = expected({"kind": "pay", "key": "7", "args": args}, SALT)
    check_equal(of(args), wanted, f"of {args!r}")


@pytest.mark.parametrize(
    "args", [float("nan"), (1,), {1: 2}, 2**64, "\ud800", {"a": {1}}, object(), b"a"]
)
def test_arguments_that_are_no_json_are_refused(args: Any) -> None:
    """What cannot be stored faithfully has no identity either; the path is said."""
    with pytest.raises(StateError, match="effect's args"):
        of(args)


def test_arguments_without_end_are_refused() -> None:
    """Neither depth nor size is without a limit."""
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    with pytest.raises(LimitError):
        of(deep)
    with pytest.raises(LimitError):
        of("x" * (Limits().event_bytes + 1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": ""}, {"kind": None}, {"kind": "a\n"}, {"kind": "a" * (MAX_KIND_CHARS + 1)},
        {"key": ""}, {"key": 7}, {"key": "\x00"}, {"key": "k" * (MAX_KEY_CHARS + 1)},
        {"key": "\ud800"}, {"occurrence": -1}, {"occurrence": True}, {"occurrence": 1.0},
        {"occurrence": 10**16}, {"cwd": 7}, {"target": b""}, {"policy_version": 1},
        {"inputs": ["a"]}, {"inputs": {"a": 1}}, {"inputs": {1: "a"}}, {"cwd": "a" * 5000},
    ],
)  # fmt: skip
def test_part_of_a_wrong_type_is_refused_at_once(wrong: dict[str, Any]) -> None:
    """What would only show when it is stored is a usage error before anything runs."""
    with pytest.raises(UsageError):
        Identity(**{"kind": "pay", "key": "7", **wrong})


@pytest.mark.parametrize("seed", range(10))
def test_fingerprint_is_the_same_in_every_process(seed: int) -> None:
    """Neither the hash seed nor the locale changes an identity: a known effect stays known."""
    code = (
        "from tests.golden import make; import hashlib; "
        "print(hashlib.sha256(make.made('fingerprints-v1.json')).hexdigest())"
    )
    locale = ("C", "C.UTF-8", "POSIX", "de_DE.UTF-8", "tr_TR.UTF-8")[seed % 5]
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": str(seed), "LC_ALL": locale, "LANG": locale},
        capture_output=True,
        text=True,
        check=False,
    )
    import hashlib

    kept = (Path(make.__file__).parent / "fingerprints-v1.json").read_bytes()
    check_equal((run.returncode, run.stdout.strip()), (0, hashlib.sha256(kept).hexdigest()), "it")
