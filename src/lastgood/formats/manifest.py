r"""``manifest-<revision>.json`` and ``manifest.json``: which checkpoint is current.

Example::

    {"lastgood":1,"kind":"manifest","alg":"HS256","kid":"…","mac":"…"}
    {"format":1,"store":"…","session":"nightly","epoch":3,"revision":42,
     "previousManifest":"…64 hex","floor":null,"created":"2026-12-01T07:00:00.000000Z",
     "writer":"lastgood 0.1.0","length":512,"sha256":"…","encryption":null}
    {"current":{"name":"checkpoint-000110.json","sequence":110,"digest":"…","schemaVersion":1,
     "length":181},"previous":null,"milestones":[],"log":null,"operations":["…32 hex"],"notes":[]}

================  ===========  =============  ============================================
field             type         authenticated  meaning, limit
================  ===========  =============  ============================================
format            int          yes            1
store, session    hex, text    yes            as in every record
epoch             int          yes            the ownership that made this revision
revision          int          yes            1, 2, 3 …; equals the numbered name's
previousManifest  hex/null     yes            digest of revision - 1; null only for 1
floor             anchor/null  yes            where the kept log begins, if it was cut
created, writer   text         yes            information
length, sha256    int, hex     yes            of the payload
encryption        null         yes            reserved
current           entry/null   by sha256      the newest checkpoint; null before the first
previous          entry/null   by sha256      the generation before it
milestones        list         by sha256      entries with ``label`` (at most 200
                                              characters), ascending, at most 1,000
log               anchor/null  by sha256      end of the log that this owner knew durable
operations        list         by sha256      ids of the last 8 changes, 32 hex each, the
                                              newest last
notes             list         by sha256      what a person decided: at, type, actor,
                                              reason, data; at most 100
================  ===========  =============  ============================================

An entry is ``name, sequence, digest, schemaVersion, length`` (of the payload). Revisions
chain by ``previousManifest``, checkpoints by their own ``previous``.

Context: (manifest, store id, session id). Versions: 1. Golden file:
``tests/golden/manifest-v1.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lastgood.errors import DamagedError, LimitError, SplicedError
from lastgood.formats import anchor, canonical, names, seal
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.fields import Fields, check_given
from lastgood.formats.limits import MAX_SEQUENCE, Limits

KIND: Final = "manifest"
MAX_OPERATIONS: Final = 8
MAX_NOTES: Final = 100
MAX_LABEL_CHARS: Final = 200
_MAX_NOTE_CHARS: Final = 1_000
_HEADER: Final = (
    "format", "store", "session", "epoch", "revision", "previousManifest", "floor", "created",
    "writer", "length", "sha256", "encryption",
)  # fmt: skip
_PAYLOAD: Final = ("current", "previous", "milestones", "log", "operations", "notes")
_ENTRY: Final = ("name", "sequence", "digest", "schemaVersion", "length")
_NOTE: Final = ("at", "type", "actor", "reason", "data")


@dataclass(frozen=True, slots=True)
class Entry:
    """A checkpoint that a manifest names.

    Attributes:
        sequence: Its sequence; its file's name follows from it.
        digest: Its record's digest.
        schema_version: Of its state.
        length: Bytes of its payload.
    """

    sequence: int
    digest: seal.Digest
    schema_version: int
    length: int

    @property
    def name(self) -> str:
        """The checkpoint's file name."""
        return names.checkpoint(self.sequence)


@dataclass(frozen=True, slots=True)
class Milestone:
    """A checkpoint that is kept for good, under a label.

    Raises:
        UsageError: The label is not a text, or longer than 200 characters.
    """

    entry: Entry
    label: str

    def __post_init__(self) -> None:
        """Refuse what no reader would take."""
        check_given(self.label, limit_chars=MAX_LABEL_CHARS, what="label")


