"""Makes the golden records, version 1, and compares them with those that are kept.

``make golden`` runs this. Each record is made again into a temporary directory from fixed keys,
times and values, and compared; one that is kept is never overwritten. One that is not there yet
is added, which happens once for each version of each format::

    python -m tests.golden.make

The keys are those of the golden key file, so the golden files are one store: its record, a
session's, the checkpoint at sequence 110 and the manifest that names it, and a short log.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import orjson

from lastgood.formats import (
    anchor,
    canonical,
    checkpoint,
    effect,
    event,
    identity,
    manifest,
    names,
    seal,
    session,
    store,
)
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.limits import Limits
from lastgood.keyring import Keyring

FOLDER = Path(__file__).resolve().parent
KEYS = FOLDER / "keys-v1.json"
SESSION = names.session_id("nightly")
CREATED = "2026-12-01T07:00:00.000000Z"
WRITER = "lastgood 0.1.0"
LOG = anchor.LogAnchor(count=110, segment="events-000001-0001.jsonl", offset=51_234, head="c5" * 32)
STATE = {
    "z before a": [
        None,
        True,
        False,
        0,
        -1,
        18_446_744_073_709_551_615,
        -9_223_372_036_854_775_808,
    ],
    "floats": [0.0, -0.0, 0.1, 1e15, 1e16, 1e-7, 5e-324, 1.7976931348623157e308],
    "text": ["", "naïve ☃ 😀", '"\\/\b\f\n\r\t', "\x00\x1f\x7f\x85\u2028\u2029\ufeff"],
    "nested": {"": {"a": [[], {}]}},
}


def keyring() -> Keyring:
    """The golden keys: one primary, 000102…1f."""
    return Keyring.from_bytes(KEYS.read_bytes())


def golden_store(keys: Keyring) -> list[bytes]:
    """``store.json``."""
    record = store.StoreRecord(keys.store_id, CREATED, WRITER)
    return store.encode(record, sealer=keys.sealer(""))


def golden_session(keys: Keyring) -> list[bytes]:
    """``session.json``."""
    record = session.SessionRecord(
        store=keys.store_id,
        session=SESSION,
        created=CREATED,
        writer=WRITER,
        program=session.Program(name="invoices", version="3"),
        salt=bytes(range(64, 96)).hex(),
        log="events",
    )
    return session.encode(record, sealer=keys.sealer(names.directory(SESSION)))


def golden_checkpoint(keys: Keyring) -> list[bytes]:
    """``checkpoint-000110.json``, every field filled."""
    value = checkpoint.Checkpoint(
        sequence=110, state=STATE, fingerprints=[f"fx:v1:{n:064x}" for n in (2, 1)]
    )
    effect = checkpoint.OpenEffect(
        fingerprint=Fingerprint(f"fx:v1:{3:064x}"),
        key="ab" * 32,
        effect_class="probe",
        sequence=109,
    )
    payload = checkpoint.encode_payload(
        value, schema_version=7, open_effects=(effect,), log=LOG, limits=Limits()
    )
    return checkpoint.encode(
        payload,
        store_id=keys.store_id,
        session=SESSION,
        epoch=3,
        sequence=110,
        previous=seal.Digest("d1" * 32),
        created=CREATED,
        writer=WRITER,
        sealer=keys.sealer(names.directory(SESSION)),
    )


def golden_manifest(keys: Keyring) -> list[bytes]:
    """``manifest-000042.json``, every field filled; it names the golden checkpoint."""
    current = golden_checkpoint(keys)
    value = manifest.Manifest(
        epoch=3,
        revision=42,
        previous_manifest=seal.Digest("e2" * 32),
        created=CREATED,
        writer=WRITER,
        current=manifest.Entry(110, seal.digest_of(current), 7, len(current[1])),
        previous=manifest.Entry(100, seal.Digest("d1" * 32), 7, 181),
        milestones=(
            manifest.Milestone(
                manifest.Entry(9, seal.Digest("09" * 32), 6, 180), "before the audit ☃"
            ),
            manifest.Milestone(manifest.Entry(10, seal.Digest("10" * 32), 6, 0), ""),
        ),
        operations=("0a" * 16, "0b" * 16),
        log=LOG,
        floor=anchor.LogAnchor(5, "events-000001-0001.jsonl", 900, "f0" * 32),
        notes=(manifest.Note(CREATED, "restore", "operator", "wrong price list", "from 90"),),
    )
    return manifest.encode(
        value,
        store_id=keys.store_id,
        session=SESSION,
        sealer=keys.sealer(names.directory(SESSION)),
    )


def golden_events(keys: Keyring) -> list[bytes]:
    """``events-000001-0001.jsonl``, closed: a first line, the caller's, ours, the last line."""
    made = event.EventKeys(
        keys.sealer(names.directory(SESSION)), store_id=keys.store_id, session=SESSION
    )
    written: list[tuple[str, canonical.JSON, int]] = [
        (event.SEGMENT, anchor.encode(anchor.EMPTY), 0),
        ("paid ☃", STATE, 0),
        ("a", None, 2),
        (event.FINGERPRINTS, [f"fx:v1:{n:064x}" for n in (2, 1)], 3),
        (event.CLOSED, None, 4),
    ]
    head, lines = anchor.NO_HEAD, []
    for number, (kind, data, synced) in enumerate(written, start=1):
        line, head = event.encode(
            event.Event(number, head, synced, 1, CREATED, kind, data), keys=made, limits=Limits()
        )
        lines.append(line)
    return lines


