"""Records to test with: honest ones of each kind, and authentic ones that no writer would make.

Key, store, sessions, times and salt are fixed, so the same record has the same bytes in every
run. ``draft(kind)`` is an honest record taken apart; ``edited`` changes any field of its header
or payload, and ``record`` puts it together again, properly sealed::

    hostile = draft("manifest").edited("payload.current.sequence", True).record()

``forge`` seals any two lines, JSON or not. It builds PAE and MAC by itself, from the text of the
format alone, so that a test which compares the product's bytes with it is a known answer.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import hmac
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from lastgood.formats import anchor, canonical, checkpoint, manifest, names, seal, session, store
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.keyfile import KeyEntry, KeyFile, Secret
from lastgood.formats.limits import Limits
from lastgood.keyring import Keyring, Sealer, kid_of

MASTER: Final = bytes(range(32))
STORE: Final = "5707e000000000000000000000000001"
OTHER_STORE: Final = "5707e000000000000000000000000002"
SESSION: Final = names.session_id("nightly")
OTHER_SESSION: Final = names.session_id("weekly")
CREATED: Final = "2026-12-01T07:00:00.000000Z"
WRITER: Final = "lastgood 0.1.0"
SALT: Final = bytes(range(64, 96)).hex()
KINDS: Final = ("store", "session", "checkpoint", "manifest")

ABSENT: Final = object()
"""As a value for ``Draft.edited``: take the field away."""


def keyring(master: bytes = MASTER, *, store_id: str = STORE) -> Keyring:
    """A keyring of one primary key, ``master``."""
    secret = Secret(master)
    key = KeyEntry(kid=kid_of(secret), state="primary", created=CREATED, secret=secret)
    return Keyring(KeyFile(store=store_id, keys=(key,)))


@functools.cache
def sealer(session_id: str | None = SESSION, *, store_id: str = STORE) -> Sealer:
    """The keys of a session, or with None those of the store's own record."""
    directory = "" if session_id is None else names.directory(names.session_id(session_id))
    return keyring(store_id=store_id).sealer(directory)


def fingerprint(number: int) -> str:
    """A legal fingerprint, another for each ``number``."""
    return f"fx:v1:{number:064x}"


def store_record(*, store_id: str = STORE) -> store.StoreRecord:
    """What ``store.json`` says."""
    return store.StoreRecord(store=store_id, created=CREATED, writer=WRITER)


def session_record(session_id: str = SESSION, *, store_id: str = STORE) -> session.SessionRecord:
    """What ``session.json`` says, of a session with a log."""
    return session.SessionRecord(
        store=store_id,
        session=names.session_id(session_id),
        created=CREATED,
        writer=WRITER,
        program=session.Program(name="invoices", version="3"),
        salt=SALT,
        log="events",
    )


LOG_ANCHOR: Final = anchor.LogAnchor(
    count=110, segment=names.segment(1, 1), offset=51_234, head="c5" * 32
)

PAYLOAD: Final = checkpoint.encode_payload(
    checkpoint.Checkpoint(
        sequence=110,
        state={"paid": [7, 8.5, None, True], "naïve ☃ 😀": {"": "b before a"}, "a": -0.0},
        fingerprints=[fingerprint(2), fingerprint(1)],
    ),
    schema_version=1,
    open_effects=(
        checkpoint.OpenEffect(
            fingerprint=Fingerprint(fingerprint(3)),
            key="ab" * 32,
            effect_class="manual",
            sequence=109,
        ),
    ),
    log=LOG_ANCHOR,
    limits=Limits(),
)
"""The payload of a checkpoint in which no field is empty that may be filled."""


def checkpoint_record(
    session_id: str = SESSION, *, store_id: str = STORE, payload: bytes = PAYLOAD
) -> list[bytes]:
    """The checkpoint at sequence 110, sealed."""
    return checkpoint.encode(
        payload,
        store_id=store_id,
        session=session_id,
        epoch=3,
        sequence=110,
        previous=seal.Digest("d1" * 32),
        created=CREATED,
        writer=WRITER,
        sealer=sealer(session_id, store_id=store_id),
    )


