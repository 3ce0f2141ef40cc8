r"""The seal: what makes a record one of this key, store, session and kind.

A record is three lines, each valid JSON, so that ``head``, ``jq`` and a text editor work::

    {"lastgood":1,"kind":"checkpoint","alg":"HS256","kid":"<32 hex>","mac":"<64 hex>"}
    {…header: an object of exactly the fields of its kind, at most 8 KiB…}
    {…payload…}

========  ======  ======================  ==============================================
field     type    authenticated           meaning
========  ======  ======================  ==============================================
lastgood  int     as a label of the MAC   version of the seal; agrees with the header's
                                          ``format``
kind      text    yes                     ``store``, ``session``, ``checkpoint``,
                                          ``manifest`` (``mark`` is reserved)
alg       text    yes                     HS256: HMAC-SHA256. A property of the key, not a
                                          choice of the file
kid       hex     yes                     which master key; derived from it
mac       hex     is the authentication   HMAC-SHA256 over PAE("lastgood/1/seal", kind, alg,
                                          kid, store id, session id, header line)
header    object  yes, by the MAC         without its line feed; holds ``length`` and
                                          ``sha256`` of the payload
payload   object  yes, by the header      without its line feed
========  ======  ======================  ==============================================

The seal line has exactly one legal byte form, is matched as bytes, and never parsed
as JSON. The context (store, session, kind) comes from the caller, never from the file
(T5). Nothing is parsed before it is authenticated, and the very bytes that were
verified are the ones that are parsed: ``unseal`` goes seal → kind → kid → MAC →
header → format → length → SHA-256, and only then hands out a payload.

The *digest* of a record is the SHA-256 of its header line, without the line feed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Final, NewType, Protocol

from lastgood.errors import DamagedError, UnknownFormatError, printable
from lastgood.formats import canonical
from lastgood.formats.canonical import JSON, pae
from lastgood.formats.limits import Limits

Digest = NewType("Digest", str)
"""SHA-256 of a record's header line, 64 lower-case hex characters."""

FORMAT: Final = 1
ALG: Final = "HS256"
SEAL_LINE_BYTES: Final = 256
"""No legal seal line is longer."""
MAX_WRITER_CHARS: Final = 100
"""The header's ``writer``: program and version, for people."""

_SEAL: Final = re.compile(
    rb'\{"lastgood":([1-9][0-9]{0,3}),"kind":"([a-z]{1,20})","alg":"([A-Z0-9-]{1,20})",'
    rb'"kid":"([0-9a-f]{32})","mac":"([0-9a-f]{64})"\}'
)
_HEX_64: Final = re.compile(r"[0-9a-f]{64}")
_CLAIM: Final = re.compile(
    rb'\{"format":[0-9]{1,4},"store":"([0-9a-f]{32})",'
    rb'(?:"session":"((?:[^"\\]|\\["\\])*+)"|"created":)'
)
"""How a header begins; a legal session id needs no other escapes than these two."""
_ESCAPE: Final = re.compile(rb'\\(["\\])')


class Sealer(Protocol):
    """The keys of one session, or of the store's own record.

    Attributes:
        kid: The key that new records are sealed with.
    """

    @property
    def kid(self) -> str:
        """The kid of the primary key, 32 hex characters."""
        ...

    def key(self, kid: str, purpose: str, kind: str) -> bytes:
        """The 32-byte key of ``kid`` for ``purpose`` and ``kind``.

        Raises:
            KeyMismatchError: No such key in this keyring.
            KeyRevokedError: It is revoked.
            KeyMissingError: It was destroyed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a record must be, said by the caller (T5).

    Attributes:
        kind: ``store``, ``session``, ``checkpoint``, ``manifest``.
        store: The store id, pinned outside the store.
        session: The session id; for ``session`` records the directory's name, for ``store``
            records an empty string, because both are read before an id is known.
    """

    kind: str
    store: str
    session: str


@dataclass(frozen=True, slots=True)
class Unsealed:
    """A record whose every byte was authenticated.

    Attributes:
        header: The header's fields, of which only ``format``, ``length`` and ``sha256`` were
            looked at so far.
        payload: The payload's bytes, or empty if only the header was asked for.
        digest: The record's digest.
        kid: The key that sealed it.
        size_bytes: Size of the whole file, as the header says.
    """

    header: dict[str, JSON]
    payload: bytes
    digest: Digest
    kid: str
    size_bytes: int


