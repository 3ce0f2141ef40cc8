"""Store, awaited: a root of many sessions, and how one is opened."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from functools import partial
from itertools import islice
from typing import Final, Literal, TypeVar

from lastgood import store as synchronous
from lastgood.aio.checkpoints import CheckpointStore
from lastgood.aio.handle import Handle, plain
from lastgood.aio.session import Session
from lastgood.checkpoints import Validator
from lastgood.clock import Clock
from lastgood.entropy import Entropy, system_entropy
from lastgood.formats.limits import Limits
from lastgood.formats.session import Program
from lastgood.keyring import Keyring
from lastgood.reduction import Reducer
from lastgood.replaying import Determinism
from lastgood.resume import Resumed
from lastgood.rules.cadence import CheckpointPolicy
from lastgood.rules.migration import Migration
from lastgood.rules.retention import Retention
from lastgood.storage.interface import StorageRoot
from lastgood.storage.mounts import NetworkFileSystem
from lastgood.store import SessionEntry

S = TypeVar("S")

_ENTRIES: Final = 64


class Store(Handle[synchronous.Store]):
    """A store, made by ``open_store``, opened by ``await`` or ``async with``.

    It holds no lock; its sessions do, and stay open when it is closed.

    Args:
        make: Makes the synchronous store.
        limits: What it may make this process do.
    """

    def __init__(self, make: Callable[[], synchronous.Store], *, limits: Limits | None) -> None:
        super().__init__(make)
        self._limits = Limits() if limits is None else limits

    @property
    def location(self) -> str:
        """Where the store lies, for people."""
        return self._opened().location

    async def notices(self) -> tuple[str, ...]:
        """What a person should know of this place and of the keys."""
        inner = self._ready()
        return await self._call(lambda: inner.notices)

    async def sessions(self) -> AsyncIterator[SessionEntry]:
        """Yield every session, in no order, as a stream: constant memory.

        Raises:
            LastgoodError: As ``lastgood.Store.sessions``.
        """
        found = self._ready().sessions()
        while entries := await self._call(lambda: list(islice(found, _ENTRIES))):
            for entry in entries:
                yield entry

    def checkpoints(
        self,
        session: str,
        *,
        mode: Literal["write", "read"] = "write",
        schema_version: int = 1,
        validate: Validator | None = None,
        retention: Retention | None = None,
        program: Program | None = None,
    ) -> CheckpointStore:
        """The checkpoints of one session, to be opened; arguments as ``CheckpointStore``."""
        return CheckpointStore._made_by(
            partial(
                self._ready().checkpoints,
                session,
                mode=mode,
                schema_version=schema_version,
                validate=plain(validate, what="validator"),
                retention=retention,
                program=program,
            ),
            limits=self._limits,
        )

    def session(
        self,
        session: str,
        *,
        reducer: Reducer[S],
        initial: S,
        schema_version: int = 1,
        migrations: Mapping[int, Migration] | None = None,
        validate: Callable[[S], object] | None = None,
        policy: CheckpointPolicy | None = None,
        program: Program | None = None,
        compatible_versions: Collection[str] = (),
        on_resume: Callable[[Resumed[S]], object] | None = None,
        state_type: type[S] | None = None,
        retention: Retention | None = None,
        determinism: Determinism = "trust",
        verify: Literal["recent", "full"] = "recent",
    ) -> Session[S]:
        """A session, to be opened: resumed from its last good checkpoint and its log, or begun.

        Arguments and errors as ``lastgood.Store.session``; it is opened, and its errors come,
        when it is awaited or entered; ``initial`` is read then. Every function that is given here
        is called in its thread.

        Raises:
            UsageError: A function is a coroutine function.
        """
        if isinstance(migrations, Mapping):
            for migration in migrations.values():
                plain(migration, what="migration")
        return Session(
            partial(
                self._ready().session,
                session,
                reducer=plain(reducer, what="reducer"),
                initial=initial,
                schema_version=schema_version,
                migrations=migrations,
                validate=plain(validate, what="validator"),
                policy=policy,
                program=program,
                compatible_versions=compatible_versions,
                on_resume=plain(on_resume, what="function on_resume"),
                state_type=state_type,
                retention=retention,
                determinism=determinism,
                verify=verify,
            ),
            limits=self._limits,
        )


def open_store(
    where: str | os.PathLike[str] | StorageRoot,
    *,
    keys: Keyring,
    store_id: str | None = None,
    limits: Limits | None = None,
    network_filesystem: NetworkFileSystem = "refuse",
    clock: Clock | None = None,
    entropy: Entropy = system_entropy,
) -> Store:
    """A store, to be opened by ``await`` or ``async with``; arguments and errors as ``lastgood``'s.

    It is made by the first session that is opened for writing.
    """
    return Store(
        partial(
            synchronous.open_store,
            where,
            keys=keys,
            store_id=store_id,
            limits=limits,
            network_filesystem=network_filesystem,
            clock=clock,
            entropy=entropy,
        ),
        limits=limits,
    )
