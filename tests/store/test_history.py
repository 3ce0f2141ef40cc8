"""Store.history, newest and rehearse: what is read of a session without owning it."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from lastgood import Event, open_store
from lastgood.errors import (
    DamagedError,
    LastgoodError,
    PolicyError,
    StateError,
    UnknownSessionError,
)
from lastgood.formats import names
from lastgood.history import History
from tests.crash.scenes import KEYS
from tests.crash.scenes import SESSION as TRIMMED
from tests.sessions import trimmed
from tests.store.log_worlds import NEVER, count, history, opened, segments, spoil
from tests.store.world import SESSION, World, at
from tests.support.check import check, check_equal


def shown(world: World, *, since: int = 1) -> tuple[list[int], LastgoodError | None]:
    """The numbers of the events that are shown, and what comes behind them."""
    numbers: list[int] = []
    with open_store(world.root, keys=world.keys) as store, store.history(SESSION) as found:
        try:
            numbers += (event.sequence for event in found.events(since=since))
        except LastgoodError as error:
            return numbers, error
    return numbers, None


def ended(world: World) -> int:
    """The last event of a sound log."""
    log = world.report().log
    return 0 if log is None else log.end.count


def test_events_are_those_of_the_log_from_since_on(world: World) -> None:
    """All of them, in their order, and what was appended says the same when it is shown."""
    history(world)
    end = ended(world)
    check_equal(shown(world), (list(range(1, end + 1)), None), "all")
    check_equal(shown(world, since=7), (list(range(7, end + 1)), None), "from 7 on")
    check_equal(shown(world, since=end + 5), ([], None), "behind the end")
    with open_store(world.root, keys=world.keys) as store, store.history(SESSION) as found:
        data = [event.data for event in found.events() if not event.is_ours]
    expected = [
        n for owner in range(3) for n in (*range(10 * owner, 10 * owner + 5), 10 * owner + 9)
    ]
    check_equal(data, expected, "what they say")


def test_nothing_behind_damage_is_shown_however_well_it_verifies(world: World) -> None:
    """C1-05: of three owners' segments, the first is damaged in its middle; then the second."""
    history(world)
    first, second, _ = segments(world)
    sound = world.files()
    line = sound[first].index(b'"type":"x"')
    spoil(world, first, at=line + 8)
    number = sound[first].count(b"\n", 0, line) + 1
    numbers, error = shown(world)
    check_equal(numbers, list(range(1, number)), "before the damage in the first")
    check(isinstance(error, DamagedError) and error.name == first, f"{error}")
    check_equal(shown(world, since=2)[0], list(range(2, number)), "and from 2 on")
    world.put(first, sound[first])
    begin = int(second.split("-")[1])
    line = sound[second].index(b'"type":"x"')
    spoil(world, second, at=line + 8)
    number = begin + sound[second].count(b"\n", 0, line)
    numbers, error = shown(world)
    check_equal(numbers, list(range(1, number)), "before the damage in the second")
    check(isinstance(error, DamagedError) and error.name == second, f"{error}")


def test_what_an_owner_did_not_take_over_is_never_shown(world: World) -> None:
    """T11: lines of a fenced owner behind the length that its successor names are not the log.

    Method: the same segment with two more acknowledged lines, put back behind a successor; sound,
    with a damaged manifest, and with the successor's first line damaged.
    """
    with opened(world) as session:
        session.append("x", 1)
        end = session.sequence
        (name,) = segments(world)
        before = world.files()[name]
        session.append_many([("x", 2), ("x", 3)])
        longer = world.files()[name]
    world.put(name, before)
    with opened(world) as session:
        session.append("x", 4)
    successor = segments(world)[-1]
    check_equal(int(successor.split("-")[1]), end + 1, "where the successor begins")
    last = ended(world)
    world.put(name, longer)
    check_equal(shown(world), (list(range(1, last + 1)), None), "sound")
    pointer = world.files()[names.POINTER]
    world.put(names.POINTER, b"not a record")
    numbers, error = shown(world)
    check_equal((numbers, error is None), (list(range(1, last + 1)), False), "a damaged pointer")
    world.put(names.POINTER, pointer)
    spoil(world, successor, at=100)
    numbers, error = shown(world)
    check_equal((numbers, error is None), (list(range(1, end + 1)), False), "no first line")


def test_events_begin_at_the_floor_of_a_trimmed_log(tmp_path: Path) -> None:
    """G8: what was trimmed is not missed; damage behind the floor is shown up to there.

    Method: trim a log of five owners; then damage its end.
    """
    root = tmp_path / "store"
    trimmed.make(root)
    before = trimmed.generations(root)[0] - 1
    trimmed.trim(root, before)
    log = trimmed.report(root).log
    check(log is not None and log.first > 1, "nothing was trimmed")
    if log is None:
        return
    with open_store(root, keys=KEYS) as store, store.history(TRIMMED) as found:
        numbers = [event.sequence for event in found.events()]
    check_equal(numbers, list(range(log.first, log.end.count + 1)), "sound")
    path = next(root.rglob(trimmed.segments(root)[-1]))
    path.write_bytes(path.read_bytes().replace(b'"type":"', b'"tYpe":"'))
    numbers = []
    with open_store(root, keys=KEYS) as store, store.history(TRIMMED) as found:
        try:
            for event in found.events():
                numbers.append(event.sequence)
        except LastgoodError as error:
            check_equal(error.exit_code, 2, f"{error}")
    begin = int(path.name.split("-")[1])
    check_equal(numbers, list(range(log.first, begin)), "damaged")