def seal(
    header: dict[str, JSON], payload: bytes, *, context: Context, sealer: Sealer
) -> list[bytes]:
    """Make a record: three byte strings to be written one after another, without copying payload.

    Args:
        header: The kind's fields without ``format``, ``length`` and ``sha256``, in their order.
        payload: Canonical JSON.
        context: What the record is.
        sealer: The keys.
    """
    line = canonical.encode(
        {
            "format": FORMAT,
            **header,
            "length": len(payload),
            "sha256": hashlib.sha256(payload).hexdigest(),
            "encryption": None,
        }
    )
    mac = _mac(line, context=context, kid=sealer.kid, sealer=sealer).hex()
    first = (
        f'{{"lastgood":{FORMAT},"kind":"{context.kind}","alg":"{ALG}",'
        f'"kid":"{sealer.kid}","mac":"{mac}"}}\n'
    )
    return [first.encode() + line + b"\n", payload, b"\n"]


def digest_of(record: list[bytes]) -> Digest:
    """The digest of a record that ``seal`` made."""
    return _digest(record[0].split(b"\n", 2)[1])


def peek_kid(data: bytes) -> str | None:
    """The kid that a record claims, unauthenticated; None if the line is no seal at all.

    Only good for telling a wrong key (every record claims the same unknown one) from damage.
    """
    found = _SEAL.fullmatch(data[:SEAL_LINE_BYTES].split(b"\n", 1)[0])
    return found[4].decode() if found else None


def peek_claim(data: bytes) -> tuple[str, str, str] | None:
    """Kind, store and session id that a record claims, unauthenticated; None if it claims none.

    Only good for a second try of ``unseal_header`` in that context, which tells a record
    that is intact but of another place (T5) from an altered one. Matched as bytes, like the
    seal: not even a claim is parsed (T2). A record without a session claims an empty one.
    """
    lines = data[: SEAL_LINE_BYTES + 8 * 1024].split(b"\n", 2)
    first = _SEAL.fullmatch(lines[0])
    header = _CLAIM.match(lines[1]) if first and len(lines) > 1 else None
    if not first or not header:
        return None
    try:
        session = _ESCAPE.sub(rb"\1", header[2] or b"").decode()
        return first[2].decode(), header[1].decode(), session
    except UnicodeDecodeError:
        return None


def unseal(data: bytes, *, context: Context, sealer: Sealer, limits: Limits, name: str) -> Unsealed:
    """Authenticate a whole record.

    What must hold, in this order:

    1. The first line is a seal, byte for byte, of a version and algorithm known here.
    2. Its kind is the one asked for.
    3. Its kid is a key that may verify.
    4. Its MAC is right for the header's bytes in the caller's context.
    5. The header is canonical JSON, its format agrees with the seal's version.
    6. The payload has the header's length and SHA-256, and one line feed ends the file.

    Args:
        data: The whole file.
        context: What it must be.
        sealer: The keys.
        limits: The reader's.
        name: The file, for messages.

    Raises:
        DamagedError: 1, 2, 4, 5 or 6 does not hold.
        UnknownFormatError: Version or algorithm is unknown, or the record is encrypted.
        KeyMismatchError: No such key (3); the caller tells a wrong key from damage.
        KeyRevokedError, KeyMissingError: The key may not, or cannot, verify (3).
    """
    top = unseal_header(data, context=context, sealer=sealer, limits=limits, name=name)
    payload = data[top.size_bytes - top.header["length"] - 1 : -1]
    if len(data) != top.size_bytes or data[-1:] != b"\n":
        raise DamagedError(f"{len(data)} bytes, where {top.size_bytes} were sealed", name=name)
    _check_hash(hashlib.sha256(payload).hexdigest(), top, name=name)
    return Unsealed(top.header, payload, top.digest, top.kid, top.size_bytes)


