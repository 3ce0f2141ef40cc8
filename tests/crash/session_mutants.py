"""Planted bugs of sessions: each a small patch of the product, never a switch in it.

A mutant puts one known mistake of such logs in place of the right code. ``MUTANTS`` names for
each the oracle, which the real tests call as well; it must fail with the patch and pass without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from unittest import mock

from lastgood import binding, claim, event_log
from lastgood.event_log import EventLog
from lastgood.formats import anchor, manifest
from lastgood.formats.seal import digest_of
from lastgood.lease import Lease
from lastgood.log_reading import SEGMENTS
from lastgood.storage import publish, segments
from lastgood.storage.directory import unknown
from lastgood.storage.segments import Segments
from tests.crash.seam import Killed, Mortal
from tests.crash.sessions import Sessions, check_recovers, opened
from tests.crash.test_session_pauses import (
    a_claim_says_what_no_owner_before_it_leaves_out,
    an_owner_paused,
    an_owner_that_works_while_it_is_overtaken,
    calls_of,
    overtaken_append_writes_nothing,
)
from tests.crash.test_session_power import (
    a_dead_owners_end_is_written_again,
    a_failed_sync_acknowledges_nothing,
    power_is_lost_anywhere,
)
from tests.crash.test_session_threads import (
    a_snapshot_waits_for_the_batch_that_is_being_written,
    an_append_under_way_survives_a_second_taking,
)
from tests.support.check import check

Patch = AbstractContextManager[object]
Oracle = Callable[[Sessions], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        mistake: What it does wrong.
        planted: Plants it for the length of a block.
        oracle: What must fail while it is planted.
    """

    mistake: str
    planted: Callable[[], Patch]
    oracle: Oracle


def _patched(place: Any, name: str, wrong: object) -> Callable[[], Patch]:
    return lambda: mock.patch.object(place, name, wrong)


@contextmanager
def _all_of(*patches: Patch) -> Any:
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch)
        yield


# --- ownership ----------------------------------------------------------------------------


def _no_confirm(*, before: bool) -> Callable[[], Patch]:
    """The owner is confirmed on one side of the write only."""
    right = Lease.confirm_owner

    def wrong(self: Lease) -> None:
        skipped = "_write" if before else "_confirm_written"
        if sys._getframe(1).f_code.co_name != skipped:
            right(self)

    return _patched(Lease, "confirm_owner", wrong)


def _claim_after_the_first_append() -> Patch:
    waiting: list[Callable[[], object]] = []
    right_append, right_confirm = EventLog.append, Lease.confirm_owner

    def swap(following: Any, scope: Any, storage: Any) -> Any:
        record = manifest.encode(
            following, store_id=scope.store_id, session=scope.session, sealer=scope.sealer
        )
        expected = following.revision - 1
        if sys._getframe(1).f_code.co_name == "_bind":
            waiting.clear()  # a dead process's
            waiting.append(lambda: storage.swap(record, expected=expected))
        else:
            storage.swap(record, expected=expected)
        return replace(following, digest=digest_of(record))

    def append(self: EventLog, events: Any) -> Any:
        ticket = right_append(self, events)
        while waiting:
            waiting.pop()()
        return ticket

    def confirm(self: Lease) -> None:
        if not waiting:
            right_confirm(self)

    return _all_of(
        mock.patch.object(claim, "swap", swap),
        mock.patch.object(EventLog, "append", append),
        mock.patch.object(Lease, "confirm_owner", confirm),
    )


def _no_reading_again(scope: Any, storage: Any, log: Any, claimed: Any, **others: Any) -> Any:
    return log


# --- durability ---------------------------------------------------------------------------


def _no_fdatasync(self: Any, directory: Any, name: str, data: bytes) -> None:
    segment = self._segment(name)
    publish.write_at(directory.filesystem, segment.fd, data, offset=segment.appended_bytes)
    segment.appended_bytes += len(data)


def _append_behind_a_failed_one() -> Patch:
    right = EventLog._settle

    def append(self: Any, directory: Any, name: str, data: bytes) -> None:
        segment = self._segment(name)
        at, segment.appended_bytes = segment.appended_bytes, segment.appended_bytes + len(data)
        with unknown("Appending"):
            publish.write_at(directory.filesystem, segment.fd, data, offset=at)
            directory.filesystem.fdatasync(segment.fd)

    def settle(self: EventLog, batch: Any, error: Any) -> None:
        right(self, batch, error)
        self.over = False

    return _all_of(
        mock.patch.object(Segments, "append", append),
        mock.patch.object(EventLog, "_settle", settle),
    )


def _no_directory_sync_of_a_segment() -> Patch:
    right = publish._make_durable

    def wrong(directory: Any, temporary: str, name: str) -> None:
        if name.startswith(SEGMENTS):
            directory.filesystem.unlink(temporary, dir_fd=directory.fd)
        else:
            right(directory, temporary, name)

    return mock.patch.object(publish, "_make_durable", wrong)