def test_a_session_that_is_not_there_or_has_no_log_is_refused(world: World) -> None:
    """Nothing is made by looking, and an empty answer never stands for a misspelt name."""
    world.saved(10)
    for session, kind in (("other", UnknownSessionError), (SESSION, PolicyError)):
        with (
            open_store(world.root, keys=world.keys) as store,
            pytest.raises(kind),
            store.history(session),
        ):
            pass


def test_newest_is_the_row_of_the_report_and_the_state_that_loads(world: World) -> None:
    """One settled reading says what two say. Method: current, a milestone; then an unnamed one.

    The unnamed one is what a kill between S4 and S6 leaves.
    """
    with open_store(world.root, keys=world.keys) as store:
        check_equal(store.newest(SESSION), None, "without a session")
        world.saved(10, 20)
        with world.open() as handle:
            handle.save(at(30, 1), milestone="third")
        found = store.newest(SESSION)
        check(found is not None, "no checkpoint")
        if found is None:
            return
        check_equal(found[0], world.report().rows[-1], "its row")
        check_equal((found[1].state, len(found[1].fingerprints)), ({"n": 30}, 1), "its content")
        with world.open() as handle:
            before = world.files()
            handle.save(at(40, 1))
        for name in world.files():
            if name not in (names.checkpoint(40), names.SESSION):
                world.drop(name)
        for name, data in before.items():
            if name != names.SESSION:
                world.put(name, data)
        found = store.newest(SESSION)
        check_equal(found and (found[0].role, found[0].sequence), ("published", 40), "unnamed")
        row = next(row for row in world.report().rows if row.sequence == 40)
        check_equal(row.role, "published", "in the report")


def test_rehearsal_gives_what_an_opening_gives(world: World) -> None:
    """R3, R5, R6 without R1: the state and the numbers are those of the session that follows."""
    program: dict[str, Any] = {
        "reducer": count,
        "initial": {"n": []},
        "schema_version": 2,
        "migrations": {1: lambda state: {**state, "two": 2}},
    }
    with open_store(world.root, keys=world.keys) as store:
        check_equal(store.rehearse(SESSION, **program), None, "a new session")
        history(world)
        found = store.rehearse(SESSION, **program)
        with opened(world, **program) as session:
            real = session.resumed
    check(found is not None, "nothing was found")
    if found is not None:
        check_equal(found.state, real.state, "state")
        told = (found.migrated_from, found.checkpoint, found.replayed, found.end)
        check_equal(told, (real.migrated_from, real.checkpoint, real.replayed, real.end), "numbers")
        check_equal(told[0], 1, "schema")


def test_rehearsal_finds_a_reducer_that_is_another_each_time(world: World) -> None:
    """determinism="check" says before a session is opened what it would say then."""
    history(world)
    numbers = itertools.count()

    def moody(state: Any, event: Event) -> Any:
        return {"n": [*state["n"], next(numbers)]}

    with open_store(world.root, keys=world.keys) as store:
        with pytest.raises(StateError):
            store.rehearse(SESSION, reducer=moody, initial={"n": []}, determinism="check")
        check(store.rehearse(SESSION, reducer=moody, initial={"n": []}) is not None, "trusted")


@pytest.mark.slow
@pytest.mark.normal_only
def test_memory_does_not_grow_with_the_log(disk: World) -> None:
    """A log of 24 MB is shown in the memory of a few of its segments, sound and damaged."""

    def forget(state: Any, _: Event) -> Any:
        return state

    with opened(disk, reducer=forget, initial=0, policy=NEVER) as session:
        for _ in range(24):
            session.append_many([("x", "y" * 10_000)] * 100)
    for damage in (False, True):
        if damage:
            spoil(disk, segments(disk)[-1], at=5_000)
        tracemalloc.start()
        try:
            numbers, error = shown_count(disk)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        check(numbers > 2_000 and (error is None) is not damage, f"{numbers} events, {error}")
        check(peak < 12_000_000, f"{peak} bytes, {damage=}")


def shown_count(world: World) -> tuple[int, LastgoodError | None]:
    """How many events are shown, one at a time, and what comes behind them."""
    number = 0
    with open_store(world.root, keys=world.keys) as store, store.history(SESSION) as found:
        check(isinstance(found, History), "a history")
        try:
            for _ in found.events():
                number += 1
        except LastgoodError as error:
            return number, error
    return number, None
