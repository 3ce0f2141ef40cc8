"""``python -m fault_injection``, and the command that an installation brings."""

import sys

from fault_injection.interrupt import interruptible


def main() -> int:
    """Run one command and return its exit code."""
    return interruptible(_command)


def _command() -> int:
    from fault_injection.cli import main as command  # here: an interrupt may come meanwhile

    return command()


if __name__ == "__main__":
    sys.exit(main())
