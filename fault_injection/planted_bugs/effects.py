"""Mistakes of effects: what is written down comes too late, or too early."""

from __future__ import annotations

from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, nothing
from lastgood.effect import Effect
from lastgood.formats import effect as records
from lastgood.formats.effect import Applied, Done, Word


def intent_after_the_action(plant: Plant) -> Patch:
    """The intent is written with the outcome, behind what it was to protect."""
    right, made = Effect._intend, Effect._made

    def made_late(self: Effect, result: Any, word: Word, **others: Any) -> Done:
        if not self._intent:
            right(self)
        return made(self, result, word, **others)

    return all_of(
        plant.over(Effect, "_intend", nothing),
        plant.uncounted(Effect, "_made", made_late),
        plant.uncounted(Effect, "_raised", nothing),
    )


def done_before_the_action(plant: Plant) -> Patch:
    """It is called done before it is done; its event follows when it is."""
    right, settle = Effect._intend, Effect._settle
    early: dict[str, int] = {}

    def intend(self: Effect) -> None:
        right(self)
        word = Word(by="person", actor="nobody", reason="it will be")
        done = Done(
            fingerprint=self.fingerprint,
            intent=self._intent,
            word=word,
            result=self._identity.key,
            event=None,
        )
        made = [records.encode(done)]
        early[self.fingerprint] = self._acting.record(lambda _: made)

    def settled(self: Effect, outcome: Any) -> None:
        if self.fingerprint not in early or outcome.event is None:
            settle(self, outcome)
            return
        applied = Applied(
            fingerprint=self.fingerprint, done=early[self.fingerprint], event=outcome.event
        )
        self._acting.record(lambda _: [records.encode(applied)])
        self._outcome = outcome

    return all_of(
        plant.over(Effect, "_intend", intend),
        plant.uncounted(Effect, "_settle", settled),
        plant.uncounted(Effect, "_raised", nothing),
    )


MUTANTS: Final = (
    Mutant(
        "intent after the action",
        "an effect's intent is made durable with its outcome",
        intent_after_the_action,
        (Kill("L1", ("O13",), ("pays",)), Kill("L2", ("O13",), ("pays",))),
    ),
    Mutant(
        "done before the action",
        "an effect is recorded as done with its intent",
        done_before_the_action,
        (Kill("L2", ("O2",), ("pays",)), Kill("L3", ("O2",), ("pays",))),
    ),
)
"""Mistakes of effects."""