@dataclass(frozen=True, slots=True)
class Note:
    """What a person decided: a repair, a restore, an erasure.

    Raises:
        UsageError: One of its texts is not one, or longer than 1,000 characters.
    """

    at: str
    type: str
    actor: str
    reason: str
    data: str

    def __post_init__(self) -> None:
        """Refuse what no reader would take."""
        for text in (self.type, self.actor, self.reason, self.data):
            check_given(text, limit_chars=_MAX_NOTE_CHARS, what="note's text")


@dataclass(frozen=True, slots=True)
class Manifest:
    """One revision.

    Attributes:
        epoch: The ownership that made it.
        revision: Its number.
        previous_manifest: Digest of revision - 1; None only for revision 1.
        created: When, for people.
        writer: By what, for people.
        current: The newest checkpoint, or None before the first.
        previous: The generation before it.
        milestones: Ascending by sequence.
        operations: Ids of the last changes, the newest last.
        log: Where the owner knew the log's end.
        floor: Where the kept log begins.
        notes: Decisions of people.
        digest: The record's digest; None while it is not sealed.
    """

    epoch: int
    revision: int
    previous_manifest: seal.Digest | None
    created: str
    writer: str
    current: Entry | None
    previous: Entry | None
    milestones: tuple[Milestone, ...] = ()
    operations: tuple[str, ...] = ()
    log: LogAnchor | None = None
    floor: LogAnchor | None = None
    notes: tuple[Note, ...] = ()
    digest: seal.Digest | None = None

    def kept(self) -> tuple[Entry, ...]:
        """The checkpoints that it keeps: the generations, and the milestones."""
        named = (self.current, self.previous, *(m.entry for m in self.milestones))
        return tuple(entry for entry in named if entry is not None)

    def names_checkpoint(self, digest: seal.Digest) -> bool:
        """Whether this revision keeps the checkpoint of ``digest``."""
        return any(entry.digest == digest for entry in self.kept())

    def kept_sequences(self) -> frozenset[int]:
        """The sequences of all generations and milestones that it names."""
        return frozenset(entry.sequence for entry in self.kept())


def context(store_id: str, session: str) -> seal.Context:
    """The only context in which a manifest of ``session`` is legal."""
    return seal.Context(KIND, store_id, session)


def encode(manifest: Manifest, *, store_id: str, session: str, sealer: seal.Sealer) -> list[bytes]:
    """Seal ``manifest``; inverse of ``decode``.

    Raises:
        LimitError: Its revision or epoch is above the highest, which no reader would take.
    """
    if max(manifest.revision, manifest.epoch) > MAX_SEQUENCE:
        raise LimitError(
            f"The session has used all its {MAX_SEQUENCE} revisions",
            do="Go on under another session id; what is stored can still be loaded",
        )
    header = {
        "store": store_id,
        "session": session,
        "epoch": manifest.epoch,
        "revision": manifest.revision,
        "previousManifest": manifest.previous_manifest,
        "floor": anchor.encode(manifest.floor),
        "created": manifest.created,
        "writer": manifest.writer,
    }
    payload = {
        "current": _entry_json(manifest.current),
        "previous": _entry_json(manifest.previous),
        "milestones": [{**_fields(m.entry), "label": m.label} for m in manifest.milestones],
        "log": anchor.encode(manifest.log),
        "operations": list(manifest.operations),
        "notes": [
            {"at": n.at, "type": n.type, "actor": n.actor, "reason": n.reason, "data": n.data}
            for n in manifest.notes
        ],
    }
    data = canonical.encode(payload)
    return seal.seal(header, data, context=context(store_id, session), sealer=sealer)


