"""Golden records: what version 1 wrote is read for ever, and written the same today.

The expected values stand here in full, a second time. If a test of this file fails, the code has
broken somebody's state: mend the code, or give the format a new version beside this one.
"""

from __future__ import annotations

import hashlib
import hmac
import tempfile
from pathlib import Path

import pytest

from lastgood.formats import checkpoint, event, manifest, names, seal, segment, session, store
from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.limits import Limits
from lastgood.keyring import Keyring
from tests.golden import make
from tests.keys.samples import pae, rfc5869
from tests.support.check import check, check_equal
from tests.support.values import same

FOLDER = Path(make.__file__).parent
STORE = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
DIRECTORY = hashlib.sha256(pae(b"lastgood/1/session", b"nightly")).hexdigest()[:40]
CREATED = "2026-12-01T07:00:00.000000Z"
WRITER = "lastgood 0.1.0"
LOG = LogAnchor(110, "events-000001-0001.jsonl", 51_234, "c5" * 32)
EVENTS = "events-000001-0001-v1.jsonl"
EVENTS_SHA256 = "d925fa9cb39425b5357cfe5d28ed49f8293148fd063b09c697cb98425d973cac"
EXPECTED = {
    "store": "90f6c52a4ca0f284a4d93eccc7fc95f6b18389154d507d20626d5dc36503d4f2",
    "session": "14bd05a64baf2801bd17126e908408b70d6bd03810c27bcc2d095864db47e51c",
    "checkpoint": "7bcae249e9796bbd0ca57321c02592e4b62005e7092757db4a091d03ac091dec",
    "manifest": "e87c40edc47e03622abc4f38e292ac06b0d286bd675b7221f9d377e90f5bd34f",
}
"""SHA-256 of each golden file: it is never edited."""
KINDS = pytest.mark.parametrize("kind", ["store", "session", "checkpoint", "manifest"])


def golden(kind: str) -> bytes:
    return (FOLDER / f"{kind}-v1.json").read_bytes()


def keys() -> Keyring:
    return Keyring.from_bytes((FOLDER / "keys-v1.json").read_bytes())


@KINDS
def test_golden_record_is_made_the_same_today(kind: str) -> None:
    """The same values give the very same bytes, so digests and chains stay comparable (I3)."""
    check_equal(make.made(f"{kind}-v1.json"), golden(kind), f"{kind}-v1.json")


@KINDS
def test_golden_mac_is_the_documented_one(kind: str) -> None:
    """A golden record verifies by the text of the format alone.

    Method: HKDF, PAE and HMAC written a second time, from the master key 000102…1f.
    """
    first, header, payload, _ = golden(kind).split(b"\n")
    master = bytes(range(32))
    session_info = [b"session", STORE.encode(), DIRECTORY.encode()]
    info = [b"store", STORE.encode()] if kind == "store" else session_info
    key = rfc5869(rfc5869(master, pae(*info)), pae(b"mac", kind.encode()))
    kid = rfc5869(master, pae(b"kid"))[:16].hex()
    where = {"store": "", "session": DIRECTORY}.get(kind, "nightly")
    parts = ("lastgood/1/seal", kind, "HS256", kid, STORE, where)
    message = pae(*(part.encode() for part in parts), header)
    mac = hmac.digest(key, message, "sha256").hex()
    line = f'{{"lastgood":1,"kind":"{kind}","alg":"HS256","kid":"{kid}","mac":"{mac}"}}'
    check_equal(first.decode(), line, "seal line")
    check(f'"sha256":"{hashlib.sha256(payload).hexdigest()}"' in header.decode(), "payload's hash")


def test_golden_store_is_read() -> None:
    """``store-v1.json``, every value."""
    found = store.decode(
        golden("store"), store_id=STORE, sealer=keys().sealer(""), limits=Limits(), name="t"
    )
    check_equal(found, store.StoreRecord(STORE, CREATED, WRITER), "store record")


def test_golden_session_is_read() -> None:
    """``session-v1.json``, every value."""
    found = session.decode(
        golden("session"),
        store_id=STORE,
        directory=DIRECTORY,
        sealer=keys().sealer(DIRECTORY),
        limits=Limits(),
        name="t",
    )
    expected = session.SessionRecord(
        store=STORE,
        session=names.session_id("nightly"),
        created=CREATED,
        writer=WRITER,
        program=session.Program("invoices", "3"),
        salt="404142434445464748494a4b4c4d4e4f505152535455565758595a5b5c5d5e5f",
        log="events",
    )
    check_equal(found, expected, "session record")


