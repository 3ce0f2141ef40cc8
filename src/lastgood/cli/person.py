"""Who decides, where a command takes a session to carry out a person's decision."""

from __future__ import annotations

import os
import pwd
from typing import Final

from lastgood.claim import Owner
from lastgood.clock import SystemClock
from lastgood.entropy import system_entropy
from lastgood.formats.session import Program
from lastgood.version import VERSION, WRITER

PROGRAM: Final = Program("lastgood.cli", VERSION)


def owner() -> Owner:
    """The command as an owner."""
    return Owner(program=PROGRAM, writer=WRITER, clock=SystemClock(), entropy=system_entropy)


def user() -> str:
    """The name of the operating system's user, by its id; the environment could say anything."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user {os.getuid()}"
