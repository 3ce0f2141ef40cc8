r"""One line of the event log, the source of truth.

Example, one line::

    {"mac":"<64 hex>","kid":"<32 hex>","e":{"seq":5,"prev":"<64 hex>","synced":4,"epoch":2,
     "at":"2026-12-01T07:00:00.000000Z","type":"paid","data":{"id":7}}}

======  ====  =============  ===============================================================
field   type  authenticated  meaning, limit
======  ====  =============  ===============================================================
mac     hex   is it          HMAC-SHA256 over PAE("lastgood/1/event", kid, store id, session
                             id, bytes of ``e``); the *head* of the log at this event
kid     hex   yes            which master key
seq     int   yes            number of the event: 1, 2, 3 …
prev    hex   yes            mac of the event before it, 64 zeros for the first: the chain
synced  int   yes            highest sequence known to be durable when this was written
epoch   int   yes            ownership that wrote it; its segment's
at      time  yes            information
type    text  yes            1 to 200 characters; those that begin with ``lastgood.`` are ours
data    JSON  yes            the caller's, at most ``Limits.event_bytes`` with all the rest
======  ====  =============  ===============================================================

One HMAC a line authenticates and chains. A line has exactly one legal byte form, is verified
before it is parsed, ends in one line feed, and never contains another or a NUL (JSON escapes
both), so lines are split by byte 0x0A alone (C10-01) and zeros are never part of one.

Versions: 1. Golden file: ``tests/golden/events-000001-0001-v1.jsonl``.
"""

from __future__ import annotations

import hmac
import re
from dataclasses import dataclass
from typing import Final

from lastgood.errors import (
    DamagedError,
    KeyMismatchError,
    LimitError,
    UnknownFormatError,
    UsageError,
    printable,
)
from lastgood.formats import canonical, state
from lastgood.formats.canonical import JSON
from lastgood.formats.fields import Fields, check_given
from lastgood.formats.limits import Limits
from lastgood.formats.names import is_text
from lastgood.formats.seal import Sealer

BEGINNING: Final = b'{"mac":"'
"""How every line begins; in JSON text it stands nowhere but at such a beginning of an object."""
MAX_TYPE_CHARS: Final = 200

OURS: Final = "lastgood."
SEGMENT: Final = "lastgood.segment"
CLOSED: Final = "lastgood.closed"
RESUMED: Final = "lastgood.resumed"
MIGRATED: Final = "lastgood.migrated"
REPAIRED: Final = "lastgood.repaired"
TRIMMED: Final = "lastgood.trimmed"
FINGERPRINTS: Final = "lastgood.fingerprints"
INTENT: Final = "lastgood.intent"
DONE: Final = "lastgood.done"
RAISED: Final = "lastgood.raised"
NOT_DONE: Final = "lastgood.not_done"
APPLIED: Final = "lastgood.applied"
KNOWN: Final = frozenset(
    {
        SEGMENT, CLOSED, RESUMED, MIGRATED, REPAIRED, TRIMMED, FINGERPRINTS,
        INTENT, DONE, RAISED, NOT_DONE, APPLIED,
    }
)  # fmt: skip
"""Types of ours:

* ``segment``: first line of a segment; data: the log anchor of the end before it
* ``closed``: the owner gave the session back; data null
* ``resumed``: what an opening found and decided (R8)
* ``migrated``: the state came to a newer schema (R5); data: from, to, sequence
* ``repaired``: what a person decided about damage; data: repair, actor, reason, details
* ``trimmed``: older segments go; data: names, their lengths, first kept sequence, head there,
  Merkle root, whether copies are kept, and who decided why
* ``fingerprints``: side effects that are done; data: the list of their fingerprints
* ``intent``, ``done``, ``raised``, ``not_done``, ``applied``: of one side effect; ``effect``
  says what their data hold
"""

_PURPOSE: Final = "event"
_HEAD: Final = re.compile(rb'\{"mac":"([0-9a-f]{64})","kid":"([0-9a-f]{32})","e":')
_FIELDS: Final = ("seq", "prev", "synced", "epoch", "at", "type", "data")


@dataclass(frozen=True, slots=True)
class Event:
    """What one line says.

    Attributes:
        sequence: Its number.
        previous: MAC of the line before it.
        synced: Highest sequence known to be durable when it was written.
        epoch: The ownership that wrote it.
        at: When, for people.
        type: The caller's, or one of ours.
        data: The caller's.
    """

    sequence: int
    previous: str
    synced: int
    epoch: int
    at: str
    type: str
    data: JSON

    @property
    def is_ours(self) -> bool:
        """Whether lastgood wrote it for itself; a reducer never sees it."""
        return self.type.startswith(OURS)


@dataclass(frozen=True, slots=True)
class Line:
    """An authenticated line.

    Attributes:
        event: What it says.
        mac: The head of the log here.
        kid: The key that made it.
    """

    event: Event
    mac: str
    kid: str


