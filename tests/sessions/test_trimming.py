"""Trimming: whole segments below the older generation leave the log, and nothing else ever does."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import lastgood
from lastgood.errors import (
    ConflictError,
    DamagedError,
    LastgoodError,
    LogGapError,
    PolicyError,
    RollbackDetectedError,
    UnknownSessionError,
    UsageError,
)
from tests.crash.scenes import DIRECTORY, KEYS, SESSION
from tests.crash.seam import Seam
from tests.crash.sessions import Told, opened
from tests.sessions.trimmed import (
    check_goes_on,
    copied,
    events_of,
    found_log,
    generations,
    lines_of,
    make,
    numbers_of,
    plan,
    report,
    segments,
    tree,
    trim,
)
from tests.support.check import check, check_equal

ALL = 10**9


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Told]:
    """A session to copy."""
    root = tmp_path_factory.mktemp("trimming") / "state"
    return root, make(root)


@pytest.fixture
def made(original: tuple[Path, Told], tmp_path: Path) -> tuple[Path, Told]:
    """A session of its own, and what the world knows of it."""
    root, told = original
    return copied(root, tmp_path / "state"), Told(list(told.acknowledged), saved=told.saved)


def test_a_trimmed_session_goes_on_with_every_acknowledged_event(made: tuple[Path, Told]) -> None:
    """G1, G2: what leaves is in both generations already; the state and its effects stay.

    Method: trim as much as may go, then resume twice with determinism checked, append and save.
    """
    root, told = made
    before = segments(root)
    gone = trim(root, ALL)
    check(len(gone.names) >= 3 and gone.revision > 0, f"{gone}")
    check_equal(gone.names, tuple(before[: len(gone.names)]), "the oldest left, in their order")
    check(not set(gone.names) & set(segments(root)), "they are gone")
    check_equal(found_log(root).links[0].before.count + 1, gone.first_kept, "the first kept event")
    check_goes_on(root, told, "trimmed")


def test_nothing_at_or_above_the_asked_event_or_the_older_generation_leaves(
    original: tuple[Path, Told], tmp_path: Path
) -> None:
    """G2: a segment leaves exactly if each of its events is below both; no other ever does.

    Method: every possible ``before``, asked of ``plan``, and trimmed for each another outcome.
    """
    root, _ = original
    older = generations(root)[0]
    numbers = {name: numbers_of(root / DIRECTORY / name) for name in segments(root)}
    outcomes: dict[tuple[str, ...], int] = {}
    for before in range(1, max(map(max, numbers.values())) + 3):
        expected = tuple(n for n, held in numbers.items() if max(held) < min(before, older))
        planned = plan(root, before)
        check_equal(planned.names, expected, f"before {before}, older {older}")
        outcomes.setdefault(planned.names, before)
    check(len(outcomes) >= 4, f"{outcomes}")
    for number, (names, before) in enumerate(outcomes.items()):
        copy = copied(root, tmp_path / str(number))
        trim(copy, before)
        kept = [name for name in segments(root) if name not in names]
        check_equal([n for n in segments(copy) if n in numbers], kept, f"kept before {before}")


def test_the_event_that_the_older_generation_is_anchored_at_stays(tmp_path: Path) -> None:
    """G2: the anchor's own line can be verified after every trimming.

    Method: checkpoints behind whose last event the segment has no room for the next.
    """
    root, told = tmp_path / "state", Told()
    with opened(root) as session:
        for number in range(4):
            told.append(session, f"{number}", pad_bytes=140_000)
            told.save(session)
    older = generations(root)[0]
    numbers = {name: numbers_of(root / DIRECTORY / name) for name in segments(root)}
    (anchored,) = (name for name, held in numbers.items() if older in held)
    check_equal(numbers[anchored][-1], older, "it is the last of its segment")
    gone = trim(root, ALL)
    check(gone.names != () and anchored not in gone.names, f"{anchored} left: {gone}")
    check_goes_on(root, told, "trimmed", rounds=0)


def test_a_plan_is_what_trimming_does_and_changes_nothing(made: tuple[Path, Told]) -> None:
    """G8: what would leave is told by reading only, in the very words of the trimming.

    Method: every byte before and after the plan, then the trimming.
    """
    root, _ = made
    before = tree(root)
    planned = plan(root, ALL)
    check_equal(tree(root), before, "every file")
    done = trim(root, ALL)
    shown = (planned.names, planned.events, planned.size_bytes, planned.root, planned.head)
    check_equal(shown, (done.names, done.events, done.size_bytes, done.root, done.head), "plan")
    check_equal((planned.revision, planned.first_kept), (0, done.first_kept), "nothing was done")


def test_a_plan_beside_a_program_at_work_is_no_alarm(made: tuple[Path, Told]) -> None:
    """G8: a generation that is pruned while it is read was followed by others, and is no damage.

    Method: a program appends, and saves twice, before each two of a plan's looks at a checkpoint.
    """
    root, told = made
    both = 0
    with opened(root) as session:
        for pair in itertools.combinations(range(1, 8), 2):
            looks = itertools.count(1)

            def work(_: int, call: str, pair: tuple[int, ...], looks: Iterator[int]) -> None:
                if call.startswith("open checkpoint-") and next(looks) in pair:
                    for _ in range(2):
                        told.append(session, f"more-{len(told.acknowledged)}")
                        told.save(session)

            seam = Seam(before=partial(work, pair=pair, looks=looks))
            check(plan(root, ALL, seam=seam).names != (), f"interrupted at looks {pair}")
            both += next(looks) > pair[1]
        check(both >= 3, f"only {both} plans were interrupted twice")


def test_with_one_generation_nothing_leaves(tmp_path: Path) -> None:
    """G2: below the only generation nothing is left to rebuild from, so trimming is refused.

    Method: sessions with none and with one checkpoint; every byte is compared.
    """
    for saves in (0, 1):
        root = tmp_path / str(saves)
        told = make(root, rounds=3, saves=saves)
        before = tree(root)
        for attempt in (trim, plan):
            with pytest.raises(PolicyError, match="two generations"):
                attempt(root, ALL)
        check_equal(tree(root), before, f"{saves} checkpoints: every file")
        with opened(root) as session:
            check_equal(session.state["items"], told.acknowledged, "the state")


def test_what_is_no_decision_or_no_log_is_refused_and_changes_nothing(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G3: who decides says who and why, in words; there must be a session, and a log in it.

    Method: each refusal by its class, every byte compared.
    """
    root, _ = made
    before = tree(root)
    for text in ("", "  ", "a\nb", "x" * 501, "\x1b[31m"):
        with pytest.raises(UsageError):
            trim(root, ALL, actor=text)
        with pytest.raises(UsageError):
            trim(root, ALL, reason=text)
    for number in (0, -1, 10**15 + 1):
        with pytest.raises(UsageError):
            trim(root, number)
    check_equal(tree(root), before, "every file")
    with pytest.raises(UnknownSessionError):
        trim(tmp_path / "nowhere", ALL)
    shutil.copytree(root, tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / DIRECTORY)
    with pytest.raises(UnknownSessionError):
        trim(tmp_path / "other", ALL)
    with lastgood.open_store(tmp_path / "plain", keys=KEYS) as store:
        store.checkpoints(SESSION).close()
    with pytest.raises(PolicyError, match="no event log"):
        trim(tmp_path / "plain", ALL)


