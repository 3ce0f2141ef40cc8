"""What is there, and what it means: read until a verdict stands (R3).

**The reader's rule.** A writer may work meanwhile: readers take no lock, and a broken lock
excludes nobody. So only the plain verdict, *the newest revision names it and nothing is
left to finish*, stands after one reading. Any other finding (a name gone, a newer
checkpoint, a pointer behind, damage, nothing at all) stands when two readings in a row saw
the same names and the same bytes. A damaged store is still; a moving one is not.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Generic, TypeVar, cast

from lastgood.clock import Clock
from lastgood.errors import (
    BusyError,
    DamagedError,
    KeyMismatchError,
    LastgoodError,
    LogGapError,
    NotStoredError,
    printable,
)
from lastgood.formats import names, seal, segment, session, store
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.checkpoint import Body, CheckpointHeader
from lastgood.formats.limits import Limits
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.session import SessionRecord
from lastgood.formats.store import StoreRecord
from lastgood.keyring import STORE_DIRECTORY, Keyring
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Reading, Scope
from lastgood.rules import selection
from lastgood.rules.selection import Selection
from lastgood.storage.interface import Storage, StorageRoot

_READINGS: Final = 5
_PATIENCE_S: Final = 2.0
"""At least so many readings, for at least so long, before a moving store is called busy."""
_PAUSE_S: Final = 0.02
_PEEKED_SESSIONS: Final = 3


_Finding = TypeVar("_Finding")


@dataclass(frozen=True, slots=True)
class Sealed:
    """What the intact header and the manifest say of a checkpoint whose payload is damaged.

    Attributes:
        header: Its header.
        schema_version: Of its state.
    """

    header: CheckpointHeader
    schema_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """A verdict, and what was read for it.

    Attributes:
        selection: The verdict.
        session: ``session.json``; None in a new session that has none yet.
        headers: Of the checkpoints that were read, by sequence.
        bodies: Payloads of those that were read whole, by sequence.
        base: The checkpoint to start from: the current one, or, if its damage is waived, the
            newest kept one that verifies; None: from the beginning.
        sealed: What is still intact of a damaged current checkpoint; None of a sound one.
        log: The event log, verified from the older generation's segment on; None in a session
            of checkpoints only.
    """

    selection: Selection
    session: SessionRecord | None
    headers: dict[int, CheckpointHeader]
    bodies: dict[int, Body]
    base: Entry | None = None
    sealed: Sealed | None = None
    log: LogFound | None = None


@dataclass(frozen=True, slots=True)
class Attempt(Generic[_Finding]):
    """What one reading found, whether that stands at once, and the names and bytes it saw."""

    finding: _Finding | LastgoodError
    is_plain: bool
    trace: list[tuple[str, str]]


def until_settled(
    read: Callable[[], Attempt[_Finding]], *, what: str, clock: Clock, pause_s: float = _PAUSE_S
) -> _Finding:
    """Read until a finding stands, by the reader's rule, and return or raise it.

    Args:
        read: One reading.
        what: What is read, for the message.
        clock: Measures the patience with a writer at work.
        pause_s: What lies between the first two readings: longer than one flush of a writer, so
            that who is at work is not taken for one who died.

    Raises:
        BusyError: A writer kept moving the store through all readings.
        LastgoodError: What two readings in a row found.
    """
    seen: list[tuple[str, str]] | None = None
    deadline_s = clock.monotonic_s() + _PATIENCE_S
    count = 0
    while count < _READINGS or clock.monotonic_s() < deadline_s:
        attempt = read()
        if attempt.is_plain or attempt.trace == seen:
            if isinstance(attempt.finding, LastgoodError):
                raise attempt.finding
            return attempt.finding
        seen = attempt.trace
        clock.sleep(0.001 * min(count, 20) if count else pause_s)
        count += 1
    raise BusyError(f"A writer kept moving {what} while it was read {count} times")


def choose(scope: Scope, storage: Storage, *, clock: Clock, pause_s: float = _PAUSE_S) -> Survey:
    """Choose the last good checkpoint of a session; ``pause_s`` as in ``until_settled``.

    Raises:
        BusyError: A writer kept moving it.
        LastgoodError: What ``rules.selection`` raises.
    """
    return until_settled(
        lambda: _attempt(Reading(scope, storage)),
        what=f"session {printable(scope.session)}",
        clock=clock,
        pause_s=pause_s,
    )


def read_store(
    root: StorageRoot, *, keyring: Keyring, store_id: str, limits: Limits
) -> StoreRecord | None:
    """Authenticate ``store.json``; None if there is neither one nor any session.

    Raises:
        KeyMismatchError: Every record is sealed with one key that this ring does not hold.
        DamagedError: It does not verify, or is missing beside sessions, or its key id is
            unknown while that of a session is not.
        LastgoodError: It cannot be read.
    """
    records = root.records()
    data = _bytes_of_store(records)
    if data is None and next(session_directories(root), None) is not None:
        # Another process may have made both since; a session is made after store.json only.
        data = _bytes_of_store(records)
        if data is None:
            raise DamagedError("it is missing beside sessions", name=names.STORE)
    if data is None:
        return None
    try:
        return store.decode(
            data,
            store_id=store_id,
            sealer=keyring.sealer(STORE_DIRECTORY, store_id=store_id),
            limits=limits,
            name=names.STORE,
        )
    except KeyMismatchError as error:
        if _kids_of_sessions(root) <= {seal.peek_kid(data)}:
            raise
        raise DamagedError("a key id that no session has", name=names.STORE) from error


def _bytes_of_store(records: Storage) -> bytes | None:
    try:
        return records.read(names.STORE, max_bytes=store.MAX_BYTES)
    except NotStoredError:
        return None


def session_directories(root: StorageRoot) -> Iterator[str]:
    """The names in the root that can be sessions, as a stream."""
    return filter(names.is_directory, root.directories())


def _kids_of_sessions(root: StorageRoot) -> set[str | None]:
    """The key ids that the first few sessions claim, as far as they can be read."""
    kids: set[str | None] = set()
    for directory in islice(session_directories(root), _PEEKED_SESSIONS):
        try:
            storage = root.session(directory, access="read")
        except LastgoodError:
            continue
        try:
            kids.add(seal.peek_kid(storage.read(names.SESSION, max_bytes=session.MAX_BYTES)))
        except LastgoodError:
            continue
        finally:
            storage.close()
    return kids - {None}


def read_log(
    reading: Reading,
    record: SessionRecord | None,
    chosen: Selection,
    *,
    base: Entry | None,
    whole: bool = False,
) -> LogFound | None:
    """Find the log, and bind it to what was chosen (R2, R4); None without a log.

    Read after the records, so that it is never older than they are.

    Args:
        reading: The reading that the verdict came from.
        record: ``session.json``.
        chosen: The verdict.
        base: The checkpoint to start from.
        whole: Verify all of it, not only from the older generation's segment on.

    Raises:
        DamagedError: A record of this session names no place in the log, or a wrong one.
        LogGapError: What is kept of the log does not begin where the base ends.
        LastgoodError: As ``LogReading.find``.
    """
    if record is None or record.log is None:
        return None
    log = LogReading(reading.scope, reading.storage, reading.trace)
    if chosen.manifest is None:
        return log.find()
    floor = chosen.manifest.floor
    if floor is not None and floor.count > (0 if base is None else base.sequence):
        raise LogGapError(
            f"the log was cut and begins at event {floor.count + 1}, and no generation from event "
            f"{floor.count} on verifies to start from",
            do="Put back a copy of one of the last two checkpoints, or of the whole session",
        )
    anchors = [_anchor_of_claim(chosen.manifest)]
    since = 1
    if base is not None:
        at = reading.bodies[base.sequence].log
        if at is None or at.count != base.sequence:
            raise DamagedError("it names no place in the event log", name=base.name)
        anchors.append(at)
        older = chosen.previous if base == chosen.current else None
        since = (older or base).sequence
    return log.find(
        anchors=anchors,
        since=1 if whole or reading.scope.whole_log else since,
        floor=floor,
    )


def read_whole(
    scope: Scope,
    storage: Storage,
    recent: LogFound,
    *,
    anchors: Iterable[LogAnchor] = (),
    floor: LogAnchor | None,
) -> LogFound:
    """Verify all of a log whose end was found already, however fast a writer moves it on.

    What lies before the end never changes, so this needs no second reading; only a trimming
    can take old segments away meanwhile.

    Args:
        scope: The session.
        storage: Its directory.
        recent: What a reading of its end found.
        anchors: As ``LogReading.find``; none beyond the end.
        floor: Where the kept log begins, if it was cut.

    Raises:
        LastgoodError: As ``LogReading.find``.
    """
    frozen = cast("Storage", _AsFound(storage, recent))
    return LogReading(scope, frozen).find(anchors=anchors, floor=floor)


class _AsFound:
    """A log as one reading found it; all that ``LogReading`` asks of a storage.

    Args:
        storage: The session's directory, in which the log may have grown since.
        found: What was found of it.
    """

    def __init__(self, storage: Storage, found: LogFound) -> None:
        self._storage = storage
        self._found = found
        last = segment.parse(found.end.segment)
        self._last = last.epoch, last.number

    def list(self, prefix: str = "") -> tuple[str, ...]:
        """The names that were there; newer segments are not."""
        return tuple(filter(self._was_there, self._storage.list(prefix)))

    def read(self, name: str, *, max_bytes: int) -> bytes:
        """The bytes, without what was appended behind the end; an open segment ends in a NUL."""
        data = self._storage.read(name, max_bytes=max_bytes)
        if name == self._found.end.segment and self._found.torn is None:
            return data[: self._found.end.offset] + b"\0"
        return data

    def stream(self, name: str, *, max_bytes: int) -> Generator[bytes, None, None]:
        """The same bytes, at once."""
        yield self.read(name, max_bytes=max_bytes)

    def _was_there(self, name: str) -> bool:
        parsed = names.parse(name)
        if parsed is None or parsed.kind is not Kind.SEGMENT or name in self._found.skipped:
            return True
        return (parsed.epoch, parsed.number) <= self._last


def base_of(reading: Reading, chosen: Selection) -> Entry | None:
    """The newest kept checkpoint to start from: the current one, unless its damage is waived."""
    if chosen.damage is None:
        return chosen.current
    older = sorted(chosen.kept(), key=lambda entry: entry.sequence, reverse=True)
    for entry in older:
        if entry == chosen.current:
            continue
        found = reading.checkpoint(entry.sequence)
        if isinstance(found, tuple) and found[1] == entry:
            return entry
    return None


def _sealed(reading: Reading, chosen: Selection) -> Sealed | None:
    """The header of a damaged current checkpoint, if it is the one that the manifest names."""
    current = chosen.current
    if chosen.damage is None or current is None:
        return None
    header = reading.checkpoint_header(current.sequence)
    if not isinstance(header, CheckpointHeader) or header.digest != current.digest:
        return None
    return Sealed(header, current.schema_version)


def _anchor_of_claim(newest: Manifest) -> LogAnchor:
    if newest.log is None:
        name = names.manifest(newest.revision)
        raise DamagedError("it names no place in the event log", name=name)
    return newest.log


def _attempt(reading: Reading) -> Attempt[Survey]:
    try:
        evidence = reading.evidence()
        verdict = selection.select(evidence)
        record = evidence.session if isinstance(evidence.session, SessionRecord) else None
        base = base_of(reading, verdict)
        log = read_log(reading, record, verdict, base=base)
    except LastgoodError as error:
        return Attempt(error, is_plain=False, trace=reading.trace)
    found = Survey(
        selection=verdict,
        session=record,
        headers={s: h for s, h in evidence.headers.items() if isinstance(h, CheckpointHeader)},
        bodies=reading.bodies,
        base=base,
        sealed=_sealed(reading, verdict),
        log=log,
    )
    settled = verdict.is_settled and verdict.damage is None and (log is None or log.is_settled)
    # A name that went while it was read may have been a newer checkpoint's (G4).
    plain = verdict.current is not None and settled and not reading.lost_names
    return Attempt(found, plain, reading.trace)
