"""Sessions with an event log, as values: made by real openings, cut and forged, opened again.

``grown`` runs a program in one opening after another and gives the tree of the store as each
death leaves it: the files are copied while the session is still open. ``ten`` is the log of
most tests: ten events, the last checkpoint anchored at event 8. Lines are forged with the
product's own signer, so that nothing but the rules of the log can refuse them.
"""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lastgood import CheckpointPolicy, LastgoodError, Session, open_store
from lastgood.formats import canonical, names
from lastgood.formats.anchor import EMPTY, LogAnchor
from lastgood.formats.canonical import JSON
from lastgood.formats.event import Event, EventKeys
from lastgood.formats.limits import Limits
from lastgood.formats.segment import BadLine, Walk, begin_of, read_first
from lastgood.keyring import Keyring
from lastgood.log_found import LogFound
from lastgood.log_reading import LogReading
from lastgood.reading import Reading, Scope
from lastgood.rules import selection
from lastgood.storage.interface import StorageRoot
from lastgood.storage.posix import PosixRoot
from tests.support import records, trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

SESSION: Final = "nightly"
KEYS: Final = trees.KEYS
FIRST: Final = names.segment(1, 1)
STATE: Final = dict[str, list[Any]]
Program = Callable[[Session[Any]], object]
NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)


def keep(state: dict[str, list[Any]], event: Event) -> dict[str, list[Any]]:
    """The reducer of every test: the state is what was appended, in order."""
    state["seen"].append(event.data["i"])
    return state


@contextmanager
def opened(where: Path | StorageRoot, **options: Any) -> Iterator[Session[Any]]:
    """The session, opened; given back at the end."""
    wanted: dict[str, Any] = {"reducer": keep, "initial": {"seen": []}, "policy": NEVER, **options}
    keys = wanted.pop("keys", KEYS)
    limits = wanted.pop("limits", None)
    clock, entropy = trees.SteadyClock(), trees.CountedEntropy(str(where))
    with (
        open_store(where, keys=keys, clock=clock, entropy=entropy, limits=limits) as store,
        store.session(SESSION, **wanted) as session,
    ):
        yield session


def grown(*programs: Program, onto: Tree | None = None, **options: Any) -> Tree:
    """The store after each program ran in an opening of its own and died in it."""
    tree = dict(onto or {})
    top = Path(tempfile.mkdtemp(prefix="lastgood-log-"))
    try:
        for number, program in enumerate(programs):
            place = trees.plant(tree, top / str(number)) if tree else top / str(number)
            with opened(place, **options) as session:
                program(session)
                tree = trees.on_disk(place, [SESSION])
        return tree
    finally:
        shutil.rmtree(top)


def closed(tree: Tree, program: Program = lambda session: None) -> Tree:
    """``tree`` after one more opening that ran ``program`` and gave the session back."""
    top = Path(tempfile.mkdtemp(prefix="lastgood-log-"))
    try:
        place = trees.plant(tree, top / "store")
        with opened(place) as session:
            program(session)
        return trees.on_disk(place, [SESSION])
    finally:
        shutil.rmtree(top)


def appended(*numbers: int, pad: int = 0) -> Program:
    """Append one event for each of ``numbers``, each acknowledged before the next."""

    def program(session: Session[Any]) -> None:
        for number in numbers:
            session.append("kept", datum(number, pad))

    return program


def datum(number: int, pad: int = 0) -> JSON:
    """What event ``number`` says; ``pad`` bytes make it longer."""
    return {"i": number, "pad": "x" * pad} if pad else {"i": number}


def ten(pad: int = 0, *, batch: int = 1) -> Tree:
    """Ten events, the last checkpoint at event 8; 1 and 2 are our own, 3 to 10 say their number.

    Args:
        pad: Makes the last events longer.
        batch: So many of the last events are written at once; the rest singly.
    """
    return dict(_ten(pad, batch))


@functools.cache
def _ten(pad: int, batch: int) -> Mapping[str, bytes]:
    def program(session: Session[Any]) -> None:
        appended(*range(3, 9))(session)
        check_equal(session.save().sequence, 8, "the checkpoint's sequence")
        last = range(9, max(11, 9 + batch))
        singly = len(last) - batch
        appended(*last[:singly], pad=pad)(session)
        session.append_many([("kept", datum(number, pad)) for number in last[singly:]])

    return grown(program)


def spread() -> Tree:
    """Three owners' segments: events 1 to 10, 11 to 15, 16 to 20; checkpoints at 8, 14, 18.

    The newest claim and checkpoint attest event 18. A resume needs the log from event 14 on, so it
    does not read the first segment; 19 and 20 are the unattested end.
    """
    return dict(_spread())


