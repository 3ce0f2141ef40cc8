"""Sessions with an event log in the world of this room, and how they are damaged or forged."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, Final

from lastgood import CheckpointPolicy, Event, Session, open_store
from lastgood.formats import canonical, names
from lastgood.formats.names import Kind
from lastgood.formats.seal import digest_of
from tests.store.world import SESSION, World
from tests.support.check import check
from tests.support.records import fingerprint, forge

NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)


def count(state: Any, event: Event) -> Any:
    """A reducer: which numbers came."""
    return {"n": [*state["n"], event.data]}


_SEALED: Final = (Kind.CHECKPOINT, Kind.MANIFEST)


@contextlib.contextmanager
def opened(world: World, session: str = SESSION, **options: Any) -> Iterator[Session[Any]]:
    """An open session that saves only when it is asked to."""
    given: dict[str, Any] = {"reducer": count, "initial": {"n": []}, "policy": NEVER} | options
    with (
        open_store(world.root, keys=world.keys) as store,
        store.session(session, **given) as found,
    ):
        yield found


def history(world: World) -> tuple[int, ...]:
    """Three owners, events, a milestone and two generations; returns their sequences.

    Checkpoint *n* knows *n* effects.
    """
    saved = []
    for owner in range(3):
        with opened(world) as session:
            session.append_many([("x", 10 * owner + n) for n in range(5)])
            label = "first" if owner == 0 else None
            saved.append(session.save(fingerprints=[fingerprint(owner)], milestone=label).sequence)
            session.append("x", 10 * owner + 9)
    return tuple(saved)


def segments(world: World) -> list[str]:
    """The names of the log's segments, in their order."""
    found = [name for name in world.listed() if name.startswith("events-")]
    return sorted(found, key=lambda name: name.removeprefix("events-").split("-")[1])


def spoil(world: World, name: str, *, at: int) -> None:
    """Change one bit of a file."""
    data = bytearray(world.files()[name])
    data[at] ^= 1
    world.put(name, bytes(data))


def torn(world: World, text: bytes = b'{"mac":"half a li') -> str:
    """Let the last owner have died in the middle of a write; returns the segment."""
    name = segments(world)[-1]
    kept = world.files()[name].rstrip(b"\0")
    lines = kept.split(b"\n")
    if b"lastgood.closed" in lines[-2]:
        kept = b"\n".join([*lines[:-2], b""])
    world.put(name, kept + text + bytes(4096))
    return name


def reforged(world: World, name: str, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the payload of a record, and seal again every record that names it by digest.

    It is what nobody can do who does not have the key: everything is authentic, and only what
    the records say of each other can tell.
    """
    files = world.files()
    parsed = {n: p for n in files if (p := names.parse(n)) is not None and p.kind in _SEALED}
    order = sorted(parsed, key=lambda n: (parsed[n].kind.value, parsed[n].number))
    check(name in order, f"{name} is none of {order}")
    renamed: dict[bytes, bytes] = {}
    record = b""
    for each in order:
        _, header, payload, _ = files[each].split(b"\n")
        for old, new in renamed.items():
            header, payload = header.replace(old, new), payload.replace(old, new)
        if each == name:
            whole = canonical.decode(payload)
            edit(whole)
            payload = canonical.encode(whole)
        fields = canonical.decode(header)
        fields |= {"length": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        record = forge(canonical.encode(fields), payload, kind=parsed[each].kind.value)
        if record != files[each]:
            renamed[_digest(files[each])] = _digest(record)
            world.put(each, record)
    world.put(names.POINTER, record)


def _digest(record: bytes) -> bytes:
    return str(digest_of([record])).encode()
