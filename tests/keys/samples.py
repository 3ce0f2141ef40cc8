"""Key files for tests, an independent HKDF, and a way to act as somebody who is not root."""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import LastgoodError
from tests.support.check import check
from tests.support.require import require_unprivileged_user

MASTER = bytes(range(32))
STORE = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
KID = "c1d7814c0e0019ea14df20dd9643c4b9"
CREATED = "2026-12-01T07:00:00.000000Z"
DIRECTORY = "ab" * 20


def pae(*items: bytes) -> bytes:
    """PAE, written again from its definition."""
    return struct.pack("<Q", len(items)) + b"".join(struct.pack("<Q", len(i)) + i for i in items)


def rfc5869(key: bytes, info: bytes, *, salt: bytes = b"", size_bytes: int = 32) -> bytes:
    """HKDF-SHA256, written again from RFC 5869 sections 2.2 and 2.3."""
    if size_bytes > 255 * 32:
        raise ValueError("L is at most 255 * HashLen")
    pseudorandom = hmac.digest(salt or bytes(32), key, hashlib.sha256)
    okm = block = b""
    counter = 1
    while len(okm) < size_bytes:
        block = hmac.digest(pseudorandom, block + info + bytes([counter]), hashlib.sha256)
        okm += block
        counter += 1
    return okm[:size_bytes]


def kid_of(secret: bytes) -> str:
    """The kid of a master key, by the independent derivation."""
    return rfc5869(secret, pae(b"kid"))[:16].hex()


def entry(
    secret: bytes | None = MASTER, *, state: Any = "primary", **changes: Any
) -> dict[str, Any]:
    """One key of a key file; a destroyed one keeps the kid of ``MASTER``."""
    made = {
        "kid": kid_of(MASTER if secret is None else secret),
        "state": state,
        "created": CREATED,
        "secret": None if secret is None else secret.hex(),
    }
    return {**made, **changes}


def key_file(*keys: Any, **changes: Any) -> dict[str, Any]:
    """A key file as a dict; without keys, with one primary."""
    made = {"lastgood-keys": 1, "store": STORE, "keys": list(keys) or [entry()], "signing": None}
    return {**made, **changes}


def as_bytes(file: dict[str, Any]) -> bytes:
    """A key file as people write it."""
    return json.dumps(file, indent=2).encode() + b"\n"


def write(path: Path, data: bytes | None = None, *, mode: int = 0o600) -> Path:
    """Put a key file there."""
    path.write_bytes(as_bytes(key_file()) if data is None else data)
    path.chmod(mode)
    return path


def refused(
    call: Any, *args: Any, error: type[LastgoodError], match: str | None = None, **named: Any
) -> str:
    """Call, and return the text of the refusal: of just this class, exit 5, hiding every secret."""
    with pytest.raises(error, match=match) as caught:
        call(*args, **named)
    check(type(caught.value) is error, f"{type(caught.value)} instead of {error}")
    check(caught.value.exit_code == 5, f"exit code {caught.value.exit_code}")
    for text in texts_of(caught.value):
        check_hides(text, MASTER)
    return str(caught.value)


def texts_of(error: BaseException | None) -> Iterator[str]:
    """Everything that an error and the errors chained to it would print or carry."""
    while error is not None:
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield from (repr(getattr(error, name, None)) for name in ("doc", "object", "cmd", "output"))
        error = error.__cause__ or error.__context__


def check_hides(text: str, *secrets: bytes) -> None:
    """Fail if ``text`` shows a secret, in any writing of its bytes, or a good part of one."""
    for secret in secrets:
        for part in (secret, secret[:8], secret[-8:], secret[12:20]):
            hexadecimal = part.hex()
            for shown in (
                hexadecimal,
                hexadecimal.upper(),
                repr(part)[2:-1],
                str(list(part))[1:-1],
            ):
                check(shown not in text, f"a secret is shown in: {text}")


def as_unprivileged_user(code: str, *arguments: str) -> str:
    """Run ``code`` in a fresh process that loads lastgood as root and acts as nobody."""
    user = require_unprivileged_user()
    prologue = (
        "import os, sys\n"
        "from lastgood.errors import LastgoodError\n"
        "from lastgood.keyring import Keyring\n"
        f"os.setgroups([]); os.setgid({user.pw_gid}); os.setuid({user.pw_uid})\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", prologue + code, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    check(ran.returncode == 0, f"exit {ran.returncode}: {ran.stderr}")
    return ran.stdout.strip()
