"""The list of mistakes that must be found, word for word, and which of them cannot be planted."""

from __future__ import annotations

from typing import Final

from fault_injection.planted_bugs import answers, belief, claims, effects, log, saving, taking
from fault_injection.planted_bugs.mutant import Mutant, Unplanted

ITEMS: Final[dict[str, tuple[str, ...]]] = {
    "no file fsync of the checkpoint (L3 L4)": (),
    "no directory fsync after the checkpoint (L3)": (),
    "no fsync of the manifest (L3 L4)": (),
    "no last directory fsync (L3 L4)": (),
    "no sync at all (L3 L4)": (),
    "prune to one before the manifest (L2 L3 L4)": (),
    "manifest written in place (L2 L3 L4)": (),
    "acknowledged before the manifest (L3)": (),
    "rename before fsync (O7)": (),
    "one generation kept (O6)": (),
    "fsync retried after EIO (L3)": (),
    "fsync error swallowed (L1)": (),
    "short write ignored (L1 L2)": (),
    "close error ignored (L1)": (),
    "no O_EXCL, stale temporary reused (L2)": (),
    "MAC skipped, checksum skipped, name not compared with content (L5)": (
        "MAC skipped", "checksum skipped", "name not compared with content",
    ),
    "text order instead of numbers": (),
    "unknown schema accepted": (),
    "damaged newest falls back silently": (
        "damaged newest falls back silently",
        "damaged newest falls back silently in a session with a log",
    ),
    "caller's arrays not copied": (),
    "empty fingerprint accepted": (),
    "witness advanced before S4's fsync (false alarm after a crash)": (),
    "a reader advances the mark": (),
    "claim before finish in R4": (),
    "finish without linking the missing number": (),
    "no fsync in R1": (),
    "newline decides a torn tail": (),
    "resynchronising at newlines only": (),
    "withdrawing a claim, or a published checkpoint before S6": (
        "withdrawing a claim", "withdrawing a published checkpoint before S6",
    ),
    "prune above the current": (),
    "S6 re-reads its revision": (),
    "a segment's first line names the listing's predecessor": (),
    "append before the claim": (),
    "no directory fsync for a new segment": (),
    "a reader trusts one reading": (),
    "append after a failed fdatasync": (),
    "gc unlinks before the event's fdatasync": (),
    "acknowledged without the second epoch check": (),
    "temporaries swept before the second read": (),
    "pointer moved down from a stale view": (),
    "prune before S7's fsync": (),
    "a save on top of a failed one": (),
    "compare-and-swap without exclusivity (two processes)": (),
    "new directory not fsynced in its parent (L3)": (),
    "log acknowledged before fsync": (),
    "append behind a torn tail in the same segment": (),
    "damage in the middle treated as a torn tail": (),
    "intent after the action": (),
    "done before the action": (),
}  # fmt: skip
"""Each item of the list, and the mutants that stand for it where one would not do."""

FURTHER: Final = (
    "what failed is believed when it is taken again",
    "the unattested end is not written again",
)
"""Mutants of mistakes that the list does not name."""

UNPLANTED: Final = (
    Unplanted(
        "temporaries swept before the second read",
        "equivalent",
        "R4 sweeps twice: what a paused writer made between an early sweep and the read is taken "
        "from it by the second sweep, behind the claim. An early sweep that then finds something "
        "newer begins again, and took away only what its owner, fenced by that, could not use",
    ),
    Unplanted(
        "witness advanced before S4's fsync",
        "later",
        "There is no witness yet (S8), so no mark that could be advanced too early",
    ),
    Unplanted(
        "a reader advances the mark",
        "later",
        "There is no witness yet (S8), so no mark that a reader could advance",
    ),
)

MUTANTS: Final[tuple[Mutant, ...]] = (
    *saving.MUTANTS,
    *answers.MUTANTS,
    *taking.MUTANTS,
    *claims.MUTANTS,
    *log.MUTANTS,
    *belief.MUTANTS,
    *effects.MUTANTS,
)


def names_of(item: str) -> tuple[str, ...]:
    """The mutants of an item of the list."""
    return ITEMS[item] or (item.partition(" (")[0],)
