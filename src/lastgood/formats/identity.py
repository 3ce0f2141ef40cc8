"""The identity of one exact action, and the fingerprint that it gives (design 8).

::

    fingerprint = "fx:v1:" + hex(HMAC-SHA256(salt, PAE("lastgood/1/effect", kind, key,
                      value(args), optional(cwd), value(inputs), optional(target),
                      optional(policy version), occurrence)))
    key digest  =            hex(HMAC-SHA256(salt, PAE("lastgood/1/effect-key", kind, key,
                      occurrence)))

``salt`` is the session's own, 32 bytes, so fingerprints survive a rotation of keys and tell nothing
about what was done to whoever does not have it. ``value`` gives each JSON value one form, a letter
and bytes:

========  ==================================================================================
null      ``n``
true      ``t``
false     ``f``
integer   ``i`` and its decimal digits, ``-`` before them if it is negative
float     as the integer, if it is one of at most 2^53 in size; else ``d`` and the 8 bytes of
          its IEEE 754 form, little-endian
text      ``s`` and its UTF-8
array     ``a`` and the PAE of its values
object    ``o`` and the PAE of key, value, key, value …, keys as UTF-8 and in the order of those
          bytes
========  ==================================================================================

So ``true``, ``1``, ``"1"``, ``null`` and an absent key all differ, the order of keys does not
matter, and 1 and 1.0 are one number, as in JSON and in languages that know no other: a language
that wrote ``1`` where another wrote ``1.0`` must not make a new action of an old one. ``optional``
is ``n``, or ``s`` and the text.

Versions: 1, the ``v1`` of the fingerprint. Golden vectors: ``tests/golden/fingerprints-v1.json``.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from lastgood.errors import UsageError, printable
from lastgood.formats.canonical import JSON, pae
from lastgood.formats.fields import check_given
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.limits import MAX_SEQUENCE, Limits
from lastgood.formats.names import is_text
from lastgood.formats.state import prove

MAX_KIND_CHARS: Final = 200
MAX_KEY_CHARS: Final = 500
MAX_PLACE_CHARS: Final = 4_096
MAX_INPUTS: Final = 100_000
_EXACT: Final = 2**53
"""Up to here every integer is a float of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """One exact action.

    Attributes:
        kind: What is done, ``pay``; 1 to 200 characters.
        key: Which one: the operation's id, made when it was first planned, 1 to 500 characters.
            Never an attempt's, never a position. It is stored as it is.
        args: With what; plain JSON data. Neither it nor what follows is stored.
        cwd: Where, if that matters.
        inputs: Digests of what it reads, by name.
        target: On what, if that is not among ``args``.
        policy_version: Of the rules that allowed it.
        occurrence: Which of several that are meant to be alike, from 0; given by the caller.

    Raises:
        UsageError: One of them is not what it must be.
    """

    kind: str
    key: str
    args: JSON = field(default=None, repr=False)
    cwd: str | None = None
    inputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    target: str | None = None
    policy_version: str | None = None
    occurrence: int = 0

    def __post_init__(self) -> None:
        """Refuse what would only show when it is stored."""
        _check_text(self.kind, limit_chars=MAX_KIND_CHARS, what="effect's kind")
        _check_text(self.key, limit_chars=MAX_KEY_CHARS, what="effect's key")
        for text, what in (
            (self.cwd, "working directory"),
            (self.target, "target"),
            (self.policy_version, "policy version"),
        ):
            if text is not None:
                check_given(text, limit_chars=MAX_PLACE_CHARS, what=what)
        if type(self.occurrence) is not int or not 0 <= self.occurrence <= MAX_SEQUENCE:
            raise UsageError(
                f"An occurrence is an int from 0, not {printable(repr(self.occurrence)[:40])}"
            )
        if not isinstance(self.inputs, Mapping) or len(self.inputs) > MAX_INPUTS:
            raise UsageError(f"Inputs are at most {MAX_INPUTS} digests by name")
        for name, digest in self.inputs.items():
            check_given(name, limit_chars=MAX_PLACE_CHARS, what="input's name")
            check_given(digest, limit_chars=MAX_KIND_CHARS, what="input's digest")

    def fingerprint(self, salt: bytes, *, limits: Limits) -> Fingerprint:
        """The fingerprint of this action in the session of ``salt``.

        Raises:
            StateError: The arguments are not plain JSON data; has their JSON path.
            LimitError: They are larger than an event may be, or nested too deep.
        """
        prove(self.args, what="effect's args", limit_bytes=limits.event_bytes, depth=limits.depth)
        whole = pae(
            "lastgood/1/effect",
            self.kind,
            self.key,
            _value(self.args),
            _value(self.cwd),
            _value(dict(self.inputs)),
            _value(self.target),
            _value(self.policy_version),
            self.occurrence,
        )
        return Fingerprint(f"fx:v1:{hmac.digest(salt, whole, 'sha256').hex()}")

    def key_digest(self, salt: bytes) -> str:
        """What is the same for this key whatever its arguments are; 64 hex characters."""
        whole = pae("lastgood/1/effect-key", self.kind, self.key, self.occurrence)
        return hmac.digest(salt, whole, "sha256").hex()


def _check_text(text: object, *, limit_chars: int, what: str) -> None:
    check_given(text, limit_chars=limit_chars, what=what)
    if not text or not is_text(str(text)):
        raise UsageError(
            f"An {what} is a text of 1 to {limit_chars} characters, none of them control"
        )


def _value(value: JSON) -> bytes:
    """One form for each JSON value; the table above."""
    match value:
        case None | True | False:
            return {None: b"n", True: b"t", False: b"f"}[value]
        case int():
            return b"i%d" % value
        case float():
            is_exact = value.is_integer() and abs(value) <= _EXACT
            return b"i%d" % int(value) if is_exact else b"d" + struct.pack("<d", value)
        case str():
            return b"s" + value.encode()
        case list():
            return b"a" + pae(*map(_value, value))
        case _:
            pairs = sorted((name.encode(), _value(one)) for name, one in value.items())
            return b"o" + pae(*(part for pair in pairs for part in pair))