def entry(sequence: int) -> manifest.Entry:
    """How a manifest names the checkpoint at ``sequence``."""
    digest = seal.Digest(hashlib.sha256(str(sequence).encode()).hexdigest())
    return manifest.Entry(sequence=sequence, digest=digest, schema_version=1, length=181)


def manifest_value() -> manifest.Manifest:
    """Revision 42, in which every field is filled."""
    return manifest.Manifest(
        epoch=3,
        revision=42,
        previous_manifest=seal.Digest("e2" * 32),
        created=CREATED,
        writer=WRITER,
        current=entry(110),
        previous=entry(100),
        milestones=(
            manifest.Milestone(entry(9), "before the audit"),
            manifest.Milestone(entry(10), ""),
        ),
        operations=("0a" * 16, "0b" * 16),
        log=LOG_ANCHOR,
        floor=anchor.LogAnchor(count=5, segment=names.segment(2, 1), offset=900, head="f0" * 32),
        notes=(manifest.Note(CREATED, "restore", "operator", "wrong price list", "from 90"),),
    )


def manifest_record(session_id: str = SESSION, *, store_id: str = STORE) -> list[bytes]:
    """``manifest_value``, sealed."""
    return manifest.encode(
        manifest_value(),
        store_id=store_id,
        session=session_id,
        sealer=sealer(session_id, store_id=store_id),
    )


def record(kind: str, session_id: str = SESSION, *, store_id: str = STORE) -> bytes:
    """The bytes of an honest record of ``kind``."""
    if kind == "store":
        parts = store.encode(
            store_record(store_id=store_id), sealer=sealer(None, store_id=store_id)
        )
    elif kind == "session":
        keys = sealer(session_id, store_id=store_id)
        parts = session.encode(session_record(session_id, store_id=store_id), sealer=keys)
    elif kind == "checkpoint":
        parts = checkpoint_record(session_id, store_id=store_id)
    else:
        parts = manifest_record(session_id, store_id=store_id)
    return b"".join(parts)


def context(kind: str, session_id: str = SESSION, *, store_id: str = STORE) -> seal.Context:
    """The only context in which ``record`` of the same arguments is legal."""
    where = {
        "store": "",
        "session": names.directory(names.session_id(session_id)),
        "checkpoint": session_id,
        "manifest": session_id,
    }
    return seal.Context(kind, store_id, where[kind])


def keys(kind: str, session_id: str = SESSION, *, store_id: str = STORE) -> Sealer:
    """The keys that seal a record of ``kind``."""
    return sealer(None if kind == "store" else session_id, store_id=store_id)


def file_name(kind: str) -> str:
    """The name of the file in which the honest record of ``kind`` lies."""
    numbered = {"checkpoint": names.checkpoint(110), "manifest": names.manifest(42)}
    return numbered.get(kind, f"{kind}.json")


def read(kind: str, data: bytes, *, limits: Limits | None = None) -> Any:
    """Authenticate and decode ``data`` as the honest record's reader does; all of its fields."""
    limits = Limits() if limits is None else limits
    name = file_name(kind)
    if kind == "store":
        return store.decode(data, store_id=STORE, sealer=keys(kind), limits=limits, name=name)
    if kind == "session":
        return session.decode(
            data,
            store_id=STORE,
            directory=names.directory(SESSION),
            sealer=keys(kind),
            limits=limits,
            name=name,
        )
    if kind == "manifest":
        return manifest.decode(
            data, store_id=STORE, session=SESSION, sealer=keys(kind), limits=limits, name=name
        )
    whole = seal.unseal(data, context=context(kind), sealer=keys(kind), limits=limits, name=name)
    header = checkpoint.decode_header(
        whole, store_id=STORE, session=SESSION, sequence=110, name=name
    )
    return header, checkpoint.decode_body(whole.payload, sequence=110, name=name)


