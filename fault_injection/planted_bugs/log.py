"""Mistakes of the event log: durability, segments, and what a torn tail is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, calling, nothing
from lastgood import binding, claim, taking, trimming
from lastgood.errors import DamagedError
from lastgood.event_log import EventLog, Ticket, _Writing
from lastgood.formats import anchor, event, segment
from lastgood.formats.anchor import LogAnchor
from lastgood.formats.event import EventKeys
from lastgood.formats.manifest import Manifest
from lastgood.lease import Lease
from lastgood.log_reading import SEGMENTS
from lastgood.rules import tail
from lastgood.rules.tail import Torn, _Behind
from lastgood.storage import publish
from lastgood.storage.directory import Directory, unknown
from lastgood.storage.filesystem import WRITE
from lastgood.storage.segments import Segments, _Segment


def acknowledged_before_fsync(plant: Plant) -> Patch:
    """An append returns without its fdatasync."""
    right, skipped = Segments.append, plant.counting(nothing)

    def append(self: Segments, directory: Directory, name: str, data: bytes) -> None:
        with calling(directory, fdatasync=skipped):
            right(self, directory, name, data)

    return plant.uncounted(Segments, "append", append)


def append_after_a_failed_fdatasync(plant: Plant) -> Patch:
    """The segment is not given up, and the log goes on in it."""
    right = EventLog._settle
    failed: list[bool] = []

    def append(self: Any, directory: Directory, name: str, data: bytes) -> None:
        held = self._segment(name)
        at, held.appended_bytes = held.appended_bytes, held.appended_bytes + len(data)
        with unknown("Appending"):
            publish.write_at(directory.filesystem, held.fd, data, offset=at)
            try:
                directory.filesystem.fdatasync(held.fd)
            except OSError:
                failed.append(True)
                raise

    def settle(self: EventLog, batch: Any, error: Any) -> None:
        right(self, batch, error)
        if failed:
            self.over = False
            failed.clear()

    return all_of(
        plant.over(Segments, "append", append), plant.uncounted(EventLog, "_settle", settle)
    )


def no_directory_fsync_for_a_segment(plant: Plant) -> Patch:
    """A new segment's name is not made durable."""
    right, skipped = publish._make_durable, plant.counting(nothing)

    def durable(directory: Directory, temporary: str, name: str) -> None:
        if not name.startswith(SEGMENTS):
            right(directory, temporary, name)
            return
        with calling(directory, fsync=skipped):
            right(directory, temporary, name)

    return plant.uncounted(publish, "_make_durable", durable)


def predecessor_of_the_listing(plant: Plant) -> Patch:
    """A segment's first line names the newest name in the directory, whatever is in it."""
    right = EventLog._encode

    def encode(self: EventLog, before: LogAnchor, kind: str, data: Any) -> object:
        if kind == event.SEGMENT:
            listed = sorted(self.lease.storage.list(SEGMENTS))
            if listed and before.count:
                data = anchor.encode(replace(before, segment=listed[-1]))
        return right(self, before, kind, data)

    return plant.over(EventLog, "_encode", encode)


def append_before_the_claim(plant: Plant) -> Patch:
    """R4's claim comes behind the owner's first line in the log."""
    right, right_append, right_confirm = claim.swap, EventLog.append, Lease.confirm_owner
    waiting: list[Callable[[], object]] = []

    def swap(following: Manifest, scope: Any, storage: Any) -> Manifest:
        def later(record: Any, *, expected: int) -> None:
            waiting[:] = [lambda: storage.swap(record, expected=expected)]

        return right(following, scope, SimpleNamespace(swap=later))

    def append(self: EventLog, events: Any) -> Ticket:
        ticket = right_append(self, events)
        while waiting:
            waiting.pop()()
        return ticket

    def confirm(self: Lease) -> None:
        if not waiting:
            right_confirm(self)

    return all_of(
        mock.patch.object(taking, "claim", SimpleNamespace(**{**vars(claim), "swap": swap})),
        plant.over(EventLog, "append", append),
        plant.uncounted(Lease, "confirm_owner", confirm),
    )


