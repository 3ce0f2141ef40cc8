"""Which words of a command go together: what argparse cannot say."""

from __future__ import annotations

from typing import Any

from lastgood.errors import UsageError, printable


def check(found: dict[str, Any]) -> None:
    """Refuse words that mean nothing together, and take out those that only say what is meant.

    Args:
        found: What was found of each word; changed in place.

    Raises:
        UsageError: They do not go together.
    """
    if found["verb"] == "verify" and found.pop("all", False) == (found.get("session") is not None):
        raise misuse("lastgood verify", "name a SESSION, or give --all")
    if "if_new" in found and "sequence" in found:
        raise misuse("lastgood load", "--if-new is for the last good one, not for --sequence")
    checks = {
        "show": _check_show, "repair": _check_repair, "gc": _check_gc,
        "effects resolve": _check_decided, "run": _check_run,
    }  # fmt: skip
    if found["verb"] in checks:
        checks[found["verb"]](found)


def misuse(prog: str, message: str) -> UsageError:
    """The refusal of words; what of them is repeated is escaped (T12)."""
    said = printable(message[:1].upper() + message[1:], limit_chars=400)
    return UsageError(
        said,
        do=f"See how it is used with: {prog} --help",
    )


def _check_show(found: dict[str, Any]) -> None:
    """Refuse what is about events without ``--events``, and what is about a checkpoint with it."""
    other = ("since", "limit", "with_data")
    if "events" in found:
        other = ("sequence", "with_state", "schema_version")
    if any(name in found for name in other):
        raise misuse(
            "lastgood show",
            "--since, --limit and --data go with --events, --sequence, --state and "
            "--schema-version without it",
        )


def _check_repair(found: dict[str, Any]) -> None:
    """Refuse a decision without what it needs, or with what is for another one."""
    which = found["repair"]
    needed = {"accept-older": {"sequence"}, "rebuild-from-log": {"program"}}.get(which, set())
    if which != "scan":
        needed = needed | {"reason"}
    given = {"sequence", "program", "reason", "actor"} & found.keys()
    allowed = needed | ({"actor"} if which != "scan" else set())
    for name in sorted(needed - given):
        raise misuse("lastgood repair", f"--{which} needs --{name}")
    for name in sorted(given - allowed):
        raise misuse("lastgood repair", f"--{name} is not for --{which}")


def _check_gc(found: dict[str, Any]) -> None:
    """Refuse to let anything go without a reason, or without a word on what becomes of it."""
    erase = found.pop("erase", None)
    if "dry_run" not in found and (erase is None) == ("archive" not in found):
        raise misuse("lastgood gc", "say --archive DIR or --erase, or ask with --dry-run")
    if "dry_run" not in found and "reason" not in found:
        raise misuse("lastgood gc", "--reason TEXT is needed")


def _check_decided(found: dict[str, Any]) -> None:
    """Refuse a decision without an outcome or without a reason."""
    if ("result" in found) == ("outcome" in found):
        raise misuse("lastgood effects resolve", "say --done RESULT or --not-done")
    found.setdefault("outcome", "done")
    if "reason" not in found:
        raise misuse("lastgood effects resolve", "--reason TEXT is needed")


def _check_run(found: dict[str, Any]) -> None:
    """Refuse a changed plan without a reason, and a reason without one."""
    accepts = "accept_plan_change" in found and "dry_run" not in found
    if accepts and "reason" not in found:
        raise misuse("lastgood run", "--accept-plan-change needs --reason")
    if "accept_plan_change" not in found and {"reason", "actor"} & found.keys():
        raise misuse("lastgood run", "--reason and --actor go with --accept-plan-change")
