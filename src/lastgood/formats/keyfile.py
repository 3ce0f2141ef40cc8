r"""The key file: master keys and the id of the store they belong to, version 1.

One JSON object. lastgood writes it on one line and ends it with a line feed; people edit
states by hand, so white space and the order of fields are free, everything else is not::

    {"lastgood-keys":1,"store":"<32 hex>","keys":[{"kid":"<32 hex>","state":"primary",
    "created":"2026-12-01T07:00:00.000000Z","secret":"<64 hex>"}],"signing":null}

=============  ==============  =========================================  ====================
field          type            meaning                                    limit
=============  ==============  =========================================  ====================
lastgood-keys  int             version of this format                     exactly 1
store          hex             id of the store; pins it outside the       32 lower-case hex
                               store, where who writes there cannot
                               reach it (T5, T6)
keys           list of object  the master keys, in any order              1 to 64, exactly one
                                                                          primary, no kid twice
keys[].kid     hex             names the key, derived from its secret;    32 lower-case hex
                               the keyring derives it again and compares
keys[].state   text            ``primary`` seals and verifies;            one of these four
                               ``verify`` verifies what it sealed;
                               ``revoked`` is believed only where
                               something outside the store pins it;
                               ``destroyed`` is known by name alone
keys[].created text            when it was made, for people: UTC, never   27 characters, a date
                               compared                                   that exists
keys[].secret  hex or null     the 32 random bytes of the key; null if    64 lower-case hex
                               and only if the key is destroyed
signing        null            place of the Ed25519 signing key           null
=============  ==============  =========================================  ====================

The whole is at most 64 KiB. Nothing in it is authenticated: it is the root of trust, so it
is believed only where nobody else could have written it, which ``lastgood.key_sources`` checks.

Two places are kept so that nothing needs a new version then; both are refused by name now:
``signing`` as an object, and a file with ``derived``, which gives a worker the keys of one
session alone (store, directory name, kid, and a root in place of a master key).

A refusal names places and rules, never a value: what stands in the wrong place may be a secret.
"""

from __future__ import annotations

import datetime
import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NoReturn, cast, get_args

from lastgood.errors import KeyFileError
from lastgood.formats import canonical

KeyState = Literal["primary", "verify", "revoked", "destroyed"]

VERSION: Final = 1
MAX_FILE_BYTES: Final = 64 * 1024
MAX_KEYS: Final = 64
SECRET_BYTES: Final = 32

_VERSION_FIELD: Final = "lastgood-keys"
_FILE_FIELDS: Final = (_VERSION_FIELD, "store", "keys", "signing")
_KEY_FIELDS: Final = ("kid", "state", "created", "secret")
_STATES: Final[tuple[str, ...]] = get_args(KeyState)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_HEX_32: Final = re.compile(r"[0-9a-f]{32}")
_HEX_64: Final = re.compile(r"[0-9a-f]{64}")
_CREATED: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2}\.[0-9]{6}Z"
)


class Secret:
    """32 secret bytes that no printout, log, comparison or pickle shows.

    Two secrets are equal only if they are one object: ``==`` tells nothing about the bytes.

    Args:
        value: The bytes.

    Raises:
        KeyFileError: They are not 32.
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        if len(value) != SECRET_BYTES:
            raise KeyFileError(f"A key has {SECRET_BYTES} bytes, this one has {len(value)}")
        self._value = bytes(value)

    def reveal(self) -> bytes:
        """The bytes themselves, for the one call that needs them."""
        return self._value

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> NoReturn:
        """Refuse pickle and copy, which would carry the bytes elsewhere."""
        raise TypeError("a secret is never pickled or copied; give the other process the key file")


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """One master key.

    Attributes:
        kid: Names it, 32 hex characters.
        state: What it may do.
        created: When it was made, as stored.
        secret: The key; None if and only if it is destroyed.
    """

    kid: str
    state: KeyState
    created: str
    secret: Secret | None = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class KeyFile:
    """What a key file holds; equal if everything but the secrets is.

    Attributes:
        store: Id of the store, 32 hex characters.
        keys: At most 64, exactly one of them primary.
    """

    store: str
    keys: tuple[KeyEntry, ...]


def is_store_id(text: object) -> bool:
    """Whether ``text`` has the form of a store id: 32 lower-case hex characters."""
    return _matches(_HEX_32, text)


def encode(file: KeyFile) -> bytes:
    """Return the bytes of ``file``: one line and its line feed. They are secret.

    Raises:
        KeyFileError: A reader would refuse it.
    """
    keys = [
        {
            "kid": key.kid,
            "state": key.state,
            "created": key.created,
            "secret": None if key.secret is None else key.secret.reveal().hex(),
        }
        for key in file.keys
    ]
    top = {_VERSION_FIELD: VERSION, "store": file.store, "keys": keys, "signing": None}
    data = canonical.encode(top) + b"\n"
    decode(data, origin="the key file about to be written")
    return data


def decode(data: bytes, *, origin: str = "the given bytes") -> KeyFile:
    """Read a key file that nobody else could have written.

    What must hold, in this order:

    1. At most 64 KiB of UTF-8, one JSON object, no field twice.
    2. The version is known, and it is neither of the two kinds kept for later.
    3. Exactly the fields of the table, each of its type and within its limit.
    4. Exactly one primary key, no kid twice.

    That a kid is the one of its secret is checked by the keyring, which derives it.

    Args:
        data: All of it.
        origin: Where it came from, escaped, for the message.

    Raises:
        KeyFileError: One of these does not hold. Neither the message nor a chained error holds
            anything of ``data``.
    """
    try:
        return _file(_parse(data))
    except _RuleError as broken:
        reason = broken.reason
    raise KeyFileError(f"The keys from {origin} cannot be used: {reason}")


class _RuleError(Exception):
    """A rule that does not hold; turned into the public error once, in ``decode``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


