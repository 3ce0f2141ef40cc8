"""Limits: decided by the reader, exact at the edge."""

from __future__ import annotations

import math
from typing import Any

import pytest

from lastgood.errors import LastgoodError, LimitError, UsageError
from lastgood.formats import checkpoint, manifest
from lastgood.formats.limits import MAX_SEQUENCE, Limits
from tests.support import records
from tests.support.check import check, check_equal

WORST = "\N{OLD PERMIC LETTER AN}" * manifest.MAX_LABEL_CHARS


def test_limits_are_the_documented_ones() -> None:
    """What is promised to readers is what is enforced."""
    limits = Limits()
    check_equal(limits.payload_bytes, 16 * 2**20, "payload")
    check_equal(limits.header_bytes, 8 * 2**10, "header")
    check_equal((limits.depth, limits.milestones), (200, 1_000), "depth, milestones")
    check_equal(limits.directory_entries, 100_000, "directory entries")
    check_equal(MAX_SEQUENCE, 10**15, "sequence")


@pytest.mark.parametrize("kind", records.KINDS)
def test_file_limit_holds_every_legal_record(kind: str) -> None:
    """A bounded read of ``record_bytes`` never cuts a record within the limits (T8).

    Method: the header grows to exactly the limit; the file just fits.
    """
    draft = records.draft(kind)
    room = 8 * 1024 - len(draft.record().split(b"\n")[1])
    grown = draft.edited("header.writer", records.WRITER + "x" * room).record()
    _, header, payload, _ = grown.split(b"\n")
    check_equal(len(header), 8 * 1024, "header")
    records.stream(kind, [grown])
    check(len(grown) <= Limits().record_bytes(len(payload)), "a legal file over the limit")
    over = draft.edited("header.writer", records.WRITER + "x" * (room + 1)).record()
    with pytest.raises(LastgoodError, match="within the limit"):
        records.stream(kind, [over])
    with pytest.raises(LastgoodError, match="within the limit"):
        records.read(kind, over)


def test_payload_limit_is_exact() -> None:
    """A payload of the limit is saved, one byte more is not (T8)."""
    value = checkpoint.Checkpoint(1, "x" * 100)
    size = len(checkpoint.encode_payload(value, schema_version=1, limits=Limits()))
    fits = Limits(payload_bytes=size)
    check_equal(
        len(checkpoint.encode_payload(value, schema_version=1, limits=fits)), size, "payload"
    )
    with pytest.raises(LimitError, match=f"has {size} bytes, more than {size - 1}"):
        checkpoint.encode_payload(value, schema_version=1, limits=Limits(payload_bytes=size - 1))


def test_full_manifest_fits_into_its_limit() -> None:
    """1,000 milestones with the longest labels and all notes of ordinary size stay readable (T8).

    Method: letters of four bytes, and the widest numbers that there can be.
    """
    milestones = [
        {
            **records.draft("manifest").payload["milestones"][0],
            "label": WORST,
        }
        | {"sequence": n, "name": f"checkpoint-{n:06d}.json", "schemaVersion": MAX_SEQUENCE}
        for n in range(MAX_SEQUENCE - 999, MAX_SEQUENCE + 1)
    ]
    data = records.draft("manifest").edited("payload.milestones", milestones).record()
    check_equal(len(records.read("manifest", data).milestones), 1_000, "milestones")
    check(len(data.split(b"\n")[2]) < Limits().manifest_bytes, "over the limit of a manifest")
    fewer = Limits(milestones=999)
    with pytest.raises(LastgoodError, match="milestones"):
        records.read("manifest", data, limits=fewer)


@pytest.mark.parametrize(
    "limits",
    [
        {"payload_bytes": 0}, {"payload_bytes": "1"}, {"payload_bytes": 1.0}, {"depth": True},
        {"depth": -1}, {"header_bytes": 4095}, {"header_bytes": 15 * 1024 + 1},
        {"directory_entries": 0}, {"milestones": -1}, {"milestones": 10**5000},
        {"milestones": 10_000}, {"manifest_bytes": 1_000_000}, {"lock_wait_s": -1},
        {"lock_wait_s": math.nan}, {"lock_wait_s": math.inf}, {"lock_wait_s": "1"},
        {"lock_wait_s": True}, {"lock_wait_s": 10**400},
    ],
)  # fmt: skip
def test_limits_that_cannot_be_kept_are_refused_when_they_are_made(limits: dict[str, Any]) -> None:
    """A wrong limit is told at once, not in the middle of a save.

    More milestones than a manifest has room for would be saved, and then read by nobody.
    """
    with pytest.raises(UsageError, match="The limit "):
        Limits(**limits)


def test_raised_limits_are_kept_together() -> None:
    """More milestones are allowed with the room for them."""
    limits = Limits(milestones=10_000, manifest_bytes=11 * 2**20, lock_wait_s=0)
    check_equal(limits.milestones, 10_000, "milestones")