def test_golden_checkpoint_is_read() -> None:
    """``checkpoint-v1.json``, every value, the state with its types and order."""
    context = seal.Context("checkpoint", STORE, "nightly")
    whole = seal.unseal(
        golden("checkpoint"),
        context=context,
        sealer=keys().sealer(DIRECTORY),
        limits=Limits(),
        name="t",
    )
    header = checkpoint.decode_header(
        whole, store_id=STORE, session="nightly", sequence=110, name="t"
    )
    check_equal((header.sequence, header.epoch, header.previous), (110, 3, "d1" * 32), "header")
    check_equal((header.created, header.writer), (CREATED, WRITER), "information")
    check_equal((header.length, header.size_bytes), (874, 1390), "length, size")
    check_equal(header.kid, "c1d7814c0e0019ea14df20dd9643c4b9", "kid")
    body = checkpoint.decode_body(whole.payload, sequence=110, name="t")
    check_equal(body.checkpoint.schema_version, 7, "schema version")
    fingerprints = ("fx:v1:" + "0" * 63 + "2", "fx:v1:" + "0" * 63 + "1")
    check_equal(body.checkpoint.fingerprints, fingerprints, "fingerprints")
    intended = Fingerprint("fx:v1:" + "0" * 63 + "3")
    effect = checkpoint.OpenEffect(intended, "ab" * 32, "probe", 109)
    check_equal(body.open_effects, (effect,), "open effects")
    check_equal(body.log, LOG, "log anchor")
    state = {
        "z before a": [None, True, False, 0, -1, 2**64 - 1, -(2**63)],
        "floats": [0.0, -0.0, 0.1, 1e15, 1e16, 1e-7, 5e-324, 1.7976931348623157e308],
        "text": ["", "naïve ☃ 😀", '"\\/\b\f\n\r\t', "\x00\x1f\x7f\x85\u2028\u2029\ufeff"],
        "nested": {"": {"a": [[], {}]}},
    }
    check(same(body.checkpoint.state, state), f"state {body.checkpoint.state!r}")


def test_golden_manifest_is_read() -> None:
    """``manifest-v1.json``, every value; it names the golden checkpoint."""
    found = manifest.decode(
        golden("manifest"),
        store_id=STORE,
        session="nightly",
        sealer=keys().sealer(DIRECTORY),
        limits=Limits(),
        name="t",
    )
    named = hashlib.sha256(golden("checkpoint").split(b"\n")[1]).hexdigest()
    own = hashlib.sha256(golden("manifest").split(b"\n")[1]).hexdigest()

    def entry(sequence: int, digest: str, schema: int, length: int) -> manifest.Entry:
        return manifest.Entry(sequence, seal.Digest(digest), schema, length)

    expected = manifest.Manifest(
        epoch=3,
        revision=42,
        previous_manifest=seal.Digest("e2" * 32),
        created=CREATED,
        writer=WRITER,
        current=entry(110, named, 7, 874),
        previous=entry(100, "d1" * 32, 7, 181),
        milestones=(
            manifest.Milestone(entry(9, "09" * 32, 6, 180), "before the audit ☃"),
            manifest.Milestone(entry(10, "10" * 32, 6, 0), ""),
        ),
        operations=("0a" * 16, "0b" * 16),
        log=LOG,
        floor=LogAnchor(5, "events-000001-0001.jsonl", 900, "f0" * 32),
        notes=(manifest.Note(CREATED, "restore", "operator", "wrong price list", "from 90"),),
        digest=seal.Digest(own),
    )
    check_equal(found, expected, "manifest")


def golden_lines() -> list[bytes]:
    return (FOLDER / EVENTS).read_bytes().split(b"\n")[:-1]


def test_golden_events_are_made_the_same_today() -> None:
    """The same events give the very same lines, so heads stay comparable (I3)."""
    check_equal(make.made(EVENTS), (FOLDER / EVENTS).read_bytes(), EVENTS)


