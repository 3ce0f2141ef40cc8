"""``--pointer``: revisions that are damaged, gone or differ; what each repair goes on from.

Method of most: a session of a log and one of checkpoints only, closed, or left by a crash between
S4 and S6 or between two claims; the repair is run as the error names it.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from lastgood import Checkpoint, CheckpointStore
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import clone
from tests.crash.seam import Killed, Mortal, system
from tests.sessions import repaired
from tests.sessions.repaired import SESSION, Known, add, manifests, pointer, zero
from tests.support.check import check, check_equal
from tests.support.records import fingerprint

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]

PARTS: Final = ("pointer", "newest", "before")
TIMES: Final = ("closed", "opened", "opened twice", "published", "claimed")
"""How the session was left: closed; by owners killed behind their claim and an event, once or
twice; by one killed between S4 and S6 of a save, or between S6 and S7."""


def left(root: Path, time: str) -> None:
    """Let an owner die where ``time`` says."""
    at = {"published": "open .manifest", "claimed": "rename"}.get(time, "close")
    for _ in range({"closed": 0, "opened twice": 2}.get(time, 1)):
        mortal = Mortal()
        with suppress(Killed):
            session = repaired.opened(root, mortal)
            add(session, f"{time}")
            mortal.begin()
            mortal.at = at
            if time in ("published", "claimed"):
                session.save(fingerprints=[fingerprint(50)])
            session._storage.close()
        check(mortal.is_dead, f"{time}: it lives")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Known]]:
    """The sessions, and what each knows."""
    base = tmp_path_factory.mktemp("pointer")
    repaired.make(base / "closed")
    made = {}
    for time in TIMES:
        root = base / time
        if time != "closed":
            clone(base / "closed", root)
            left(root, time)
        made[time] = root, repaired.undamaged(root, base / "aside")
    return made


def spoil(root: Path, parts: tuple[str, ...], way: str) -> bool:
    """Damage the named revisions, each as a file of its own; False if one is not there."""
    numbered = manifests(root)
    if len(numbered) < 2:
        return False
    paths = {"pointer": pointer(root), "newest": numbered[-1], "before": numbered[-2]}
    for part in parts:
        if way == "delete":
            paths[part].unlink()
        else:
            zero(repaired.alone(paths[part]))
    return True


def some(parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every choice of at least one."""
    for count in range(1, len(parts) + 1):
        yield from itertools.combinations(parts, count)


@pytest.mark.parametrize("time", TIMES)
def test_every_choice_of_zeroed_revisions_is_mended_to_the_same_state(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path, time: str
) -> None:
    """C2-02, G4: pointer, newest number and the one before, each alone and together.

    Method: five ways in which the session was left, so that lost revisions may be claims of newer
    epochs than what is left, or have a published checkpoint behind them. With all three gone
    nothing verifies, and nothing is changed.
    """
    source, known = scenes[time]
    for parts in some(PARTS):
        root = tmp_path / "-".join(parts) / "store"
        root.parent.mkdir()
        clone(source, root)
        check(spoil(root, parts, "zero"), f"{time}: too few revisions")
        context = f"{time}, zeroed {parts}"
        if len(parts) == 3:
            words = ("repair", SESSION, "--pointer", "--reason", repaired.REASON)
            said = repaired.refused(root, words, code=2, context=context)
            check("neither it nor one" in said, said)
            continue
        found = repaired.mend(root, context=context)
        check_equal(found.repairs, ["pointer"], context)
        repaired.check_recorded(root, found, context=context)
        repaired.check_works(root, known, context=context)
        check(found.evidence <= repaired.contents(root), f"{context}: damaged bytes are gone")


@pytest.mark.parametrize("time", TIMES)
def test_every_choice_of_deleted_revisions_goes_on_or_stops(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path, time: str
) -> None:
    """G3, G4: a deleted revision is a crash's, and recovered, or stops; ``--pointer`` goes on.

    Method: as above, deleted. The newest claims gone are a rollback, of which the log tells.
    """
    source, known = scenes[time]
    for parts in some(PARTS):
        root = tmp_path / "-".join(parts) / "store"
        root.parent.mkdir()
        clone(source, root)
        spoil(root, parts, "delete")
        context = f"{time}, deleted {parts}"
        error = repaired.stop(root)
        if error is not None:
            words = ("repair", SESSION, "--pointer", "--reason", repaired.REASON)
            ran = repaired.run(root, *words)
            if not manifests(root):
                check_equal(ran.code, 2, f"{context}: {ran.said}")
                continue
            check_equal(ran.code, 0, f"{context}: {error} and then {ran.said}")
        repaired.check_works(root, known, context=context)


