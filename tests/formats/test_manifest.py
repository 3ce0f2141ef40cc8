"""Manifests: which checkpoint is current."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError, LastgoodError, SplicedError, UsageError
from lastgood.formats import anchor, manifest, names, seal
from lastgood.formats.manifest import Entry, Manifest, Milestone, Note
from tests.support import records
from tests.support.check import check, check_equal

NUMBERS = st.integers(1, 10**15)
DIGESTS = st.binary(min_size=32, max_size=32).map(lambda data: seal.Digest(data.hex()))
ENTRIES = st.builds(Entry, NUMBERS, DIGESTS, NUMBERS, st.integers(0, 10**15))
ANCHORS = (
    st.none()
    | st.just(anchor.EMPTY)
    | st.builds(
        anchor.LogAnchor, NUMBERS, st.builds(names.segment, NUMBERS, NUMBERS), NUMBERS, DIGESTS
    )
)
TEXTS = st.text(max_size=50)


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Any manifest that a writer may make."""
    revision = draw(NUMBERS)
    current = draw(st.none() | ENTRIES)
    older = None
    if current is not None and current.sequence > 1:
        older = draw(st.none() | st.integers(1, current.sequence - 1))
    kept = sorted(
        draw(st.lists(ENTRIES, max_size=4, unique_by=lambda e: e.sequence)),
        key=lambda e: e.sequence,
    )
    return Manifest(
        epoch=draw(NUMBERS),
        revision=revision,
        previous_manifest=None if revision == 1 else draw(DIGESTS),
        created=records.CREATED,
        writer=draw(st.text(max_size=100)),
        current=current,
        previous=None if older is None else dataclasses.replace(draw(ENTRIES), sequence=older),
        milestones=tuple(Milestone(entry, draw(st.text(max_size=200))) for entry in kept),
        operations=tuple(
            data.hex() for data in draw(st.lists(st.binary(min_size=16, max_size=16), max_size=8))
        ),
        log=draw(ANCHORS),
        floor=draw(ANCHORS),
        notes=tuple(
            draw(
                st.lists(
                    st.builds(Note, st.just(records.CREATED), TEXTS, TEXTS, TEXTS, TEXTS),
                    max_size=3,
                )
            )
        ),
    )


@given(manifests())
def test_manifest_that_is_encoded_is_decoded(value: Manifest) -> None:
    """decode(encode(x)) == x, with its digest."""
    parts = manifest.encode(
        value, store_id=records.STORE, session=records.SESSION, sealer=records.keys("manifest")
    )
    found = records.read("manifest", b"".join(parts))
    check_equal(found.digest, seal.digest_of(parts), "digest")
    check_equal(found, dataclasses.replace(value, digest=found.digest), "manifest")


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("first revision with a predecessor", {"header.revision": 1}),
    ("later revision without one", {"header.previousManifest": None}),
    ("previous without current", {"payload.current": None}),
    ("previous as new as current", {
        "payload.previous.sequence": 110, "payload.previous.name": "checkpoint-000110.json"}),
    ("previous newer than current", {
        "payload.previous.sequence": 111, "payload.previous.name": "checkpoint-000111.json"}),
    ("name of another sequence", {"payload.current.name": "checkpoint-000109.json"}),
    ("name in another width", {"payload.current.name": "checkpoint-0000110.json"}),
    ("name outside", {"payload.current.name": "../checkpoint-000110.json"}),
    ("name of a manifest", {"payload.current.name": "manifest-000110.json"}),
    ("milestones in text order", {
        "payload.milestones.0.sequence": 10, "payload.milestones.0.name": "checkpoint-000010.json",
        "payload.milestones.1.sequence": 9, "payload.milestones.1.name": "checkpoint-000009.json"}),
    ("milestone twice", {
        "payload.milestones.0.sequence": 10,
        "payload.milestones.0.name": "checkpoint-000010.json"}),
    ("too many operations", {"payload.operations": ["0a" * 16] * 9}),
    ("operation that is no text", {"payload.operations": ["0a" * 16, 5]}),
    ("too many notes", {"payload.notes": records.draft("manifest").payload["notes"] * 101}),
    ("another store", {"header.store": records.OTHER_STORE}),
    ("another session", {"header.session": "weekly"}),
]  # fmt: skip