def _parse(data: bytes) -> Any:
    if not data:
        raise _RuleError("it is empty")
    if len(data) > MAX_FILE_BYTES:
        raise _RuleError(f"it is larger than {MAX_FILE_BYTES} bytes")
    if data.startswith(_BYTE_ORDER_MARK):
        raise _RuleError("it begins with a byte order mark")
    try:
        return json.loads(data.decode(), object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        reason = f"it is not JSON at line {error.lineno}, column {error.colno}"
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text at byte {error.start}"
    except (ValueError, RecursionError):
        reason = "it holds a number or a nesting beyond all limits"
    # Raised out here, because the errors above hold the whole text and would be chained to it.
    raise _RuleError(reason)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RuleError("an object names a field twice")
    return value


def _file(top: Any) -> KeyFile:
    if type(top) is not dict or _VERSION_FIELD not in top:
        raise _RuleError(f"it is not a key file: a JSON object with the field {_VERSION_FIELD}")
    if type(top[_VERSION_FIELD]) is not int or top[_VERSION_FIELD] != VERSION:
        raise _RuleError(f"its {_VERSION_FIELD} is not {VERSION}, the version that is known here")
    if "derived" in top:
        raise _RuleError(
            "it holds the derived keys of one session, which this version cannot use yet"
        )
    _check_fields(top, _FILE_FIELDS, place="the file")
    if top["signing"] is not None:
        raise _RuleError("signing is not null, and this version cannot use signing keys yet")
    if not _matches(_HEX_32, top["store"]):
        raise _RuleError("store is not 32 lower-case hex characters")
    keys = _keys(top["keys"])
    return KeyFile(store=top["store"], keys=keys)


def _keys(entries: Any) -> tuple[KeyEntry, ...]:
    if type(entries) is not list or not 1 <= len(entries) <= MAX_KEYS:
        raise _RuleError(f"keys is not a list of 1 to {MAX_KEYS} keys")
    keys = tuple(_key(entry, place=f"keys[{index}]") for index, entry in enumerate(entries))
    primaries = sum(key.state == "primary" for key in keys)
    if primaries != 1:
        raise _RuleError(f"{primaries} keys are primary, and exactly one must be")
    if len({key.kid for key in keys}) != len(keys):
        raise _RuleError("two keys have the same kid")
    return keys


def _key(entry: Any, *, place: str) -> KeyEntry:
    if type(entry) is not dict:
        raise _RuleError(f"{place} is not an object")
    _check_fields(entry, _KEY_FIELDS, place=place)
    if not _matches(_HEX_32, entry["kid"]):
        raise _RuleError(f"{place}.kid is not 32 lower-case hex characters")
    if entry["state"] not in _STATES:
        raise _RuleError(f"{place}.state is none of {', '.join(_STATES)}")
    if not _matches(_CREATED, entry["created"]) or not _exists(entry["created"]):
        raise _RuleError(f"{place}.created is no time like 2026-12-01T07:00:00.000000Z")
    secret = _secret(entry["secret"], destroyed=entry["state"] == "destroyed", place=place)
    return KeyEntry(
        kid=entry["kid"],
        state=cast("KeyState", entry["state"]),
        created=entry["created"],
        secret=secret,
    )


def _secret(value: Any, *, destroyed: bool, place: str) -> Secret | None:
    if destroyed and value is not None:
        raise _RuleError(f"{place} is destroyed but its secret is still there: set it to null")
    if destroyed:
        return None
    if not _matches(_HEX_64, value):
        raise _RuleError(f"{place}.secret is not 64 lower-case hex characters")
    return Secret(bytes.fromhex(value))


def _check_fields(value: dict[str, Any], fields: tuple[str, ...], *, place: str) -> None:
    for name in fields:
        if name not in value:
            raise _RuleError(f"{place} lacks the field {name}")
    if len(value) != len(fields):
        raise _RuleError(f"{place} has a field that is none of {', '.join(fields)}")


def _matches(form: re.Pattern[str], value: Any) -> bool:
    return type(value) is str and form.fullmatch(value) is not None


def _exists(moment: str) -> bool:
    """Whether the calendar and the clock know ``moment``, which has the right form."""
    try:
        datetime.datetime.fromisoformat(moment)
    except ValueError:
        return False
    return True
