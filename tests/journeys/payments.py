"""A program that pays: what is killed and restarted, in a process of its own.

Run as ``python -m tests.journeys.payments ROOT PIPE SCHEMA``. It tells by the pipe, line by line::

    began COUNT OPEN…   resumed with so many payments; these side effects are still to be done
    asks NUMBER         is about to append this payment
    told NUMBER         it was acknowledged
    effect NUMBER       the save that holds this side effect was acknowledged
    saved SEQUENCE      as was the checkpoint of this sequence
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import lastgood
from lastgood import CheckpointPolicy, Limits
from lastgood.formats.session import Program
from tests.support import records

SESSION: Final = "payments"
CURRENT: Final = 2
NEVER: Final = CheckpointPolicy(events=None, seconds=None, log_bytes=None)

State = dict[str, Any]
Say = Callable[[str], None]


def initial(schema: int) -> State:
    """The state before the first payment."""
    return {"count": 0, "chain": ""} | ({"currency": "EUR"} if schema > 1 else {})


def with_currency(state: State) -> State:
    """From schema 1 to 2."""
    return {**state, "currency": "EUR"}


def paid(state: State, number: int) -> State:
    """The state after this payment; its chain says which came before, and in which order."""
    chain = hashlib.sha256(f"{state['chain']} {number}".encode()).hexdigest()
    return {**state, "count": state["count"] + 1, "chain": chain}


def apply(state: State, event: lastgood.Event) -> State:
    """The reducer."""
    data: Any = event.data
    return paid(state, data["number"])


def effect(number: int) -> str:
    """The fingerprint of sending this payment."""
    return records.fingerprint(number + 1)


def opened(
    root: Path, schema: int, *, migrated: bool = True, name: str = SESSION
) -> lastgood.Session[State]:
    """Open the session with the program of this schema, with its migrations or without."""
    store = lastgood.open_store(root, keys=records.keyring(), limits=Limits(lock_wait_s=1))
    return store.session(
        name, reducer=apply, initial=initial(schema), policy=NEVER, schema_version=schema,
        migrations={1: with_currency} if migrated and schema == CURRENT else None,
        program=Program("payments", "1"),
    )  # fmt: skip


def run(root: Path, say: Say, schema: int) -> None:
    """Pay, one after the other; every third payment is sent and saved with those before it."""
    with opened(root, schema) as session:
        number = session.state["count"]
        waiting = [n for n in range(0, number, 3) if session.should_replay(effect(n))]
        say(f"began {number} {' '.join(map(str, waiting))}")
        while True:
            if number % 3 == 0:
                waiting.append(number)
            say(f"asks {number}")
            session.append("paid", {"number": number, "pad": "x" * (number * 37 % 500)})
            say(f"told {number}")
            number += 1
            if number % 4 == 0:
                receipt = session.save(fingerprints=[effect(n) for n in waiting])
                for n in waiting:
                    say(f"effect {n}")
                say(f"saved {receipt.sequence}")
                waiting.clear()


def main() -> None:
    """Run it as a process."""
    root, pipe, schema = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    run(root, lambda line: void(os.write(pipe, f"{line}\n".encode())), schema)


def void(_: object) -> None:
    """Nothing."""


if __name__ == "__main__":
    main()