@pytest.mark.parametrize("changes", [c for _, c in REFUSED], ids=[name for name, _ in REFUSED])
def test_sealed_manifest_that_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    """Order, chain, names and limits hold, though it was sealed with our key (G4, T5)."""
    draft = records.draft("manifest")
    for path, value in changes.items():
        draft = draft.edited(path, value)
    with pytest.raises(DamagedError) as caught:
        records.read("manifest", draft.record())
    place = {"header.store", "header.session"} & set(changes)
    check_equal(type(caught.value), SplicedError if place else DamagedError, "class")


def test_milestones_are_in_numeric_order() -> None:
    """9 before 10, 999999 before 1000000 (C3-01)."""
    for low, high in ((9, 10), (999_999, 1_000_000)):
        draft = records.draft("manifest")
        for index, number in enumerate((low, high)):
            draft = draft.edited(f"payload.milestones.{index}.sequence", number)
            draft = draft.edited(f"payload.milestones.{index}.name", names.checkpoint(number))
        found = records.read("manifest", draft.record())
        check_equal([m.entry.sequence for m in found.milestones], [low, high], "milestones")


def test_first_manifest_without_checkpoint_is_legal() -> None:
    """A new session claims revision 1 before its first save (R4)."""
    value = Manifest(1, 1, None, records.CREATED, records.WRITER, current=None, previous=None)
    parts = manifest.encode(
        value, store_id=records.STORE, session=records.SESSION, sealer=records.keys("manifest")
    )
    found = records.read("manifest", b"".join(parts))
    check_equal((found.current, found.kept_sequences()), (None, frozenset()), "what it names")


@pytest.mark.parametrize("text", ["x" * 1_001, "\ud800", None, 5], ids=ascii)
def test_label_and_note_that_no_reader_would_take_are_refused_before_writing(text: Any) -> None:
    """What a person says is refused while it can still be changed (C9-08)."""
    with pytest.raises(UsageError):
        Milestone(records.entry(1), text)
    with pytest.raises(UsageError):
        Milestone(records.entry(1), "x" * 201)
    for field in ("type", "actor", "reason", "data"):
        texts = {"type": "", "actor": "", "reason": "", "data": ""} | {field: text}
        with pytest.raises(UsageError):
            Note(records.CREATED, **texts)


def test_what_it_names_counts_current_previous_and_milestones() -> None:
    """Prune and adoption ask the manifest, never a listing (S9, C3-01)."""
    value = records.manifest_value()
    check_equal(value.kept_sequences(), frozenset({9, 10, 100, 110}), "sequences")
    for sequence in (9, 10, 100, 110):
        check(value.names_checkpoint(records.entry(sequence).digest), f"{sequence} is not named")
    check(not value.names_checkpoint(records.entry(11).digest), "a stranger is named")
    bare = dataclasses.replace(value, current=None, previous=None, milestones=())
    check(not bare.names_checkpoint(records.entry(110).digest), "named by nothing")


def test_pointer_and_number_are_the_same_bytes_of_one_record() -> None:
    """A manifest does not know under which name it lies; its revision does (S6, S7)."""
    first, second = records.record("manifest"), records.record("manifest")
    check_equal(first, second, "sealed twice from the same values")
    other = records.draft("manifest").edited("header.revision", 43).record()
    check(
        records.read("manifest", other).digest != records.read("manifest", first).digest, "digest"
    )


def test_limit_of_operations_is_the_readers_too() -> None:
    """Eight operations are read, in their order."""
    ids = [f"{n:032x}" for n in range(manifest.MAX_OPERATIONS)]
    data = records.draft("manifest").edited("payload.operations", ids).record()
    check_equal(records.read("manifest", data).operations, tuple(ids), "operations")
    with pytest.raises(LastgoodError):
        records.read("manifest", data + b"\n")