@functools.cache
def _spread() -> Mapping[str, bytes]:
    def second(session: Session[Any]) -> None:
        appended(13, 14)(session)
        check_equal(session.save().sequence, 14, "the second checkpoint")
        appended(15)(session)

    def third(session: Session[Any]) -> None:
        appended(18)(session)
        check_equal(session.save().sequence, 18, "the third checkpoint")
        appended(19, 20)(session)

    return grown(second, third, onto=ten())


SPREAD: Final = (FIRST, names.segment(11, 2), names.segment(16, 3))


def directory(place: Path) -> Path:
    """The session's directory in the store at ``place``."""
    return place / trees.directory(SESSION)


def path(name: str) -> str:
    """The path of a file of the session in a tree."""
    return f"{SESSION}/{name}"


def segments(tree: Tree) -> list[str]:
    """The names of the segments, by their text."""
    return sorted(n.removeprefix(f"{SESSION}/") for n in tree if n.startswith(path("events-")))


def changed(tree: Tree, data: bytes, name: str = FIRST) -> Tree:
    """A copy of ``tree`` in which segment ``name`` holds ``data``."""
    return tree | {path(name): data}


def content(tree: Tree, name: str = FIRST) -> bytes:
    """All bytes of a segment."""
    return tree[path(name)]


def text(tree: Tree, name: str = FIRST) -> bytes:
    """The bytes of a segment up to its reserved zeros."""
    return content(tree, name).rstrip(b"\0")


def lines(tree: Tree, name: str = FIRST) -> list[bytes]:
    """The lines of a segment, each with its line feed."""
    return [line + b"\n" for line in text(tree, name).split(b"\n")[:-1]]


def filled(data: bytes, like: bytes) -> bytes:
    """``data``, with reserved zeros up to the size of ``like``; at least one."""
    return data + bytes(max(1, len(like) - len(data)))


def with_lines(tree: Tree, made: Iterable[bytes], name: str = FIRST) -> Tree:
    """A copy of ``tree`` in which a segment holds these lines, then reserved zeros."""
    return changed(tree, filled(b"".join(made), content(tree, name)), name)


def body(line: bytes) -> dict[str, Any]:
    """The fields of ``e``."""
    return json.loads(line)["e"]


def event_keys(
    session: str = SESSION, *, store_id: str = records.STORE, keys: Keyring = KEYS
) -> EventKeys:
    """The keys of a session's log."""
    sealer = keys.sealer(trees.directory(session), store_id=store_id)
    return EventKeys(sealer, store_id=store_id, session=session)


def signed(what: bytes | Mapping[str, Any], *, keys: EventKeys | None = None) -> bytes:
    """A line, with its line feed, that authenticates, whatever it says."""
    keys = event_keys() if keys is None else keys
    data = what if isinstance(what, bytes) else canonical.encode(dict(what))
    mac = keys.mac(keys.kid, data).hex().encode()
    return b'{"mac":"%b","kid":"%b","e":%b}\n' % (mac, keys.kid.encode(), data)


def mac_of(line: bytes) -> str:
    """What a line says of itself; it need not be JSON."""
    return line[8:72].decode()


def resigned(line: bytes, **fields: Any) -> bytes:
    """``line`` with other values in ``e``, signed again."""
    return signed(body(line) | fields)


def continued(line: bytes, **fields: Any) -> bytes:
    """A line that follows ``line`` in its chain, unless ``fields`` say otherwise."""
    before = body(line)
    usual = {"seq": before["seq"] + 1, "prev": mac_of(line), "synced": before["seq"]}
    return resigned(line, **{**usual, "type": "kept", **fields})


def scope(keys: Keyring = KEYS, limits: Limits | None = None) -> Scope:
    """The session, for a reading."""
    session = names.session_id(SESSION)
    return Scope(
        keyring=keys,
        store_id=records.STORE,
        session=session,
        sealer=keys.sealer(names.directory(session), store_id=records.STORE),
        limits=Limits() if limits is None else limits,
        schemas=(1,),
    )


def verified(place: Path, *, keys: Keyring = KEYS) -> LogFound:
    """Full verification: the records, then the whole log, bound to each other."""
    storage = PosixRoot(place, clock=trees.SteadyClock()).session(
        trees.directory(SESSION), access="read"
    )
    try:
        reading = Reading(scope(keys), storage)
        chosen = selection.select(reading.evidence())
        if chosen.manifest is None:
            raise AssertionError("the session is new")
        said = [chosen.manifest.log, *(found.log for found in reading.bodies.values())]
        anchors = [anchor for anchor in said if anchor is not None]
        check_equal(len(anchors), len(said), "records that name a place in the log")
        return LogReading(reading.scope, storage).find(anchors=anchors, since=1)
    finally:
        storage.close()


