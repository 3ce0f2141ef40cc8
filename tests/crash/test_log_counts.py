"""How many system calls a session with an event log makes: counts, which no busy machine changes.

=============================================  =====  =========
operation                                      fsync  fdatasync
=============================================  =====  =========
append, append_many within a segment               0          1
append that rolls (``begin`` two, its write)       2          1
save                                               4          0
save with new fingerprints (one line first)        4          1
save of what is saved already                      0          0
clean close                                        0          1
opening a new session of a new store              16          1
opening what was closed cleanly                    6          3
opening behind a death                             6          3
loading, verifying, listing, events                0          0
=============================================  =====  =========

An append makes the same calls however many segments, checkpoints and sessions there are; an
opening reads the log from the older generation on, and verify all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

import lastgood
from lastgood import Session
from lastgood.formats import segment
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import DIRECTORY, KEYS, SESSION, reader
from tests.crash.seam import CHANGES, Seam, system
from tests.crash.sessions import EACH, State, given, opened
from tests.support.check import check, check_equal
from tests.support.records import fingerprint

SYNCS: Final = ("fsync", "fdatasync")
MOST_OTHER_CALLS: Final = 16
SMALL_BYTES: Final = 4096


class Reading(Seam):
    """Counts the bytes that were read, by file."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes: Counter[str] = Counter()
        self._names: dict[int, str] = {}

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        result: Any = super()._call(name, call, args, options)
        if name == "open":
            self._names[result] = args[0]
        elif name in ("read", "pread"):
            self.read_bytes[self._names.get(args[0], "?")] += len(result)
        return result

    @property
    def segments(self) -> set[str]:
        """The segments of which anything was read."""
        return {name for name, count in self.read_bytes.items() if count and "events-" in name}


def counted(seam: Seam) -> Counter[str]:
    """The calls, by name."""
    return Counter(call.split()[0] for call in seam.made)