class EventKeys:
    """The keys of one session's log, with what the MAC covers beside the event.

    May be used by several threads.

    Args:
        sealer: The session's keys.
        store_id: The caller's, never the file's (T5).
        session: The caller's.
    """

    __slots__ = ("_covered", "_sealer", "_session", "_store_id")

    def __init__(self, sealer: Sealer, *, store_id: str, session: str) -> None:
        self._sealer = sealer
        self._store_id = store_id
        self._session = session
        self._covered: dict[str, tuple[bytes, bytes]] = {}

    @property
    def kid(self) -> str:
        """The key of new lines."""
        return self._sealer.kid

    def mac(self, kid: str, body: bytes) -> bytes:
        """The MAC of ``body``, the bytes of ``e``.

        Raises:
            KeyMismatchError: No such key.
            KeyRevokedError, KeyMissingError: It may not, or cannot, verify.
        """
        if kid not in self._covered:
            key = self._sealer.key(kid, _PURPOSE, _PURPOSE)
            whole = canonical.pae("lastgood/1/event", kid, self._store_id, self._session, b"")
            self._covered[kid] = key, whole[:-8]  # without the length of the empty body
        key, covered = self._covered[kid]
        return hmac.digest(key, covered + len(body).to_bytes(8, "little") + body, "sha256")


def check_event_type(text: object) -> str:
    """Return ``text`` if a caller may use it as an event's type.

    Raises:
        UsageError: Not a string of 1 to 200 characters, with control characters, or ours.
    """
    check_given(text, limit_chars=MAX_TYPE_CHARS, what="event type")
    name = str(text)
    if not name or not is_text(name):
        raise UsageError("An event type is a text of 1 to 200 characters, none of them control")
    if name.startswith(OURS):
        raise UsageError(f"Event types that begin with {OURS} are lastgood's own")
    return name


def encode(event: Event, *, keys: EventKeys, limits: Limits) -> tuple[bytes, str]:
    """Make the line of ``event``, with its line feed; returns it and its MAC.

    Raises:
        StateError: The data would not come back as it is; has its JSON path.
        LimitError: The line is longer than ``limits.event_bytes``, or nested too deep.
    """
    body = state.encode_with_data(
        {
            "seq": event.sequence,
            "prev": event.previous,
            "synced": event.synced,
            "epoch": event.epoch,
            "at": event.at,
            "type": event.type,
            "data": event.data,
        },
        limits=limits,
    )
    mac = keys.mac(keys.kid, body).hex()
    line = b'%b%b","kid":"%b","e":%b}\n' % (BEGINNING, mac.encode(), keys.kid.encode(), body)
    if len(line) > limits.event_bytes:
        raise LimitError(f"The event's line has {len(line)} bytes, more than {limits.event_bytes}")
    return line, mac


def authenticate(line: bytes, *, keys: EventKeys, name: str) -> tuple[str, str, bytes]:
    """Verify ``line``, without its line feed; returns its MAC, its kid and the bytes of ``e``.

    Raises:
        DamagedError: It does not verify. A key id that the session's own record does not have
            is damage, not a wrong key: ``session.json`` was verified before (T6).
        KeyRevokedError, KeyMissingError: The key may not, or cannot, verify.
    """
    found = _HEAD.match(line)
    if found is None or line[-1:] != b"}":
        raise DamagedError("the line is not one of an event log", name=name)
    body = line[found.end() : -1]
    kid = found[2].decode()
    try:
        expected = keys.mac(kid, body)
    except KeyMismatchError as error:
        raise DamagedError("a key id that the session does not have", name=name) from error
    if not hmac.compare_digest(expected.hex().encode(), found[1]):
        raise DamagedError("the line does not verify", name=name)
    return found[1].decode(), kid, body


def decode(line: bytes, *, keys: EventKeys, name: str) -> Line:
    """Verify and read ``line``, without its line feed.

    Raises:
        DamagedError: It does not verify, or is not canonical.
        UnknownFormatError: A field or a type of ours is not known here.
    """
    mac, kid, body = authenticate(line, keys=keys, name=name)
    return Line(read_body(body, name=name), mac, kid)


def read_body(body: bytes, *, name: str) -> Event:
    """Read the authenticated bytes of ``e``; raises as ``decode``."""
    fields = Fields(canonical.decode(body, name=name), _FIELDS, what="event", name=name)
    event = Event(
        sequence=fields.integer("seq", low=1),
        previous=fields.hex("prev", digits=64),
        synced=fields.integer("synced"),
        epoch=fields.integer("epoch", low=1),
        at=fields.time("at"),
        type=fields.text("type", limit_chars=MAX_TYPE_CHARS),
        data=fields.raw("data"),
    )
    if event.synced >= event.sequence:
        raise DamagedError("an event says that it was durable before it was written", name=name)
    if event.is_ours and event.type not in KNOWN:
        raise UnknownFormatError(
            f"{printable(name)}: event {event.sequence} is of the type {printable(event.type)}, "
            "which is not known here"
        )
    return event
