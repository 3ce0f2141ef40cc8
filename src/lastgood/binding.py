"""The event log and an owner's claim: what the claim attests, and what the owner builds on.

Steps of R1 and R4 that ``taking.take`` makes in a session with an event log; the order of their
calls is what makes an acknowledged event survive every owner that comes after it.
"""

from __future__ import annotations

from dataclasses import replace

from lastgood.errors import RollbackDetectedError
from lastgood.formats import segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.manifest import Manifest
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Scope
from lastgood.storage.interface import OwnedStorage


def ending(log: LogFound, acknowledged: LogAnchor | None) -> LogFound:
    """The log, which ends for this owner where its handle acknowledged the last event.

    What lies behind that failed; the page cache may show it, the disk need not hold it.

    Args:
        log: What was found.
        acknowledged: By this very handle; None: it acknowledged nothing yet.

    Raises:
        RollbackDetectedError: An acknowledged event is gone.
    """
    if acknowledged is None or log.end == acknowledged:
        return log
    if log.end.count < acknowledged.count:
        raise RollbackDetectedError(
            f"The log ends at event {log.end.count}; this handle acknowledged event "
            f"{acknowledged.count}"
        )
    kept = tuple(link for link in log.links if link.before.count < acknowledged.count)
    return replace(log, end=acknowledged, links=kept)


def persist(scope: Scope, storage: OwnedStorage, log: LogFound, base: Manifest | None) -> None:
    """Make durable for certain what a killed process appended (R1).

    A failed fdatasync of a dead process leaves pages that look clean and are not on disk, so
    what no claim attests is written again. Only whole lines: behind them a paused owner of a
    broken lock may be writing, and its bytes are not to be overwritten. Not asked of what this
    very handle acknowledged: that is durable, and a file is not synced again after an error.

    Raises:
        ConflictError: They changed meanwhile.
        StorageError: They cannot be made durable.
    """
    if not log.end.count:
        return
    attested = base.log if base is not None else None
    since = attested.offset if attested and attested.segment == log.end.segment else 0
    data = storage.read(log.end.segment, max_bytes=segment.max_bytes(scope.limits))
    storage.rewrite(log.end.segment, data[since : log.end.offset], offset=since)


def attestable(log: LogFound, base: Manifest | None) -> LogAnchor:
    """What a claim may say of the log: what no owner before it can leave out any more.

    The owner of ``base`` may be paused before its first segment, with a lock that excludes nobody
    (F13), and have looked before the owner before it wrote on. Its segment, when it comes, leaves
    that out, and is right: nobody was told of it. So until it has come a claim says no more than
    ``base`` did.

    Args:
        log: What was found.
        base: The newest revision; None: this is the first.
    """
    if base is None or base.log is None or not log.end.segment:
        return log.end
    return log.end if segment.parse(log.end.segment).epoch >= base.epoch else base.log


def read_again(
    scope: Scope,
    storage: OwnedStorage,
    log: LogFound,
    claimed: Manifest,
    *,
    acknowledged: LogAnchor | None,
) -> LogFound:
    """The log's end now that every earlier owner is fenced, made durable (R4).

    What such an owner appended and acknowledged before the claim was to be seen is in it. What
    this very handle acknowledged is durable already, and its file may have failed since (C6-04).

    Raises:
        LastgoodError: The log is no longer what was claimed, or cannot be made durable.
    """
    since = log.links[-1].before.count + 1 if log.links else 1
    reading = LogReading(scope, storage)
    anchors = () if claimed.log is None else (claimed.log,)
    found = reading.find(anchors=anchors, since=since, floor=claimed.floor)
    stray = tuple(dict.fromkeys((*log.stray, *found.stray)))
    behind = tuple(dict.fromkeys((*log.behind, *found.behind)))
    whole = replace(found, links=log.links[:-1] + found.links, stray=stray, behind=behind)
    again = ending(whole, acknowledged)
    if again.end.count and acknowledged is None:
        storage.rewrite(again.end.segment, b"", offset=again.end.offset)
    return again
