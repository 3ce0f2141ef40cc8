"""C12: deletion, roll-back, keys, code in state, as far as a store without a witness can tell."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from lastgood import Checkpoint, CheckpointStore, Keyring
from lastgood.errors import KeyFileError, KeyMismatchError
from tests.cases.harness import SESSION, inside, refusal, stops
from tests.cli.commands import Place
from tests.support import records, trees
from tests.support.check import check, check_equal


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


def test_c12_02_deleted_session_is_unknown_and_never_good(place: Path, tmp_path: Path) -> None:
    """C12-02: a session that is gone is "unknown session" on the command line (exit 1).

    Method: the session's directory removed; load and verify by the command line, load by the
    library, which says None: without a memory outside the store nobody can tell more.
    """
    commands = Place(tmp_path)
    trees.KEYS.write_new(commands.keys)
    shutil.rmtree(inside(place))
    for verb in ("load", "list", "show"):
        ran = commands.run(verb, SESSION, environment={"LASTGOOD_ROOT": str(place)}).left(1)
        check(not ran.out, f"{verb} printed {ran.text}")
    outcome = trees.read(place)
    check(outcome.loaded is None and outcome.error is None, outcome.says())


def test_c12_02_deleted_manifests_and_checkpoints_stop(place: Path) -> None:
    """C12-02: with manifests gone and checkpoints there, it stops; so it does the other way round.

    Method: all of one kind removed.
    """
    for path in inside(place).glob("manifest*"):
        path.unlink()
    stops(place, naming="without any manifest")
    other = trees.plant(trees.final(), place.parent / "other")
    for path in inside(other).glob("checkpoint*"):
        path.unlink()
    stops(other, naming=trees.CURRENT)


def test_c12_04_older_whole_copy_loads_and_says_that_this_was_not_checked(place: Path) -> None:
    """C12-04, L0: a consistent older copy is not told without a memory outside; that is said.

    Method: the store of an earlier time put back; it loads, and the report names the skipped
    check. Any part of the newer store left beside it is told (tests/security).
    """
    shutil.rmtree(place)
    trees.plant(trees.history()[1], place)
    outcome = trees.read(place)
    check_equal(outcome.says(), "sequence 10; check says 0", "the older copy")
    skipped = outcome.report.skipped if outcome.report else ()
    check(any("Rollback" in text and "witness" in text for text in skipped), f"{skipped}")


def test_c12_05_moved_store_works_without_an_alarm(place: Path) -> None:
    """C12-05: a store moved to another path is the same store."""
    moved = place.parent / "another place"
    place.rename(moved)
    check_equal(trees.read(moved).says(), "sequence 30; check says 0", "the moved store")
    with CheckpointStore(moved, SESSION, keys=trees.KEYS) as store:
        check_equal(store.save(trees.checkpoint(SESSION, 4)).status, "saved", "the next save")


@pytest.mark.parametrize("master", [bytes(range(100, 132)), bytes(32), b"\xff" * 32])
def test_c12_06_missing_key_is_a_key_error_never_tampering(place: Path, master: bytes) -> None:
    """C12-06: all records under a key that is not there: KeyMismatchError (exit 5).

    Method: readers and writers with other keys of the same store id; nothing is touched.
    """
    other = records.keyring(master)
    before = trees.picture(place)
    outcome = trees.read(place, keys=other)
    check(isinstance(outcome.error, KeyMismatchError), outcome.says())
    check_equal(outcome.reported, 5, outcome.says())
    check("amper" not in str(outcome.error), f"called tampering: {outcome.error}")
    error = refusal(lambda: CheckpointStore(place, SESSION, keys=other))
    check(isinstance(error, KeyMismatchError), repr(error))
    trees.check_untouched(place, before, "with a wrong key")


@pytest.mark.parametrize("name", trees.FILES)
def test_c12_06_key_id_altered_in_one_record_is_damage(place: Path, name: str) -> None:
    """C12-06, T6: an unknown key id beside a known one was altered: integrity, exit 2.

    Method: the kid of one record replaced by another legal one.
    """
    path = inside(place) / name
    data = path.read_bytes()
    path.write_bytes(re.sub(rb'"kid":"[0-9a-f]{32}"', b'"kid":"' + b"0" * 32 + b'"', data, count=1))
    stops(place, naming="manifest" if "manifest" in name else name)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"{}", b"0" * 64, b"short", b'{"keys":[]}\n', b"\xff" * 32], ids=repr
)
def test_c12_06_key_file_that_is_none_is_refused_at_start(tmp_path: Path, content: bytes) -> None:
    """C12-06: an empty, short or malformed key file is refused, and never printed.

    Method: each as a private file.
    """
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    path.chmod(0o600)
    error = refusal(lambda: Keyring.from_file(path))
    check(isinstance(error, KeyFileError) and error.exit_code == 5, repr(error))
    shown = content.decode("latin-1").strip()
    check(len(shown) < 5 or shown not in str(error), f"its content is printed: {error}")


def test_c12_06_key_never_appears_in_a_store_or_in_what_is_said(place: Path) -> None:
    """C12-06: no byte of a store, a report or an error holds a key.

    Method: the master key in raw, hex and base64 is looked for in all files and texts.
    """
    outcome = trees.read(place)
    texts = [repr(outcome), repr(trees.KEYS), str(trees.KEYS)]
    stored = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    secret = records.MASTER
    check(secret not in stored and secret.hex().encode() not in stored, "a key is stored")
    check(all(secret.hex() not in text and repr(secret) not in text for text in texts), "printed")


def test_c12_08_single_changes_of_a_whole_store_are_refused() -> None:
    """C12-08: one byte of a store changed is refused; all of them are, in tests/security.

    Method: the whole of the shortest file.
    """
    from tests.security import oracles

    count = oracles.every_change_of_bytes_is_refused("store.json", kinds=("flips", "deletions"))
    check(count > 1_000, f"only {count} changes")


@pytest.mark.parametrize(
    "state",
    [
        {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
        {"py/object": "os.system"}, {"__reduce__": ["os.system", ["true"]]},
        {"__class__": "subprocess.Popen"}, {"$type": "System.Diagnostics.Process"},
        {"!!python/object/apply:os.system": ["true"]},
    ],
    ids=lambda state: next(iter(state)),
)  # fmt: skip
def test_c12_10_state_that_asks_for_code_comes_back_as_plain_data(place: Path, state: dict) -> None:
    """C12-10: nothing in a state is ever revived; it is data.

    Method: saved and loaded through a store on a disk.
    """
    with CheckpointStore(place, SESSION, keys=trees.KEYS) as store:
        store.save(Checkpoint(40, state, trees.checkpoint(SESSION, 3).fingerprints))
    outcome = trees.read(place)
    check_equal(outcome.loaded.state if outcome.loaded else None, state, "the state")


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_c12_10_pickle_in_place_of_a_checkpoint_stops(place: Path, protocol: int) -> None:
    """C12-10: pickled bytes are damage, and are not unpickled.

    Method: a pickle that would raise if it were loaded, in place of the newest checkpoint.
    """
    import pickle

    class Bomb:
        def __reduce__(self) -> tuple:
            return (exec, ("raise SystemExit('unpickled')",))

    (inside(place) / trees.CURRENT).write_bytes(pickle.dumps(Bomb(), protocol=protocol))
    stops(place, naming=trees.CURRENT)
