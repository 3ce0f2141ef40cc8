"""The key file's format: what is read, what is written, what is refused."""

from __future__ import annotations

import datetime
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.entropy import system_entropy
from lastgood.errors import KeyFileError
from lastgood.formats import keyfile
from lastgood.keyring import Keyring
from tests.keys.samples import (
    CREATED,
    KID,
    MASTER,
    STORE,
    as_bytes,
    entry,
    key_file,
    kid_of,
    refused,
)
from tests.support.check import check, check_equal

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "keys-v1.json"
SECOND = hashlib.sha256(b"second").digest()
THIRD = hashlib.sha256(b"third").digest()
GOOD = as_bytes(key_file())


def test_golden_file_of_version_1_is_read_for_ever() -> None:
    """A key file that was ever written is read by every later version.

    Method: a file that is never edited; its bytes are also what is written today.
    """
    data = GOLDEN.read_bytes()
    keyring = Keyring.from_bytes(data)
    check_equal(keyring.store_id, STORE, "store id")
    check_equal(keyring.states(), ((KID, "primary", CREATED),), "keys")
    key = keyring.sealer("ab" * 20).key(KID, "mac", "checkpoint").hex()
    check_equal(key, "e7d6e2f58f09f73a8b4b95a0f555c690b1c64d25a479192d8111617a94840273", "key")
    check_equal(keyfile.encode(keyfile.decode(data)), data, "written again")


def test_generated_keyring_is_new_whole_and_dated() -> None:
    """Two generated keyrings share neither store nor key; the date is the one given."""
    now = datetime.datetime(
        2026, 12, 1, 8, 0, tzinfo=datetime.timezone(datetime.timedelta(hours=1))
    )
    one, two = (Keyring.generate(system_entropy, now=now) for _ in range(2))
    check(one.store_id != two.store_id and one.kids.isdisjoint(two.kids), "made twice the same")
    check_equal(one.states(), ((one.primary_kid, "primary", CREATED),), "keys")
    check_equal((one.location, one.notices), (None, ()), "origin")


def test_keyring_generated_without_a_date_has_the_machines() -> None:
    """Library users need not name a clock."""
    before = datetime.datetime.now(datetime.UTC)
    created = datetime.datetime.fromisoformat(Keyring.generate().states()[0][2])
    check(before <= created <= datetime.datetime.now(datetime.UTC), f"made at {created}")


@pytest.mark.parametrize("size_bytes", [0, 16, 31, 33, 64])
def test_short_entropy_makes_no_key(size_bytes: int) -> None:
    """A broken source of randomness gives no weaker key and no odd store id."""
    refused(Keyring.generate, lambda _: MASTER[:1] * size_bytes, error=KeyFileError)


STATES = st.lists(st.sampled_from(["verify", "revoked", "destroyed"]), max_size=63)


@given(st.binary(min_size=16, max_size=16), STATES, st.randoms(use_true_random=False))
def test_decode_of_encode_is_the_same(store: bytes, others: list[str], order: Any) -> None:
    """Every key file that can be written is read back as it was, secrets too.

    Method: up to 64 keys in every state and order.
    """
    keys = [entry(state="primary")]
    for number, state in enumerate(others):
        secret = hashlib.sha256(b"%d" % number).digest()
        kept = None if state == "destroyed" else secret
        keys.append(entry(kept, state=state, kid=kid_of(secret)))
    order.shuffle(keys)
    file = keyfile.decode(as_bytes(key_file(*keys, store=store.hex())))
    data = keyfile.encode(file)
    again = keyfile.decode(data)
    check_equal(again, file, "read back")
    check_equal(json.loads(data), key_file(*keys, store=store.hex()), "content")
    check_equal(Keyring.from_bytes(data).kids, frozenset(key["kid"] for key in keys), "kids")


def test_writer_refuses_what_a_reader_would() -> None:
    """Nothing is written that cannot be read. Method: a file without a primary key."""
    key = keyfile.decode(GOOD).keys[0]
    for keys in ((), (key, key)):
        refused(keyfile.encode, keyfile.KeyFile(STORE, keys), error=KeyFileError)


@pytest.mark.parametrize(
    "data",
    [
        GOOD.rstrip(),
        GOOD + b"\n\r\n \t",
        GOOD.replace(b"\n", b"\r\n"),
        json.dumps(dict(reversed(key_file().items())), indent=9).encode(),
        as_bytes(key_file(entry(state="verify"), entry(SECOND), entry(THIRD, state="revoked"))),
        as_bytes(key_file(entry(SECOND), entry(None, state="destroyed"))),
        as_bytes(key_file(entry(created="1970-01-01T00:00:00.000000Z"))),
    ],
    ids=["no-newline", "newlines", "crlf", "order", "rotated", "destroyed", "old-clock"],
)
def test_file_that_a_person_edited_is_read(data: bytes) -> None:
    """C12-06: white space, a trailing newline and the order of fields do not matter."""
    check(KID in Keyring.from_bytes(data).kids, "the key is not there")


def without(name: str) -> dict[str, Any]:
    return {k: v for k, v in key_file().items() if k != name}


