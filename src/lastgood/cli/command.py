"""What a command line asks for, as one value that every verb is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Verb = Literal[
    "keys new",
    "save",
    "load",
    "list",
    "sessions",
    "show",
    "verify",
    "migrate",
    "repair",
    "gc",
    "effects list",
    "effects resolve",
    "run",
]
RepairWord = Literal[
    "", "scan", "rebuild-from-log", "approve-rebuild", "accept-older", "tail", "pointer"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What was asked for.

    Attributes:
        verb: The verb.
        root: Where the store lies; empty if nobody said.
        keys: Where the keys are: a path, ``env:``, ``fd:`` or ``exec:``; empty if nobody said.
        json: ``yes``: the answer is one JSON document.
        lock_timeout_s: Seconds to wait for another holder of the session; None: the default.
        raised: Limits that a program of this store raised, by name.
        network_filesystem: ``accept`` where only one machine ever writes.
        verbose: ``yes``: also notices, foreign files and leftovers.
        file: The key file to make.
        session: The session's id; None with ``verify --all``.
        sequence: None stands for the current one.
        schema_version: The version of the state's shape that the caller knows.
        if_new: What ``load`` prints, as JSON, where the session is new; None: an error.
        state: The file that holds the state to save; ``-`` is standard input.
        effects: Fingerprints to add.
        milestone: Label under which the checkpoint is kept for good.
        with_state: ``yes``: show the state too.
        events: ``yes``: the events instead of a checkpoint.
        since: The first event to show.
        limit: How many events to show; None: all.
        with_data: ``yes``: show what events say, too.
        program: ``MODULE:OBJECT``, the program's side of the session.
        dry_run: ``yes``: only tell what would be.
        repair: Which repair; ``scan`` only tells what each would do.
        reason: Why, for the record.
        actor: Who decides, for the record; None: the operating system's user.
        log_before: Events from this one on stay in the log for certain.
        archive: Where what leaves the log is kept; None: it is erased.
        fingerprint: Which effect is decided.
        outcome: What became of it.
        result: Its result as JSON text; None: null.
        full: ``yes``: said that everything is to be read, which is always so.
        require: Level of assurance without which the verdict is not "good".
        plan: The file of a plan.
        accept_plan_change: ``yes``: what it changes of the accepted one is meant.
        place: The options that lead another command to the same store, where they were given.
    """

    verb: Verb
    root: str
    keys: str
    json: Literal["yes", "no"] = "no"
    lock_timeout_s: float | None = None
    raised: tuple[tuple[str, int], ...] = ()
    network_filesystem: Literal["refuse", "accept"] = "refuse"
    verbose: Literal["yes", "no"] = "no"
    file: str = ""
    session: str | None = None
    sequence: int | None = None
    schema_version: int = 1
    if_new: str | None = None
    state: str = "-"
    effects: tuple[str, ...] = ()
    milestone: str | None = None
    with_state: Literal["yes", "no"] = "no"
    events: Literal["yes", "no"] = "no"
    since: int = 1
    limit: int | None = None
    with_data: Literal["yes", "no"] = "no"
    program: str = ""
    dry_run: Literal["yes", "no"] = "no"
    repair: RepairWord = ""
    reason: str | None = None
    actor: str | None = None
    log_before: int | None = None
    archive: str | None = None
    fingerprint: str = ""
    outcome: Literal["", "done", "not done"] = ""
    result: str | None = None
    full: Literal["yes", "no"] = "no"
    require: Literal["L0", "L1", "L2", "L3"] = "L0"
    plan: str = ""
    accept_plan_change: Literal["yes", "no"] = "no"
    place: tuple[str, ...] = ()