def stream(
    kind: str, chunks: Iterator[bytes] | list[bytes], *, limits: Limits | None = None
) -> seal.Unsealed:
    """Authenticate ``chunks`` as the honest record's reader does, without holding them."""
    return seal.unseal_stream(
        chunks,
        context=context(kind),
        sealer=keys(kind),
        limits=Limits() if limits is None else limits,
        name=file_name(kind),
    )


@dataclass(frozen=True, slots=True)
class Draft:
    """A record taken apart, to be changed and sealed again.

    Attributes:
        kind: Its kind.
        header: All fields of its header; ``length`` and ``sha256`` follow the payload unless
            they were edited.
        payload: Its payload.
        pinned: Fields of the header that were edited.
    """

    kind: str
    header: dict[str, Any]
    payload: Any
    pinned: frozenset[str] = frozenset()

    def edited(self, path: str, value: object) -> Draft:
        """A copy in which the field at ``path`` is ``value``, or gone if that is ``ABSENT``.

        Args:
            path: ``header`` or ``payload``, then keys and indices, joined by dots.
            value: A field that is not there yet is added at the end.
        """
        whole = {"header": copy.deepcopy(self.header), "payload": copy.deepcopy(self.payload)}
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        place: Any = whole
        for step in steps:
            place = place[step]
        if value is ABSENT:
            del place[last]
        else:
            place[last] = value
        pinned = self.pinned | {str(last)} if steps == ["header"] else self.pinned
        return dataclasses.replace(
            self, header=whole["header"], payload=whole["payload"], pinned=pinned
        )

    def record(self) -> bytes:
        """The record, authentic in the honest record's context."""
        payload = canonical.encode(self.payload)
        actual = {"length": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        header = self.header | {k: v for k, v in actual.items() if k not in self.pinned}
        return forge(canonical.encode(header), payload, kind=self.kind)


def draft(kind: str) -> Draft:
    """The honest record of ``kind``, taken apart."""
    _, header, payload, _ = record(kind).split(b"\n")
    return Draft(kind, canonical.decode(header), canonical.decode(payload))


def header_line(payload: bytes, *, kind: str) -> bytes:
    """The honest header of ``kind``, with length and hash of ``payload``."""
    found = draft(kind).header
    sha256 = hashlib.sha256(payload).hexdigest()
    return canonical.encode(found | {"length": len(payload), "sha256": sha256})


def forge(
    header: bytes,
    payload: bytes,
    *,
    kind: str,
    version: str = "1",
    alg: str = "HS256",
    session_id: str = SESSION,
    store_id: str = STORE,
) -> bytes:
    """Seal two lines, whatever they are, for the honest context of ``kind``.

    Version and algorithm go into the seal line as they are given, and into the MAC where the
    format has them, so that a refusal is never only the MAC's.
    """
    where = context(kind, session_id, store_id=store_id)
    owner = keys(kind, session_id, store_id=store_id)
    items = ("lastgood/1/seal", kind, alg, owner.kid, where.store, where.session)
    message = pae_oracle(*(item.encode() for item in items), header)
    mac = hmac.new(owner.key(owner.kid, "mac", kind), message, hashlib.sha256).hexdigest()
    first = (
        f'{{"lastgood":{version},"kind":"{kind}","alg":"{alg}","kid":"{owner.kid}","mac":"{mac}"}}'
    )
    return b"\n".join([first.encode(), header, payload, b""])


def pae_oracle(*items: bytes) -> bytes:
    """Pre-authentication encoding, written from its definition alone."""
    parts = [struct.pack("<Q", len(items))]
    parts += [struct.pack("<Q", len(item)) + item for item in items]
    return b"".join(parts)
