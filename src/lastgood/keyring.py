"""The keyring: master keys, and every key that is derived from them.

Derivation, HKDF-SHA256 throughout (32 bytes, no salt; ``PAE`` as in ``formats.canonical``)::

    session root = HKDF(master, PAE("session", store id, directory name))
    store root   = HKDF(master, PAE("store", store id))
    record key   = HKDF(root,   PAE(purpose, kind))        purpose: mac event encryption witness
    kid          = HKDF(master, PAE("kid"))[:16], as 32 hex characters

So a record of one session, store, purpose or kind never verifies as another's (T5), and a kid is
a property of its key: a wrong key has another kid, which tells it from tampering (T6, C12-06).

States are those of ``formats.keyfile``. Records are sealed with the primary key alone; it and
the *verify* keys verify. Nothing tries all keys in turn: a record's kid selects one, or none.

Nothing here shows a secret in a text: not in repr, str, error, or pickle, which is refused.
Python cannot wipe memory, so whoever reads the memory of the process reads the keys.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from typing import Final

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from lastgood import key_sources, private_file
from lastgood.clock import Clock, SystemClock, utc_text
from lastgood.entropy import Entropy, system_entropy
from lastgood.errors import (
    KeyFileError,
    KeyMismatchError,
    KeyMissingError,
    KeyRevokedError,
    UsageError,
    printable,
)
from lastgood.formats import keyfile
from lastgood.formats.canonical import pae
from lastgood.formats.keyfile import SECRET_BYTES, KeyEntry, KeyFile, KeyState, Secret
from lastgood.key_sources import KeySource
from lastgood.storage.filesystem import FileSystem, OsFileSystem

PURPOSES: Final = frozenset({"mac", "event", "encryption", "witness"})
STORE_DIRECTORY: Final = ""
"""Stands for the store's own root where a session's directory name is asked for."""

_STORE_ID_BYTES: Final = 16
_KID_BYTES: Final = 16


class Keyring:
    """The master keys of a store, and the store's id.

    Made by one of the class methods; all of them pass the same validator. It never changes.

    Attributes:
        notices: What a person should know about where the keys came from.
    """

    __slots__ = ("_by_kid", "_file", "_location", "notices")

    def __init__(self, file: KeyFile, *, source: KeySource | None = None) -> None:
        """Take the keys of ``file``.

        Raises:
            KeyFileError: A kid is not the one of its secret.
        """
        self._file = file  # first: a traceback with locals asks also a refused keyring for its repr
        origin = "the given bytes" if source is None else source.origin
        for index, key in enumerate(file.keys):
            if key.secret is not None and key.kid != kid_of(key.secret):
                raise KeyFileError(
                    f"The keys from {origin} cannot be used: keys[{index}].kid is not the kid of "
                    "its secret, so one of the two was altered"
                )
        self._by_kid = {key.kid: key for key in file.keys}
        self._location = None if source is None else source.location
        self.notices: tuple[str, ...] = () if source is None else source.notices

    @classmethod
    def generate(
        cls, entropy: Entropy = system_entropy, *, now: datetime.datetime | None = None
    ) -> Keyring:
        """Make a new store id and one new primary key; nothing is written.

        Args:
            entropy: Where the 48 random bytes come from.
            now: The time of creation that is noted; by default the machine's clock.

        Raises:
            KeyFileError: ``entropy`` gave another number of bytes than it was asked for.
        """
        created = utc_text(SystemClock().now() if now is None else now)
        secret = Secret(entropy(SECRET_BYTES))
        key = KeyEntry(kid=kid_of(secret), state="primary", created=created, secret=secret)
        file = KeyFile(store=entropy(_STORE_ID_BYTES).hex(), keys=(key,))
        keyfile.encode(file)  # no reader will refuse what is handed out
        return cls(file)

    @classmethod
    def from_bytes(cls, data: bytes) -> Keyring:
        """Read the content of a key file.

        Raises:
            KeyFileError: It is malformed, or a kid is not the one of its secret.
        """
        return cls(keyfile.decode(data))

    @classmethod
    def from_file(
        cls, path: str | os.PathLike[str], *, filesystem: FileSystem | None = None
    ) -> Keyring:
        """Read a key file that nobody but us and root could read or replace (T6, T7).

        ``private_file.read`` lists what must hold. ``~`` stands for the home directory.

        Raises:
            KeyMissingError: There is no such file.
            KeyFileError: Others could read or replace it, or it is malformed; the message names
                the command that mends it.
        """
        return cls._from_source(key_sources.read_file(path, filesystem=_real(filesystem)))

    @classmethod
    def from_environment(cls, variable: str) -> Keyring:
        """Read the content of a key file from an environment variable. This is weak.

        Every child process inherits it, and ``/proc`` shows it to every process of this user:
        prefer a file, a descriptor or a command. ``notices`` says so.

        Raises:
            KeyMissingError: It is not set.
            KeyFileError: It is malformed.
        """
        return cls._from_source(key_sources.read_environment(variable))

    @classmethod
    def from_descriptor(cls, fd: int, *, filesystem: FileSystem | None = None) -> Keyring:
        """Read the content of a key file from an open descriptor, to its end.

        Who opened it vouches for it: owner and mode are not looked at. It stays open.

        Raises:
            KeyMissingError: It is not open, or cannot be read.
            KeyFileError: It is malformed.
        """
        return cls._from_source(key_sources.read_descriptor(fd, filesystem=_real(filesystem)))

    @classmethod
    def from_command(
        cls, command: Sequence[str], *, timeout_s: float = 30.0, clock: Clock | None = None
    ) -> Keyring:
        """Run a program and read the content of a key file from its standard output.

        No shell, no standard input, no terminal; its standard error is ours. It is killed with
        all it started when it takes longer than ``timeout_s`` or prints more than a key file holds.

        Args:
            command: Absolute path of the program, then its arguments.
            timeout_s: Seconds until its output must have ended.
            clock: What the time-out is measured on.

        Raises:
            UsageError: ``command`` is not a list of texts that begins with an absolute path.
            KeyMissingError: It cannot be run, failed, or took too long.
            KeyFileError: What it printed is malformed.
        """
        clock = SystemClock() if clock is None else clock
        return cls._from_source(key_sources.read_command(command, timeout_s=timeout_s, clock=clock))

    @classmethod
    def _from_source(cls, source: KeySource) -> Keyring:
        return cls(keyfile.decode(source.data, origin=source.origin), source=source)

    @property
    def store_id(self) -> str:
        """The id of the store, pinned here, outside the store: 32 hex characters."""
        return self._file.store

    @property
    def primary_kid(self) -> str:
        """The kid of the one key that new records are sealed with."""
        return next(key.kid for key in self._file.keys if key.state == "primary")

    @property
    def kids(self) -> frozenset[str]:
        """Every kid that is known, whatever its state."""
        return frozenset(self._by_kid)

    @property
    def location(self) -> str | None:
        """Absolute path of the key file, or None if the keys came from elsewhere."""
        return None if self._location is None else self._location.path

    def states(self) -> tuple[tuple[str, KeyState, str], ...]:
        """(kid, state, created) of each key, in the order of the file."""
        return tuple((key.kid, key.state, key.created) for key in self._file.keys)

    def sealer(self, directory: str, *, store_id: str | None = None) -> Sealer:
        """The keys of one session, or of the store's own record.

        Args:
            directory: Name of the session's directory; "" for the store itself.
            store_id: For several stores under one key; by default the keyring's own.

        Raises:
            UsageError: ``store_id`` is not 32 lower-case hex characters.
        """
        store = self.store_id if store_id is None else store_id
        if not keyfile.is_store_id(store):
            raise UsageError("The store id is not 32 lower-case hex characters")
        return Sealer(self, store=store, directory=directory)

    def check_outside(self, root: str, *, filesystem: FileSystem | None = None) -> None:
        """Return only if the key file does not lie under the store's root, nor is there one.

        Whoever may copy or write the store would otherwise have the keys with it (T1, T2).
        Compared by the identity of directories, so no link or mount hides it.

        Raises:
            KeyFileError: It lies there, or that cannot be told.
        """
        if self._location is not None:
            private_file.check_outside(self._location, root, filesystem=_real(filesystem))

    def write_new(
        self,
        path: str | os.PathLike[str],
        *,
        outside: str = "",
        filesystem: FileSystem | None = None,
        entropy: Entropy = system_entropy,
    ) -> None:
        """Write the keys to a new file, durably, that only we can read.

        On return the file survives a loss of power, and was read back as ``from_file`` does. On
        raise no file of this name was made, and one that was there is untouched.

        Args:
            path: The file to make.
            outside: A store under which it may not lie (T1); empty: none is known.
            filesystem: The seam.
            entropy: Makes the temporary's name.

        Raises:
            KeyFileError: The name exists, its directory does not, others could replace it, or it
                would lie under the store.
            StorageError: The system refused; nothing is left.
        """
        private_file.create(
            path,
            keyfile.encode(self._file),
            filesystem=_real(filesystem),
            entropy=entropy,
            outside=outside,
        )

    def __repr__(self) -> str:
        count = len(self._file.keys)
        return f"<Keyring store={self.store_id} primary={self.primary_kid} keys={count}>"

    def usable(self, kid: str) -> Secret:
        """The master key ``kid``, if it may seal or verify.

        Raises:
            KeyMismatchError: It is not in this keyring.
            KeyRevokedError: It is revoked.
            KeyMissingError: It was destroyed.
        """
        key = self._by_kid.get(kid)
        if key is None:
            raise KeyMismatchError(f"No key of this keyring has the id {printable(kid)}")
        if key.state == "revoked":
            raise KeyRevokedError(
                f"The key {kid} is revoked, and nothing outside the store pins what it sealed",
                do="Verify what it sealed against a receipt or a head kept elsewhere",
            )
        if key.secret is None:
            raise KeyMissingError(
                f"The key {kid} was destroyed",
                do="Nothing brings back what it sealed; use a key file that still holds it",
            )
        return key.secret


class Sealer:
    """The keys of one session, or of the store's own record; see the module for the derivation.

    May be used by several threads: two that derive the same key at once derive the same bytes,
    so the cache needs no lock, which a fork could leave locked for ever.

    Args:
        keyring: The master keys.
        store: The store id.
        directory: Name of the session's directory; "" for the store itself.
    """

    __slots__ = ("_directory", "_keyring", "_keys", "_kid", "_store")

    def __init__(self, keyring: Keyring, *, store: str, directory: str) -> None:
        self._keyring = keyring
        self._store = store
        self._directory = directory
        self._kid = keyring.primary_kid
        self._keys: dict[tuple[str, str, str], Secret] = {}

    @property
    def kid(self) -> str:
        """The kid of the primary key, which new records are sealed with."""
        return self._kid

    def key(self, kid: str, purpose: str, kind: str) -> bytes:
        """The 32-byte key of ``kid`` for one purpose and one kind of record.

        Args:
            kid: Which master key; a text from a record, not believed before the MAC is checked.
            purpose: ``mac``, ``event``, ``encryption`` or ``witness``.
            kind: Kind of the record.

        Raises:
            UsageError: There is no such purpose.
            KeyMismatchError: No such key in this keyring.
            KeyRevokedError: It is revoked.
            KeyMissingError: It was destroyed.
        """
        known = self._keys.get((kid, purpose, kind))
        if known is None:
            if purpose not in PURPOSES:
                raise UsageError(f"No key has the purpose {printable(purpose)}")
            root = derive(self._keyring.usable(kid), self._root_info())
            known = derive(root, pae(purpose, kind))
            self._keys[kid, purpose, kind] = known
        return known.reveal()

    def _root_info(self) -> bytes:
        if self._directory == STORE_DIRECTORY:
            return pae("store", self._store)
        return pae("session", self._store, self._directory)

    def __repr__(self) -> str:
        return f"<Sealer kid={self._kid} directory={printable(self._directory)!r}>"


def hkdf(key: bytes, info: bytes) -> bytes:
    """HKDF-SHA256 of ``key`` for ``info``: 32 bytes, no salt (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=SECRET_BYTES, salt=None, info=info).derive(key)


def derive(secret: Secret, info: bytes) -> Secret:
    """The key that ``secret`` gives for ``info``, kept as secret as it is."""
    return Secret(hkdf(secret.reveal(), info))


def kid_of(secret: Secret) -> str:
    """The kid of a master key: 32 lower-case hex characters that tell nothing else about it."""
    return derive(secret, pae("kid")).reveal()[:_KID_BYTES].hex()


def _real(filesystem: FileSystem | None) -> FileSystem:
    return OsFileSystem() if filesystem is None else filesystem