def unseal_stream(
    chunks: Iterable[bytes], *, context: Context, sealer: Sealer, limits: Limits, name: str
) -> Unsealed:
    """Authenticate a whole record as it streams by, without holding it (S5, S9).

    The same six conditions as ``unseal``; the result's ``payload`` is empty.
    """
    stream = iter(chunks)
    head = b""
    for chunk in stream:
        head += chunk
        if head.count(b"\n") >= 2 or len(head) > SEAL_LINE_BYTES + limits.header_bytes:
            break
    top = unseal_header(head, context=context, sealer=sealer, limits=limits, name=name)
    length: int = top.header["length"]
    begin = top.size_bytes - length - 1
    running, size_bytes, last = hashlib.sha256(), begin, b""
    for chunk in chain([head[begin:]], stream):
        running.update(chunk[: max(0, begin + length - size_bytes)])
        size_bytes += len(chunk)
        last = chunk[-1:] or last
    if size_bytes != top.size_bytes or last != b"\n":
        raise DamagedError(f"{size_bytes} bytes, where {top.size_bytes} were sealed", name=name)
    _check_hash(running.hexdigest(), top, name=name)
    return top


def unseal_header(
    data: bytes, *, context: Context, sealer: Sealer, limits: Limits, name: str
) -> Unsealed:
    """Authenticate the first two lines of a record: conditions 1 to 5 of ``unseal``.

    The payload was not looked at: enough to know what a record claims to be, never
    enough to believe its state.
    """
    version, kind, alg, kid, mac, begin = _seal_line(data, name=name)
    if version != FORMAT or alg != ALG:
        raise UnknownFormatError(
            f"{printable(name)} has seal version {version} and algorithm {alg}"
        )
    if kind != context.kind:
        raise DamagedError(f"a {kind} record stands where a {context.kind} belongs", name=name)
    end = data.find(b"\n", begin, begin + limits.header_bytes + 1)
    if end < 0:
        raise DamagedError("its header line does not end within the limit", name=name, line=2)
    line = data[begin:end]
    expected = _mac(line, context=context, kid=kid, sealer=sealer)
    if not hmac.compare_digest(mac, expected):
        raise DamagedError("its seal does not hold: its bytes or its place were altered", name=name)
    header = canonical.decode(line, name=name)
    _check_header(header, version=version, name=name)
    return Unsealed(header, b"", _digest(line), kid, end + 1 + header["length"] + 1)


def _seal_line(data: bytes, *, name: str) -> tuple[int, str, str, str, bytes, int]:
    """Match the seal line; gives version, kind, alg, kid, mac, and where the header begins."""
    end = data.find(b"\n", 0, SEAL_LINE_BYTES)
    found = _SEAL.fullmatch(data[:end]) if end > 0 else None
    if not found:
        raise DamagedError("its first line is not a seal", name=name, line=1)
    version, kind, alg, kid, mac = (part.decode() for part in found.groups())
    return int(version), kind, alg, kid, bytes.fromhex(mac), end + 1


def _check_header(header: JSON, *, version: int, name: str) -> None:
    if type(header) is not dict:
        raise DamagedError("its header is not an object", name=name, line=2)
    if type(header.get("format")) is not int or header["format"] != version:
        raise UnknownFormatError(
            f"{printable(name)} has a header format that its seal does not have"
        )
    if header.get("encryption", 0) is not None:
        raise UnknownFormatError(f"{printable(name)} is encrypted in a way that is not known here")
    length, sha256 = header.get("length"), header.get("sha256")
    if type(length) is not int or length < 0:
        raise DamagedError("its header has no length", name=name, line=2)
    if type(sha256) is not str or not _HEX_64.fullmatch(sha256):
        raise DamagedError("its header has no payload hash", name=name, line=2)


def _check_hash(found: str, top: Unsealed, *, name: str) -> None:
    if not hmac.compare_digest(found, top.header["sha256"]):
        raise DamagedError("its payload is not the one that was sealed", name=name, line=3)


def _mac(line: bytes, *, context: Context, kid: str, sealer: Sealer) -> bytes:
    message = pae("lastgood/1/seal", context.kind, ALG, kid, context.store, context.session, line)
    return hmac.digest(sealer.key(kid, "mac", context.kind), message, "sha256")


def _digest(line: bytes) -> Digest:
    return Digest(hashlib.sha256(line).hexdigest())
