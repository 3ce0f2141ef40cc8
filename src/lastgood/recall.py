"""What the log says of effects that a checkpoint knows only by their fingerprints.

A checkpoint lists what is done and what is open. Whose key a fingerprint has, what an effect's
result was and how a person knows it, only the log tells; it is read when it is asked for.

Where the log was trimmed, what left it is not known any more: such an effect is still done, its
result and its key are gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from lastgood.errors import NotStoredError
from lastgood.formats import effect
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.effect import Applied, Done, Intent
from lastgood.formats.fingerprint import Fingerprint
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Scope
from lastgood.storage.interface import Storage


@dataclass(slots=True)
class Recall:
    """The effects of a log, from its first kept event to ``end``.

    Attributes:
        scope: The session.
        storage: Its directory.
        end: The last event that was read.
        floor: Where the kept log begins, if it was trimmed.
        keys: The newest action of each key.
        done: The sequence of the event that says that an effect is done.
        unapplied: Effects that a person said are done, whose event the caller still owes.
    """

    scope: Scope
    storage: Storage
    end: LogAnchor
    floor: LogAnchor | None
    keys: dict[str, Fingerprint] = field(default_factory=dict)
    done: dict[Fingerprint, int] = field(default_factory=dict)
    unapplied: set[Fingerprint] = field(default_factory=set)
    _found: LogFound = field(init=False)
    _results: dict[Fingerprint, JSON] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the log once."""
        reading = LogReading(self.scope, self.storage)
        anchors = [self.end] if self.end.count else []
        self._found = reading.find(anchors=anchors, floor=self.floor)
        for sequence, record in self._records(after=0 if self.floor is None else self.floor.count):
            match record:
                case Intent():
                    self.keys[record.key] = record.fingerprint
                case Done():
                    self.done[record.fingerprint] = sequence
                    if record.word.by == "person" and record.event is None:
                        self.unapplied.add(record.fingerprint)
                case Applied():
                    self.unapplied.discard(record.fingerprint)

    def result(self, fingerprint: Fingerprint) -> JSON:
        """What was stored as the result of an effect that is done.

        Raises:
            NotStoredError: The event that says so left the log, or a caller only said by its
                fingerprint that it is done: there never was a result.
        """
        sequence = self.done.get(fingerprint)
        if sequence is None:
            raise NotStoredError(
                "No result of this effect is in the log", do="Take it for done, without a result"
            )
        if fingerprint not in self._results:
            # One segment is read; whoever asks for one result mostly asks for the next one, too.
            begin, stop = self._around(sequence)
            self._results = {
                record.fingerprint: record.result
                for _, record in self._records(after=begin, until=stop)
                if isinstance(record, Done)
            }
        return self._results[fingerprint]

    def intent(self, sequence: int) -> Intent | None:
        """What event ``sequence`` intends; None: it left the log."""
        after = sequence - 1
        found = next(self._records(after=after, until=sequence), None) if self._has(after) else None
        return found[1] if found is not None and isinstance(found[1], Intent) else None

    def _has(self, after: int) -> bool:
        return bool(self._found.links) and self._found.links[0].before.count <= after

    def _around(self, sequence: int) -> tuple[int, int]:
        """The events of the segment that holds ``sequence``: after which, until which."""
        links = self._found.links
        ends = [*(link.before.count for link in links[1:]), self._found.end.count]
        return next(
            (link.before.count, end)
            for link, end in zip(links, ends, strict=True)
            if link.before.count < sequence <= end
        )

    def _records(
        self, *, after: int, until: int | None = None
    ) -> Iterator[tuple[int, effect.Record]]:
        last = self.end.count if until is None else until
        for line in LogReading(self.scope, self.storage).replay(self._found, after=after):
            if line.event.sequence > last:
                return
            if line.event.type in effect.TYPES:
                yield line.event.sequence, effect.decode(line.event)
