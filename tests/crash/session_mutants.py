"""Planted bugs of sessions that no level of ``fault_injection`` finds, but the tests of this room.

They take two owners at each call of one another, or two threads. ``MUTANTS`` names for each the
oracle, which the real tests call as well; it must fail with the patch and pass without.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from lastgood import binding
from lastgood.event_log import EventLog
from lastgood.lease import Lease
from tests.crash.sessions import Sessions
from tests.crash.test_session_pauses import (
    a_claim_says_what_no_owner_before_it_leaves_out,
    an_owner_that_works_while_it_is_overtaken,
    overtaken_append_writes_nothing,
)
from tests.crash.test_session_threads import (
    a_snapshot_waits_for_the_batch_that_is_being_written,
    an_append_under_way_survives_a_second_taking,
)

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


# --- ownership ----------------------------------------------------------------------------


def _no_confirm_before_the_write() -> Patch:
    right = Lease.confirm_owner

    def wrong(self: Lease) -> None:
        if sys._getframe(1).f_code.co_name != "_write":
            right(self)

    return mock.patch.object(Lease, "confirm_owner", wrong)


def _no_reading_again(scope: Any, storage: Any, log: Any, claimed: Any, **others: Any) -> Any:
    return log


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
"""The mistake shows at more calls in a row than that."""


def _with(scene: str, oracle: Callable[..., object], *arguments: object) -> Oracle:
    def run(sessions: Sessions) -> None:
        with sessions.copy(scene) as place:
            oracle(place, *arguments)

    return run


def _overtaken_while_it_works(sessions: Sessions) -> None:
    at, going = 0, True
    while going:
        with sessions.copy("begun") as place:
            going = an_owner_that_works_while_it_is_overtaken(place, at, "append")
        at += _STRIDE


MUTANTS: Final = (
    Mutant(
        "no confirm before the write",
        _no_confirm_before_the_write,
        _with("begun", overtaken_append_writes_nothing),
    ),
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