def golden_effects(keys: Keyring) -> list[bytes]:
    """``effects-000001-0001.jsonl``, closed: every record of effects."""
    one, other = (Fingerprint(f"fx:v1:{n:064x}") for n in (1, 2))
    person = effect.Word(by="person", actor="operator ☃", reason="the ledger has no such line")
    records: list[effect.Record] = [
        effect.Intent(
            fingerprint=one, key="ab" * 32, effect_class="manual", kind="pay", id="invoice-7"
        ),
        effect.Raised(fingerprint=one, intent=2, error="ConnectionResetError"),
        effect.NotDone(fingerprint=one, intent=2, word=person),
        effect.Intent(
            fingerprint=other,
            key="ab" * 32,
            effect_class="idempotent",
            kind="pay",
            id="invoice-7",
            occurrence=3,
            supersedes=one,
        ),
        effect.Done(
            fingerprint=other,
            intent=5,
            word=effect.Word(),
            result={"receipt": [1, None, "☃"]},
            event=("paid ☃", {"id": 7}),
        ),
        effect.Intent(
            fingerprint=one, key="cd" * 32, effect_class="probe", kind="mail", id="welcome ☃"
        ),
        effect.Done(fingerprint=one, intent=7, word=person, result=None, event=None),
        effect.Applied(fingerprint=one, done=8, event=("mailed", None)),
    ]
    written = [(event.SEGMENT, anchor.encode(anchor.EMPTY)), *map(effect.encode, records)]
    return _lines(keys, [*written, (event.CLOSED, None)])


def _lines(keys: Keyring, written: list[tuple[str, canonical.JSON]]) -> list[bytes]:
    made = event.EventKeys(
        keys.sealer(names.directory(SESSION)), store_id=keys.store_id, session=SESSION
    )
    head, lines = anchor.NO_HEAD, []
    for number, (kind, data) in enumerate(written, start=1):
        line, head = event.encode(
            event.Event(number, head, number - 1, 1, CREATED, kind, data),
            keys=made,
            limits=Limits(),
        )
        lines.append(line)
    return lines


SALT = bytes(range(64, 96))
IDENTITIES: list[dict[str, canonical.JSON]] = [
    {"kind": "pay", "key": "invoice-7"},
    {"kind": "pay", "key": "invoice-7", "args": {}},
    {"kind": "pay", "key": "invoice-7", "args": []},
    {"kind": "pay", "key": "invoice-7", "args": True},
    {"kind": "pay", "key": "invoice-7", "args": 1},
    {"kind": "pay", "key": "invoice-7", "args": "1"},
    {"kind": "pay", "key": "invoice-7", "args": 1.5},
    {"kind": "pay", "key": "invoice-7", "args": 9007199254740993},
    {"kind": "pay", "key": "invoice-7", "args": 9007199254740994.0},
    {"kind": "pay", "key": "invoice-7", "args": -1e300},
    {"kind": "pay", "key": "invoice-7", "args": {"to": "DE02 ☃", "amount": 12, "note": None}},
    {"kind": "pay", "key": "invoice-7", "args": {"to": "DE02 ☃", "amount": 12}},
    {"kind": "pay", "key": "invoice-7", "args": {"é": 1, "z": [[], {}], "😀": "\u0000"}},
    {"kind": "pay", "key": "invoice-7", "occurrence": 1},
    {"kind": "pay", "key": "invoice-8"},
    {"kind": "payi", "key": "nvoice-7"},
    {"kind": "run", "key": "step", "args": ["tar", "-cf", "a.tar", "b"], "cwd": ""},
    {"kind": "run", "key": "step", "args": ["tar", "-cf", "a.tar", "b"], "cwd": "/srv"},
    {"kind": "run", "key": "step", "inputs": {"b/1": "ab" * 32, "b/2": "cd" * 32}},
    {"kind": "run", "key": "step", "target": "ledger"},
    {"kind": "run", "key": "step", "policy_version": "ledger"},
]
"""Actions of which each has another fingerprint."""


def golden_fingerprints(keys: Keyring) -> list[bytes]:
    """``fingerprints-v1.json``: actions, their fingerprints and the digests of their keys."""
    vectors = []
    for given in IDENTITIES:
        made = identity.Identity(**given)
        vectors.append(
            {
                "action": given,
                "fingerprint": made.fingerprint(SALT, limits=Limits()),
                "keyDigest": made.key_digest(SALT),
            }
        )
    document = {"salt": SALT.hex(), "vectors": vectors}
    return [orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)]


RECORDS = {
    "store-v1.json": golden_store,
    "session-v1.json": golden_session,
    "checkpoint-v1.json": golden_checkpoint,
    "manifest-v1.json": golden_manifest,
    "events-000001-0001-v1.jsonl": golden_events,
    "effects-000001-0001-v1.jsonl": golden_effects,
    "fingerprints-v1.json": golden_fingerprints,
}


def made(name: str) -> bytes:
    """The bytes of the golden record ``name``, as today's code makes them."""
    return b"".join(RECORDS[name](keyring()))


def main(folder: Path = FOLDER) -> int:
    """Make, compare, add what is missing; 1 if a kept record is not made the same today."""
    fresh = Path(tempfile.mkdtemp(prefix="golden-"))
    different = 0
    for name in RECORDS:
        data = made(name)
        (fresh / name).write_bytes(data)
        kept = folder / name
        if not kept.exists():
            with kept.open("xb") as file:
                file.write(data)
            print(f"added      {name}")
        elif kept.read_bytes() == data:
            print(f"the same   {name}")
        else:
            different = 1
            print(f"DIFFERENT  {name}: compare it with {fresh / name}; the kept one is right")
    if not different:
        for name in RECORDS:
            (fresh / name).unlink()
        fresh.rmdir()
    return different


if __name__ == "__main__":
    sys.exit(main())
