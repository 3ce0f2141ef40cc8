r"""Every file name of a store, built and parsed in pairs; nobody else joins strings.

=================================  =====================================================
name                               what
=================================  =====================================================
``store.json``                     the store's own record, in the root
``<40 hex>``                       directory of one session, in the root
``session.json``                   the session's own record
``lock``                           never unlinked, its content never believed
``manifest.json``                  the pointer: newest manifest, for people and a fast start
``manifest-000042.json``           manifests by revision
``checkpoint-000110.json``         checkpoints by sequence
``events-000001-0001.jsonl``       log segments by first sequence and epoch
``fingerprints-<64 hex>``          immutable, named by their SHA-256
``blob-<64 hex>``                  immutable, named by their SHA-256
``archive``                        directory of milestones and older generations
``archive/checkpoint-000099.json`` a checkpoint that left lineage and is kept
``archive/fenced-<16 hex>-<name>`` a fenced writer's record that stood in our way
``archive/damaged-<16 hex>-<name>`` damaged bytes that would have been pruned
``.<name>.<16 hex>.tmp``           unpublished
=================================  =====================================================

Numbers have at least 6 digits (an epoch 4) and no more zeros than that takes: one number,
one name. The grammar is matched on ASCII bytes as a whole, because ``int()`` takes
``'١٢'``, ``'1_0'`` and ``' 7 '`` for numbers. What does not match is *foreign*: never
parsed, never deleted, listed by ``verify``. Order is numeric, never that of the text.

The directory of a session is named by the first 20 bytes of SHA-256(PAE("lastgood/1/session",
id)), so an id is data and never a path (C11-01).
"""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass
from typing import Final, NewType

from lastgood.errors import InvalidIdError, UsageError, printable
from lastgood.formats.canonical import pae
from lastgood.formats.limits import MAX_SEQUENCE

SessionId = NewType("SessionId", str)
Sequence = NewType("Sequence", int)

STORE: Final = "store.json"
SESSION: Final = "session.json"
LOCK: Final = "lock"
POINTER: Final = "manifest.json"
ARCHIVE: Final = "archive"

MAX_SESSION_ID_BYTES: Final = 512
TOKEN_BYTES: Final = 8
"""Random bytes in a temporary's or a fenced name."""


class Kind(enum.Enum):
    """What a name of the grammar stands for."""

    STORE = "store"
    SESSION = "session"
    LOCK = "lock"
    POINTER = "pointer"
    MANIFEST = "manifest"
    CHECKPOINT = "checkpoint"
    SEGMENT = "segment"
    FINGERPRINTS = "fingerprints"
    BLOB = "blob"
    ARCHIVE = "archive"
    TEMPORARY = "temporary"


@dataclass(frozen=True, slots=True)
class Parsed:
    """A name of the grammar.

    Attributes:
        number: Revision of a manifest, sequence of a checkpoint, first sequence of a segment.
        epoch: Epoch of a segment.
    """

    kind: Kind
    number: int = 0
    epoch: int = 0


_FIXED: Final = {
    STORE: Kind.STORE,
    SESSION: Kind.SESSION,
    LOCK: Kind.LOCK,
    POINTER: Kind.POINTER,
    ARCHIVE: Kind.ARCHIVE,
}
_NUMBER = rb"[0-9]{6}|[1-9][0-9]{6,15}"
_NUMBERED: Final = (
    (Kind.MANIFEST, re.compile(rb"manifest-(" + _NUMBER + rb")\.json")),
    (Kind.CHECKPOINT, re.compile(rb"checkpoint-(" + _NUMBER + rb")\.json")),
    (
        Kind.SEGMENT,
        re.compile(rb"events-(" + _NUMBER + rb")-([0-9]{4}|[1-9][0-9]{4,15})\.jsonl"),
    ),
)
_BY_CONTENT: Final = (
    (Kind.FINGERPRINTS, re.compile(rb"fingerprints-[0-9a-f]{64}")),
    (Kind.BLOB, re.compile(rb"blob-[0-9a-f]{64}")),
)
_TEMPORARY: Final = re.compile(rb"\.[a-z0-9][a-z0-9.-]{0,90}\.[0-9a-f]{16}\.tmp")
_SET_ASIDE: Final = re.compile(rb"(?:fenced|damaged)-[0-9a-f]{16}-([a-z0-9][a-z0-9.-]{0,90})")
_DIRECTORY: Final = re.compile(rb"[0-9a-f]{40}")
_OPERATION: Final = re.compile(rb"[0-9a-f]{32}")
_ILLEGAL_IN_ID: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def session_id(text: object) -> SessionId:
    """Return ``text`` as a session id.

    Raises:
        InvalidIdError: Not a string, empty, over 512 bytes of UTF-8, or with control
            characters or lone surrogates. Nothing was looked up.
    """
    if type(text) is not str:
        raise InvalidIdError(f"A session id is a string, not {printable(type(text).__name__)}")
    if not text:
        raise InvalidIdError("The session id is empty")
    if _ILLEGAL_IN_ID.search(text):
        raise InvalidIdError("The session id holds a control character or half a surrogate pair")
    size_bytes = len(text.encode())
    if size_bytes > MAX_SESSION_ID_BYTES:
        raise InvalidIdError(
            f"The session id has {size_bytes} bytes of UTF-8, more than {MAX_SESSION_ID_BYTES}"
        )
    return SessionId(text)


