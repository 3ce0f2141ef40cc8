"""The seal: three lines, one byte form, one context, verified before anything is parsed."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError, KeyMismatchError, LastgoodError
from lastgood.formats import canonical, names, seal
from lastgood.formats.limits import Limits
from lastgood.keyring import Keyring
from tests.support import records
from tests.support.check import check, check_equal

KINDS = pytest.mark.parametrize("kind", records.KINDS)


def unsealed(data: bytes, context: seal.Context, sealer: seal.Sealer) -> seal.Unsealed:
    return seal.unseal(data, context=context, sealer=sealer, limits=Limits(), name="t")


# --- what is sealed is unsealed -----------------------------------------------------------------


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=4), st.binary())
def test_sealed_record_is_unsealed(header: dict[str, str], payload: bytes) -> None:
    """unseal(seal(x)) == x: header, payload, digest, kid and size, whole and streamed."""
    reserved = {"format", "length", "sha256", "encryption"}
    header = {key: value for key, value in header.items() if key not in reserved}
    context, sealer = records.context("checkpoint"), records.keys("checkpoint")
    parts = seal.seal(header, payload, context=context, sealer=sealer)
    whole = unsealed(b"".join(parts), context, sealer)
    fields = [*header.items(), ("length", len(payload))]
    check_equal(list(whole.header.items())[1:-2], fields, "header")
    check_equal(whole.payload, payload, "payload")
    check_equal(whole.digest, seal.digest_of(parts), "digest")
    check_equal((whole.kid, whole.size_bytes), (sealer.kid, len(b"".join(parts))), "kid, size")
    check(parts[1] is payload, "the payload was copied (performance of a save)")


@KINDS
def test_three_lines_are_valid_json(kind: str) -> None:
    """``head``, ``jq`` and a text editor work on every record."""
    lines = records.record(kind).split(b"\n")
    check_equal(len(lines), 4, "line feeds")
    check_equal(lines[3], b"", "after the last line feed")
    first, header, payload = (json.loads(line) for line in lines[:3])
    check_equal(list(first), ["lastgood", "kind", "alg", "kid", "mac"], "fields of the seal")
    check_equal((first["lastgood"], first["kind"], first["alg"]), (1, kind, "HS256"), "seal")
    check_equal(header["sha256"], hashlib.sha256(lines[2]).hexdigest(), "payload's hash")
    check_equal(type(payload), dict, "payload")


@KINDS
def test_mac_is_the_documented_one(kind: str) -> None:
    """Another implementation can verify a record from the format's text alone.

    Method: the record built by hand, PAE and HMAC of its own, is the product's byte for byte.
    """
    data = records.record(kind)
    _, header, payload, _ = data.split(b"\n")
    check_equal(records.forge(header, payload, kind=kind), data, "record")
    digest = hashlib.sha256(header).hexdigest()
    check_equal(unsealed(data, records.context(kind), records.keys(kind)).digest, digest, "digest")


# --- context ------------------------------------------------------------------------------------


def places() -> list[tuple[str, str, str]]:
    """Every (kind, store, session) of two stores and two sessions."""
    sessions = (records.SESSION, records.OTHER_SESSION)
    stores = (records.STORE, records.OTHER_STORE)
    return list(itertools.product(records.KINDS, stores, sessions))


def test_intact_record_of_another_place_is_refused() -> None:
    """A record is good in its own kind, store and session only (T5).

    Method: all pairs of places, each with the keys of the place it is put into.
    """
    refused = 0
    for source, target in itertools.product(places(), repeat=2):
        kind, store_id, session_id = source
        data = records.record(kind, session_id, store_id=store_id)
        kind, store_id, session_id = target
        context = records.context(kind, session_id, store_id=store_id)
        sealer = records.keys(kind, session_id, store_id=store_id)
        if source == target or (source[:2] == target[:2] and kind == "store"):
            unsealed(data, context, sealer)
            continue
        with pytest.raises(DamagedError):
            unsealed(data, context, sealer)
        with pytest.raises(DamagedError):
            seal.unseal_stream([data], context=context, sealer=sealer, limits=Limits(), name="t")
        refused += 1
    check_equal(refused, 16 * 16 - 12 - 2 * 4, "refused pairs: all but itself and one store record")


@KINDS
@pytest.mark.parametrize("field", ["kind", "store", "session"])
def test_context_alone_refuses_even_with_the_same_keys(kind: str, field: str) -> None:
    """Each part of the context is in the MAC, not only in the derivation of keys (T5).

    Method: the right keys, and a context that differs in one part.
    """
    right = records.context(kind)
    parts = {"kind": right.kind, "store": right.store, "session": right.session}
    wrong = seal.Context(**parts | {field: "x" + parts[field][1:]})
    data = records.record(kind)
    if field == "kind":  # the seal line says what the caller asks for, the MAC does not
        data = data.replace(f'"kind":"{kind}"'.encode(), f'"kind":"{wrong.kind}"'.encode(), 1)
    with pytest.raises(DamagedError, match="seal does not hold"):
        unsealed(data, wrong, OneKey(records.keys(kind).key(records.keys(kind).kid, "mac", kind)))


class OneKey:
    """A sealer that has the same key for everything."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @property
    def kid(self) -> str:
        return records.keyring().primary_kid

    def key(self, kid: str, purpose: str, kind: str) -> bytes:
        return self._key


