"""Trimming the log: older segments leave, and where the kept log begins is sealed.

The log is kept for ever unless a person says otherwise. What can leave is whole segments below
the *older* generation: a rebuild then starts from a generation, no longer from event 1.

::

    G1  own       R1–R4; from here on nobody else writes
    G2  verify    every line that is to leave, to the very end of each segment
    G3  keep      copy them to where the person said, durably; or nothing is kept (erase)
    G4  say so    append ``lastgood.trimmed``: names, first kept event, head there, Merkle root
    G5  floor     a new revision that says where the kept log begins, durable
    G6  remove    only now, in any order; then fsync the directory

Crash before G5: nothing left. Crash after it: what is still there is a leftover, which nothing
needs and the next trimming removes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lastgood.claim import Owner
from lastgood.errors import (
    ConflictError,
    DamagedError,
    NotStoredError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.event_log import EventLog
from lastgood.formats import event, names, segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.merkle import MerkleTree
from lastgood.lease import Lease, take
from lastgood.log_reading import SEGMENTS, Link, LogFound, LogReading
from lastgood.place import Place
from lastgood.storage.interface import Storage

Keep = Callable[[str, bytes], None]
"""Keeps a segment's bytes under its name, durably, before it leaves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trimmed:
    """What left the log.

    Attributes:
        session: The session.
        names: The segments, ascending.
        events: How many events were in them.
        size_bytes: Of their lines.
        first_kept: The first event that is kept.
        head: The log's head before it.
        root: Merkle root (RFC 6962) over the lines that left.
        revision: The revision that says so; 0 if nothing was to leave.
    """

    session: str
    names: tuple[str, ...] = ()
    events: int = 0
    size_bytes: int = 0
    first_kept: int = 1
    head: str = ""
    root: str = ""
    revision: int = 0


def trim(
    place: Place, session: str, *, owner: Owner, before: int, keep: Keep | None, actor: str
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

    Raises:
        UsageError: ``before`` is no sequence.
        UnknownSessionError: There is no such session.
        LastgoodError: The session cannot be owned, or the log cannot be believed.
    """
    names.sequence(before)
    if place.read() is None:
        raise UnknownSessionError("There is no store here")
    scope = place.scope(session, schemas=None)
    try:
        place.root.session(scope.directory, access="read").close()
    except NotStoredError as error:
        raise UnknownSessionError(f"There is no session {printable(session)}") from error
    storage = place.root.session(scope.directory, access="write")
    try:
        # G1
        lease = take(scope, storage, owner=owner, log="events")
        return _trim(lease, before=before, keep=keep, actor=actor)
    finally:
        storage.close()


def keep_in(records: Storage) -> Keep:
    """Keep segments in another directory of records.

    A segment that is there already, with the same bytes, is kept: an attempt that did not come
    to its end put it there.
    """

    def keep(name: str, data: bytes) -> None:
        try:
            records.create(name, [data])
        except ConflictError:
            if records.read(name, max_bytes=len(data)) != data:
                raise

    return keep


def _trim(lease: Lease, *, before: int, keep: Keep | None, actor: str) -> Trimmed:
    scope, storage = lease.scope, lease.storage
    floor = lease.manifest.floor
    older = lease.manifest.previous
    reading = LogReading(scope, storage)
    # G2
    since = 1 if floor is None else floor.count + 1
    found = reading.find(anchors=_anchors(lease), since=since, floor=floor)
    limit = min(before, older.sequence + 1 if older is not None else 0)
    leaving, first = _leaving(found, limit)
    log = EventLog(lease)
    if not leaving:
        _remove(lease, _below(lease, floor))
        return Trimmed(session=scope.session, first_kept=since)
    tree, size_bytes = MerkleTree(), 0
    for link in leaving:
        data = storage.read(link.name, max_bytes=segment.max_bytes(scope.limits))
        lines = data[: link.until]
        for line in lines.removesuffix(b"\n").split(b"\n"):
            tree.add(line)
        size_bytes += len(lines)
        # G3
        if keep is not None:
            keep(link.name, lines)
    gone = tuple(link.name for link in leaving)
    told: dict[str, Any] = {
        "actor": actor,
        "kept": keep is not None,
        "names": list(gone),
        "first": first.before.count + 1,
        "head": first.before.head,
        "root": tree.root(),
    }
    # G4. Crash before it: nothing happened.
    log.append([(event.TRIMMED, told)])
    # G5. Crash before it: the event says what did not happen yet; the next trimming says it again.
    lease.advance(
        lease.manifest.current, lease.manifest.milestones, log=log.end, floor=first.before
    )
    # G6. Crash before it: leftovers below the floor.
    _remove(lease, _below(lease, first.before))
    log.close()
    return Trimmed(
        session=scope.session,
        names=gone,
        events=tree.size,
        size_bytes=size_bytes,
        first_kept=first.before.count + 1,
        head=first.before.head,
        root=tree.root(),
        revision=lease.manifest.revision,
    )


def _anchors(lease: Lease) -> list[LogAnchor]:
    anchors = [] if lease.manifest.log is None else [lease.manifest.log]
    if lease.body is not None and lease.body.log is not None:
        anchors.append(lease.body.log)
    return anchors


def _leaving(found: LogFound, limit: int) -> tuple[list[Link], Link]:
    """The live segments whose every event is below ``limit``, and the first that stays."""
    if not found.links:
        raise UsageError("The log holds no event")
    leaving: list[Link] = []
    for link, following in zip(found.links, found.links[1:], strict=False):
        if following.before.count >= limit:
            return leaving, link
        leaving.append(link)
    return leaving, found.links[-1]


def _below(lease: Lease, floor: LogAnchor | None) -> list[str]:
    """Every segment that lies before the kept log, live or not."""
    if floor is None:
        return []
    last = segment.parse(floor.segment)
    found = []
    for name in lease.storage.list(SEGMENTS):
        parsed = names.parse(name)
        if parsed is not None and (parsed.epoch, parsed.number) <= (last.epoch, last.number):
            found.append(name)
    return found


def _remove(lease: Lease, gone: Iterable[str]) -> None:
    """Delete, and fsync the directory; nothing is removed that the newest revision needs.

    Raises:
        DamagedError: The revision does not say that it may go.
    """
    floor = lease.manifest.floor
    for name in gone:
        if floor is None:
            raise DamagedError("no revision says where the kept log begins", name=name)
        lease.storage.delete(name)
    lease.storage.persist()
