"""``python -m fault_injection``."""

import sys

from fault_injection.cli import main

if __name__ == "__main__":
    sys.exit(main())
