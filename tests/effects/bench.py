"""A session whose effects write lines into an outside ledger, and what must be true of it.

The reducer counts what was paid; the ledger is a file that lastgood knows nothing of. One line of
it is one time that an effect was done.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import lastgood
from lastgood import CheckpointPolicy, Limits, Session
from lastgood.effect import Effect
from lastgood.formats.event import Event
from lastgood.formats.session import Program
from lastgood.probes import Answer, Asked, done, not_done
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import KEYS
from tests.crash.seam import Killed, Seam, system

NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())
SESSION: Final = "invoices"
State = dict[str, Any]


def paid(state: State, event: Event) -> State:
    """The reducer."""
    if event.type == "paid":
        state["paid"].append(event.data)
    return state


def opened(root: Path, filesystem: Seam | None = None, **options: Any) -> Session[State]:
    """Open the session."""
    under = system(filesystem) if filesystem is not None else None
    at = PosixRoot(root / "store", filesystem=under)
    try:
        store = lastgood.open_store(at, keys=KEYS, limits=Limits(lock_wait_s=0.05))
        wanted: dict[str, Any] = {
            "policy": NEVER, "initial": {"paid": []}, "reducer": paid, **options,
        }  # fmt: skip
        return store.session(SESSION, program=Program("payer", "1"), **wanted)
    finally:
        with suppress(Killed, OSError):
            at.close()


class Ledger:
    """The outside world: a file of lines."""

    def __init__(self, root: Path) -> None:
        self.path = root / "ledger.txt"

    def write(self, line: str) -> str:
        """Do it once more; returns a receipt."""
        with self.path.open("a") as file:
            file.write(f"{line}\n")
        return f"receipt of {line}"

    @property
    def lines(self) -> list[str]:
        """What was done."""
        return self.path.read_text().splitlines() if self.path.exists() else []

    def probe(self, asked: Asked) -> Answer:
        """Look whether it was done."""
        if asked.key in self.lines:
            return done(f"receipt of {asked.key}", reason="the ledger has it")
        return not_done("the ledger does not have it")


def event_of(receipt: Any) -> tuple[str, Any]:
    """The event of a payment."""
    return "paid", receipt


def pay(session: Session[State], ledger: Ledger, key: str = "7", **options: Any) -> Any:
    """Pay one invoice."""

    def act(effect: Effect) -> Any:
        return ledger.write(effect._identity.key)

    wanted = {"event": event_of, "args": {"amount": 12}, **options}
    return session.run_once("pay", act, key=key, **wanted)


def leave_open(root: Path, ledger: Ledger, key: str = "7", **options: Any) -> None:
    """An effect that was done outside, and nobody wrote that down."""

    def act(_: object) -> None:
        ledger.write(key)
        raise ZeroDivisionError

    with opened(root) as session, pytest.raises(ZeroDivisionError):
        session.run_once("pay", act, key=key, args={"amount": 12}, **options)
