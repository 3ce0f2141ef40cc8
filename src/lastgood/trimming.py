"""Trimming the log: older segments leave, and where the kept log begins is sealed.

The log is kept for ever unless a person says otherwise. What can leave is whole segments below
the *older* generation: a rebuild then starts from a generation, no longer from event 1.

::

    G1  own       R1–R4; from here on nobody else writes
    G2  verify    both generations, whole, and every line that is kept, and is to leave
    G3  keep      copy them to where the person said, durably; or nothing is kept (erase)
    G4  say so    append ``lastgood.trimmed``: names, first kept event, head there, Merkle root
    G5  floor     a new revision that says where the kept log begins, durable
    G6  remove    only now, in any order; then fsync the directory

Crash before G5: nothing left. Crash after it: what is still there is a leftover, which nothing
needs and the next trimming removes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

from lastgood.claim import Owner
from lastgood.clock import Clock
from lastgood.errors import (
    ConflictError,
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    NotStoredError,
    PolicyError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.event_log import EventLog
from lastgood.formats import event, names, segment, store
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.merkle import MerkleTree
from lastgood.formats.segment import Walk
from lastgood.lease import Lease
from lastgood.log_found import Link, LogFound
from lastgood.log_reading import SEGMENTS, LogReading
from lastgood.place import Place
from lastgood.reading import Reading, Scope
from lastgood.storage.interface import OwnedStorage, Storage, StorageRoot
from lastgood.survey import Attempt, choose, until_settled
from lastgood.taking import take

Keep = Callable[[str, bytes], None]
"""Keeps a segment's bytes under its name, durably, before it leaves."""

