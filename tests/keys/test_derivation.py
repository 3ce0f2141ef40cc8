"""Derivation: every key is the one that the definition names, today and for ever."""

from __future__ import annotations

import hashlib
import itertools
import json
import threading

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lastgood import keyring as under_test
from lastgood.errors import KeyMismatchError, KeyMissingError, KeyRevokedError, UsageError
from lastgood.formats import seal
from lastgood.keyring import PURPOSES, Keyring, Sealer
from tests.keys.samples import (
    DIRECTORY,
    KID,
    MASTER,
    STORE,
    as_bytes,
    entry,
    key_file,
    kid_of,
    pae,
    refused,
    rfc5869,
)
from tests.support.check import check, check_equal
from tests.support.require import require_corpora

SECOND = hashlib.sha256(b"second").digest()

# (directory, purpose, kind) under MASTER and STORE; computed once with other code, never edited.
GOLDEN = {
    (DIRECTORY, "mac", "session"):
        "952f94704119be0a71a628345e0bce8191b71ad1770e8cf246d826ac7b0213f6",
    (DIRECTORY, "mac", "checkpoint"):
        "e7d6e2f58f09f73a8b4b95a0f555c690b1c64d25a479192d8111617a94840273",
    (DIRECTORY, "mac", "manifest"):
        "201f4f04c6a669bd9946df0022565ae6fdd107e3bdd25fd3d988d1d9c5d8fcc8",
    (DIRECTORY, "event", "event"):
        "26301b8e265f7efe4904606f46ade3280ab559aaf1d19675d7b156dfca153c16",
    (DIRECTORY, "encryption", "checkpoint"):
        "9f3b5c71be520852f400d35f4675bb90a74112d5a02bbd2ad29f064b35a78e2b",
    (DIRECTORY, "witness", "mark"):
        "5fcb9b8f6fc3e179b52fde4bd6c0bdfa87eb5e58a4bd9bde269b369004d6c494",
    ("", "mac", "store"):
        "895ddfc9ebc4651c2eae32f68c3c73f08379e25641e33294152cd858f8be7934",
}  # fmt: skip


def keyring(*keys: dict) -> Keyring:
    return Keyring.from_bytes(as_bytes(key_file(*keys)))


def independent_root(master: bytes, *, store: str = STORE, directory: str = DIRECTORY) -> bytes:
    if directory == "":
        return rfc5869(master, pae(b"store", store.encode()))
    return rfc5869(master, pae(b"session", store.encode(), directory.encode()))


@pytest.mark.parametrize("name", GOLDEN, ids="-".join)
def test_key_is_the_one_of_the_definition(name: tuple[str, str, str]) -> None:
    """A key never changes between versions, or no old record would verify.

    Method: compare with a constant and with an HKDF written again from RFC 5869.
    """
    directory, purpose, kind = name
    key = keyring().sealer(directory).key(KID, purpose, kind)
    root = independent_root(MASTER, directory=directory)
    check_equal(key.hex(), GOLDEN[name], "key")
    check_equal(key, rfc5869(root, pae(purpose.encode(), kind.encode())), "key")


def test_kid_is_derived_from_the_key() -> None:
    """T6: a kid cannot be chosen. Method: constant and independent derivation."""
    check_equal(keyring().primary_kid, KID, "kid")
    check_equal(kid_of(MASTER), KID, "independent kid")


def test_public_hkdf_vectors_hold() -> None:
    """The HKDF call is RFC 5869's.

    Method: Wycheproof's vectors. Those without salt run against the call itself, which gives 32
    bytes (HKDF's outputs of different lengths begin alike); all run against the independent code
    that the other tests trust and against the library with a salt.
    """
    path = require_corpora("wycheproof") / "testvectors_v1" / "hkdf_sha256_test.json"
    groups = json.loads(path.read_text(encoding="utf-8"))["testGroups"]
    ran = {"call": 0, "valid": 0, "invalid": 0}
    for test in (test for group in groups for test in group["tests"]):
        key, salt, info, okm = (bytes.fromhex(test[n]) for n in ("ikm", "salt", "info", "okm"))
        what = f"vector {test['tcId']}"
        ran[test["result"]] += 1
        if test["result"] == "invalid":
            with pytest.raises(ValueError, match="larger"):
                HKDF(algorithm=SHA256(), length=test["size"], salt=salt, info=info)
            with pytest.raises(ValueError, match="at most"):
                rfc5869(key, info, salt=salt, size_bytes=test["size"])
            continue
        library = HKDF(algorithm=SHA256(), length=test["size"], salt=salt, info=info).derive(key)
        check_equal(library, okm, what)
        check_equal(rfc5869(key, info, salt=salt, size_bytes=test["size"]), okm, what)
        if not salt:
            ran["call"] += 1
            common = min(32, test["size"])
            check_equal(under_test.hkdf(key, info)[:common], okm[:common], what)
    check(ran["call"] >= 20 and ran["valid"] >= 80 and ran["invalid"] >= 3, f"too few: {ran}")


