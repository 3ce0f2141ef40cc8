"""The version, in one place."""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
WRITER: Final = f"lastgood {VERSION}"
"""What records say of who wrote them; information for people."""