def _nothing_made_durable() -> Patch:
    def read_again(scope: Any, storage: Any, log: Any, claimed: Any, **others: Any) -> Any:
        with mock.patch.object(storage, "rewrite", return_value=None):
            return right(scope, storage, log, claimed, **others)

    right = binding.read_again
    return _all_of(
        mock.patch.object(binding, "persist", return_value=None),
        mock.patch.object(binding, "read_again", read_again),
    )


def _predecessor_of_the_listing() -> Patch:
    """A segment's first line names the newest name in the directory, whatever is in it."""
    right, logs = EventLog._add, []

    def add(self: EventLog, *args: Any) -> Any:
        logs.append(self)
        return right(self, *args)

    def encode(before: Any) -> Any:
        listed = sorted(logs[-1].lease.storage.list(SEGMENTS))
        last = listed[-1] if listed else ""
        return anchor.encode(replace(before, segment=last) if last else before)

    shown = mock.Mock(EMPTY=anchor.EMPTY, encode=encode)
    return _all_of(
        mock.patch.object(EventLog, "_add", add), mock.patch.object(event_log, "anchor", shown)
    )


# --- threads ------------------------------------------------------------------------------


def _flush_past_a_leader() -> Patch:
    right = EventLog.flush

    def wrong(self: EventLog) -> None:
        if self._leader is None:
            right(self)

    return mock.patch.object(EventLog, "flush", wrong)


def _taking_again_past_a_leader() -> Patch:
    right = EventLog.flush

    def wrong(self: EventLog) -> None:
        if sys._getframe(1).f_code.co_name != "take_again_saving":
            right(self)

    return mock.patch.object(EventLog, "flush", wrong)


# --- oracles ------------------------------------------------------------------------------


_STRIDE: Final = 4
"""Each of the mistakes shows at more calls in a row than that."""


def _with(scene: str, oracle: Callable[..., object], *arguments: object) -> Oracle:
    def run(sessions: Sessions) -> None:
        with sessions.copy(scene) as place:
            oracle(place, *arguments)

    return run


def _paused_appends(sessions: Sessions) -> None:
    for at in range(calls_of(sessions, "append")):
        with sessions.copy("begun") as place:
            an_owner_paused(place, "append", at, "closes")


def _overtaken_while_it_works(sessions: Sessions) -> None:
    at, going = 0, True
    while going:
        with sessions.copy("begun") as place:
            going = an_owner_that_works_while_it_is_overtaken(place, at, "append")
        at += _STRIDE


def _deaths_of_an_opening(sessions: Sessions) -> None:
    at, going = 0, True
    while going:
        with sessions.copy("begun") as place:
            mortal = Mortal(at)
            with suppress(Killed):
                opened(place, mortal).close()
            going = mortal.is_dead
            check_recovers(place, sessions.told("begun"), f"died before call {at}")
        at += _STRIDE
    check(at > 100, f"{at} calls")


def _dead_owner(*, fails: bool) -> Oracle:
    return lambda sessions: a_dead_owners_end_is_written_again(sessions, fails=fails)


def _recovers_from(scene: str) -> Oracle:
    def run(sessions: Sessions) -> None:
        with sessions.copy(scene) as place:
            check_recovers(place, sessions.told(scene), scene)

    return run


MUTANTS: Final = (
    Mutant(
        "no confirm before the write",
        _no_confirm(before=True),
        _with("begun", overtaken_append_writes_nothing),
    ),
    Mutant("no confirm behind the fdatasync", _no_confirm(before=False), _paused_appends),
    Mutant("claim after the first append", _claim_after_the_first_append, _deaths_of_an_opening),
    Mutant(
        "the log is not read again after the claim",
        _patched(binding, "read_again", _no_reading_again),
        _overtaken_while_it_works,
    ),
    Mutant(
        "a claim says all that is found of the log",
        _patched(binding, "attestable", lambda log, base: log.end),
        _with("begun", a_claim_says_what_no_owner_before_it_leaves_out),
    ),
    Mutant(
        "acknowledged before the fdatasync",
        _patched(segments.Segments, "append", _no_fdatasync),
        power_is_lost_anywhere,
    ),
    Mutant(
        "append behind a failed one",
        _append_behind_a_failed_one,
        a_failed_sync_acknowledges_nothing,
    ),
    Mutant(
        "what failed is believed when it is taken again",
        _patched(binding, "ending", lambda log, acknowledged: log),
        a_failed_sync_acknowledges_nothing,
    ),
    Mutant(
        "the unattested end is not written again",
        _patched(binding, "persist", lambda *args: None),
        _dead_owner(fails=True),
    ),
    Mutant("the end is not made durable at all", _nothing_made_durable, _dead_owner(fails=False)),
    Mutant(
        "a first line names the predecessor in the listing",
        _predecessor_of_the_listing,
        _recovers_from("reserved"),
    ),
    Mutant(
        "a new segment without its directory's fsync",
        _no_directory_sync_of_a_segment,
        power_is_lost_anywhere,
    ),
    Mutant(
        "a snapshot does not wait for the batch that is being written",
        _flush_past_a_leader,
        _with("begun", a_snapshot_waits_for_the_batch_that_is_being_written),
    ),
    Mutant(
        "taking again does not wait for the batch that is being written",
        _taking_again_past_a_leader,
        _with("begun", an_append_under_way_survives_a_second_taking),
    ),
)
