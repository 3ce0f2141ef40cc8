"""Checkpoints: state, fingerprints and log anchor at one sequence."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import (
    DamagedError,
    FingerprintError,
    LastgoodError,
    LimitError,
    SplicedError,
    StateError,
    UnknownFormatError,
    UsageError,
)
from lastgood.formats import anchor, canonical, checkpoint, names, seal
from lastgood.formats.checkpoint import Checkpoint, OpenEffect
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal
from tests.support.values import same, values

NUMBERS = st.integers(1, 10**15)
FINGERPRINTS = st.lists(
    st.integers(0, 2**256 - 1).map(records.fingerprint), unique=True, max_size=8
)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
EFFECTS = st.builds(
    OpenEffect,
    fingerprint=st.integers(0, 2**256 - 1).map(records.fingerprint).map(Fingerprint),
    key=DIGESTS,
    effect_class=st.sampled_from(["idempotent", "probe", "manual"]),
    sequence=NUMBERS,
)
ANCHORS = (
    st.none()
    | st.just(anchor.EMPTY)
    | st.builds(
        anchor.LogAnchor, NUMBERS, st.builds(names.segment, NUMBERS, NUMBERS), NUMBERS, DIGESTS
    )
)


CHECKPOINTS = st.builds(Checkpoint, NUMBERS, values(), FINGERPRINTS, NUMBERS)


@given(CHECKPOINTS, st.lists(EFFECTS, max_size=4).map(tuple), ANCHORS)
def test_payload_that_is_encoded_is_decoded(
    value: Checkpoint, effects: tuple[OpenEffect, ...], log: anchor.LogAnchor | None
) -> None:
    """decode_body(encode_payload(x)) == x, the state of the same types."""
    payload = checkpoint.encode_payload(
        value,
        schema_version=value.schema_version or 1,
        open_effects=effects,
        log=log,
        limits=Limits(),
    )
    body = checkpoint.decode_body(payload, sequence=value.sequence, name="t")
    check_equal(body.checkpoint, value, "checkpoint")
    check(same(body.checkpoint.state, value.state), f"the state came back: {payload!r}")
    check_equal((body.open_effects, body.log), (effects, log), "open effects, log anchor")


@given(NUMBERS, NUMBERS, st.none() | DIGESTS, st.text(max_size=100), st.binary(max_size=50))
def test_header_that_is_encoded_is_decoded(
    sequence: int, epoch: int, previous: str | None, writer: str, payload: bytes
) -> None:
    """decode_header(encode(x)) == x."""
    digest = None if previous is None else seal.Digest(previous)
    parts = checkpoint.encode(
        payload,
        store_id=records.STORE,
        session=records.SESSION,
        epoch=epoch,
        sequence=sequence,
        previous=digest,
        created=records.CREATED,
        writer=writer,
        sealer=records.keys("checkpoint"),
    )
    whole = records.stream("checkpoint", parts)
    header = checkpoint.decode_header(
        whole, store_id=records.STORE, session=records.SESSION, sequence=sequence, name="t"
    )
    check_equal(
        (header.sequence, header.epoch, header.previous), (sequence, epoch, digest), "header"
    )
    check_equal((header.created, header.writer), (records.CREATED, writer), "information")
    check_equal(header.length, len(payload), "length")
    check_equal(header.size_bytes, sum(map(len, parts)), "size")
    check_equal(header.digest, seal.digest_of(parts), "digest")


# --- what a caller may give ---------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "1", None, 10**15 + 1, 10**16])
def test_sequence_and_schema_out_of_range_are_usage_errors(value: Any) -> None:
    """A wrong number is refused before anything is written."""
    with pytest.raises(UsageError, match="A sequence is an int"):
        Checkpoint(value, {})
    if value is not None:
        with pytest.raises(UsageError, match="A schema version is an int"):
            Checkpoint(1, {}, schema_version=value)


def test_fingerprints_are_copied_and_checked() -> None:
    """The caller's list may change afterwards; a bad one is refused with its index (I6)."""
    given_ones = [records.fingerprint(1), records.fingerprint(2)]
    value = Checkpoint(1, {}, given_ones)
    given_ones.append(records.fingerprint(3))
    check_equal(value.fingerprints, tuple(given_ones[:2]), "fingerprints")
    check_equal(value.known, frozenset(given_ones[:2]), "known")
    with pytest.raises(FingerprintError, match="at index 1"):
        Checkpoint(1, {}, [records.fingerprint(1), ""])