def append_behind_a_torn_tail(plant: Plant) -> Patch:
    """The next owner goes on in the segment that its predecessor left, behind whatever is there."""
    right_init, right_encode = EventLog.__post_init__, EventLog._encode
    right_append = Segments.append
    entered: dict[str, tuple[int, int]] = {}

    def init(self: EventLog) -> None:
        right_init(self)
        for end, size_bytes in _left(self.lease):
            entered[end.segment] = end.offset, size_bytes
            self._writing = _Writing(end, end.segment, size_bytes)

    def encode(self: EventLog, before: LogAnchor, kind: str, data: Any) -> object:
        newest = self.lease.manifest
        if before.segment in entered and kind != event.SEGMENT:
            newest = replace(newest, epoch=segment.parse(before.segment).epoch)
        with mock.patch.object(self.lease, "manifest", newest):
            return right_encode(self, before, kind, data)

    def append(self: Segments, directory: Directory, name: str, data: bytes) -> None:
        if name in entered and name not in self._begun:
            fd, _ = directory.open_file(name, flags=WRITE)
            offset, size_bytes = entered[name]
            self._begun[name] = _Segment(directory, fd, size_bytes, offset)
        right_append(self, directory, name, data)

    return all_of(
        plant.uncounted(EventLog, "__post_init__", init),
        plant.uncounted(EventLog, "_encode", encode),
        plant.over(Segments, "append", append),
    )


def _left(lease: Lease) -> Iterator[tuple[LogAnchor, int]]:
    """The end of all that is in a predecessor's segment, and its size, if it has room."""
    found = lease.log
    if found is None or not found.end.segment:
        return
    data = lease.storage.read(found.end.segment, max_bytes=segment.max_bytes(lease.scope.limits))
    if data.endswith(b"\0"):
        torn = found.torn
        offset = found.end.offset if torn is None else torn.offset + torn.size_bytes
        yield replace(found.end, offset=offset), len(data)


def failed_is_believed(plant: Plant) -> Patch:
    """A handle that takes the session again goes on behind what failed, as the page cache shows."""

    def ending(log: Any, acknowledged: Any) -> object:
        return log

    return plant.over(binding, "ending", ending)


def end_not_written_again(plant: Plant) -> Patch:
    """R1 takes the end that no manifest names for durable, because it is visible."""
    return plant.over(binding, "persist", nothing)


# --- what a torn tail is ------------------------------------------------------------------


def newline_decides(plant: Plant) -> Patch:
    """A bad line that ends in a line feed is damage, even if a sector of it never arrived."""

    def is_cut(region: bytes, **others: Any) -> bool:
        return b"\n" not in region

    return plant.over(tail, "_is_cut", is_cut)


def resynchronising_at_newlines(plant: Plant) -> Patch:
    """Lines behind a bad one are looked for behind line feeds alone."""

    def behind(region: bytes, *, keys: EventKeys, segment: str) -> object:
        synced = []
        for text in region.split(b"\n")[1:]:
            with suppress(DamagedError):
                _, _, body = event.authenticate(text.partition(b"\0")[0], keys=keys, name=segment)
                synced.append(event.read_body(body, name=segment).synced)
        return _Behind(len(synced), max(synced, default=0))

    return plant.over(tail, "_behind", behind)


def damage_taken_for_a_torn_tail(plant: Plant) -> Patch:
    """Whatever is bad in the newest segment is torn, whatever stands behind it."""
    right = tail.judge

    def judge(
        data: bytes, bad: Any, *, segment: str, stop: int, is_newest: bool, **others: Any
    ) -> Torn:
        if is_newest and not bad.is_authentic:
            return Torn(segment, bad.offset, stop - bad.offset, bad.sequence)
        return right(data, bad, segment=segment, stop=stop, is_newest=is_newest, **others)

    return plant.over(tail, "judge", judge)


# --- trimming -----------------------------------------------------------------------------


