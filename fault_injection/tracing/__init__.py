"""Real processes, stopped at each system call and struck there.

``driver`` finds what this machine permits: ptrace by ourselves, which brings every fault, or the
program strace, which kills at the entry of a call and nothing else.
"""

from __future__ import annotations

from fault_injection.level import NotRunError
from fault_injection.tracing.runs import Driver
from fault_injection.tracing.strace import StraceDriver
from fault_injection.tracing.tracer import PtraceDriver


def driver() -> Driver:
    """What traces a job here.

    Raises:
        NotRunError: Nothing does.
    """
    by_ourselves = PtraceDriver()
    refused = by_ourselves.refusal()
    if refused is None:
        return by_ourselves
    by_strace = StraceDriver()
    also_refused = by_strace.refusal()
    if also_refused is None:
        return by_strace
    raise NotRunError(
        f"no process can be traced here: {refused}; {also_refused}",
        remedy="on Linux, allow ptrace (capability SYS_PTRACE) or install strace",
    )