def syncs(seam: Seam) -> tuple[int, int]:
    """Fsyncs and fdatasyncs."""
    found = counted(seam)
    return found["fsync"], found["fdatasync"]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Segments of 4 KiB while a log is made, so that many cost little; call it to end that."""
    with monkeypatch.context() as patch:
        patch.setattr(segment, "FIRST_BYTES", SMALL_BYTES)
        patch.setattr(segment, "LARGEST_BYTES", SMALL_BYTES)
        yield patch.undo


def long_log(root: Path, count: int, *, saves: tuple[int, ...] = ()) -> None:
    """A log of about ``count`` segments, one item in each, with checkpoints after some of them."""
    with opened(root) as session:
        done = 0
        for at in (*saves, count):
            batch = [given(f"{number}", pad_bytes=3_000) for number in range(done, at)]
            session.append_many(batch)
            done = at
            if at in saves:
                session.save()


def segments(root: Path) -> list[str]:
    return sorted(path.name for path in (root / DIRECTORY).glob("events-*"))


def during(root: Path, step: Callable[[Session[State]], object], *before: Any) -> Seam:
    """The calls of ``step`` in a session that is open and has appended once."""
    seam = Seam()
    session = opened(root, seam)
    session.append(*given("warm"))
    for earlier in before:
        earlier(session)
    seam.begin()
    step(session)
    made = Seam()
    made.made = list(seam.made)
    session.close()
    return made


def append(session: Session[State]) -> None:
    session.append(*given("x"))


def append_many(session: Session[State]) -> None:
    session.append_many([given(f"x{number}") for number in range(100)])


def roll(session: Session[State]) -> None:
    session.append(*given("x", pad_bytes=70_000))


def save(session: Session[State]) -> None:
    session.save()


def save_effect(session: Session[State]) -> None:
    session.save(fingerprints=[fingerprint(1)])


def look(session: Session[State]) -> None:
    check(session.state["items"], "a state")
    check(session.should_replay(fingerprint(9)), "new")


STEPS: Final[dict[str, tuple[tuple[Callable[[Session[State]], None], ...], tuple[int, int]]]] = {
    "append": ((append,), (0, 1)),
    "append_many of 100": ((append_many,), (0, 1)),
    "an append that rolls": ((roll,), (2, 1)),
    "a save": ((save,), (4, 0)),
    "a third save, which prunes": ((save, append, save, append, save), (4, 0)),
    "a save with a fingerprint": ((save_effect,), (4, 1)),
    "a save with a known fingerprint": ((save_effect, append, save_effect), (4, 0)),
    "the same save again": ((save, save), (0, 0)),
    "looking at the state": ((look,), (0, 0)),
    "a clean close": ((Session.close,), (0, 1)),
}


@pytest.mark.parametrize("what", STEPS)
def test_a_step_of_a_session_makes_the_stated_syncs(fast: Path, what: str) -> None:
    """G1, S4 to S7: the table of this module.

    Method: count at the seam.
    """
    (*before, step), expected = STEPS[what]
    made = during(fast, step, *before)
    check_equal(syncs(made), expected, f"fsyncs and fdatasyncs of {what}: {made.made}")


def test_an_automatic_save_is_an_append_and_a_save(fast: Path) -> None:
    """G1: a policy adds a save's calls to the append that it is due after, and to no other.

    Method: a policy that saves after each event.
    """
    seam = Seam()
    with opened(fast, seam, policy=EACH) as session:
        session.append(*given("a"))
        seam.begin()
        session.append(*given("b"))
        check_equal(syncs(seam), (4, 1), "fsyncs and fdatasyncs")


@pytest.mark.parametrize("step", [append, append_many])
def test_an_append_is_one_write_and_one_flush(
    fast: Path, step: Callable[[Session[State]], None]
) -> None:
    """G1: one pwrite, one fdatasync behind it, and looks at the ownership before and after.

    Method: the calls in their order; nothing else changes anything.
    """
    made = [call.split()[0] for call in during(fast, step).made]
    changing = [call for call in made if call in CHANGES or call in ("open", "close")]
    check_equal(changing, ["pwrite", "fdatasync"], f"changes among {made}")
    written = made.index("pwrite")
    check_equal(made[written + 2], "fstat", "what is asked of the segment itself")
    looks = (made[:written], made[written + 3 :])
    check(all(looks) and set(made) - {"pwrite", "fdatasync"} == {"fstat", "stat"}, f"{made}")
    check_equal(looks[0], looks[1], "what is looked at before and after")
    check(len(made) <= MOST_OTHER_CALLS + 2, f"{len(made)} calls: {made}")


def test_a_roll_adds_what_a_new_segment_costs(fast: Path) -> None:
    """G1: nothing of the old segment is synced again, and nothing more of the new one than begun.

    Method: the changing calls in their order.
    """
    made = [call.split()[0] for call in during(fast, roll).made if call.split()[0] in CHANGES]
    expected = ["writev", "fsync", "link", "unlink", "fsync", "pwrite", "fdatasync", "ftruncate"]
    check_equal(made, expected, "the changes of a roll")


@pytest.mark.slow
@pytest.mark.normal_only
def test_an_append_costs_the_same_in_a_long_and_in_a_short_session(
    scenes: Any, small: Callable[[], None]
) -> None:
    """G1: the calls of an append do not depend on segments, checkpoints and sessions that exist.

    Method: the very calls, by name, in a session of 10 segments and in one of 2,000 with a hundred
    milestones beside two hundred other sessions; a save and a close alike.
    """
    found: dict[str, list[Counter[str]]] = {"append": [], "many": [], "save": [], "close": []}
    with scenes.copy("absent") as short, scenes.copy("absent") as long:
        long_log(short, 10, saves=(3, 6))
        long_log(long, 2_000, saves=(3, 6))
        small()
        with opened(long) as session:
            for number in range(100):
                session.append(*given("m"))
                session.save(milestone=f"m{number}")
        with lastgood.open_store(PosixRoot(long), keys=KEYS) as store:
            for number in range(200):
                store.checkpoints(f"other-{number}").close()
        check(len(segments(long)) >= 2_000, "a long one")
        check(len(segments(short)) <= 20, "a short one")
        for root in (short, long):
            for step, name in ((append, "append"), (append_many, "many"), (Session.close, "close")):
                found[name].append(counted(during(root, step)))
            found["save"].append(counted(during(root, save, save, append, save, append)))
    for name, (first, second) in found.items():
        check_equal(second, first, f"calls of {name} in the long session, and in the short one")


def opening(root: Path) -> Reading:
    """The calls of opening a session, and of closing it without a word."""
    seam = Reading()
    session = opened(root, seam)
    made = list(seam.made)
    session._storage.close()
    seam.made[:] = made
    return seam


def test_openings_make_the_stated_syncs(fast: Path) -> None:
    """R1 to R8: the table of this module.

    Method: a new store, one that was closed, one whose owner left without a word.
    """
    check_equal(syncs(opening(fast)), (16, 1), "opening a new session of a new store")
    check_equal(syncs(opening(fast)), (6, 3), "opening behind a death")
    with opened(fast) as session:
        session.append(*given("a"))
        session.save()
    check_equal(syncs(opening(fast)), (6, 3), "opening what was closed")


def test_an_opening_reads_the_log_from_the_older_generation_on(
    scenes: Any, small: Callable[[], None]
) -> None:
    """R4: of 64 segments those behind the older checkpoint are read; verify reads every byte.

    Method: bytes by file, counted at the seam; a log ten times as long costs an opening the same.
    """
    costs: list[Counter[str]] = []
    for count in (64, 640):
        with scenes.copy("absent") as root:
            long_log(root, count, saves=(count - 6, count - 3))
            every = segments(root)
            if count == 640:
                small()
            seam = opening(root)
            kept = {path.name: path.stat().st_size for path in (root / DIRECTORY).glob("events-*")}
            costs.append(counted(seam))
            # The older generation's own segment, those behind it, and the closing one.
            check(seam.segments <= set(every[-9:]), f"read of {count}: {sorted(seam.segments)}")
            check(set(every[-6:]) <= seam.segments, f"not read: {sorted(seam.segments)}")
            whole = Reading()
            with reader(root, whole) as store:
                check_equal(store.check().error, None, "verify")
            short = {n: s for n, s in kept.items() if whole.read_bytes[n] < s}
            check_equal(short, {}, "files that verify did not read to their ends")
            check_equal(syncs(whole), (0, 0), "syncs of verify")
    check_equal(costs[1], costs[0], "an opening of 640 segments, and of 64")


def test_no_reading_of_a_session_syncs_or_changes_anything(fast: Path) -> None:
    """G8: load, verify, events, a rehearsal and a plan of trimming only read.

    Method: every call of each at the seam.
    """
    for number in range(3):
        with opened(fast) as session:
            session.append(*given(f"{number}"))
            session.save()
    with opened(fast) as session:
        session.append(*given("open"))
        seam = Seam()
        with reader(fast, seam) as store:
            store.load_latest()
            store.check()
        with lastgood.open_store(PosixRoot(fast, filesystem=system(seam)), keys=KEYS) as whole:
            check_equal(len(list(whole.sessions())), 1, "sessions")
            with whole.history(SESSION) as found:
                check(len(list(found.events())) > 6, "events")
        changes = [call for call in seam.made if call.split()[0] in CHANGES]
        check_equal(changes, [], f"changes among {len(seam.made)} calls")