# --- order: verified, then parsed ---------------------------------------------------------------


class Spy:
    """Notes in which order keys are taken and JSON is parsed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        self.parsed: list[bytes] = []
        decode, compare = canonical.decode, hmac.compare_digest

        def spy_decode(data: bytes, *, name: str = "") -> Any:
            self.calls.append("parse")
            self.parsed.append(bytes(data))
            return decode(data, name=name)

        def spy_compare(one: Any, other: Any) -> bool:
            self.calls.append("compare")
            return bool(compare(one, other))

        monkeypatch.setattr(canonical, "decode", spy_decode)
        monkeypatch.setattr(hmac, "compare_digest", spy_compare)


@KINDS
def test_nothing_is_parsed_before_the_mac_was_compared(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Order: MAC, then header; hash, then payload; what is parsed is what was verified (G6, T2)."""
    data = records.record(kind)
    _, header, payload, _ = data.split(b"\n")
    spy = Spy(monkeypatch)
    records.read(kind, data)
    check_equal(spy.calls, ["compare", "parse", "compare", "parse"], "order of calls")
    check_equal(spy.parsed, [header, payload], "what was parsed")


@KINDS
def test_unauthenticated_bytes_are_never_parsed(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged header never reaches the parser, a damaged payload neither (T2, T8).

    Method: flip one byte in each place of header and payload; the parser sees neither.
    """
    data = records.record(kind)
    _, header, payload, _ = data.split(b"\n")
    start = data.index(header)
    spy = Spy(monkeypatch)
    for place in range(start, len(data)):
        with pytest.raises(LastgoodError):
            records.read(kind, data[:place] + bytes([data[place] ^ 0x20]) + data[place + 1 :])
    check(set(spy.parsed) <= {header}, "a byte that was not authenticated was parsed")
    check_equal(len(spy.parsed), len(payload) + 1, "the header of records with a bad payload")


# --- keys ---------------------------------------------------------------------------------------


@KINDS
def test_wrong_key_is_never_called_tampering(kind: str) -> None:
    """A kid that the keyring does not know is exit 5, whatever the bytes (T6, C12-06).

    Method: 200 other master keys.
    """
    data = records.record(kind)
    context = records.context(kind)
    folder = "" if kind == "store" else names.directory(records.SESSION)
    for number in range(1, 201):
        ring: Keyring = records.keyring(hashlib.sha256(number.to_bytes(4, "big")).digest())
        with pytest.raises(KeyMismatchError):
            unsealed(data, context, ring.sealer(folder))


def test_kid_of_a_key_that_did_not_seal_is_refused() -> None:
    """The kid selects one key; no other is tried (T6)."""
    other = records.keyring(bytes(32)).primary_kid
    own = records.keyring().primary_kid
    data = records.record("checkpoint").replace(own.encode(), other.encode(), 1)
    with pytest.raises(KeyMismatchError):
        unsealed(data, records.context("checkpoint"), records.keys("checkpoint"))
    one_key = OneKey(records.keys("checkpoint").key(own, "mac", "checkpoint"))
    with pytest.raises(DamagedError, match="seal does not hold"):
        unsealed(data, records.context("checkpoint"), one_key)


# --- peeking ------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize(
    "text", ["nightly", '"', "\\", '\\"', 'a"b\\\\"', "naïve ☃ 😀", "\u2028", ","]
)
def test_peeking_tells_what_a_record_claims(
    kind: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enough to word a refusal: kid, kind, store and session, unauthenticated, and not parsed (T2).

    Method: ids that JSON must escape, and a spy on the parser.
    """
    data = records.record(kind, text)
    spy = Spy(monkeypatch)
    check_equal(seal.peek_kid(data), records.keyring().primary_kid, "kid")
    expected = (kind, records.STORE, "" if kind == "store" else text)
    check_equal(seal.peek_claim(data), expected, "claim")
    check_equal(spy.parsed, [], "what was parsed")


@given(st.binary(max_size=400), st.integers(0, 600))
def test_peeking_at_anything_gives_a_claim_or_none(data: bytes, cut: int) -> None:
    """Hostile bytes never make peeking raise (T8). Method: noise, and noise in a record."""
    honest = records.record("checkpoint")
    for hostile in (data, honest[:cut] + data, honest[:cut] + data + honest[cut + len(data) :]):
        kid, claim = seal.peek_kid(hostile), seal.peek_claim(hostile)
        check(kid is None or len(kid) == 32, f"kid {kid!r}")
        check(claim is None or {type(part) for part in claim} == {str}, f"claim {claim!r}")


@pytest.mark.parametrize("value", ["5", "null", "[]", '{"a":1}', "true"])
def test_peeking_at_a_session_that_is_no_text_gives_none(value: str) -> None:
    """A claim is three texts or nothing."""
    data = records.record("checkpoint").replace(b'"nightly"', value.encode())
    check_equal(seal.peek_claim(data), None, "claim")
