"""What a process of ours does to itself, and what it has used."""

from __future__ import annotations

import os
import resource


def be_silent() -> None:
    """Print nowhere from now on: what a job prints belongs to no report."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def processor_s() -> float:
    """Seconds of a processor, of this process and of all that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