def test_golden_events_verify_by_the_text_of_the_format() -> None:
    """Each line's MAC is HMAC over PAE("lastgood/1/event", kid, store, session, e).

    Method: HKDF, PAE and HMAC written a second time, from the master key 000102…1f; the line is
    cut by its documented form alone, and each ``prev`` is the MAC before it.
    """
    master = bytes(range(32))
    root = rfc5869(master, pae(b"session", STORE.encode(), DIRECTORY.encode()))
    key = rfc5869(root, pae(b"event", b"event"))
    kid = rfc5869(master, pae(b"kid"))[:16].hex().encode()
    before = b"0" * 64
    for line in golden_lines():
        body = line[len(b'{"mac":"","kid":"","e":') + 64 + 32 : -1]
        message = pae(b"lastgood/1/event", kid, STORE.encode(), b"nightly", body)
        mac = hmac.digest(key, message, "sha256").hex().encode()
        check_equal(line, b'{"mac":"%b","kid":"%b","e":%b}' % (mac, kid, body), "the line")
        check(b'"prev":"%b","synced":' % before in body, f"the chain: {body[:120]!r}")
        before = mac


def test_golden_events_are_read() -> None:
    """``events-000001-0001-v1.jsonl``, every value of every line."""
    name = "events-000001-0001.jsonl"
    sealer = keys().sealer(DIRECTORY)
    made = event.EventKeys(sealer, store_id=STORE, session="nightly")
    found = [event.decode(line, keys=made, name=name) for line in golden_lines()]
    macs = ["0" * 64, *(line.mac for line in found)]
    anchor = {"count": 0, "segment": "", "offset": 0, "head": "0" * 64}
    fingerprints = ["fx:v1:" + "0" * 63 + "2", "fx:v1:" + "0" * 63 + "1"]
    expected = [
        event.Event(1, macs[0], 0, 1, CREATED, "lastgood.segment", anchor),
        event.Event(2, macs[1], 0, 1, CREATED, "paid ☃", make.STATE),
        event.Event(3, macs[2], 2, 1, CREATED, "a", None),
        event.Event(4, macs[3], 3, 1, CREATED, "lastgood.fingerprints", fingerprints),
        event.Event(5, macs[4], 4, 1, CREATED, "lastgood.closed", None),
    ]
    check_equal([line.event for line in found], expected, "the events")
    check(same(found[1].event.data, make.STATE), "types and order of the data")
    data = (FOLDER / EVENTS).read_bytes()
    check_equal(segment.read_first(data, name=name, keys=made), EMPTY, "the end before it")
    walk = segment.Walk(data, begin=segment.begin_of(name, EMPTY), keys=made)
    check_equal([line.mac for line in walk], macs[1:], "the walk")
    check_equal((walk.bad, walk.end), (None, LogAnchor(5, name, len(data), macs[5])), "its end")


def test_golden_files_are_unchanged() -> None:
    """A golden file is never edited: known answers, for ever."""
    digests = {
        kind: hashlib.sha256(golden(kind)).hexdigest()
        for kind in ("store", "session", "checkpoint", "manifest")
    }
    check_equal(digests, EXPECTED, "SHA-256 of the golden files")
    log = hashlib.sha256((FOLDER / EVENTS).read_bytes()).hexdigest()
    check_equal(log, EVENTS_SHA256, f"SHA-256 of {EVENTS}")


def test_missing_golden_file_is_added_and_a_kept_one_never_overwritten(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``make golden`` never repairs the evidence. Method: a folder with one altered record."""
    fresh = tmp_path_factory.mktemp("fresh")
    monkeypatch.setattr(tempfile, "tempdir", str(fresh))
    check_equal(make.main(tmp_path), 0, "exit of the first run")
    check_equal(list(fresh.iterdir()), [], "what a run without difference leaves")
    check_equal({p.name for p in tmp_path.iterdir()}, set(make.RECORDS), "files made")
    altered = tmp_path / "store-v1.json"
    altered.write_bytes(b"altered")
    check_equal(make.main(tmp_path), 1, "exit beside an altered record")
    check_equal(altered.read_bytes(), b"altered", "the altered record")
    kept = [path.name for path in fresh.rglob("*.json*")]
    check_equal(sorted(kept), sorted(make.RECORDS), "records kept to compare with")
    check_equal(make.main(), 0, "exit beside the golden records")
