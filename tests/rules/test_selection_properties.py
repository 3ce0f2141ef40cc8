"""Selection on everything a writer, a crash and one change can leave (G2, G3).

Method: ``Writer`` makes a random life of openings, saves, prunes and crashes. Each disk it
leaves must give exactly what was published last. Then each single change of it (a name
dropped, put back to an older record, or renamed) must give the outcome of ``documented``,
and any mixture of two histories must stop or give a verdict in which no rule is broken.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lastgood.errors import DamagedError, ForkDetectedError, LastgoodError, RollbackDetectedError
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest
from lastgood.rules.selection import Evidence, Selection, select
from tests.rules.disk import STEPS, Disk, File, Found, Step, Writer, evidence, judge
from tests.support.check import check, check_equal

Life = list[tuple[int, str]]
LIVES = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([*STEPS, "prune", "prune", "milestone", "open"])),
    min_size=1,
    max_size=12,
)


def live(life: Life, *, tag: str = "") -> Iterator[Writer]:
    """The writer after each step of ``life``; after a crash the next step is an opening."""
    writer = Writer(tag)
    writer.open()
    yield writer
    sequence, crashed = 0, False
    for distance, what in life:
        if what == "open" or crashed:
            writer.open()
            crashed = False
        else:
            sequence += distance
            until: Step = next((step for step in STEPS if step == what), "prune")
            writer.save(sequence, until=until, milestone="kept" if what == "milestone" else None)
            crashed = until in ("publish", "claim")
        yield writer


def last(life: Life, *, tag: str = "") -> Writer:
    return list(live(life, tag=tag))[-1]


@given(LIVES)
def test_every_state_that_a_crash_can_leave_gives_what_was_published_last(life: Life) -> None:
    """G2: at each step of S4 to S9 and of R4, the newest published checkpoint is chosen."""
    for writer in live(life):
        found = judge(writer.disk)
        truth = None if writer.current is None else writer.current.entry
        check_equal(found.current, truth, "the checkpoint that is chosen")


@given(LIVES)
def test_a_pointer_that_a_power_loss_took_changes_nothing(life: Life) -> None:
    """G2: a rename that was not synced may leave no pointer, or that of the revision before."""
    for writer in live(life):
        truth = judge(writer.disk).current
        newest = writer.newest
        disk = dict(writer.disk)
        del disk[names.POINTER]
        check_equal(judge(disk).current, truth, "the checkpoint without a pointer")
        before = names.manifest(newest.revision - 1) if newest else ""
        if before in disk:
            disk[names.POINTER] = disk[before]
            check_equal(judge(disk).current, truth, "the checkpoint with the pointer before")


Change = tuple[str, str, File | None]


def changes(writer: Writer) -> Iterator[Change]:
    """Every single change: (what, name, the older record or None)."""
    for name in writer.disk:
        yield "dropped", name, None
        for record in writer.past.get(name, []):
            if record != writer.disk[name]:
                yield "older", name, record
        parsed = names.parse(name)
        if parsed is not None and parsed.number:
            for record in older_of_kind(writer, parsed):
                yield "older", name, record
            yield "renamed", name, None


def older_of_kind(writer: Writer, parsed: names.Parsed) -> Iterator[File]:
    for other, records in writer.past.items():
        found = names.parse(other)
        if found is not None and found.kind is parsed.kind and found.number < parsed.number:
            yield records[-1]


def changed(writer: Writer, change: Change, *, to: int) -> Disk:
    what, name, record = change
    disk = dict(writer.disk)
    if what == "older" and record is not None:
        disk[name] = record
        return disk
    taken = disk.pop(name)
    if what == "renamed":
        make = names.manifest if isinstance(taken, Manifest) else names.checkpoint
        disk[make(to)] = taken
    return disk


def documented(writer: Writer, change: Change) -> str:
    """What the table says of one change of an honest disk: ``it`` or ``stop``."""
    what, name, record = change
    newest = writer.newest
    if newest is None:
        raise TypeError("a writer opens first")
    if name == names.POINTER:
        has_number = isinstance(record, Manifest) and names.manifest(record.revision) in writer.disk
        return "it" if what == "dropped" or has_number else "stop"
    if name == names.manifest(newest.revision):
        pointer = writer.disk[names.POINTER]
        named = isinstance(pointer, Manifest) and pointer.revision == newest.revision
        if what == "dropped" and not named:
            return "older"  # claimed only: the claim alone is lost, and with it no checkpoint
        return "it" if what == "dropped" else "stop"
    if name == names.manifest(newest.revision - 1) or name == names.SESSION:
        return "stop"
    if (parsed := names.parse(name)) is not None and parsed.kind is names.Kind.MANIFEST:
        return "it" if what == "dropped" else "unread"
    needed = {entry.sequence for entry in (newest.current, newest.previous) if entry is not None}
    if parsed is not None and parsed.number in needed:
        return "stop"
    published = writer.current is not None and name == names.checkpoint(
        writer.current.header.sequence
    )
    if published:  # not yet named: its loss is that of what nobody acknowledged
        return "older" if what == "dropped" else "stop"
    return "it" if what == "dropped" else "unread"


@settings(max_examples=25)
@given(LIVES)
def test_every_single_change_of_an_honest_disk_has_its_documented_outcome(life: Life) -> None:
    """G3: dropped, replaced by an older record, renamed: it, or a stop, as the table says."""
    for writer in live(life):
        truth = judge(writer.disk).current
        for change in changes(writer):
            for to in (10**9, 10**15):
                expected = documented(writer, change)
                what = f"{change[0]} {change[1]}"
                verdict, got = outcome(changed(writer, change, to=to))
                if expected == "it":
                    check_equal((verdict, got), ("it", truth), what)
                elif expected == "stop":
                    check_equal(verdict, "stop", what)
                elif verdict == "it" and expected == "unread":
                    check_equal(got, truth, what)


def outcome(disk: Disk) -> tuple[str, Entry | None]:
    try:
        return "it", judge(disk).current
    except (DamagedError, RollbackDetectedError):
        return "stop", None


@given(LIVES, st.randoms(use_true_random=False))
def test_the_order_of_names_and_mappings_does_not_matter(life: Life, order: random.Random) -> None:
    """Order is numeric: the directory may be listed in any."""
    writer = last(life)
    expected = judge(writer.disk)
    items = list(writer.disk.items())
    order.shuffle(items)
    found = evidence(dict(items))
    shuffled = replace(
        found,
        manifests=_shuffled(found.manifests, order),
        headers=_shuffled(found.headers, order),
        verified=_shuffled(found.verified, order),
    )
    check_equal(select(shuffled), expected, "the verdict")


@settings(max_examples=150)
@given(LIVES, LIVES, st.data())
def test_no_mixture_of_two_histories_gives_a_verdict_in_which_a_rule_is_broken(
    one: Life, other: Life, data: st.DataObject
) -> None:
    """G3: records of a fork, of an earlier time and of now, in any mixture and any place."""
    pool: dict[str, list[File]] = {}
    for writer in (last(one, tag="one"), last(other, tag="other")):
        for name, records in writer.past.items():
            pool.setdefault(name, []).extend(records)
    disk: Disk = {}
    for name in data.draw(st.sets(st.sampled_from(sorted(pool))), label="names"):
        disk[name] = data.draw(st.sampled_from(pool[name]), label=name)
    found = evidence(disk)
    try:
        verdict = select(found)
    except LastgoodError as error:
        stops = isinstance(error, DamagedError | RollbackDetectedError | ForkDetectedError)
        check(stops, f"a stop is one of integrity or rollback, not {error!r}")
        return
    broken = broken_rules(found, verdict)
    check(not broken, f"broken: {broken} in {sorted(disk)}")


def broken_rules(found: Evidence, verdict: Selection) -> list[str]:
    """The table, said once more and differently: what does not hold of a verdict."""
    manifests = {m.revision: m for m in found.manifests.values() if isinstance(m, Manifest)}
    pointer, newest = found.pointer, verdict.manifest
    if newest is None:
        rules = {"only an empty session is new": not (pointer or found.numbers or found.sequences)}
        return [rule for rule, holds in rules.items() if not holds]
    highest = max([*found.numbers, pointer.revision if isinstance(pointer, Manifest) else 0])
    rules = {
        "a session record is there": found.session is not None,
        "the newest revision decides": newest.revision == highest,
        "the pointer does not differ": not isinstance(pointer, Manifest)
        or pointer.revision == max(found.numbers, default=0) + 1
        or manifests.get(pointer.revision) == pointer,
        "the revision before is linked": newest.revision == 1
        or manifests[newest.revision - 1].digest == newest.previous_manifest,
        "the chosen one was verified": verdict.current is None
        or found.verified.get(verdict.current.sequence) == verdict.current,
    }
    current, previous = newest.current, newest.previous
    if verdict.rolled_forward and verdict.current is not None:
        header: Found | None = found.headers[verdict.current.sequence]
        rules["rolled forward to the owner's own successor"] = (
            isinstance(header, CheckpointHeader)
            and header.epoch == newest.epoch
            and header.previous == (current.digest if current else None)
        )
    else:
        rules["it is the one that is named"] = verdict.current == current
        for sequence in found.sequences:
            header = found.headers.get(sequence)
            if current is not None and sequence > current.sequence:
                rules[f"{sequence} is a fenced writer's"] = (
                    isinstance(header, CheckpointHeader) and header.epoch < newest.epoch
                )
    if previous is not None:
        header = found.headers.get(previous.sequence)
        rules["the previous generation is the one that is named"] = (
            isinstance(header, CheckpointHeader) and header.digest == previous.digest
        )
    return [rule for rule, holds in rules.items() if not holds]


def _shuffled(mapping: object, order: random.Random) -> dict:
    items = list(dict(mapping).items())  # type: ignore[call-overload]
    order.shuffle(items)
    return dict(items)
