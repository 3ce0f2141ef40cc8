"""The contract under races: of any number of callers one wins, and nobody's work is lost."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

from lastgood.errors import ConflictError
from lastgood.formats import names
from lastgood.storage.interface import OwnedStorage, StorageRoot
from lastgood.testing.checks import SESSION, ContractCase, content, require

_WRITERS = 4
_ROUNDS = 20
_SWAPS = 15


class RaceContract(ContractCase):
    """Exclusive create and compare-and-swap, by threads and by processes."""

    def test_racing_creates_have_one_winner(self) -> None:
        """P3: of threads that create one name one returns, and its bytes are what is read."""
        session = self.make_session()
        barrier = threading.Barrier(_WRITERS)

        def write(writer: int) -> list[int]:
            return _create_in_turns(session, writer, barrier)

        with ThreadPoolExecutor(_WRITERS) as pool:
            _check_winners(session, list(pool.map(write, range(_WRITERS))))

    def test_racing_swaps_lose_no_update(self) -> None:
        """P4: threads that count by swapping count right, each with a handle of its own."""
        root = self.make_root()
        root.session(SESSION, access="write").swap([b"0"], expected=0)
        with ThreadPoolExecutor(_WRITERS) as pool:
            work = [pool.submit(_count, root, writer) for writer in range(_WRITERS)]
            for done in work:
                done.result()
        _check_count(root, _WRITERS * _SWAPS)

    def test_racing_processes_create_once(self) -> None:
        """P3: of processes that create one name one returns."""
        session = self.make_session()
        reopen = self.reopener()
        if reopen is not None:
            with _processes() as pool:
                work = [pool.submit(_create_all, reopen, writer) for writer in range(_WRITERS)]
                _check_winners(session, [done.result() for done in work])

    def test_racing_processes_lose_no_update(self) -> None:
        """P4: processes that count by swapping count right."""
        root = self.make_root()
        root.session(SESSION, access="write").swap([b"0"], expected=0)
        reopen = self.reopener()
        if reopen is not None:
            with _processes() as pool:
                work = [
                    pool.submit(_count_in_process, reopen, writer) for writer in range(_WRITERS)
                ]
                for done in work:
                    done.result()
            _check_count(root, _WRITERS * _SWAPS)


def _processes() -> ProcessPoolExecutor:
    # Spawned, not forked: a forked child's handles are fenced.
    return ProcessPoolExecutor(_WRITERS, mp_context=multiprocessing.get_context("spawn"))


def _create_all(reopen: Callable[[], StorageRoot], writer: int) -> list[int]:
    return _create_in_turns(reopen().session(SESSION, access="write"), writer, None)


def _create_in_turns(
    session: OwnedStorage, writer: int, barrier: threading.Barrier | None
) -> list[int]:
    """Try to create each round's name; returns the rounds that were won."""
    won: list[int] = []
    for number in range(_ROUNDS):
        if barrier is not None:
            barrier.wait(timeout=60)
        try:
            session.create(f"round-{number}", [b"written by ", b"%d" % writer])
        except ConflictError:
            continue
        won.append(number)
    return won


def _check_winners(session: OwnedStorage, won: list[list[int]]) -> None:
    for number in range(_ROUNDS):
        winners = [writer for writer, rounds in enumerate(won) if number in rounds]
        require(len(winners) == 1, f"round {number} was won by {winners}")
        read = content(session, f"round-{number}")
        require(read == b"written by %d" % winners[0], f"round {number}: {winners} but {read!r}")
    require(len(session.list("round-")) == _ROUNDS, "a loser left something")


def _count_in_process(reopen: Callable[[], StorageRoot], writer: int) -> None:
    _count(reopen(), writer)


def _count(root: StorageRoot, writer: int) -> None:
    """Add 1 to the number in the newest manifest, ``_SWAPS`` times.

    The base is read from the numbers; the pointer may lag behind them for a moment. After a
    conflict the outcome is read: another may already stand on our claim.
    """
    session = root.session(SESSION, access="write")
    for step in range(_SWAPS):
        while True:
            revision, value = _newest(session)
            ours = b"%d %d/%d" % (value + 1, writer, step)
            try:
                session.swap([ours], expected=revision)
            except ConflictError:
                if content(session, names.manifest(revision + 1)) != ours:
                    continue
            break
    session.close()


def _newest(session: OwnedStorage) -> tuple[int, int]:
    """The newest revision and the number in it."""
    parsed = map(names.parse, session.list("manifest-"))
    revision = max(found.number for found in parsed if found is not None)
    return revision, int(content(session, names.manifest(revision)).split()[0])


def _check_count(root: StorageRoot, expected: int) -> None:
    session = root.session(SESSION, access="read")
    revision, counted = _newest(session)
    require(counted == expected, f"{expected} updates were acknowledged, {counted} are there")
    require(revision == expected + 1, f"{expected} updates made {revision} revisions")
    pointed = int(content(session, names.POINTER).split()[0])
    require(pointed <= counted, "the pointer is ahead")
