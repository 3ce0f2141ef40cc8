"""A place where a store is, with the keys that it is believed by."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from lastgood.clock import Clock, utc_text
from lastgood.entropy import Entropy
from lastgood.errors import ConfigurationError, ConflictError, DamagedError, UsageError, printable
from lastgood.formats import names, store
from lastgood.formats.fields import check_type
from lastgood.formats.limits import Limits
from lastgood.formats.store import StoreRecord
from lastgood.keyring import STORE_DIRECTORY, Keyring
from lastgood.reading import Scope
from lastgood.rules.selection import Waiver
from lastgood.storage.interface import StorageRoot
from lastgood.storage.memory import MemoryRoot
from lastgood.storage.mounts import NetworkFileSystem
from lastgood.storage.posix import PosixRoot
from lastgood.survey import read_store

_LATER: Final = frozenset({"s3", "gs", "az"})
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_memory: dict[str, MemoryRoot] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a store lies, and what it must be.

    Attributes:
        root: The back end.
        keyring: The keys.
        store_id: What ``store.json`` must say.
        limits: The reader's.
        is_lent: Whether the back end is the caller's own, who may have other uses for it.
    """

    root: StorageRoot
    keyring: Keyring
    store_id: str
    limits: Limits
    is_lent: bool

    def read(self) -> StoreRecord | None:
        """Authenticate the store; None if there is none yet.

        Raises:
            LastgoodError: As ``survey.read_store``.
        """
        return read_store(
            self.root, keyring=self.keyring, store_id=self.store_id, limits=self.limits
        )

    def make(self, *, clock: Clock, writer: str) -> StoreRecord:
        """Authenticate the store, making it first if nothing is there; durable on return.

        Raises:
            LastgoodError: As ``read``, and what ``Storage.create`` raises.
        """
        found = self.read()
        if found is not None:
            return found
        record = StoreRecord(self.store_id, utc_text(clock.now()), writer)
        sealer = self.keyring.sealer(STORE_DIRECTORY, store_id=self.store_id)
        try:
            self.root.records().create(names.STORE, store.encode(record, sealer=sealer))
        except ConflictError:
            found = self.read()  # another process made it meanwhile
            if found is None:
                raise DamagedError("it appeared and vanished", name=names.STORE) from None
            return found
        return record

    def close(self) -> None:
        """Give back what ``find`` opened; idempotent, never raises."""
        if not self.is_lent:
            self.root.close()

    def scope(
        self,
        session: str,
        *,
        schemas: Collection[int] | None,
        waived: Collection[Waiver] = (),
        whole_log: bool = False,
    ) -> Scope:
        """What is fixed of one session here; ``waived`` is what the caller passes over.

        Raises:
            InvalidIdError: ``session`` is not a session id.
        """
        checked = names.session_id(session)
        return Scope(
            keyring=self.keyring,
            store_id=self.store_id,
            session=checked,
            sealer=self.keyring.sealer(names.directory(checked), store_id=self.store_id),
            limits=self.limits,
            schemas=schemas,
            waived=waived,
            whole_log=whole_log,
        )


def find(
    where: str | os.PathLike[str] | StorageRoot,
    *,
    keys: Keyring,
    store_id: str | None,
    limits: Limits,
    clock: Clock,
    entropy: Entropy,
    network_filesystem: NetworkFileSystem,
) -> Place:
    """Find the place that ``where`` names; nothing is made and no record is read.

    Args:
        where: A path, ``file:…``, ``memory:NAME``, or a back end of the caller's.
        keys: The keys; their file must lie outside the store.
        store_id: For several stores under one key; by default the one in the key file.
        limits: The reader's.
        clock: Measures waits.
        entropy: Names temporaries.
        network_filesystem: ``"accept"`` where only one machine ever writes.

    Raises:
        UsageError: ``where`` is empty, of an unknown scheme, or no place at all.
        ConfigurationError: The platform or the scheme cannot be used here.
        KeyFileError: The key file lies under the store.
    """
    check_type(keys, Keyring, what="keyring")
    check_type(limits, Limits, what="set of limits")
    is_lent = isinstance(where, StorageRoot)
    if isinstance(where, StorageRoot):
        root = where
    elif isinstance(where, str | os.PathLike):
        text = os.fsdecode(where)
        root = _memory_root(text) or PosixRoot(
            _path(text),
            clock=clock,
            entropy=entropy,
            limits=limits,
            network_filesystem=network_filesystem,
        )
    else:
        raise UsageError(f"A store is a path or a back end, not {printable(type(where).__name__)}")
    if isinstance(root, PosixRoot):
        keys.check_outside(root.location())
    pinned = keys.store_id if store_id is None else store_id
    return Place(root=root, keyring=keys, store_id=pinned, limits=limits, is_lent=is_lent)


def _memory_root(text: str) -> MemoryRoot | None:
    """The store of this name in this process; for tests, gone with the process."""
    if not text.startswith("memory:"):
        return None
    return _memory.setdefault(text, MemoryRoot(text.removeprefix("memory:")))


def _path(text: str) -> str:
    """The path that ``text`` means; one with a colon in front may be written ``./s3:x``."""
    scheme, colon, rest = text.partition(":")
    if colon and scheme in _LATER:
        raise ConfigurationError(f"Stores in {scheme}: are not supported by this version")
    if colon and scheme == "file":
        path = _path_of_url(text)
    elif rest.startswith("//") and _SCHEME.fullmatch(scheme):
        raise UsageError(f"Stores in {printable(scheme)}: are not known")
    else:
        path = os.path.expanduser(text)
    if not path:
        raise UsageError("The store's root is empty")
    if "\0" in path:
        raise UsageError("The store's root holds a NUL character")
    return path


def _path_of_url(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = SplitResult("", "", "", "", "")
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise UsageError(f"{printable(text)} names no local path")
    if parts.query or parts.fragment:
        # Dropped, they would lead to another directory than the one that was meant.
        raise UsageError(f"{printable(text)} holds ? or #, which a URL writes as %3F and %23")
    return unquote(parts.path)
