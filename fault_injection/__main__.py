"""``python -m fault_injection``, and the command that an installation brings."""

import sys

from fault_injection.interrupt import interruptible, leave_at_once


def main() -> int:
    """Run one command and return its exit code."""
    leave_at_once()
    from fault_injection.cli import main as command  # not above: it takes a moment

    return interruptible(command)


if __name__ == "__main__":
    sys.exit(main())