def test_pointer_of_an_earlier_time_is_set_aside(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path
) -> None:
    """G4: an authentic, older pointer whose number was pruned is damage; numbers decide."""
    root = tmp_path / "store"
    clone(scenes["closed"][0], root)
    early = tmp_path / "early.json"
    shutil.copy2(repaired.alone(pointer(root)), early)
    for _ in range(2):
        with repaired.opened(root) as session:
            session.save()
    known = repaired.undamaged(root, tmp_path / "aside")
    repaired.alone(pointer(root)).write_bytes(early.read_bytes())
    found = repaired.mend(root, context="an older pointer")
    check_equal(found.repairs, ["pointer"], "repairs")
    check(any(name.endswith("manifest.json") for name in found.answers[0]["kept"]), f"{found}")
    repaired.check_works(root, known, context="an older pointer")


def test_pointer_that_is_ahead_of_every_number_is_the_newest(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path
) -> None:
    """G4: where numbers were lost, the pointer is what the session stands on.

    Method: both numbers deleted, and an old one put in their place.
    """
    root = tmp_path / "store"
    clone(scenes["closed"][0], root)
    old = manifests(root)[0].read_bytes(), manifests(root)[0].name
    with repaired.opened(root) as session:
        session.save()
    known = repaired.undamaged(root, tmp_path / "aside")
    for path in manifests(root):
        path.unlink()
    (repaired.inside(root) / old[1]).write_bytes(old[0])
    (repaired.inside(root) / old[1]).chmod(0o600)
    before = repaired.newest(root).revision
    found = repaired.mend(root, context="ahead")
    check_equal(found.repairs, ["pointer"], "repairs")
    check(repaired.newest(root).revision > before, "the revision went back")
    repaired.check_works(root, known, context="ahead")


def test_pointer_that_differs_from_its_number_is_set_aside(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path
) -> None:
    """G3: two authentic records of one revision stop; the number is what stands.

    Method: the same revision made twice, from two copies of the session.
    """
    root, other = tmp_path / "store", tmp_path / "other"
    for place in (root, other):
        clone(scenes["closed"][0], place)
        with repaired.opened(place):
            pass
    data = pointer(other).read_bytes()
    known = repaired.undamaged(root, tmp_path / "aside")
    repaired.alone(pointer(root)).write_bytes(data)
    found = repaired.mend(root, context="differs")
    check_equal(found.repairs, ["pointer"], "repairs")
    check("differs" in found.answers[0]["decided"], f"{found.answers}")
    repaired.check_works(root, known, context="differs")


def test_damaged_checkpoint_that_a_crash_continued_is_gone_round(
    scenes: dict[str, tuple[Path, Known]], tmp_path: Path
) -> None:
    """G2: a checkpoint was published, the one before it is damaged: it is rolled forward to."""
    source, known = scenes["published"]
    root = tmp_path / "store"
    clone(source, root)
    zero(repaired.checkpoints(root)[-2])
    found = repaired.mend(root, context="continued")
    check_equal(found.repairs, ["pointer"], "repairs")
    repaired.check_works(root, known, context="continued")


@pytest.mark.parametrize("parts", [("pointer", "newest"), ("before",), ("pointer",)], ids=str)
@pytest.mark.parametrize("time", ["closed", "published"])
def test_checkpoints_only_session_is_mended_to_its_newest_state(
    tmp_path: Path, time: str, parts: tuple[str, ...]
) -> None:
    """G4: without a log, too, the lost revision's checkpoint is rolled forward to.

    Method: four saves, closed, or a fifth that died between S4 and S6.
    """
    root = tmp_path / "store"
    repaired.make_checkpoints(root)
    sequence = 40
    if time == "published":
        sequence = 50
        mortal = Mortal()
        store = CheckpointStore(
            PosixRoot(root, filesystem=system(mortal)), SESSION, keys=repaired.KEYS
        )
        mortal.begin()
        mortal.at = "open .manifest"
        done = [fingerprint(number) for number in range(1, 6)]
        with suppress(Killed):
            store.save(Checkpoint(50, {"n": 5}, done))
        check(mortal.is_dead, "it lives")
    spoil(root, parts, "zero")
    found = repaired.mend(root, context=f"{time} {parts}")
    check_equal(found.repairs, ["pointer"], "repairs")
    lost = "newest" in parts or "pointer" in parts
    check_equal(found.answers[0]["missing"] is not None, lost, f"{found.answers}")
    with CheckpointStore(root, SESSION, keys=repaired.KEYS) as store:
        loaded = store.load_latest()
        check_equal(loaded and loaded.sequence, sequence, "the sequence")
        check_equal(loaded and loaded.state, {"n": sequence // 10}, "the state")
    check_equal(repaired.run(root, "verify", SESSION).code, 0, "verify")