def unlinked_before_the_event(plant: Plant) -> Patch:
    """Segments go as soon as they are measured, before the event and the revision that say so."""
    right, right_remove = trimming._measured, trimming._remove

    def measured(reading: Any, leaving: Any, *, keep: Any) -> Any:
        gone = right(reading, leaving, keep=keep)
        if keep is not None:  # else it was only asked what would go
            for name in gone.names:
                reading.storage.delete(name)
        return gone

    def remove(lease: Lease, gone: Iterable[str]) -> None:
        there = lease.storage.list(SEGMENTS)
        right_remove(lease, [name for name in gone if name in there])

    return all_of(
        plant.uncounted(trimming, "_remove", remove),
        plant.over(trimming, "_measured", measured),
    )


MUTANTS: Final = (
    Mutant(
        "a segment's first line names the listing's predecessor",
        "a first line names the newest name in the directory, whatever is in it",
        predecessor_of_the_listing,
        (
            Kill("L2", ("O1", "O8"), ("appends",)),
            Kill("L3", ("O1", "O8"), ("appends",)),
        ),
    ),
    Mutant(
        "append before the claim",
        "the claim of R4 comes behind the first line of its owner",
        append_before_the_claim,
        (
            Kill("L2", ("O1", "O8"), ("appends",)),
            Kill("L3", ("O1", "O8"), ("appends",)),
        ),
    ),
    Mutant(
        "no directory fsync for a new segment",
        "the name of a new segment is not made durable",
        no_directory_fsync_for_a_segment,
        (Kill("L3", ("O1", "O8"), ("appends",)),),
    ),
    Mutant(
        "append after a failed fdatasync",
        "the segment is not given up, and the log goes on in it",
        append_after_a_failed_fdatasync,
        (Kill("L1", ("O10",), ("insists-log",)), Kill("L3", ("O1", "O8"), ("insists-log",))),
    ),
    Mutant(
        "gc unlinks before the event's fdatasync",
        "segments go before the event and the revision that say so",
        unlinked_before_the_event,
        (
            Kill("L2", ("O1", "O8"), ("trims",)),
            Kill("L3", ("O1", "O8"), ("trims",)),
        ),
    ),
    Mutant(
        "log acknowledged before fsync",
        "an append returns without its fdatasync",
        acknowledged_before_fsync,
        (Kill("L3", ("O1", "O8"), ("appends",)),),
    ),
    Mutant(
        "append behind a torn tail in the same segment",
        "the next owner goes on in the segment of its predecessor, behind whatever is there",
        append_behind_a_torn_tail,
        (
            Kill("L2", ("O1", "O8"), ("resumes",)),
            Kill("L3", ("O1", "O8"), ("resumes",)),
        ),
    ),
    Mutant(
        "what failed is believed when it is taken again",
        "a handle that takes the session again goes on behind what failed",
        failed_is_believed,
        (Kill("L3", ("O1", "O7", "O8"), ("insists-log",)),),
    ),
    Mutant(
        "the unattested end is not written again",
        "R1 takes an end of the log that no manifest names for durable, because it is visible",
        end_not_written_again,
        (Kill("L3", ("O1", "O7", "O8"), ("insists-log",)),),
    ),
    Mutant(
        "newline decides a torn tail",
        "a bad line that ends in a line feed is damage, even if a sector of it never arrived",
        newline_decides,
        (Kill("L3", ("O1", "O8"), ("appends",)),),
    ),
    Mutant(
        "resynchronising at newlines only",
        "lines behind a bad one are looked for behind line feeds alone",
        resynchronising_at_newlines,
        (
            Kill("L5", ("O12",), ("insists-log",)),
            Kill(
                "T", (), ("tests/rules/test_tail.py::test_later_line_is_found_wherever_it_begins",)
            ),
        ),
    ),
    Mutant(
        "damage in the middle treated as a torn tail",
        "whatever is bad in the newest segment is torn",
        damage_taken_for_a_torn_tail,
        (Kill("L5", ("O12",), ("insists-log",)),),
    ),
)
"""Mistakes of the event log."""
