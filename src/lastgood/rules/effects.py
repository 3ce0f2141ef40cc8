"""What became of each effect, as the log tells it event by event.

::

    intent ──> done                      known: never run again
       │ └───> not_done                  closed: may be intended anew
       └─────> raised, or nothing        open: nobody knows; the class decides, or a person

A history that no run writes stops: an outcome without its intent, a second intent or outcome, a key
with another action that does not say which one it stands in for (C8-10). It was sealed with our
key, so one of the two is not what this session did, and nobody can tell which.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lastgood.errors import DamagedError
from lastgood.formats import effect, event
from lastgood.formats.canonical import JSON
from lastgood.formats.checkpoint import OpenEffect
from lastgood.formats.effect import Applied, Done, Intent, NotDone, Raised
from lastgood.formats.event import Event
from lastgood.formats.fingerprint import Fingerprint, fingerprints


@dataclass(slots=True)
class Effects:
    """The effects of a session, up to an event.

    Attributes:
        known: Those that are done, in the order of the log, with the sequence of the event that
            says so; 0: it is at or below the checkpoint that was started from.
        open: Intents without an outcome, in the order of the log.
        keys: The newest action of each key that was intended behind that checkpoint, or is open.
        unapplied: Of the done ones, those whose event the caller still owes: a person said so.
        applied: Those whose event was owed, and came.
    """

    known: dict[Fingerprint, int] = field(default_factory=dict)
    open: dict[Fingerprint, OpenEffect] = field(default_factory=dict)
    keys: dict[str, Fingerprint] = field(default_factory=dict)
    unapplied: set[Fingerprint] = field(default_factory=set)
    applied: set[Fingerprint] = field(default_factory=set)

    @classmethod
    def at(cls, done: Iterable[str], open_effects: Iterable[OpenEffect]) -> Effects:
        """Those that a checkpoint lists."""
        found = {one.fingerprint: one for one in open_effects}
        keys = {one.key: one.fingerprint for one in found.values()}
        return cls({Fingerprint(text): 0 for text in done}, found, keys)

    def follow(self, stored: Event) -> Event | None:
        """Take in one event of the log; returns what of it goes through the reducer.

        Raises:
            DamagedError: The event cannot be what this session did.
        """
        if stored.type == event.FINGERPRINTS:
            self._learn(stored.data, stored.sequence)
        elif stored.type in effect.TYPES:
            self._record(effect.decode(stored), stored.sequence)
        return effect.event_within(stored)

    def _learn(self, given: JSON, sequence: int) -> None:
        """The caller says that these are done."""
        for text in fingerprints(given):
            self.known.setdefault(text, sequence)
            self.open.pop(text, None)

    def _record(self, record: effect.Record, sequence: int) -> None:
        match record:
            case Intent():
                self._intend(record, sequence)
            case Done():
                self._close(record, sequence)
                self.known[record.fingerprint] = sequence
                if record.word.by == "person" and record.event is None:
                    self.unapplied.add(record.fingerprint)
            case NotDone():
                self._close(record, sequence)
            case Raised():
                self._opened(record, sequence)
            case Applied():
                self._apply(record, sequence)

    def _intend(self, intent: Intent, sequence: int) -> None:
        this = f"event {sequence} intends an effect"
        before = self.open.get(intent.fingerprint)
        if before is not None:
            raise _damaged(f"{this} that event {before.sequence} intends already", sequence)
        if intent.fingerprint in self.known:
            raise _damaged(f"{this} that {_event(self.known[intent.fingerprint])} did", sequence)
        holder = self.keys.get(intent.key, intent.fingerprint)
        if holder not in (intent.fingerprint, intent.supersedes):
            raise _damaged(f"{this} whose key belongs to another one", sequence)
        if intent.supersedes in self.open:
            raise _damaged(f"{this} in place of one whose outcome is open", sequence)
        self.open[intent.fingerprint] = OpenEffect(
            intent.fingerprint, intent.key, intent.effect_class, sequence
        )
        self.keys[intent.key] = intent.fingerprint

    def _opened(self, record: Done | NotDone | Raised, sequence: int) -> OpenEffect:
        """The intent that ``record`` is the outcome of."""
        this = f"event {sequence} tells the outcome of an effect"
        if record.fingerprint in self.known:
            raise _damaged(f"{this} that {_event(self.known[record.fingerprint])} did", sequence)
        intent = self.open.get(record.fingerprint)
        if intent is None:
            raise _damaged(f"{this} that nobody intended", sequence)
        if intent.sequence != record.intent:
            what = f"{this} as of event {record.intent}, but event {intent.sequence} intends it"
            raise _damaged(what, sequence)
        return intent

    def _close(self, record: Done | NotDone, sequence: int) -> None:
        del self.open[self._opened(record, sequence).fingerprint]

    def _apply(self, record: Applied, sequence: int) -> None:
        this = f"event {sequence} applies the event of an effect"
        done = self.known.get(record.fingerprint)
        if done is None or done not in (0, record.done):
            raise _damaged(f"{this} that event {record.done} did not do", sequence)
        is_owed = record.fingerprint in self.unapplied if done else True
        if record.fingerprint in self.applied or not is_owed:
            raise _damaged(f"{this} that has been applied since {_event(done)}", sequence)
        self.unapplied.discard(record.fingerprint)
        self.applied.add(record.fingerprint)


def _event(sequence: int) -> str:
    return f"event {sequence}" if sequence else "an event before the checkpoint"


def _damaged(what: str, sequence: int) -> DamagedError:
    return DamagedError(what, name=f"event {sequence}")
