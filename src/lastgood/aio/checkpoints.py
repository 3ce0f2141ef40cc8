"""CheckpointStore, awaited: the synchronous one, its calls made in one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

from lastgood import checkpoints as synchronous
from lastgood.aio.handle import Handle, as_it_is, plain
from lastgood.checkpoints import Validator
from lastgood.clock import Clock
from lastgood.entropy import Entropy, system_entropy
from lastgood.formats import canonical
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.fields import check_type
from lastgood.formats.limits import Limits
from lastgood.formats.session import Program
from lastgood.formats.state import encode_with_state
from lastgood.inspection import Report
from lastgood.keyring import Keyring
from lastgood.pruning import Pruned
from lastgood.rules.retention import Retention
from lastgood.saving import SaveReceipt
from lastgood.storage.interface import StorageRoot
from lastgood.storage.mounts import NetworkFileSystem


class CheckpointStore(Handle[synchronous.CheckpointStore]):
    """The checkpoints of one session, opened by ``await`` or ``async with``.

    Guarantees, arguments and errors of each call are those of ``lastgood.CheckpointStore``; it is
    opened, and its errors come, when it is awaited or entered.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | StorageRoot,
        session: str,
        *,
        keys: Keyring,
        mode: Literal["write", "read"] = "write",
        schema_version: int = 1,
        validate: Validator | None = None,
        retention: Retention | None = None,
        limits: Limits | None = None,
        program: Program | None = None,
        store_id: str | None = None,
        network_filesystem: NetworkFileSystem = "refuse",
        clock: Clock | None = None,
        entropy: Entropy = system_entropy,
    ) -> None:
        super().__init__(
            partial(
                synchronous.CheckpointStore,
                root,
                session,
                keys=keys,
                mode=mode,
                schema_version=schema_version,
                validate=plain(validate, what="validator"),
                retention=retention,
                limits=limits,
                program=program,
                store_id=store_id,
                network_filesystem=network_filesystem,
                clock=clock,
                entropy=entropy,
            )
        )
        self._limits = Limits() if limits is None else limits

    @classmethod
    def _made_by(
        cls, make: Callable[[], synchronous.CheckpointStore], *, limits: Limits
    ) -> CheckpointStore:
        """One that an open store makes."""
        store = cls.__new__(cls)
        Handle.__init__(store, make)
        store._limits = limits
        return store

    @property
    def session(self) -> str:
        """The session's id."""
        return self._opened().session

    @property
    def fencing_token(self) -> int:
        """The epoch of this ownership: give it to services that can refuse an older one.

        Raises:
            PolicyError: This handle only reads.
        """
        return self._opened().fencing_token

    async def current_sequence(self) -> int:
        """The sequence of the current checkpoint, 0 before the first."""
        inner = self._ready()
        return await self._call(lambda: inner.current_sequence)

    async def fingerprints(self) -> tuple[str, ...]:
        """Those of the current checkpoint: what the next save must hold (I6)."""
        inner = self._ready()
        return await self._call(lambda: inner.fingerprints)

    async def notices(self) -> tuple[str, ...]:
        """What a person should know of this place, and of what was found when it was opened."""
        inner = self._ready()
        return await self._call(lambda: inner.notices)

    async def save(self, checkpoint: Checkpoint, *, milestone: str | None = None) -> SaveReceipt:
        """Make ``checkpoint`` the current one of this session, durably.

        Its state is read before anything is waited for; the event loop stands still meanwhile,
        some 20 ms a megabyte. Cancelled, it never began, or its outcome
        stands when ``CancelledError`` is raised.

        Raises:
            LastgoodError: As ``lastgood.CheckpointStore.save``.
        """
        save = self._ready().save
        check_type(checkpoint, Checkpoint, what="checkpoint")
        # S2, first half: the state of this instant, which no other task has a hand on.
        data = encode_with_state({"state": checkpoint.state}, limits=self._limits)

        def save_it() -> SaveReceipt:
            own = replace(checkpoint, state=canonical.decode(data)["state"])
            return save(own, milestone=milestone)

        return await self._call(save_it)

    async def load_latest(self) -> Checkpoint | None:
        """Load the last good checkpoint; None if and only if the session is new.

        Raises:
            LastgoodError: As ``lastgood.CheckpointStore.load_latest``.
        """
        return await self._call(self._ready().load_latest)

    async def load(self, sequence: int) -> Checkpoint:
        """Load the checkpoint at ``sequence``: a generation, a milestone, or an archived one.

        Raises:
            LastgoodError: As ``lastgood.CheckpointStore.load``.
        """
        return await self._call(partial(self._ready().load, sequence))

    async def check(self) -> Report:
        """Read and verify everything of this session; raises nothing that it can report.

        Raises:
            BusyError: A writer kept moving the session.
        """
        return await self._call(self._ready().check)

    async def verify(self) -> Report:
        """As ``check``, but raises the worst finding instead of returning it.

        Raises:
            LastgoodError: Something stored cannot be believed.
        """
        return await self._call(self._ready().verify)

    async def prune(self, *, release: Sequence[int] = ()) -> Pruned:
        """Remove what two generations and the milestones do not need (S9).

        Raises:
            LastgoodError: As ``lastgood.CheckpointStore.prune``.
        """
        return await self._call(partial(self._ready().prune, release=as_it_is(release)))