def is_text(text: str) -> bool:
    """Whether ``text`` is free of control characters and lone surrogates."""
    return _ILLEGAL_IN_ID.search(text) is None


def directory(session: SessionId) -> str:
    """The directory of ``session``: 40 hex characters."""
    return hashlib.sha256(pae("lastgood/1/session", session)).hexdigest()[:40]


def is_directory(name: str) -> bool:
    """Whether ``name``, found in a root, can be a session's directory."""
    return _DIRECTORY.fullmatch(_bytes(name)) is not None


def sequence(value: object, *, what: str = "sequence") -> Sequence:
    """Return ``value`` as a sequence.

    Raises:
        UsageError: Not exactly an int (``True`` and ``1.0`` are not), or not 1 to 10^15.
    """
    if type(value) is not int or not 1 <= value <= MAX_SEQUENCE:
        raise UsageError(f"A {what} is an int from 1 to 10^15, not {_shown(value)}")
    return Sequence(value)


def _shown(value: object) -> str:
    """A refused number, for the message; Python itself refuses to print one of 5,000 digits."""
    if type(value) is not int:
        return printable(type(value).__name__)
    return str(value) if abs(value) < 10**20 else "one of more than 20 digits"


def manifest(revision: int) -> str:
    """The name of the manifest of ``revision``."""
    return f"manifest-{revision:06d}.json"


def checkpoint(number: int) -> str:
    """The name of the checkpoint at sequence ``number``."""
    return f"checkpoint-{number:06d}.json"


def segment(first: int, epoch: int) -> str:
    """The name of the log segment that begins with event ``first`` and belongs to ``epoch``."""
    return f"events-{first:06d}-{epoch:04d}.jsonl"


def archived(name: str) -> str:
    """Where ``name`` lies once it is in the archive."""
    return f"{ARCHIVE}/{name}"


def fenced(name: str, token: bytes) -> str:
    """The archive's name for a fenced writer's ``name``; ``token`` is 8 bytes."""
    return f"fenced-{token.hex()}-{name}"


def damaged(name: str, token: bytes) -> str:
    """The archive's name for what stands damaged under ``name``; ``token`` is 8 bytes."""
    return f"damaged-{token.hex()}-{name}"


def is_set_aside(name: str) -> bool:
    """Whether ``name``, found in the archive, was set aside: fenced or damaged, never believed."""
    found = _SET_ASIDE.fullmatch(_bytes(name))
    return found is not None and parse(found[1].decode()) is not None


def operation(random: bytes) -> str:
    """The id of one change of a manifest; ``random`` is 16 bytes."""
    return random.hex()


def is_operation(text: str) -> bool:
    """Whether ``text`` can be the id of a change."""
    return _OPERATION.fullmatch(_bytes(text)) is not None


def temporary(name: str, random: bytes) -> str:
    """An unpublished name for what shall become ``name``; ``random`` is 8 bytes."""
    return f".{name}.{random.hex()}.tmp"


def is_temporary(name: str) -> bool:
    """Whether ``name`` is an unpublished one of ours."""
    return _TEMPORARY.fullmatch(_bytes(name)) is not None


def parse(name: str) -> Parsed | None:
    """What ``name`` stands for, or None if it is foreign."""
    if name in _FIXED:
        return Parsed(_FIXED[name])
    data = _bytes(name)
    for kind, pattern in _NUMBERED:
        if found := pattern.fullmatch(data):
            numbers = [int(digits) for digits in found.groups()]
            legal = min(numbers) >= 1 and max(numbers) <= MAX_SEQUENCE
            return Parsed(kind, *numbers) if legal else None
    for kind, pattern in _BY_CONTENT:
        if pattern.fullmatch(data):
            return Parsed(kind)
    return Parsed(Kind.TEMPORARY) if is_temporary(name) else None


def _bytes(name: str) -> bytes:
    """The bytes of a listed name; what is not ASCII becomes a byte that no pattern takes."""
    return name.encode("ascii", "replace")