def decode(
    data: bytes, *, store_id: str, session: str, sealer: seal.Sealer, limits: Limits, name: str
) -> Manifest:
    """Authenticate and read a manifest.

    Whether its revision is the one in a numbered name is for the caller to check: the
    pointer has no number.

    Raises:
        SplicedError: Intact, but of another session or store.
        DamagedError: The current checkpoint is not newer than the previous, a revision
            without predecessor that is not the first, milestones out of order.
        LastgoodError: Whatever ``seal.unseal`` and ``Fields`` raise.
    """
    where = context(store_id, session)
    whole = seal.unseal(data, context=where, sealer=sealer, limits=limits, name=name)
    header = Fields(whole.header, _HEADER, what="header", name=name)
    if header.hex("store", digits=32) != store_id or header.raw("session") != session:
        raise SplicedError("it is of another session or store", name=name)
    payload = Fields(
        canonical.decode(whole.payload, name=name), _PAYLOAD, what="payload", name=name
    )
    previous_manifest = header.optional_hex("previousManifest", digits=64)
    manifest = Manifest(
        epoch=header.integer("epoch", low=1),
        revision=header.integer("revision", low=1),
        previous_manifest=None if previous_manifest is None else seal.Digest(previous_manifest),
        created=header.time("created"),
        writer=header.text("writer", limit_chars=seal.MAX_WRITER_CHARS),
        current=_entry(payload.raw("current"), name=name),
        previous=_entry(payload.raw("previous"), name=name),
        milestones=tuple(
            _milestone(item, name=name)
            for item in payload.array("milestones", limit=limits.milestones)
        ),
        operations=_operations(payload.array("operations", limit=MAX_OPERATIONS), name=name),
        log=anchor.decode(payload.raw("log"), name=name),
        floor=anchor.decode(header.raw("floor"), name=name),
        notes=tuple(_note(item, name=name) for item in payload.array("notes", limit=MAX_NOTES)),
        digest=whole.digest,
    )
    _check_order(manifest, name=name)
    return manifest


def _check_order(manifest: Manifest, *, name: str) -> None:
    if (manifest.revision == 1) != (manifest.previous_manifest is None):
        raise DamagedError("its place in the chain of revisions is not legal", name=name)
    current, previous = manifest.current, manifest.previous
    if previous is not None and (current is None or previous.sequence >= current.sequence):
        raise DamagedError("its previous generation is not older than its current", name=name)
    sequences = [milestone.entry.sequence for milestone in manifest.milestones]
    if sequences != sorted(set(sequences)):
        raise DamagedError("its milestones are not in order", name=name)


def _entry_json(entry: Entry | None) -> JSON:
    return None if entry is None else _fields(entry)


def _fields(entry: Entry) -> dict[str, JSON]:
    return {
        "name": entry.name,
        "sequence": entry.sequence,
        "digest": entry.digest,
        "schemaVersion": entry.schema_version,
        "length": entry.length,
    }


def _entry(value: JSON, *, name: str) -> Entry | None:
    if value is None:
        return None
    return _read_entry(Fields(value, _ENTRY, what="entry", name=name))


def _milestone(value: JSON, *, name: str) -> Milestone:
    fields = Fields(value, (*_ENTRY, "label"), what="milestone", name=name)
    return Milestone(_read_entry(fields), fields.text("label", limit_chars=MAX_LABEL_CHARS))


def _read_entry(fields: Fields) -> Entry:
    entry = Entry(
        fields.integer("sequence", low=1),
        seal.Digest(fields.hex("digest", digits=64)),
        fields.integer("schemaVersion", low=1),
        fields.integer("length"),
    )
    fields.exactly("name", entry.name)
    return entry


def _operations(values: list[JSON], *, name: str) -> tuple[str, ...]:
    ids = tuple(value for value in values if type(value) is str and names.is_operation(value))
    if len(ids) != len(values):
        raise DamagedError("an operation id is not legal", name=name)
    return ids


def _note(value: JSON, *, name: str) -> Note:
    fields = Fields(value, _NOTE, what="note", name=name)
    return Note(
        fields.time("at"),
        *(fields.text(part, limit_chars=_MAX_NOTE_CHARS) for part in _NOTE[1:]),
    )