def test_checkpoint_shows_no_state() -> None:
    """A checkpoint in a log line or a traceback shows no state (T1)."""
    check("secret" not in repr(Checkpoint(1, {"k": "secret"})), "the state is shown")


def test_state_and_size_are_checked_before_anything_is_sealed() -> None:
    """S2: nothing that would not come back, nothing over a limit."""
    limits = Limits(payload_bytes=300)
    with pytest.raises(StateError):
        checkpoint.encode_payload(Checkpoint(1, [()]), schema_version=1, limits=limits)
    many = [records.fingerprint(n) for n in range(5)]
    with pytest.raises(LimitError):
        checkpoint.encode_payload(Checkpoint(1, 0, many), schema_version=1, limits=limits)


# --- what a stored record may say -----------------------------------------------------------------


def test_name_and_content_must_agree() -> None:
    """A checkpoint under the name of another sequence is spliced (T5)."""
    whole = records.stream("checkpoint", [records.record("checkpoint")])
    with pytest.raises(SplicedError, match="sequence 110"):
        checkpoint.decode_header(
            whole, store_id=records.STORE, session=records.SESSION, sequence=111, name="t"
        )


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("header.sequence", 111), ("payload.sequence", 111), ("header.store", records.OTHER_STORE),
        ("header.session", "weekly"), ("header.session", "Nightly"),
    ],
)  # fmt: skip
def test_sealed_record_that_contradicts_its_place_is_spliced(path: str, value: object) -> None:
    """Store, session and sequence inside are compared with the caller's, each by itself (T5)."""
    with pytest.raises(SplicedError):
        records.read("checkpoint", records.draft("checkpoint").edited(path, value).record())


@pytest.mark.parametrize(
    "value",
    [
        [""], ["fx:v1:"], [records.fingerprint(1)] * 2, [records.fingerprint(1).upper()], [None],
        [records.fingerprint(1), [records.fingerprint(2)]], [records.fingerprint(1) + "\n"],
    ],
    ids=lambda value: ascii(value)[:30],
)  # fmt: skip
def test_sealed_fingerprints_that_are_not_legal_are_damage(value: list[Any]) -> None:
    """No duplicate, no empty one, though it was sealed with our key (G5)."""
    draft = records.draft("checkpoint").edited("payload.sideEffectFingerprints", value)
    with pytest.raises(DamagedError):
        records.read("checkpoint", draft.record())
    draft = records.draft("checkpoint").edited("payload.openEffects.0.fingerprint", value[0])
    if value[0] != records.fingerprint(1):
        with pytest.raises(DamagedError):
            records.read("checkpoint", draft.record())


@pytest.mark.parametrize("field", ["fingerprintSegments", "blobs"])
@pytest.mark.parametrize("value", [[0], [None], [[]], {}, None, "", 0, False], ids=repr)
def test_reserved_list_must_be_empty(field: str, value: object) -> None:
    """What a later version puts there is never silently ignored (C13-02).

    A filled list is a format that is not known here, exit 4, and not damage, exit 2.
    """
    draft = records.draft("checkpoint").edited(f"payload.{field}", value)
    with pytest.raises(LastgoodError) as caught:
        records.read("checkpoint", draft.record())
    expected = UnknownFormatError if type(value) is list else DamagedError
    check(type(caught.value) is expected, f"{value!r}: {caught.value!r}")


def test_payload_has_the_documented_fields_in_order() -> None:
    """Known answer, written by hand."""
    payload = checkpoint.encode_payload(
        Checkpoint(7, {"b": 1, "a": 2}), schema_version=3, limits=Limits()
    )
    expected = (
        b'{"schemaVersion":3,"sequence":7,"state":{"b":1,"a":2},"sideEffectFingerprints":[],'
        b'"fingerprintSegments":[],"openEffects":[],"blobs":[],"log":null}'
    )
    check_equal(payload, expected, "payload")
    check_equal(canonical.decode(payload)["sequence"], 7, "sequence")
