"""What the event log says of side effects: five types of lastgood's own events (design 8).

====================  =========================================================================
``lastgood.intent``   an effect is about to be run; durable before it is
``lastgood.done``     it was done; holds its result and the caller's event, if there is one
``lastgood.raised``   its code raised: whether it was done is not known
``lastgood.not_done``  it definitely was not done
``lastgood.applied``  the caller's event of an effect that somebody else said was done
====================  =========================================================================

Examples of their ``data``::

    {"fingerprint":"fx:v1:…","key":"<64 hex>","class":"manual","kind":"pay","id":"invoice-7",
     "occurrence":0,"supersedes":null}
    {"fingerprint":"fx:v1:…","intent":12,"by":"program","actor":null,"reason":null,
     "result":{"receipt":"r-1"},"event":{"type":"paid","data":{"id":7}}}
    {"fingerprint":"fx:v1:…","intent":12,"error":"ConnectionResetError"}
    {"fingerprint":"fx:v1:…","intent":12,"by":"person","actor":"operator","reason":"not booked"}
    {"fingerprint":"fx:v1:…","done":14,"event":{"type":"paid","data":{"id":7}}}

===========  =========  ==========================================================================
field        type       meaning, limit
===========  =========  ==========================================================================
fingerprint  text       identity of the exact action, ``identity.Identity``
key          hex        digest of kind, id and occurrence: the same for other arguments
class        text       what is done if the outcome is unknown: idempotent, probe, manual
kind, id     text       what is done and which one, as the caller named them; 1 to 200, 500 chars
occurrence   int        which of several that are meant to be alike
supersedes   text/null  fingerprint of the action with this key that it stands in for
intent       int        sequence of the intent that this is the outcome of
done         int        sequence of the done that this event belongs to
by           text       who said so: program, probe, person
actor        text/null  of a person: who, 1 to 200 characters; else null
reason       text/null  of a person, or why it was not done; 1 to 2,000 characters
result       JSON       the caller's; what a later run is given in place of running it
event        null, or   the caller's event: its type and data; it goes through the reducer as
             object     the event of this line's sequence
error        text       name of the exception's type, at most 200 characters; never its text
===========  =========  ==========================================================================

All of it is authenticated by the line's MAC. Versions: 1. Golden file:
``tests/golden/effects-000001-0001-v1.jsonl``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from lastgood.errors import DamagedError, FingerprintError, UsageError
from lastgood.formats import canonical, event
from lastgood.formats.canonical import JSON
from lastgood.formats.event import MAX_TYPE_CHARS, Event, check_event_type
from lastgood.formats.fields import Fields, check_given
from lastgood.formats.fingerprint import Fingerprint, fingerprint
from lastgood.formats.identity import MAX_KEY_CHARS, MAX_KIND_CHARS
from lastgood.formats.names import is_text

EffectClass = Literal["idempotent", "probe", "manual"]
"""What is done about an intent without an outcome: run again, ask, or stop; in this order safer."""
CLASSES: Final[tuple[EffectClass, ...]] = ("idempotent", "probe", "manual")

By = Literal["program", "probe", "person"]
_BY: Final[tuple[By, ...]] = ("program", "probe", "person")

MAX_ACTOR_CHARS: Final = 200
MAX_REASON_CHARS: Final = 2_000
MAX_ERROR_CHARS: Final = 200

_INTENT: Final = ("fingerprint", "key", "class", "kind", "id", "occurrence", "supersedes")
_DONE: Final = ("fingerprint", "intent", "by", "actor", "reason", "result", "event")
_RAISED: Final = ("fingerprint", "intent", "error")
_NOT_DONE: Final = ("fingerprint", "intent", "by", "actor", "reason")
_APPLIED: Final = ("fingerprint", "done", "event")
_EVENT: Final = ("type", "data")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """An effect is about to be run; fields as in the table."""

    fingerprint: Fingerprint
    key: str
    effect_class: EffectClass
    kind: str
    id: str
    occurrence: int = 0
    supersedes: Fingerprint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """Who said what became of an effect.

    Attributes:
        by: The program that ran it, a probe, or a person.
        actor: Of a person: who.
        reason: Of a person, or why it was not done.

    Raises:
        UsageError: One of them is not what it must be.
    """

    by: By = "program"
    actor: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        """A person has a name and a reason."""
        for text, limit_chars, what in (
            (self.actor, MAX_ACTOR_CHARS, "actor"),
            (self.reason, MAX_REASON_CHARS, "reason"),
        ):
            if text is not None:
                check_given(text, limit_chars=limit_chars, what=what)
        if self.by not in _BY or (self.actor is None) is (self.by == "person"):
            raise UsageError("A decision is the program's, a probe's, or a person's with a name")
        if self.by == "person" and not (self.actor and self.reason):
            raise UsageError("A decision of a person has an actor and a reason")
        if not is_text(self.actor or ""):
            raise UsageError("An actor is a text without control characters")


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """It was done; fields as in the table."""

    fingerprint: Fingerprint
    intent: int
    word: Word
    result: JSON
    event: tuple[str, JSON] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Its code raised; fields as in the table."""

    fingerprint: Fingerprint
    intent: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotDone:
    """It definitely was not done; fields as in the table."""

    fingerprint: Fingerprint
    intent: int
    word: Word


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The caller's event of an effect that is done already; fields as in the table."""

    fingerprint: Fingerprint
    done: int
    event: tuple[str, JSON]


Record = Intent | Done | Raised | NotDone | Applied

TYPES: Final = frozenset({event.INTENT, event.DONE, event.RAISED, event.NOT_DONE, event.APPLIED})
"""The types of events that ``decode`` reads."""


