r"""``checkpoint-<sequence>.json``: state, fingerprints and log anchor at one sequence.

Example::

    {"lastgood":1,"kind":"checkpoint","alg":"HS256","kid":"…","mac":"…"}
    {"format":1,"store":"…","session":"nightly","epoch":3,"sequence":110,"previous":"…64 hex",
     "created":"2026-12-01T07:00:00.000000Z","writer":"lastgood 0.1.0","length":181,
     "sha256":"…","encryption":null}
    {"schemaVersion":1,"sequence":110,"state":{"paid":[7]},"sideEffectFingerprints":["fx:v1:…"],
     "fingerprintSegments":[],"openEffects":[],"blobs":[],"log":null}

======================  =========  =============  =======================================
field                   type       authenticated  meaning, limit
======================  =========  =============  =======================================
format                  int        yes            1
store                   hex        yes            store id
session                 text       yes            session id
epoch                   int        yes            ownership under which it was written
sequence                int        yes            1 to 10^15; equals the name's
previous                hex/null   yes            digest of the checkpoint before it
created, writer         text       yes            information
length, sha256          int, hex   yes            of the payload
encryption              null       yes            reserved
schemaVersion           int        by sha256      the caller's, 1 to 10^15
sequence                int        by sha256      the same again, inside what is encrypted
state                   JSON       by sha256      the caller's, keys in the caller's order
sideEffectFingerprints  list       by sha256      no duplicates, in the order of the log
fingerprintSegments     list       by sha256      reserved, empty
openEffects             list       by sha256      intents without done at this sequence:
                                                  fingerprint, key (digest, 64 hex), class
                                                  (idempotent, probe, manual), sequence
blobs                   list       by sha256      reserved, empty
log                     object     by sha256      log anchor, or null
======================  =========  =============  =======================================

Context: (checkpoint, store id, session id). Versions: 1. Golden file:
``tests/golden/checkpoint-v1.json``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from lastgood.errors import DamagedError, FingerprintError, SplicedError
from lastgood.formats import anchor, canonical, names, seal, state
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.effect import EffectClass, read_class
from lastgood.formats.fields import Fields
from lastgood.formats.fingerprint import Fingerprint, fingerprint, fingerprints
from lastgood.formats.limits import Limits

KIND: Final = "checkpoint"
MAX_OPEN_EFFECTS: Final = 100_000
_HEADER: Final = (
    "format", "store", "session", "epoch", "sequence", "previous", "created", "writer",
    "length", "sha256", "encryption",
)  # fmt: skip
_PAYLOAD: Final = (
    "schemaVersion", "sequence", "state", "sideEffectFingerprints", "fingerprintSegments",
    "openEffects", "blobs", "log",
)  # fmt: skip
_EFFECT: Final = ("fingerprint", "key", "class", "sequence")


@dataclass(frozen=True, slots=True)
class OpenEffect:
    """An effect that was intended and not finished at the checkpoint's sequence."""

    fingerprint: Fingerprint
    key: str
    effect_class: EffectClass
    sequence: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """State and fingerprints at one sequence.

    The fingerprints are copied and checked when it is made; the state is the caller's
    object until ``save`` takes its snapshot.

    Attributes:
        sequence: 1 to 10^15, exactly an int.
        state: Plain JSON data.
        fingerprints: Side effects that are done, each once, in the order of their doing.
        schema_version: Version of the state's shape; None stands for the store's.

    Raises:
        UsageError: The sequence or the schema version is not an int in range.
        FingerprintError: A fingerprint is malformed or stands there twice.
    """

    sequence: int
    state: JSON = field(repr=False)
    fingerprints: Sequence[str] = ()
    schema_version: int | None = None
    known: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check, and take copies of what the caller may go on changing."""
        names.sequence(self.sequence)
        if self.schema_version is not None:
            names.sequence(self.schema_version, what="schema version")
        own = fingerprints(self.fingerprints)
        object.__setattr__(self, "fingerprints", own)
        object.__setattr__(self, "known", frozenset(own))


@dataclass(frozen=True, slots=True)
class CheckpointHeader:
    """What a checkpoint's header says, authenticated.

    Attributes:
        sequence: Its sequence.
        epoch: The ownership that wrote it.
        previous: Digest of the checkpoint before it, or None.
        created: When, for people.
        writer: By what, for people.
        length: Bytes of its payload.
        sha256: Of its payload.
        digest: The record's digest.
        kid: The key that sealed it.
        size_bytes: Size of its file.
    """

    sequence: int
    epoch: int
    previous: seal.Digest | None
    created: str
    writer: str
    length: int
    sha256: str
    digest: seal.Digest
    kid: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Body:
    """What a checkpoint's payload says beside the caller's part."""

    checkpoint: Checkpoint
    open_effects: tuple[OpenEffect, ...]
    log: LogAnchor | None


def context(store_id: str, session: str) -> seal.Context:
    """The only context in which a checkpoint of ``session`` is legal."""
    return seal.Context(KIND, store_id, session)


def encode_payload(
    checkpoint: Checkpoint,
    *,
    schema_version: int,
    open_effects: tuple[OpenEffect, ...] = (),
    log: LogAnchor | None = None,
    limits: Limits,
) -> bytes:
    """Take the snapshot (S2): validate, prove fidelity, serialise, check limits.

    Raises:
        StateError: The state would not come back as it is; has the JSON path.
        LimitError: Too large or too deep.
    """
    payload = {
        "schemaVersion": schema_version,
        "sequence": checkpoint.sequence,
        "state": checkpoint.state,
        "sideEffectFingerprints": list(checkpoint.fingerprints),
        "fingerprintSegments": [],
        "openEffects": [
            {
                "fingerprint": effect.fingerprint,
                "key": effect.key,
                "class": effect.effect_class,
                "sequence": effect.sequence,
            }
            for effect in open_effects
        ],
        "blobs": [],
        "log": anchor.encode(log),
    }
    return state.encode_with_state(payload, limits=limits)


def encode(
    payload: bytes,
    *,
    store_id: str,
    session: str,
    epoch: int,
    sequence: int,
    previous: seal.Digest | None,
    created: str,
    writer: str,
    sealer: seal.Sealer,
) -> list[bytes]:
    """Seal a payload that ``encode_payload`` made (S3)."""
    header = {
        "store": store_id,
        "session": session,
        "epoch": epoch,
        "sequence": sequence,
        "previous": previous,
        "created": created,
        "writer": writer,
    }
    return seal.seal(header, payload, context=context(store_id, session), sealer=sealer)


def decode_header(
    record: seal.Unsealed, *, store_id: str, session: str, sequence: int, name: str
) -> CheckpointHeader:
    """Read an authenticated header.

    Args:
        record: What ``seal`` authenticated.
        store_id: The caller's.
        session: The caller's.
        sequence: The number in the file's name.
        name: The file, for messages.

    Raises:
        SplicedError: It is intact, but of another sequence, session or store.
        UnknownFormatError, DamagedError: Its fields are not the known ones.
    """
    fields = Fields(record.header, _HEADER, what="header", name=name)
    found = fields.integer("sequence", low=1)
    if found != sequence:
        raise SplicedError(f"it is the checkpoint of sequence {found}", name=name)
    if fields.hex("store", digits=32) != store_id or fields.raw("session") != session:
        raise SplicedError("it is of another session or store", name=name)
    previous = fields.optional_hex("previous", digits=64)
    return CheckpointHeader(
        sequence=found,
        epoch=fields.integer("epoch", low=1),
        previous=None if previous is None else seal.Digest(previous),
        created=fields.time("created"),
        writer=fields.text("writer", limit_chars=seal.MAX_WRITER_CHARS),
        length=record.header["length"],
        sha256=record.header["sha256"],
        digest=record.digest,
        kid=record.kid,
        size_bytes=record.size_bytes,
    )


def decode_body(payload: bytes, *, sequence: int, name: str) -> Body:
    """Read an authenticated payload; the caller judges its schema version.

    Raises:
        SplicedError: Its sequence is not the header's.
        UnknownFormatError, DamagedError: Its fields are not the known ones.
    """
    fields = Fields(canonical.decode(payload, name=name), _PAYLOAD, what="payload", name=name)
    if fields.integer("sequence", low=1) != sequence:
        raise SplicedError("header and payload are of different sequences", name=name)
    fields.empty("fingerprintSegments")
    fields.empty("blobs")
    effects = fields.array("openEffects", limit=MAX_OPEN_EFFECTS)
    try:
        checkpoint = Checkpoint(
            sequence,
            fields.raw("state"),
            fields.array("sideEffectFingerprints", limit=len(payload)),
            fields.integer("schemaVersion", low=1),
        )
        open_effects = tuple(_open_effect(item, name=name) for item in effects)
    except FingerprintError as error:
        raise DamagedError("its fingerprints are not legal", name=name) from error
    return Body(checkpoint, open_effects, anchor.decode(fields.raw("log"), name=name))


def _open_effect(value: JSON, *, name: str) -> OpenEffect:
    fields = Fields(value, _EFFECT, what="open effect", name=name)
    return OpenEffect(
        fingerprint(fields.raw("fingerprint")),
        fields.hex("key", digits=64),
        read_class(fields),
        fields.integer("sequence", low=1),
    )
