"""How the tests of this room run ``lastgood``: as a person does, or in this very process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lastgood.keyring import Keyring
from tests.support.check import check, check_equal

LASTGOOD: Final = str(Path(sys.executable).with_name("lastgood"))
NO_TRACE: Final = (b"Traceback", b"Error:", b"Exception ignored")


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    words: tuple[str | bytes, ...]
    code: int
    out: bytes
    err: bytes

    @property
    def document(self) -> Any:
        """The one JSON document on standard output."""
        return json.loads(self.out)

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def said(self) -> str:
        return self.err.decode("utf-8", "backslashreplace")

    def left(self, code: int) -> Ran:
        """Fail unless it exited with ``code``, and without a traceback; returns itself."""
        check_equal(self.code, code, f"exit code of {self.words}, which said {self.said!r}")
        check(not any(trace in self.err for trace in NO_TRACE), f"a traceback: {self.said}")
        return self


@dataclass(frozen=True, slots=True)
class Place:
    """A directory with keys, a store that may not exist yet, and an environment that names both."""

    top: Path
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.top / "state"

    @property
    def keys(self) -> Path:
        return self.top / "keys.json"

    @property
    def names(self) -> dict[str, str]:
        """The whole environment of a command."""
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONOPTIMIZE", "LANG")}
        known = {"LASTGOOD_ROOT": str(self.root), "LASTGOOD_KEYS": str(self.keys)}
        return kept | known | self.environment

    def run(
        self,
        *words: str | bytes,
        stdin: bytes = b"",
        environment: dict[str, str] | None = None,
        **more: Any,
    ) -> Ran:
        """Run ``lastgood`` as a process; by default in ``top``."""
        names = {k: v for k, v in (self.names | (environment or {})).items() if v}
        done = subprocess.run(
            [LASTGOOD, *words],
            input=stdin,
            env=names,
            capture_output=True,
            timeout=100,
            check=False,
            **({"cwd": self.top} | more),
        )
        return Ran(words, done.returncode, done.stdout, done.stderr)

    def start(self, *words: str, **more: Any) -> subprocess.Popen[bytes]:
        """Start ``lastgood`` and leave it running."""
        given: dict[str, Any] = {"cwd": self.top, "env": self.names} | more
        process: subprocess.Popen[bytes] = subprocess.Popen([LASTGOOD, *words], **given)
        return process

    def save(self, session: str, sequence: int, state: Any, *words: str) -> Ran:
        """Save ``state`` and insist on success."""
        data = json.dumps(state).encode()
        return self.run("save", session, "--sequence", str(sequence), *words, stdin=data).left(0)

    def file(self, pattern: str) -> Path:
        """The one file of the store that matches ``pattern``."""
        found = sorted(self.root.rglob(pattern))
        check_equal(len(found), 1, f"files that match {pattern}")
        return found[0]

    def flip(self, path: Path, *, at: int = -20) -> None:
        """Change one bit of a file."""
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)


def new_place(top: Path) -> Place:
    """A place with fresh keys."""
    place = Place(top)
    Keyring.generate().write_new(place.keys)
    return place


def effect(number: int) -> str:
    """A legal fingerprint."""
    return f"fx:v1:{number:064x}"