def test_the_archive_holds_every_byte_and_the_sealed_event_its_root(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G9: names, lengths, head and Merkle root of what left are sealed in the log.

    Method: the archived lines, hashed here by the recursive definition, and compared.
    """
    root, _ = made
    held = {name: (root / DIRECTORY / name).read_bytes().rstrip(b"\0") for name in segments(root)}
    gone = trim(root, ALL, archive=tmp_path / "kept")
    kept = tmp_path / "kept" / DIRECTORY
    check_equal({p.name: p.read_bytes() for p in kept.glob("events-*")},
                {name: held[name] for name in gone.names}, "archived bytes")  # fmt: skip
    lines = [line for name in gone.names for line in lines_of(kept / name)]
    (event,) = events_of(root, "lastgood.trimmed")
    last = json.loads(lines[-1])
    check_equal(
        event,
        {
            "actor": "olga", "reason": "disk is full", "kept": True, "names": list(gone.names),
            "lengths": [len(held[name]) for name in gone.names], "first": last["e"]["seq"] + 1,
            "head": last["mac"], "root": _root(lines).hex(),
        },
        "the event",
    )  # fmt: skip
    check_equal((gone.events, gone.root), (len(lines), _root(lines).hex()), "what was returned")


def _root(lines: list[bytes]) -> bytes:
    if len(lines) == 1:
        return hashlib.sha256(b"\0" + lines[0]).digest()
    at = 1 << (len(lines) - 1).bit_length() - 1
    return hashlib.sha256(b"\1" + _root(lines[:at]) + _root(lines[at:])).digest()


def test_an_archive_that_holds_the_same_goes_on_and_another_stops(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G3: nothing is overwritten, and nothing leaves that is not kept.

    Method: an archive that a trimming left half-way; then one with other bytes under a name.
    """
    root, told = made
    other = copied(root, tmp_path / "other")
    kept = tmp_path / "kept"
    gone = trim(root, ALL, archive=kept)
    trim(other, ALL, archive=kept)
    check_equal(segments(other)[0], segments(root)[0], "the same left")
    third = copied(tmp_path / "other", tmp_path / "third")
    check_goes_on(third, told, "kept again")
    for data in (b"", b"other", (kept / DIRECTORY / gone.names[0]).read_bytes() + b"x"):
        (kept / DIRECTORY / gone.names[-1]).write_bytes(data)
        fresh = tmp_path / f"fresh-{len(data)}"
        made_again = make(fresh)
        before = segments(fresh)
        with pytest.raises(ConflictError, match="archive holds another"):
            trim(fresh, ALL, archive=kept)
        check_equal([n for n in segments(fresh) if n in before], before, "nothing left")
        check_equal((kept / DIRECTORY / gone.names[-1]).read_bytes(), data, "the other bytes")
        check_goes_on(fresh, made_again, "refused")


def test_the_store_itself_and_any_other_store_are_no_archive(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G3: a segment is never kept by the very file that is then removed, by whatever path.

    Method: the store's root, a link to it, a copy of it, and a root that leads to its sessions.
    """
    root, told = made
    before = segments(root)
    (tmp_path / "link").symlink_to(root)
    copied(root, tmp_path / "copy")
    for archive in (root, tmp_path / "link", tmp_path / "copy"):
        with pytest.raises(UsageError, match="is a store"):
            trim(root, ALL, archive=archive)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / DIRECTORY).symlink_to(root / DIRECTORY)
    with pytest.raises(LastgoodError):
        trim(root, ALL, archive=tmp_path / "hidden")
    check_equal(segments(root), before, "segments")
    with opened(root) as session:
        check_equal(session.state["items"], told.acknowledged, "the state")


def test_bytes_behind_a_named_length_are_kept_with_their_segment(tmp_path: Path) -> None:
    """G3: what lies behind a named length is kept before it leaves; nothing else is lost.

    Method: below the floor a segment whose owner died in the middle of a write.
    """
    root = tmp_path / "state"
    told = make(root, rounds=1)
    torn = segments(root)[-1]
    path = root / DIRECTORY / torn
    ended = path.read_bytes()
    lines = ended.rstrip(b"\0").split(b"\n")
    # As if its last event, the clean close, had been torn: an open segment, and half a line.
    path.write_bytes(b"\n".join([*lines[:-2], lines[-2][:60]]) + bytes(4096))
    for number in range(1, 5):
        with opened(root) as session:
            told.append(session, f"{number}a")
            told.save(session)
    held = {name: (root / DIRECTORY / name).read_bytes().rstrip(b"\0") for name in segments(root)}
    gone = trim(root, ALL, archive=tmp_path / "kept")
    check(torn in gone.names, f"{torn} left with {gone}")
    for name in gone.names:
        check_equal((tmp_path / "kept" / DIRECTORY / name).read_bytes(), held[name], name)
    with opened(root) as session:
        check_equal(session.state["items"], told.acknowledged, "the state")


def test_an_unverified_generation_or_line_lets_nothing_leave(
    original: tuple[Path, Told], tmp_path: Path
) -> None:
    """G3, I4: what is left must be good before anything goes, and so must what goes.

    Method: one byte changed in the older generation's payload, and in each segment in turn.
    """
    root, _ = original
    older = generations(root)[0]
    targets = [f"checkpoint-{older:06d}.json", *segments(root)]
    for number, name in enumerate(targets):
        copy = copied(root, tmp_path / str(number))
        path = copy / DIRECTORY / name
        data = bytearray(path.read_bytes())
        data[len(data.rstrip(b"\0")) - 30] ^= 1
        path.write_bytes(data)
        before = tree(copy)
        for attempt in (trim, plan):
            with pytest.raises((DamagedError, LastgoodError)) as caught:
                attempt(copy, ALL)
            check(caught.value.exit_code in (2, 3), f"{name}: {caught.value}")
        after = {k: v for k, v in tree(copy).items() if k in before and "events-" in k}
        check_equal(after, {k: v for k, v in before.items() if "events-" in k}, f"{name}: log")


def test_the_floor_is_durable_before_anything_leaves(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G2, G3: archive, then the event, then the floor's revision, then the removal, each durable.

    Method: the order of the calls at the seam.
    """
    root, _ = made
    seam = Seam()
    gone = trim(root, ALL, archive=tmp_path / "kept", seam=seam)
    calls = seam.made
    unlinks = [n for n, c in enumerate(calls) if c.startswith("unlink events-")]
    check_equal([calls[n].split()[1] for n in unlinks], list(gone.names), "what was removed")
    rename = max(n for n, c in enumerate(calls) if c.startswith("rename "))
    archived = [n for n, c in enumerate(calls) if c.startswith("link .events-") and
                c.split()[-1] in gone.names]  # fmt: skip
    written = max(n for n, c in enumerate(calls[:rename]) if c == "pwrite")
    check_equal(len(archived), len(gone.names), "archived names")
    check(max(archived) < written < rename < min(unlinks), f"{archived} {written} {rename}")
    durable = [n for n, c in enumerate(calls) if c in ("fsync", "fdatasync")]
    for first, second, what in (
        (max(archived), written, "the archive's directory"),
        (written, rename, "the event"),
        (rename, min(unlinks), "the pointer"),
    ):
        check(any(first < n < second for n in durable), f"{what} was not synced in time")
    closing = min(n for n, c in enumerate(calls) if c == "pwrite" and n > max(unlinks))
    check(any(max(unlinks) < n < closing for n in durable), "the removal was not synced")


def test_a_missing_segment_above_the_floor_stops_and_a_left_one_below_is_reported(
    made: tuple[Path, Told], tmp_path: Path
) -> None:
    """G3: only below a sealed floor may anything be missing; what is still there harms nothing.

    Method: remove each kept segment that a successor names; put back each that left.
    """
    root, told = made
    held = tree(root)
    gone = trim(root, ALL)
    trimmed = copied(root, tmp_path / "trimmed")
    live = [link.name for link in found_log(root).links]
    for number, name in enumerate(live[:-1]):
        copy = copied(trimmed, tmp_path / f"gap-{number}")
        (copy / DIRECTORY / name).unlink()
        error = report(copy).error
        check(isinstance(error, LogGapError), f"{name} is missing: {error}")
        with pytest.raises(LastgoodError) as caught:
            trim(copy, ALL)
        check_equal(caught.value.exit_code, 2, f"{name} is missing: {caught.value}")
    for name in gone.names:
        (root / DIRECTORY / name).write_bytes(held[f"{DIRECTORY}/{name}"])
        (root / DIRECTORY / name).chmod(0o600)
    found = report(root)
    check_equal(sorted(n for n in found.leftovers if n.startswith("events-")),
                sorted(gone.names), "leftovers")  # fmt: skip
    check_equal((found.error, found.verdict), (None, "good"), "what verify says")
    with opened(root) as session:
        check_equal(session.state["items"], told.acknowledged, "the state")
    again = trim(root, 1)
    check_equal((again.names, sorted(again.leftovers)), ((), sorted(gone.names)), "removed now")
    check(not set(gone.names) & set(segments(root)), "they are gone")
    check_goes_on(root, told, "finished")


def test_a_floor_that_is_put_back_is_a_rollback(made: tuple[Path, Told]) -> None:
    """G4: an older revision, without the floor, is not believed beside a newer log.

    Method: the manifests of before put back over those of after, pointer and numbers.
    """
    root, _ = made
    old = {k: v for k, v in tree(root).items() if "manifest" in k}
    trim(root, ALL)
    for path in (root / DIRECTORY).glob("manifest*"):
        path.unlink()
    for name, data in old.items():
        (root / name).write_bytes(data)
        (root / name).chmod(0o600)
    check(isinstance(report(root).error, RollbackDetectedError), f"{report(root).error}")
    with pytest.raises(RollbackDetectedError):
        opened(root)


def test_trimming_again_and_again_leaves_what_the_program_needs(tmp_path: Path) -> None:
    """G2: a session that is trimmed after each opening stays small and loses nothing.

    Method: eight rounds of work, each trimmed; the number of segments is bounded.
    """
    root, told, sizes = tmp_path / "state", Told(), []
    for number in range(8):
        with opened(root) as session:
            told.append(session, f"{number}")
            told.save(session)
        if number:
            trim(root, ALL)
        sizes.append(len(segments(root)))
        with opened(root) as session:
            check_equal(session.state["items"], told.acknowledged, f"round {number}")
    check(max(sizes[4:]) <= max(sizes[:4]) + 2, f"segments: {sizes}")
    check_equal(report(root).verdict, "good", "the verdict")
    check_equal(len(list(itertools.islice(tree(root), 100))) < 40, True, "files")
