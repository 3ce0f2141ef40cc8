"""What the events of a runbook mean: the plan that was accepted, and what became of each step.

``PROGRAM`` is what ``--program lastgood.runbook.program:PROGRAM`` names.

=========  ==================================================================================
event      data
=========  ==================================================================================
``plan``   ``plan``: the accepted plan, of ``env`` only names and keyed digests; ``actor`` and
           ``reason``: of a change, who accepted it and why; else null
``step``   ``id``; ``fingerprint``: the action that was done; ``left``: the fingerprint that the
           next action would have if nothing changed from then on
=========  ==================================================================================

The state of a step holds, beside ``fingerprint`` and ``left``, ``after``: the fingerprint of the
action of this step that was done before, or null. Each action is bound to the one before it: what
was done with inputs A, then with B, is done again when they are A once more.
"""

from __future__ import annotations

from typing import Any, Final

from lastgood.formats.event import Event
from lastgood.formats.session import Program

State = dict[str, Any]


def apply(state: State, event: Event) -> State:
    """The state after an event.

    Raises:
        ValueError: It is none of a runbook.
    """
    data = event.data
    match event.type:
        case "plan":
            state["plan"] = data["plan"]
        case "step":
            before = state["steps"].get(data["id"])
            state["steps"][data["id"]] = {
                "fingerprint": data["fingerprint"],
                "left": data["left"],
                "after": None if before is None else before["fingerprint"],
            }
        case _:
            raise ValueError("no event of a runbook")
    return state


INITIAL: Final[State] = {"plan": None, "steps": {}}
PROGRAM: Final[dict[str, Any]] = {
    "reducer": apply,
    "initial": INITIAL,
    "program": Program("lastgood.runbook", "1"),
}
"""The arguments of ``Store.session``."""