def with_secret(value: Any) -> dict[str, Any]:
    return {**entry(), "secret": value}


def key_without(name: str) -> dict[str, Any]:
    return key_file({k: v for k, v in entry().items() if k != name})


TWICE = GOOD.replace(b'"signing": null', b'"signing": null, "signing": null')
KEY_TWICE = GOOD.replace(b'"state": "primary"', b'"state": "verify", "state": "primary"')
ESCAPED_TWICE = GOOD.replace(b'"signing": null', b'"signing": null, "sign\\u0069ng": null')
MANY = [entry(hashlib.sha256(b"%d" % n).digest(), state="verify") for n in range(64)]
SECRET = MASTER.hex()

BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "is empty"),
    "newline-only": (b"\n", "not JSON"),
    "zeros": (bytes(300), "not JSON"),
    "raw-key": (MASTER, "not JSON|not UTF-8"),
    "hex-key": (SECRET.encode(), "not JSON"),
    "hex-key-text": (json.dumps(SECRET).encode(), "not a key file"),
    "binary": (b"\xff\xfe\x00" + MASTER, "not UTF-8"),
    "utf-16": (GOOD.decode().encode("utf-16"), "not UTF-8"),
    "byte-order-mark": (b"\xef\xbb\xbf" + GOOD, "byte order mark"),
    "half": (GOOD[: len(GOOD) // 2], "not JSON at line"),
    "one-byte-short": (GOOD.rstrip()[:-1], "not JSON"),
    "trailing-bytes": (GOOD + b"x", "not JSON"),
    "two-files": (GOOD + GOOD, "not JSON"),
    "trailing-zero": (GOOD + b"\0", "not JSON"),
    "comment": (b"# keys\n" + GOOD, "not JSON"),
    "huge": (GOOD + b" " * 65_536, "larger than 65536"),
    "deep": (b"[" * 60_000, "beyond all limits|not JSON"),
    "long-number": (b'{"lastgood-keys":' + b"9" * 6_000 + b"}", "beyond all limits"),
    "list": (b"[]", "not a key file"),
    "null": (b"null", "not a key file"),
    "other-object": (b"{}", "not a key file"),
    "field-twice": (TWICE, "names a field twice"),
    "key-field-twice": (KEY_TWICE, "names a field twice"),
    "escaped-field-twice": (ESCAPED_TWICE, "names a field twice"),
    "version-0": (as_bytes(key_file(**{"lastgood-keys": 0})), "version that is known"),
    "version-2": (as_bytes(key_file(**{"lastgood-keys": 2})), "version that is known"),
    "version-true": (as_bytes(key_file(**{"lastgood-keys": True})), "version that is known"),
    "version-float": (as_bytes(key_file(**{"lastgood-keys": 1.0})), "version that is known"),
    "version-text": (as_bytes(key_file(**{"lastgood-keys": "1"})), "version that is known"),
    "derived": (as_bytes(key_file(derived={})), "derived keys of one session"),
    "signing": (as_bytes(key_file(signing={"ed25519": SECRET})), "signing keys yet"),
    "signing-false": (as_bytes(key_file(signing=False)), "signing"),
    "unknown-field": (as_bytes(key_file(**{SECRET: 1})), "the file has a field that is none of"),
    "no-store": (as_bytes(without("store")), "lacks the field store"),
    "no-keys": (as_bytes(without("keys")), "lacks the field keys"),
    "no-signing": (as_bytes(without("signing")), "lacks the field signing"),
    "store-upper": (as_bytes(key_file(store=STORE.upper())), "store is not 32"),
    "store-short": (as_bytes(key_file(store=STORE[1:])), "store is not 32"),
    "store-newline": (as_bytes(key_file(store=STORE + "\n")), "store is not 32"),
    "store-number": (as_bytes(key_file(store=12)), "store is not 32"),
    "store-null": (as_bytes(key_file(store=None)), "store is not 32"),
    "keys-object": (as_bytes(key_file(keys={})), "keys is not a list of 1 to 64"),
    "keys-null": (as_bytes(key_file(keys=None)), "keys is not a list"),
    "keys-none": (as_bytes(key_file(keys=[])), "keys is not a list of 1 to 64"),
    "keys-65": (as_bytes(key_file(entry(), *MANY)), "keys is not a list of 1 to 64"),
    "key-text": (as_bytes(key_file(SECRET)), r"keys\[0\] is not an object"),
    "key-unknown-field": (as_bytes(key_file({**entry(), SECRET: 1})), r"keys\[0\] has a field"),
    "key-no-kid": (as_bytes(key_without("kid")), r"keys\[0\] lacks the field kid"),
    "key-no-state": (as_bytes(key_without("state")), r"keys\[0\] lacks the field state"),
    "key-no-created": (as_bytes(key_without("created")), r"keys\[0\] lacks the field created"),
    "key-no-secret": (as_bytes(key_without("secret")), r"keys\[0\] lacks the field secret"),
    "kid-upper": (as_bytes(key_file(entry(kid=KID.upper()))), r"keys\[0\].kid is not 32"),
    "kid-is-secret": (as_bytes(key_file(entry(kid=SECRET))), r"keys\[0\].kid is not 32"),
    "kid-null": (as_bytes(key_file(entry(kid=None))), r"keys\[0\].kid is not 32"),
    "kid-altered": (as_bytes(key_file(entry(kid="0" * 32))), r"keys\[0\].kid is not the kid"),
    "kid-swapped": (
        as_bytes(key_file(entry(kid=kid_of(SECOND)), entry(SECOND, state="verify", kid=KID))),
        r"keys\[0\].kid is not the kid",
    ),
    "kid-of-second-altered": (
        as_bytes(key_file(entry(), entry(SECOND, state="revoked", kid="0" * 32))),
        r"keys\[1\].kid is not the kid",
    ),
    "kid-twice": (as_bytes(key_file(entry(), entry(state="verify"))), "the same kid"),
    "two-primaries": (as_bytes(key_file(entry(), entry(SECOND))), "2 keys are primary"),
    "no-primary": (as_bytes(key_file(entry(state="verify"))), "0 keys are primary"),
    "state-unknown": (as_bytes(key_file(entry(state="active"))), "state is none of"),
    "state-case": (as_bytes(key_file(entry(state="Primary"))), "state is none of"),
    "state-list": (as_bytes(key_file(entry(state=["primary"]))), "state is none of"),
    "state-null": (as_bytes(key_file(entry(state=None))), "state is none of"),
    "created-number": (as_bytes(key_file(entry(created=0))), "created is no time"),
    "created-local": (as_bytes(key_file(entry(created=CREATED[:-1]))), "created is no time"),
    "created-short": (as_bytes(key_file(entry(created="2026-12-01T07:00:00Z"))), "is no time"),
    "created-month": (as_bytes(key_file(entry(created="2026-13-01T07:00:00.000000Z"))), "no time"),
    "created-day": (as_bytes(key_file(entry(created="2026-02-29T07:00:00.000000Z"))), "no time"),
    "created-hour": (as_bytes(key_file(entry(created="2026-12-01T24:00:00.000000Z"))), "no time"),
    "created-digits": (
        as_bytes(key_file(entry(created=CREATED.replace("2", "\u0662")))), "is no time",
    ),
    "secret-empty": (as_bytes(key_file(with_secret(""))), "secret is not 64"),
    "secret-short": (as_bytes(key_file(with_secret(SECRET[:-2]))), "secret is not 64"),
    "secret-long": (as_bytes(key_file(with_secret(SECRET + "00"))), "secret is not 64"),
    "secret-odd": (as_bytes(key_file(with_secret(SECRET[:-1]))), "secret is not 64"),
    "secret-upper": (as_bytes(key_file(with_secret(SECRET.upper()))), "secret is not 64"),
    "secret-newline": (as_bytes(key_file(with_secret(SECRET + "\n"))), "secret is not 64"),
    "secret-list": (as_bytes(key_file(with_secret(list(MASTER)))), "secret is not 64"),
    "secret-null": (as_bytes(key_file(with_secret(None))), "secret is not 64"),
    "revoked-without-secret": (
        as_bytes(key_file(entry(SECOND), entry(None, state="revoked"))), "secret is not 64",
    ),
    "destroyed-with-secret": (
        as_bytes(key_file(entry(SECOND), entry(state="destroyed"))), "its secret is still there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_key_file_is_refused_with_its_reason(name: str) -> None:
    """T6: a key file that breaks one rule is refused by that rule, and no secret is shown."""
    data, reason = BAD[name]
    text = refused(Keyring.from_bytes, data, error=KeyFileError, match=reason)
    check("No key was used" in text, text)


def test_every_truncation_and_every_changed_byte_is_refused_or_harmless() -> None:
    """A damaged key file never becomes another key. (The kid is a checksum of the secret.)

    Method: every prefix, and every byte of the golden file replaced by four others. What is still
    read has the same store and keys but for what nothing derives: the store id and the date.
    """
    data = GOLDEN.read_bytes()
    for end in range(len(data) - 1):
        refused(Keyring.from_bytes, data[:end], error=KeyFileError)
    accepted = 0
    for place in range(len(data)):
        for value in {ord("0"), ord("9"), ord(" "), data[place] ^ 0x20, data[place] ^ 0x80}:
            changed = data[:place] + bytes([value]) + data[place + 1 :]
            try:
                keyring = Keyring.from_bytes(changed)
            except KeyFileError:
                continue
            accepted += 1
            check_equal(keyring.primary_kid, KID, f"kid after a change at {place}")
            key = keyring.sealer("", store_id=STORE).key(KID, "mac", "store").hex()
            check_equal(
                key,
                "895ddfc9ebc4651c2eae32f68c3c73f08379e25641e33294152cd858f8be7934",
                f"key after a change at {place}",
            )
    check(accepted > 0, "the loop changed nothing")


@given(st.binary(max_size=400))
def test_any_bytes_are_refused_with_the_one_error(data: bytes) -> None:
    """Whatever stands where the key file was expected, the answer is exit 5, no traceback."""
    with pytest.raises(KeyFileError):
        Keyring.from_bytes(data)
