"""One owner is suspended before any of its calls while another takes the session and works.

The lock is broken, so that only the epoch and the create-only revisions stand between the two
(F13). After every such pause, of every action, whoever goes on must either have been adopted or
be told so, and nothing that the other was acknowledged may be lost. Every pause is tried.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.errors import ConflictError, DurabilityUnknownError
from lastgood.saving import SaveReceipt
from tests.crash.scenes import (
    NOTHING,
    Believed,
    Outcome,
    Scenes,
    believed,
    check_believable,
    check_settled,
    checkpoint,
    latest,
    outcome,
    told,
    writer,
)
from tests.crash.seam import Killed, Mortal, Seam, once
from tests.support.check import check, check_equal

Action = Callable[[CheckpointStore], object]


@dataclass(slots=True)
class Meanwhile:
    """What the second owner saw and did while the first one stood still.

    Attributes:
        opened_on: What it believed when it had opened.
        acknowledged: Its last acknowledged save, or ``opened_on``.
        store: Its handle, if it is still open.
        token: Its fencing token.
    """

    opened_on: Believed = NOTHING
    acknowledged: Believed = NOTHING
    store: CheckpointStore | None = None
    token: int = 0


@dataclass(frozen=True, slots=True)
class Second:
    """The second owner: opens, saves at ``above`` what it found, and ends as ``ends`` says."""

    above: tuple[int, ...] = ()
    ends: str = "closes"
    author: str = "second"

    def work(self, place: Path) -> Meanwhile:
        """Do it; every step must succeed."""
        mortal = Mortal(locks="broken")
        store = writer(place, mortal)
        seen = believed(store.load_latest())
        done = Meanwhile(opened_on=seen, acknowledged=seen, token=store.fencing_token)
        for step in self.above:
            sequence = seen[0] + step
            receipt = store.save(checkpoint(sequence, self.author))
            check(receipt.status in ("saved", "unchanged"), f"the second owner's save: {receipt}")
            done.acknowledged = (sequence, self.author)
        if self.ends == "closes":
            store.close()
        elif self.ends == "stays":
            done.store = store
        else:
            self._die(store, mortal, done)
        return done

    def _die(self, store: CheckpointStore, mortal: Mortal, done: Meanwhile) -> None:
        """Die in another save, at the call that ``ends`` begins with."""
        mortal.begin()
        mortal.at = self.ends
        sequence = done.acknowledged[0] + 10
        try:
            store.save(checkpoint(sequence, self.author))
        except Killed:
            done.acknowledged = (sequence, self.author)  # published, so it must be adopted
        check(mortal.is_dead, f"the second owner did not die at {self.ends}")


SECONDS: Final = {
    "opens and closes": Second(),
    "opens and stays": Second(ends="stays"),
    "saves once and stays": Second(above=(10,), ends="stays"),
    "saves twice and closes": Second(above=(10, 20)),
    "saves the first one's very bytes": Second(above=(10,), author="first"),
    "jumps over the first one's sequence": Second(above=(15, 16)),
    "dies between S4 and S6": Second(above=(10,), ends="open .manifest"),
    "dies between S6 and S7": Second(above=(10,), ends="rename"),
}


def save_next(store: CheckpointStore) -> SaveReceipt:
    """The first owner's save, ten above what it stands on."""
    current = believed(store.load_latest())
    return store.save(checkpoint(current[0] + 10, "first"))


def save_milestone(store: CheckpointStore) -> SaveReceipt:
    """The same, and it is to be kept for good."""
    current = believed(store.load_latest())
    return store.save(checkpoint(current[0] + 10, "first"), milestone="kept")


@dataclass(slots=True)
class Pause:
    """The first owner's way through one action with a pause at call ``at``.

    Attributes:
        outcome: What it was told.
        meanwhile: What happened in the pause; None if the action made fewer calls.
    """

    outcome: Outcome | None = None
    meanwhile: Meanwhile | None = None
    found: Believed = NOTHING


def paused(
    place: Path, action: Callable[[CheckpointStore], SaveReceipt], at: int, second: Second
) -> tuple[Pause, CheckpointStore]:
    """Run ``action``, suspended at call ``at``; returns the first owner's handle, too."""
    seam = Seam(locks="broken")
    store = writer(place, seam)
    pause = Pause(found=believed(store.load_latest()))

    def interrupt() -> None:
        pause.meanwhile = second.work(place)

    seam.begin(once(at, interrupt))
    pause.outcome = outcome(lambda: action(store))
    seam.begin()
    return pause, store


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scene", "action", "second"),
    [
        *(("three", save_next, second) for second in SECONDS),
        *(("new", save_next, second) for second in ("opens and stays", "saves twice and closes")),
        *(("fenced", save_next, second) for second in ("opens and closes", "saves once and stays")),
        ("three", save_milestone, "saves twice and closes"),
    ],
)
def test_a_save_paused_anywhere_is_adopted_or_refused(
    scenes: Scenes, scene: str, action: Callable, second: str
) -> None:
    """S6, F13: a paused owner's save is adopted or refused, the other's saves stay current.

    Method: suspend a save before each of its calls while another handle takes the session.
    """
    at = 0
    while True:
        context = f"{scene}, {action.__name__} paused at call {at}, another {second}"
        with scenes.copy(scene) as place:
            pause, store = paused(place, action, at, SECONDS[second])
            if pause.meanwhile is None:
                break
            _check_told_rightly(pause, context)
            _check_fenced(store, pause, context)
            store.close()
            _check_goes_on(place, pause.meanwhile, context)
        at += 1
    check(at > 25, f"a save of {at} calls")