def encode(record: Record) -> tuple[str, JSON]:
    """The type and the data of the event that says so; inverse of ``decode``."""
    match record:
        case Intent():
            return event.INTENT, {
                "fingerprint": record.fingerprint,
                "key": record.key,
                "class": record.effect_class,
                "kind": record.kind,
                "id": record.id,
                "occurrence": record.occurrence,
                "supersedes": record.supersedes,
            }
        case Done():
            return event.DONE, {
                "fingerprint": record.fingerprint,
                "intent": record.intent,
                **_word(record.word),
                "result": record.result,
                "event": None if record.event is None else _pair(record.event),
            }
        case Raised():
            return event.RAISED, {
                "fingerprint": record.fingerprint,
                "intent": record.intent,
                "error": record.error,
            }
        case NotDone():
            return event.NOT_DONE, {
                "fingerprint": record.fingerprint,
                "intent": record.intent,
                **_word(record.word),
            }
        case Applied():
            return event.APPLIED, {
                "fingerprint": record.fingerprint,
                "done": record.done,
                "event": _pair(record.event),
            }


def read_class(fields: Fields) -> EffectClass:
    """The field ``class``.

    Raises:
        DamagedError: It is none.
    """
    named = fields.text("class", limit_chars=20)
    for known in CLASSES:
        if named == known:
            return known
    raise fields.wrong("class")


def is_same(one: Record, other: Record) -> bool:
    """Whether two records are stored as the same bytes: ``True`` is not ``1``."""
    (kind, data), (other_kind, other_data) = encode(one), encode(other)
    return kind == other_kind and canonical.encode(data) == canonical.encode(other_data)


def decode(stored: Event) -> Record:
    """What an authenticated event says of an effect; its type is one of ``TYPES``.

    Raises:
        UnknownFormatError: Its fields are not the known ones.
        DamagedError: One of them is not legal.
    """
    name = f"event {stored.sequence}"
    try:
        match stored.type:
            case event.INTENT:
                return _intent(_Reading(stored, _INTENT))
            case event.DONE:
                return _done(_Reading(stored, _DONE))
            case event.RAISED:
                return _raised(_Reading(stored, _RAISED))
            case event.NOT_DONE:
                return _not_done(_Reading(stored, _NOT_DONE))
            case _:
                return _applied(_Reading(stored, _APPLIED))
    except (FingerprintError, UsageError) as error:
        raise DamagedError("what it says of an effect is not legal", name=name) from error


def event_within(stored: Event) -> Event | None:
    """The caller's event that goes through the reducer for this line; None: there is none."""
    if not stored.is_ours:
        return stored
    if stored.type not in (event.DONE, event.APPLIED) or stored.data["event"] is None:
        return None
    inner = stored.data["event"]
    return replace(stored, type=inner["type"], data=inner["data"])


class _Reading(Fields):
    """The data of one event."""

    def __init__(self, stored: Event, names: tuple[str, ...]) -> None:
        super().__init__(
            stored.data, names, what=f"{stored.type} data", name=f"event {stored.sequence}"
        )
        self.sequence = stored.sequence

    def fingerprint(self, field: str = "fingerprint") -> Fingerprint:
        return fingerprint(self.raw(field))

    def before(self, field: str) -> int:
        """The sequence of an earlier event."""
        return self.integer(field, low=1, high=self.sequence - 1)

    def optional_text(self, field: str) -> str | None:
        return None if self.raw(field) is None else self.text(field, limit_chars=MAX_REASON_CHARS)

    def word(self) -> Word:
        by = self.text("by", limit_chars=20)
        for known in _BY:
            if by == known:
                return Word(
                    by=known,
                    actor=self.optional_text("actor"),
                    reason=self.optional_text("reason"),
                )
        raise self.wrong("by")

    def pair(self) -> tuple[str, JSON] | None:
        if self.raw("event") is None:
            return None
        fields = Fields(self.raw("event"), _EVENT, what="event", name=self._name)
        kind = fields.text("type", limit_chars=MAX_TYPE_CHARS)
        return check_event_type(kind), fields.raw("data")


def _intent(fields: _Reading) -> Intent:
    old = fields.raw("supersedes")
    return Intent(
        fingerprint=fields.fingerprint(),
        key=fields.hex("key", digits=64),
        effect_class=read_class(fields),
        kind=fields.text("kind", limit_chars=MAX_KIND_CHARS),
        id=fields.text("id", limit_chars=MAX_KEY_CHARS),
        occurrence=fields.integer("occurrence"),
        supersedes=None if old is None else fields.fingerprint("supersedes"),
    )


def _done(fields: _Reading) -> Done:
    return Done(
        fingerprint=fields.fingerprint(),
        intent=fields.before("intent"),
        word=fields.word(),
        result=fields.raw("result"),
        event=fields.pair(),
    )


def _raised(fields: _Reading) -> Raised:
    return Raised(
        fingerprint=fields.fingerprint(),
        intent=fields.before("intent"),
        error=fields.text("error", limit_chars=MAX_ERROR_CHARS),
    )


def _not_done(fields: _Reading) -> NotDone:
    return NotDone(
        fingerprint=fields.fingerprint(), intent=fields.before("intent"), word=fields.word()
    )


def _applied(fields: _Reading) -> Applied:
    pair = fields.pair()
    if pair is None:
        raise UsageError("Without an event nothing is applied")
    return Applied(fingerprint=fields.fingerprint(), done=fields.before("done"), event=pair)


def _word(word: Word) -> dict[str, JSON]:
    return {"by": word.by, "actor": word.actor, "reason": word.reason}


def _pair(pair: tuple[str, JSON]) -> dict[str, JSON]:
    return {"type": pair[0], "data": pair[1]}