def found_in(parts: Mapping[str, bytes], *, limits: Limits | None = None, **asked: Any) -> LogFound:
    """What one reading finds of segments that lie in memory, without any record beside them."""
    return log_in(parts, limits=limits).find(**asked)


def log_in(parts: Mapping[str, bytes], *, limits: Limits | None = None) -> LogReading:
    """A reading of segments that lie in memory."""
    inside = {path(name): data for name, data in parts.items()}
    root = trees.in_memory({path(""): b""} | inside)
    storage = root.session(trees.directory(SESSION), access="read")
    return LogReading(scope(limits=limits), storage)


def valid_prefix(data: bytes, name: str) -> tuple[LogAnchor, BadLine | None]:
    """The end of the lines of segment ``name`` that verify, and what follows it."""
    walk = Walk(data, begin=begin_of(name, _before(data, name)), keys=event_keys())
    for _ in walk:
        pass
    return walk.end, walk.bad


def anchor_after(tree: Tree, count: int, name: str = FIRST) -> LogAnchor:
    """The anchor of event ``count``, which lies in segment ``name``."""
    data = content(tree, name)
    walk = Walk(data, begin=begin_of(name, _before(data, name)), keys=event_keys())
    for line in walk:
        if line.event.sequence == count:
            return walk.end
    raise AssertionError(f"event {count} is not in {name}")


def _before(data: bytes, name: str) -> LogAnchor:
    return EMPTY if name == FIRST else read_first(data, name=name, keys=event_keys())


@dataclass(frozen=True, slots=True)
class Went:
    """How an opening went on.

    Attributes:
        end: The last event that was found.
        seen: The state that was resumed.
        torn: Segment, offset and size of a torn tail, or None.
        notices: What a person is told.
        tree: The store after one more event, and a death.
    """

    end: int
    seen: list[int]
    torn: tuple[str, int, int] | None
    notices: tuple[str, ...]
    tree: Tree


def goes_on(tree: Tree, top: Path) -> Went:
    """Resume from ``tree``, append, and check all that must hold however it was cut.

    What lay in it is still there, byte for byte, but for records that an opening moves on; the
    appended event lies in a segment of its own; the whole log verifies, twice, and a later opening
    finds what this one had.
    """
    place = trees.plant(tree, top)
    try:
        with opened(place) as session:
            found = session.resumed
            seen = list(session.state["seen"])
            appended(1000)(session)
            after = trees.on_disk(place, [SESSION])
        kept = {n: d for n, d in tree.items() if n.startswith((path("events-"), path("check")))}
        differing = [name for name, data in kept.items() if after.get(name) != data]
        check_equal(differing, [], "segments and checkpoints that were changed")
        new = [name for name in segments(after) if name not in segments(tree)]
        check_equal(new, [names.segment(found.end + 1, found.epoch)], "the new segment")
        whole = verified(place)
        check_equal((whole.end.count, whole.torn), (found.end + 4, None), "the log, with its close")
        with opened(place) as session:
            check_equal(session.state["seen"], [*seen, 1000], "the state of the next opening")
    finally:
        shutil.rmtree(place)
    torn = found.torn
    where = None if torn is None else (torn.segment, torn.offset, torn.size_bytes)
    return Went(found.end, seen, where, found.notices, after)


def refused(tree: Tree, top: Path, *, keys: Keyring = KEYS) -> LastgoodError:
    """The error with which full verification and an opening stop; neither changes anything."""
    error = unverified(tree, top, keys=keys)
    place = trees.plant(tree, top)
    try:
        before = trees.picture(place)
        again = _error(lambda: opened(place, keys=keys).__enter__())
        trees.check_untouched(place, before, "an opening that was refused")
    finally:
        shutil.rmtree(place)
    check_equal(type(again), type(error), f"the opening's error: {again}; verifying: {error}")
    return again


def unverified(tree: Tree, top: Path, *, keys: Keyring = KEYS) -> LastgoodError:
    """The error with which full verification stops."""
    place = trees.plant(tree, top)
    try:
        before = trees.picture(place)
        error = _error(lambda: verified(place, keys=keys))
        trees.check_untouched(place, before, "a verification that was refused")
        return error
    finally:
        shutil.rmtree(place)


def _error(call: Callable[[], object]) -> LastgoodError:
    try:
        result = call()
    except LastgoodError as error:
        return error
    raise AssertionError(f"it was believed: {result!r}")


def placed(error: LastgoodError, *, name: str, line: int, offset: int, records: int) -> None:
    """Fail unless the error names file, line, offset and how many records follow."""
    got = (getattr(error, "name", ""), getattr(error, "line", 0), getattr(error, "offset", -1))
    check_equal(got, (name, line, offset), f"file, line, offset of: {error}")
    check(f"{records} further records" in str(error), f"{records} records follow: {error}")
