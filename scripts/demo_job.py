"""The job of the demo: it pays 40 invoices, one event each, and may be killed anywhere.

Run as ``python demo_job.py STORE KEYS``; prints what it found, what it paid, and what it knows.
"""

from __future__ import annotations

import os
import sys
import time

import lastgood

INVOICES = [f"A-{number:02}" for number in range(1, 41)]


def apply(state, event):
    """The state after an event: the log is the truth, the state follows it."""
    if event.type == "paid":
        state["paid"].append(event.data["id"])
    return state


PROGRAM = {
    "reducer": apply,
    "initial": {"paid": []},
    "program": lastgood.Program("demo", "1"),
    "policy": lastgood.CheckpointPolicy(events=10),
}


def say(text: str) -> None:
    """Tell it to whoever watches, at once."""
    os.write(1, f"{text}\n".encode())


def main(root: str, key_file: str) -> None:
    """Go on from the last good checkpoint and its log, to the end."""
    keys = lastgood.Keyring.from_file(key_file)
    with (
        lastgood.open_store(root, keys=keys) as store,
        store.session("invoices", **PROGRAM) as session,
    ):
        found = session.resumed
        say(f"resumed {found.checkpoint} {found.replayed} {len(found.state['paid'])}")
        done = set(found.state["paid"])
        for invoice in INVOICES:
            if invoice not in done:
                session.append("paid", {"id": invoice})  # durable when it returns
                say(f"acknowledged {invoice}")
                time.sleep(0.02)  # the work itself
        session.save()
        say("finished " + " ".join(session.state["paid"]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