_MAX_TEXT_CHARS: Final = 500
_ANOTHER: Final = "Name another directory with --archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What left the log, or would leave it.

    Attributes:
        session: The session.
        names: The segments, ascending.
        events: How many events were in them.
        size_bytes: Of their lines.
        first_kept: The first event that is kept.
        head: The log's head before it.
        root: Merkle root (RFC 6962) over the lines that left.
        leftovers: Segments beside them that no log needs, and that went, too.
        revision: The revision that says so; 0 if nothing was to leave, or only would.
    """

    session: str
    names: tuple[str, ...] = ()
    events: int = 0
    size_bytes: int = 0
    first_kept: int = 1
    head: str = ""
    root: str = ""
    leftovers: tuple[str, ...] = ()
    revision: int = 0


def trim(
    place: Place,
    session: str,
    *,
    owner: Owner,
    before: int,
    keep: Keep | None,
    actor: str,
    reason: str,
) -> Trimmed:
    """Remove whole segments of events below ``before`` and below the older generation.

    On return they are gone and a sealed event and revision say so. On raise before G5 nothing
    left; after it the rest is removed by the next trimming.

    Args:
        place: The store.
        session: The session.
        owner: Who takes it.
        before: The first event that the person wants to keep for certain.
        keep: Keeps each segment elsewhere first; None: they are erased.
        actor: Who decided, for the record.
        reason: Why, for the record.

    Raises:
        UsageError: ``before`` is no sequence; actor or reason is no text of 1 to 500 characters.
        UnknownSessionError: There is no such session.
        PolicyError: It has no event log, or not two generations yet.
        LastgoodError: The session cannot be owned, or a generation or the log not be believed.
    """
    _check_told("actor", actor)
    _check_told("reason", reason)
    with _opened(place, session, before=before) as (scope, reader):
        # Asked before anything is written; the owner asks again.
        _both(choose(scope, reader, clock=owner.clock).selection.manifest)
    storage = place.root.session(scope.directory, access="write")
    try:
        # G1
        lease = take(scope, storage, owner=owner, log="events")
        return _trim(lease, before=before, keep=keep, told={"actor": actor, "reason": reason})
    finally:
        storage.close()


def plan(place: Place, session: str, *, clock: Clock, before: int) -> Trimmed:
    """What ``trim`` would remove now, by reading only (G8).

    Raises:
        LastgoodError: As ``trim``.
    """
    with _opened(place, session, before=before) as (scope, storage):
        return until_settled(
            lambda: _attempt(scope, storage, clock=clock, before=before),
            what=f"session {printable(scope.session)}",
            clock=clock,
        )


@contextlib.contextmanager
def archive(root: StorageRoot, session: str) -> Iterator[Keep]:
    """Keep segments under another root, in a directory named like the session's.

    A segment that is there already, with the same bytes, is kept: an attempt that did not come
    to its end put it there.

    Args:
        root: Where; made if it is not there.
        session: The session.

    Raises:
        UsageError: A store is there: a segment would be kept by the very file that is removed.
        LockedError: Another trimming writes there.
        LastgoodError: It cannot be used.
    """
    with contextlib.suppress(NotStoredError):
        root.records().read(names.STORE, max_bytes=store.MAX_BYTES)
        raise UsageError(f"{printable(root.location())} is a store, not an archive", do=_ANOTHER)
    directory = names.directory(names.session_id(session))
    with contextlib.closing(root.session(directory, access="write")) as storage:
        # The same directory by another path is held by the session's owner.
        storage.acquire(timeout_s=0)
        yield lambda name, data: _keep(storage, name, data)


@dataclass(frozen=True, slots=True)
class _Leaving:
    """What may leave: live segments, what else lies there, and where the kept log begins."""

    links: tuple[Link, ...]
    others: tuple[str, ...]
    floor: LogAnchor | None
    first: int


def _trim(lease: Lease, *, before: int, keep: Keep | None, told: dict[str, Any]) -> Trimmed:
    scope, storage = lease.scope, lease.storage
    reading = LogReading(scope, storage)
    # G2
    leaving = _judge(reading, lease.manifest, before=before)
    # G3. Crash before its end: copies of what is still there; the same bytes are kept again.
    trimmed = _measured(reading, leaving, keep=keep)
    if not leaving.links:
        _remove(lease, leaving.others)
        return trimmed
    log = EventLog(lease)
    # G4. Crash before it: nothing happened.
    log.append([(event.TRIMMED, told | _told(leaving, trimmed, keep))])
    # G5. Crash before it: the event says what did not happen yet; the next trimming says it again.
    lease.advance(
        lease.manifest.current, lease.manifest.milestones, log=log.end, floor=leaving.floor
    )
    # G6. Crash before it: leftovers below the floor.
    _remove(lease, (*trimmed.names, *leaving.others))
    log.close()
    return replace(trimmed, revision=lease.manifest.revision)


def _judge(reading: LogReading, newest: Manifest | None, *, before: int) -> _Leaving:
    """Verify the log that is kept, and what of it may leave.

    Raises:
        PolicyError: There are not two generations.
        LastgoodError: One of them, or the log, cannot be believed.
    """
    anchors = _generations(reading, newest)
    floor = None if newest is None else newest.floor
    since = 1 if floor is None else floor.count + 1
    found = reading.find(anchors=anchors, since=since, floor=floor)
    leaving, first = _below(found, min(before, anchors[0].count))
    begin = first.before if leaving else floor
    names_leaving = {link.name for link in leaving}
    others = [name for name in _at_or_before(reading.storage, begin) if name not in names_leaving]
    return _Leaving(tuple(leaving), tuple(others), begin, 1 if begin is None else begin.count + 1)


def _measured(reading: LogReading, leaving: _Leaving, *, keep: Keep | None) -> Trimmed:
    """Read what is to leave once more, and keep exactly what is verified then.

    Raises:
        DamagedError: It is no longer what was verified.
    """
    tree, size_bytes = MerkleTree(), 0
    ends = [link.before for link in leaving.links[1:]] + [leaving.floor]
    for link, end in zip(leaving.links, ends, strict=False):
        data = _bytes_of(reading, link.name)
        begin = segment.begin_of(link.name, link.before)
        walk, at = Walk(data, begin=begin, keys=reading.keys, until=link.until), 0
        for _ in walk:
            tree.add(data[at : walk.end.offset].removesuffix(b"\n"))
            at = walk.end.offset
        if walk.end != end:
            raise DamagedError("it changed since it was verified", name=link.name)
        size_bytes += at
        if keep is not None:
            # Also what lies behind its lines: a person may have decided to keep it (G3).
            keep(link.name, data.rstrip(b"\0"))
    if keep is not None:
        for name in leaving.others:
            keep(name, _bytes_of(reading, name).rstrip(b"\0"))
    return Trimmed(
        session=reading.scope.session,
        names=tuple(link.name for link in leaving.links),
        events=tree.size,
        size_bytes=size_bytes,
        first_kept=leaving.first,
        head="" if leaving.floor is None else leaving.floor.head,
        root=tree.root() if tree.size else "",
        leftovers=leaving.others,
    )


def _told(leaving: _Leaving, trimmed: Trimmed, keep: Keep | None) -> dict[str, Any]:
    """What the log says of it."""
    return {
        "kept": keep is not None,
        "names": list(trimmed.names),
        "lengths": [link.until for link in leaving.links],
        "first": trimmed.first_kept,
        "head": trimmed.head,
        "root": trimmed.root,
    }


def _both(newest: Manifest | None) -> tuple[Entry, Entry]:
    """The older generation and the current one.

    Raises:
        PolicyError: There are not two.
    """
    if newest is None or newest.previous is None or newest.current is None:
        raise PolicyError(
            "The session does not have two generations yet, which is what the log is cut below",
            safe="Nothing left the log",
            do="Let the program save, and trim the log then",
        )
    return newest.previous, newest.current


def _generations(log: LogReading, newest: Manifest | None) -> list[LogAnchor]:
    """The anchors of the older generation, the current one and the claim, ascending.

    Both generations are verified whole: without the log before them, they are all there is to
    rebuild from.

    Raises:
        PolicyError: There are not two.
        LastgoodError: One does not verify, or names no place in the log.
    """
    reading = Reading(log.scope, log.storage, log.trace)
    anchors: list[LogAnchor] = []
    for entry in _both(newest):
        stored = reading.checkpoint(entry.sequence)
        if isinstance(stored, LastgoodError):
            raise stored
        if stored is None or stored[1] != entry:
            raise ForkDetectedError(f"{entry.name} is not the one that is named")
        at = reading.bodies.pop(entry.sequence).log
        if at is None or at.count != entry.sequence:
            raise DamagedError("it names no place in the event log", name=entry.name)
        anchors.append(at)
    return anchors if newest is None or newest.log is None else [*anchors, newest.log]


def _keep(records: OwnedStorage, name: str, data: bytes) -> None:
    """Keep ``data`` as ``name``, durably.

    Raises:
        ConflictError: Something else is there under that name.
    """
    try:
        # Made durable again: that attempt may have died before its directory was synced.
        records.rewrite(name, data)
        records.persist()
    except NotStoredError:
        records.create(name, [data])
    except ConflictError as error:
        raise ConflictError(
            f"The archive holds another {name}", safe="Nothing left the log", do=_ANOTHER
        ) from error


def _below(found: LogFound, limit: int) -> tuple[list[Link], Link]:
    """The live segments whose every event is below ``limit``, and the first that stays."""
    leaving: list[Link] = []
    for link, following in zip(found.links, found.links[1:], strict=False):
        if following.before.count >= limit:
            return leaving, link
        leaving.append(link)
    return leaving, found.links[-1]


def _at_or_before(storage: Storage, floor: LogAnchor | None) -> Iterator[str]:
    """Every segment that lies before the kept log, live or not."""
    if floor is None:
        return
    last = segment.parse(floor.segment)
    for name in storage.list(SEGMENTS):
        parsed = names.parse(name)
        if (
            parsed is not None
            and parsed.kind is names.Kind.SEGMENT
            and (parsed.epoch, parsed.number) <= (last.epoch, last.number)
        ):
            yield name


def _remove(lease: Lease, gone: Iterable[str]) -> None:
    """Delete, and fsync the directory; only what the newest revision says may go.

    Raises:
        DamagedError: The revision does not say so.
    """
    below = set(_at_or_before(lease.storage, lease.manifest.floor))
    for name in gone:
        if name not in below:
            raise DamagedError("no revision says that it may leave the log", name=name)
        lease.storage.delete(name)
    lease.storage.persist()


def _bytes_of(reading: LogReading, name: str) -> bytes:
    return reading.storage.read(name, max_bytes=segment.max_bytes(reading.scope.limits))


def _attempt(scope: Scope, storage: Storage, *, clock: Clock, before: int) -> Attempt[Trimmed]:
    reading = LogReading(scope, storage)
    try:
        newest = choose(scope, storage, clock=clock).selection.manifest
        found = _measured(reading, _judge(reading, newest, before=before), keep=None)
    except LastgoodError as error:
        return Attempt(error, is_plain=False, trace=reading.trace)
    return Attempt(found, is_plain=True, trace=reading.trace)


@contextlib.contextmanager
def _opened(place: Place, session: str, *, before: int) -> Iterator[tuple[Scope, OwnedStorage]]:
    """An existing session with an event log, to be read.

    Raises:
        UsageError: ``before`` is no sequence.
        UnknownSessionError: There is no such session.
    """
    names.sequence(before)
    if place.read() is None:
        raise UnknownSessionError("There is no store here")
    scope = place.scope(session, schemas=None)
    unknown = UnknownSessionError(f"There is no session {printable(session)}")
    try:
        storage = place.root.session(scope.directory, access="read")
    except NotStoredError as error:
        raise unknown from error
    with contextlib.closing(storage):
        record = Reading(scope, storage).session_record()
        if record is None:
            raise unknown
        if not isinstance(record, LastgoodError) and record.log is None:
            raise PolicyError("The session has no event log")
        yield scope, storage


def _check_told(what: str, text: str) -> None:
    if type(text) is not str or not text.strip() or len(text) > _MAX_TEXT_CHARS:
        raise UsageError(f"The {what} is a text of 1 to {_MAX_TEXT_CHARS} characters")
    if not names.is_text(text):
        raise UsageError(f"The {what} holds a control character")