def test_each_context_has_a_key_of_its_own() -> None:
    """T5: master, store, directory, purpose and kind each change the key; nothing runs together.

    Method: all combinations, with names that would be equal if they were only joined.
    """
    two = keyring(entry(), entry(SECOND, state="verify"))
    keys = [
        two.sealer(directory, store_id=store).key(kid, purpose, kind)
        for kid, store, directory, purpose, kind in itertools.product(
            (KID, kid_of(SECOND)),
            (STORE, "f" * 32),
            ("", "a", "ab", DIRECTORY, DIRECTORY.upper()),
            sorted(PURPOSES),
            ("", "checkpoint", "checkpoints", "bcheckpoint"),
        )
    ]
    check_equal(len(set(keys)), 2 * 2 * 5 * 4 * 4, "different keys")
    check_equal({len(key) for key in keys}, {32}, "sizes")


def test_thousand_wrong_keys_each_have_another_kid() -> None:
    """A wrong key is told from tampering: it has another kid, and a record's kid is refused."""
    kids: set[str] = set()
    for number in range(1_000):
        secret = hashlib.sha256(b"wrong %d" % number).digest()
        wrong = keyring(entry(secret))
        refused(wrong.sealer(DIRECTORY).key, KID, "mac", "checkpoint", error=KeyMismatchError)
        kids |= wrong.kids
    check_equal(len(kids - {KID}), 1_000, "other kids")


def test_primary_seals_and_verify_verifies() -> None:
    """C12-06: after a rotation both keys verify, and the new one seals."""
    rotated = keyring(entry(state="verify"), entry(SECOND))
    sealer = rotated.sealer(DIRECTORY)
    check_equal(sealer.kid, kid_of(SECOND), "sealing kid")
    check_equal(rotated.kids, frozenset({KID, kid_of(SECOND)}), "kids")
    old = sealer.key(KID, "mac", "checkpoint")
    check_equal(
        old, keyring().sealer(DIRECTORY).key(KID, "mac", "checkpoint"), "key of the old one"
    )
    check_equal(rotated.states()[0][:2], (KID, "verify"), "state")


@pytest.mark.parametrize(
    ("other", "error"),
    [
        (entry(state="revoked"), KeyRevokedError),
        (entry(None, state="destroyed"), KeyMissingError),
        (entry(hashlib.sha256(b"third").digest(), state="verify"), KeyMismatchError),
    ],
    ids=["revoked", "destroyed", "unknown"],
)
def test_key_that_may_not_verify_is_refused_by_its_state(other: dict, error: type) -> None:
    """No other key is tried in its place (T6), and each state has an error of its own."""
    sealer = keyring(entry(SECOND), other).sealer(DIRECTORY)
    text = refused(sealer.key, KID, "mac", "checkpoint", error=error)
    check(KID in text, f"which key? {text}")
    sealer.key(sealer.kid, "mac", "checkpoint")


@pytest.mark.parametrize(
    "kid", ["", KID.upper(), KID + " ", KID[:-1], "\x1b[2K" + KID, "0" * 10_000]
)
def test_kid_of_a_hostile_record_selects_nothing(kid: str) -> None:
    """T6, T12: only the exact kid selects a key, and no text of a record repaints the message."""
    text = refused(keyring().sealer("").key, kid, "mac", "store", error=KeyMismatchError)
    check("\x1b" not in text and len(text) < 600, f"not escaped: {text!r}")


def test_unknown_purpose_is_refused() -> None:
    """A misspelt purpose makes no key that nobody else would derive."""
    with pytest.raises(UsageError):
        keyring().sealer("").key(KID, "Mac", "store")


@pytest.mark.parametrize("store", ["", STORE.upper(), STORE + "0", STORE + "\n", "x" * 32])
def test_malformed_store_id_is_refused(store: str) -> None:
    """The store id that is pinned outside the store has one form."""
    with pytest.raises(UsageError):
        keyring().sealer("", store_id=store)


def test_many_threads_get_the_same_keys() -> None:
    """One sealer serves several threads. Method: eight of them ask for all keys at once."""
    sealer = keyring().sealer(DIRECTORY)
    names = [(KID, purpose, f"kind-{n}") for purpose in sorted(PURPOSES) for n in range(25)]
    names += [(KID, purpose, "") for purpose in sorted(PURPOSES)]
    barrier = threading.Barrier(8)
    seen: list[list[bytes]] = []

    def ask() -> None:
        barrier.wait()
        seen.append([sealer.key(*name) for name in names])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = [keyring().sealer(DIRECTORY).key(*name) for name in names]
    check_equal(seen, [expected] * 8, "keys of each thread")


def test_sealer_is_what_records_are_sealed_with() -> None:
    """A keyring's sealer has the form that ``formats.seal`` asks for. Method: types, one record."""
    sealer: seal.Sealer = keyring().sealer("")
    check(isinstance(sealer, Sealer), "not a Sealer")
    context = seal.Context("store", STORE, "")
    record = seal.seal({"store": STORE}, b"{}", context=context, sealer=sealer)
    check(f'"kid":"{KID}"'.encode() in record[0], "sealed with another key")
