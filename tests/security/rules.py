"""What must hold of names, order, schema and snapshots: one function each, as in ``oracles``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lastgood import Checkpoint, CheckpointStore, Limits, should_replay
from lastgood.errors import FingerprintError, UnknownSchemaError
from lastgood.formats import manifest, names
from lastgood.formats.seal import digest_of
from lastgood.storage.memory import MemoryRoot
from tests.security import oracles
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

SESSION: Final = "nightly"
FOREIGN: Final = (
    "x-checkpoint-000099.json", "checkpoint-000099.json.bak", "checkpoint-000099.json~",
    "checkpoint-99.json", "checkpoint-0000099.json", "checkpoint-000099 (1).json",
    "checkpoint-000099 (conflicted copy).json", "Checkpoint-000099.json",
    "checkpoint-000099.JSON", "checkpoint-000099.json\n", "checkpoint-١٢٣٤٥٦.json",
    "manifest-000099.json.tmp", "manifest-99.json", "xmanifest-000099.json",
    ".DS_Store", "._checkpoint-000099.json", "Thumbs.db", "desktop.ini", ".manifest.json.swp",
    "tmpabcd1234", "session.json.orig", "manifest.json.0123456789abcdef.tmp",
)  # fmt: skip


def contents() -> dict[bytes, str]:
    """Every content that was ever in the store, with where it comes from."""
    found: dict[bytes, str] = {}
    for time, tree in enumerate(trees.history()):
        for path in trees.files(tree):
            found.setdefault(tree[path], f"{path} of time {time}")
    return found


def foreign_names_are_ignored(names_of: Sequence[str] = FOREIGN) -> None:
    """C11-06: what is not exactly a name of ours is listed as foreign, never parsed, never gone.

    A copy of a valid record under such a name is no generation, no fork and no revision; a
    writer's saves and prunes leave it where it is.
    """
    final = trees.final()
    for name in names_of:
        for path in ("nightly/checkpoint-000030.json", "nightly/manifest-000004.json"):
            tree = trees.only(final, SESSION) | {f"{SESSION}/{name}": final[path]}
            root = trees.in_memory(tree)
            outcome = trees.read(root)
            same = outcome.loaded is not None and outcome.loaded.sequence == 30
            check(same and outcome.reported == 0, f"{name!r}: {outcome.says()}")
            listed = outcome.report.foreign if outcome.report else ()
            check(name in listed, f"{name!r} is not listed: {listed}")
            _save_and_prune(root)
            kept = trees.remembered(root, tree).get(f"{SESSION}/{name}")
            check_equal(kept, final[path], f"{name!r} after a save and a prune")


def _save_and_prune(root: MemoryRoot) -> None:
    with CheckpointStore(root, SESSION, keys=trees.KEYS, clock=trees.SteadyClock()) as store:
        store.save(trees.checkpoint(SESSION, 4))
        store.prune()


def name_is_compared_with_content(
    names_of: Sequence[str] = (
        "checkpoint-000005.json", "checkpoint-000099.json", "manifest-000002.json",
        "manifest-000005.json",
    ),
) -> None:  # fmt: skip
    """G6: a valid record under another name of the grammar is never believed, and reported.

    Only content that once had this very name may be a leftover.
    """
    for planted in names_of:
        for data, source in contents().items():
            tree = trees.final() | {f"{SESSION}/{planted}": data}
            outcome = oracles.stands(tree, f"{planted} holds {source}")
            reported = trees.read(trees.in_memory(tree)).reported
            own = source.startswith(f"{SESSION}/{planted}")
            check(own or reported in {2, 3, 4, 5}, f"{planted} <- {source}: {outcome}, {reported}")


def renumbered(tree: Tree, *, last: int) -> Tree:
    """The session with its two manifests at revisions ``last - 1`` and ``last``, authentic."""
    numbered = sorted(p for p in tree if p.startswith(f"{SESSION}/manifest-"))
    sealer = trees.KEYS.sealer(trees.directory(SESSION))
    kept = {p: d for p, d in trees.only(tree, SESSION).items() if "manifest" not in p}
    before = None
    for path, revision in zip(numbered, (last - 1, last), strict=True):
        found = manifest.decode(
            tree[path], store_id=trees.KEYS.store_id, session=names.session_id(SESSION),
            sealer=sealer, limits=Limits(), name=path,
        )  # fmt: skip
        changed = replace(
            found, revision=revision, previous_manifest=before or found.previous_manifest
        )
        record = manifest.encode(
            changed, store_id=trees.KEYS.store_id, session=names.session_id(SESSION), sealer=sealer
        )
        before = digest_of(record)
        kept[f"{SESSION}/{names.manifest(revision)}"] = b"".join(record)
        kept[f"{SESSION}/{names.POINTER}"] = b"".join(record)
    return kept


def order_is_numeric(
    sequences: Sequence[int] = (99, 100, 999_999, 1_000_000, 2**31, 2**31 + 1, 10**15),
    *,
    revision: int = 999_998,
) -> None:
    """C3-01: the newest is the highest number, across every change of width, of both kinds.

    The session starts at a revision from which on the numbers of manifests grow wider, too.
    """
    root = trees.in_memory(renumbered(trees.history()[2], last=revision))
    saved = [20]
    done = list(trees.checkpoint(SESSION, 2).fingerprints)
    for sequence in sequences:
        with CheckpointStore(root, SESSION, keys=trees.KEYS, clock=trees.SteadyClock()) as store:
            store.save(Checkpoint(sequence, {"at": sequence}, done))
        saved.append(sequence)
        outcome = trees.read(root)
        loaded = outcome.loaded.sequence if outcome.loaded else 0
        check_equal((loaded, outcome.reported), (sequence, 0), f"after {sequence}")
        rows = [row.sequence for row in outcome.report.rows] if outcome.report else []
        check_equal(rows, saved[-2:], f"the generations after {sequence}")


def unknown_schema_stops() -> None:
    """C13-01: a state of another schema version is never given to a program (exit 4)."""
    root = trees.in_memory({})
    for version in (2, 1, 10):
        with CheckpointStore(root, f"v{version}", keys=trees.KEYS, schema_version=version) as store:
            store.save(Checkpoint(1, {"version": version}))
    for version, known in ((2, 1), (1, 2), (10, 1), (2, 10)):
        session = f"v{version}"
        with CheckpointStore(
            root, session, keys=trees.KEYS, mode="read", schema_version=known
        ) as store:
            for load in (store.load_latest, lambda s=store: s.load(1)):
                with _Refusing(f"version {version} by a program of {known}", UnknownSchemaError):
                    load()


def callers_objects_are_copied() -> None:
    """S2: what the caller does to its objects after the call never reaches the disk."""
    done = [trees.fingerprint("given", 1)]
    inner = {"paid": [1]}
    given = Checkpoint(1, inner, done)
    done.append("not a fingerprint")
    with CheckpointStore(trees.in_memory({}), SESSION, keys=trees.KEYS) as store:
        store.save(given)
        inner["paid"].append(2)
        done.clear()
        loaded = store.load_latest()
        check(loaded is not None, "nothing was saved")
        if loaded is not None:
            check_equal(loaded.state, {"paid": [1]}, "the state")
            check_equal(loaded.fingerprints, (trees.fingerprint("given", 1),), "the fingerprints")


def malformed_fingerprints_are_refused() -> None:
    """Design 8: an empty or malformed fingerprint is never saved and never looked up."""
    good = trees.fingerprint("good", 1)
    for bad in ("", " ", good.upper(), good[:-1], good + "0", good + "\n", "fx:v2:" + good[6:]):
        with _Refusing(f"saving {bad!r}", FingerprintError):
            Checkpoint(1, {}, [good, bad])
        with _Refusing(f"asking for {bad!r}", FingerprintError):
            should_replay(Checkpoint(1, {}, [good]), bad)
    with _Refusing("saving one twice", FingerprintError):
        Checkpoint(1, {}, [good, good])


class _Refusing:
    """Fail with ``AssertionError`` unless the block raises this error."""

    def __init__(self, what: str, expected: type[Exception]) -> None:
        self._what = what
        self._expected = expected

    def __enter__(self) -> None:
        """Nothing is to be done."""

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        """Swallow the expected error."""
        if kind is None:
            raise AssertionError(f"{self._what} was accepted")
        return issubclass(kind, self._expected)