def _check_told_rightly(pause: Pause, context: str) -> None:
    """Adopted if the other owner found it, refused if not; unknown may be either."""
    came = pause.outcome
    first = (pause.found[0] + 10, "first")
    seen = pause.meanwhile.opened_on if pause.meanwhile else NOTHING
    if isinstance(came, SaveReceipt):
        check_equal(came.status, "saved", f"{context}: status")
        check_equal(seen, first, f"{context}: acknowledged, but the other found")
    else:
        check(
            isinstance(came, ConflictError | DurabilityUnknownError),
            f"{context}: it was told {type(came).__name__}: {came}",
        )
        if not isinstance(came, DurabilityUnknownError):
            check_equal(seen, pause.found, f"{context}: refused, but the other found")
    check(seen in (pause.found, first), f"{context}: the other found {seen}")


def _check_fenced(store: CheckpointStore, pause: Pause, context: str) -> None:
    """The first owner can never write again, whatever it was told."""
    for sequence in (11, 500):
        came = told(store, sequence, "first")
        check(isinstance(came, ConflictError), f"{context}: a later save came out as {came!r}")


def _check_goes_on(place: Path, meanwhile: Meanwhile, context: str) -> None:
    """The other owner's newest save is current; it, or the next one, goes on."""
    check_equal(latest(place), meanwhile.acknowledged, f"{context}: what is believed")
    check_believable(place, context)
    store = meanwhile.store or writer(place)
    with store:
        check_equal(believed(store.load_latest()), meanwhile.acknowledged, f"{context}: resumed")
        for sequence in (meanwhile.acknowledged[0] + 10, meanwhile.acknowledged[0] + 20):
            receipt = told(store, sequence, "second")
            check(isinstance(receipt, SaveReceipt), f"{context}: the next save: {receipt}")
    check_settled(place, (meanwhile.acknowledged[0] + 20, "second"), context)


def working(second: Second, place: Path, done: list[Meanwhile]) -> Callable[[], None]:
    """The second owner's work, noted in ``done``."""
    return lambda: done.append(second.work(place))


def relabel(store: CheckpointStore) -> object:
    """A save of what is current already, with a label that it lacked."""
    return store.save(checkpoint(*believed(store.load_latest())), milestone="later")


def release(store: CheckpointStore) -> object:
    """A prune that gives up the milestone at 10."""
    return store.prune(release=[10])


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize("second", ["opens and stays", "saves twice and closes"])
@pytest.mark.parametrize("action", [CheckpointStore.prune, release, relabel])
def test_a_prune_or_a_new_label_paused_anywhere_takes_nothing_away(
    scenes: Scenes, action: Callable[[CheckpointStore], object], second: str
) -> None:
    """S9, I4, F13: what another owner keeps is kept, and the paused one is refused from then on.

    Method: suspend a prune, with and without a release, and a new label, before each call.
    """
    at = 0
    paused_once = True
    while paused_once:
        context = f"{action.__name__} paused at call {at}, another {second}"
        with scenes.copy("one") as place:
            with writer(place) as store:
                store.save(checkpoint(10), milestone="kept")
                for sequence in (20, 30):
                    store.save(checkpoint(sequence))
            done: list[Meanwhile] = []
            seam = Seam(locks="broken")
            store = writer(place, seam)
            seam.begin(once(at, working(SECONDS[second], place, done)))
            with suppress(ConflictError, DurabilityUnknownError):
                action(store)
            seam.begin()
            paused_once = bool(done)
            if paused_once:
                came = told(store, 500, "first")
                check(isinstance(came, ConflictError), f"{context}: a later save: {came!r}")
                _check_goes_on(place, done[0], context)
            store.close()
        at += 1
    check(at > 10, f"{action.__name__} of {at} calls")


OPENED: Final = [
    ("absent", "opens and stays"),
    ("absent", "saves twice and closes"),
    ("three", "opens and stays"),
    ("published", "saves twice and closes"),
    ("claimed", "saves twice and closes"),
    ("fenced", "saves once and stays"),
]


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("scene", "second"), OPENED)
def test_an_opening_paused_anywhere_stands_on_what_the_other_left(
    scenes: Scenes, scene: str, second: str
) -> None:
    """R1 to R4, F13: who opens last owns the session, on top of all that was acknowledged.

    Method: suspend an opening before each of its calls while another handle opens and saves.
    """
    at = 0
    while True:
        context = f"{scene}: opening paused at call {at}, another {second}"
        with scenes.copy(scene) as place:
            done: list[Meanwhile] = []
            seam = Seam(locks="broken", before=once(at, working(SECONDS[second], place, done)))
            try:
                store = writer(place, seam)
            except (ConflictError, DurabilityUnknownError):
                # It was overtaken after its claim; nothing of it may be in the way.
                _check_goes_on(place, done[0], context)
                continue
            finally:
                at += 1
            if not done:
                store.close()
                break
            _check_one_owner(store, done[0], context)
            _check_goes_on(place, done[0], context)
    check(at > 60, f"an opening of {at} calls")


def _check_one_owner(store: CheckpointStore, meanwhile: Meanwhile, context: str) -> None:
    """The higher fencing token owns, the other handle is refused; ``meanwhile`` keeps the owner."""
    check(store.fencing_token != meanwhile.token, f"{context}: one epoch for two owners")
    check_equal(believed(store.load_latest()), meanwhile.acknowledged, f"{context}: it opened on")
    loser: CheckpointStore | None = store
    if store.fencing_token > meanwhile.token:
        loser, meanwhile.store = meanwhile.store, store
    if loser is not None:
        sequence = meanwhile.acknowledged[0] + 10
        came = told(loser, sequence, "late")
        check(isinstance(came, ConflictError), f"{context}: the loser's save came out as {came!r}")
        loser.close()
