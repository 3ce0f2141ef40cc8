"""Session, awaited: the synchronous one, its calls made in one thread."""

from __future__ import annotations

import contextvars
import copy
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar

from lastgood import session as synchronous
from lastgood.aio.effect import Effect
from lastgood.aio.handle import Handle, as_it_is, plain
from lastgood.aio.worker import outcome
from lastgood.deciding import Question
from lastgood.effect import MakeEvent, OnUnknown
from lastgood.errors import LastgoodError
from lastgood.event_log import EventLog, Ticket
from lastgood.formats import canonical
from lastgood.formats.canonical import JSON
from lastgood.formats.event import check_event_type
from lastgood.formats.limits import Limits
from lastgood.formats.state import encode_with_data
from lastgood.resume import Resumed
from lastgood.saving import SaveReceipt

S = TypeVar("S")


class Session(Handle[synchronous.Session[S]]):
    """An owned session; made by ``Store.session``, opened by ``await`` or ``async with``.

    Guarantees and errors of each call are those of ``lastgood.Session``. Many tasks may use it:
    their calls take effect in the order in which they were made.

    Args:
        make: Makes the synchronous session.
        limits: The store's.
    """

    def __init__(self, make: Callable[[], synchronous.Session[S]], *, limits: Limits) -> None:
        super().__init__(make)
        self._limits = limits

    @property
    def id(self) -> str:
        """The session's id."""
        return self._opened().id

    @property
    def fencing_token(self) -> int:
        """The epoch: higher for each opening; give it to services that can refuse lower ones."""
        return self._opened().fencing_token

    @property
    def resumed(self) -> Resumed[S]:
        """What the opening found and decided."""
        return self._opened().resumed

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know, of the opening and of the last automatic save."""
        return self._opened().notices

    @property
    def sequence(self) -> int:
        """Sequence of the last acknowledged event, lastgood's own included."""
        return self._opened().sequence

    async def state(self) -> S:
        """A copy of the state after every event that was appended before this call.

        Raises:
            LastgoodError: As ``lastgood.Session.state``.
        """
        inner = self._ready()
        return await self._call(lambda: inner.state)

    async def fingerprints(self) -> tuple[str, ...]:
        """Side effects that are done, in the order of the log."""
        inner = self._ready()
        return await self._call(lambda: inner.fingerprints)

    async def should_replay(self, text: str) -> bool:
        """Whether the side effect of this fingerprint is still to be done.

        Raises:
            FingerprintError: It is malformed.
        """
        return await self._call(partial(self._ready().should_replay, text))

    async def append(self, kind: str, data: JSON = None) -> int:
        """Make an event durable and apply it; returns its sequence.

        ``data`` is read before anything is waited for. Cancelled, it never began and is not in
        the log, or its outcome stands when ``CancelledError`` is raised.

        Raises:
            LastgoodError: As ``lastgood.Session.append``.
        """
        return (await self.append_many([(kind, data)]))[0]

    async def append_many(self, events: Iterable[tuple[str, JSON]]) -> tuple[int, ...]:
        """As ``append``, for several events: each call's are neighbours in the log.

        Raises:
            LastgoodError: As ``lastgood.Session.append_many``.
        """
        inner = self._ready()
        # Encoded here, so that it is the data of this instant, and cheap to carry over.
        given = [
            (check_event_type(kind), encode_with_data({"data": data}, limits=self._limits))
            for kind, data in events
        ]
        if not given:
            return ()
        asked = _Append(given)
        self._worker.gather(asked, partial(_append_all, inner))
        return await outcome(asked.job)

    async def save(
        self, *, fingerprints: Sequence[str] = (), milestone: str | None = None
    ) -> SaveReceipt:
        """Make a checkpoint of the state after every event that was appended before this call.

        Raises:
            LastgoodError: As ``lastgood.Session.save``.
        """
        save = self._ready().save
        done = as_it_is(fingerprints)
        return await self._call(partial(save, fingerprints=done, milestone=milestone))

    def effect(
        self,
        kind: str,
        *,
        key: str,
        args: JSON = None,
        on_unknown: OnUnknown = "manual",
        occurrence: int = 0,
        supersedes: str | None = None,
        event: MakeEvent | None = None,
        cwd: str | None = None,
        inputs: Mapping[str, str] | None = None,
        target: str | None = None,
        policy_version: str | None = None,
    ) -> Effect:
        """One side effect, in an ``async with`` block; arguments as ``lastgood.Session.effect``.

        A probe is a plain function; it is called in the session's thread.

        Raises:
            UsageError, StateError, LimitError: As ``lastgood.Session.effect``.
        """
        inner = self._ready().effect(
            kind,
            key=key,
            args=args,
            on_unknown=plain(on_unknown, what="probe"),
            occurrence=occurrence,
            supersedes=supersedes,
            event=event if event is None else plain(event, what="event's function"),
            cwd=cwd,
            inputs=inputs,
            target=target,
            policy_version=policy_version,
        )
        return Effect(inner, self._call)

    async def run_once(
        self,
        kind: str,
        function: Callable[[Effect], Awaitable[JSON]],
        /,
        *,
        key: str,
        args: JSON = None,
        on_unknown: OnUnknown = "manual",
        occurrence: int = 0,
        supersedes: str | None = None,
        event: MakeEvent | None = None,
    ) -> JSON:
        """Await ``function`` as an effect; as ``lastgood.Session.run_once``.

        Raises:
            LastgoodError: As ``lastgood.Session.run_once``.
        """
        async with self.effect(
            kind,
            key=key,
            args=args,
            on_unknown=on_unknown,
            occurrence=occurrence,
            supersedes=supersedes,
            event=event,
        ) as effect:
            if effect.should_run:
                await effect.done(await function(effect))
            return await effect.result()

    async def open_effects(self) -> tuple[Question, ...]:
        """Effects that were intended, and nobody knows whether they were done; oldest first."""
        inner = self._ready()
        return await self._call(lambda: inner.open_effects)

    async def resolve(
        self,
        text: str,
        verdict: Literal["done", "not done"],
        *,
        result: JSON = None,
        actor: str,
        reason: str,
    ) -> None:
        """Decide what became of an effect, for good; as ``lastgood.Session.resolve``.

        Raises:
            LastgoodError: As ``lastgood.Session.resolve``.
        """
        resolve = self._ready().resolve
        decided = partial(resolve, text, verdict, result=result, actor=actor, reason=reason)
        await self._call(decided)


@dataclass(slots=True, eq=False)
class _Append:
    """One call's events, on their way into the log.

    Attributes:
        events: Types, and data as it was then.
        context: Of the task that appends.
        job: Its outcome; cancelled where the call was withdrawn.
    """

    events: list[tuple[str, bytes]]
    context: contextvars.Context = field(default_factory=contextvars.copy_context)
    job: Future[tuple[int, ...]] = field(default_factory=Future)


def _append_all(session: synchronous.Session[Any], asked: list[_Append]) -> None:
    """Append what was asked for meanwhile, with one flush; each gets its own outcome."""
    begun = [one for one in asked if one.job.set_running_or_notify_cancel()]
    try:
        with session._handle.entered():
            stored = _stored(session, begun)
            if stored:
                stored[-1][0].context.run(session.save_if_due)
    except BaseException as error:  # noqa: BLE001 - raised by those who wait
        for one in begun:
            if not one.job.done():
                one.job.set_exception(_own(error))
    else:
        for one, sequences in stored:
            one.job.set_result(sequences)


def _stored(
    session: synchronous.Session[Any], begun: list[_Append]
) -> list[tuple[_Append, tuple[int, ...]]]:
    """Those that are durable, in the order of the log.

    As many threads in ``Session.append_many`` would do it, each its own call: staged one after
    the other, what one of them may not store in nobody else's way, and then written as one.
    """
    staged: list[tuple[_Append, EventLog, Ticket]] = []
    for one in begun:
        with _telling(one):
            given = [(kind, canonical.decode(data)["data"]) for kind, data in one.events]
            log, ticket = one.context.run(_stage, session, given)
            staged.append((one, log, ticket))
    stored = []
    for one, log, ticket in staged:
        with _telling(one):
            log.commit(ticket)
            stored.append((one, ticket.sequences))
    return stored


def _stage(
    session: synchronous.Session[Any], given: list[tuple[str, JSON]]
) -> tuple[EventLog, Ticket]:
    return session._following.stage(lambda _: given)


@contextmanager
def _telling(one: _Append) -> Iterator[None]:
    """Tell what is raised to who waits for it, and to nobody else."""
    try:
        yield
    except BaseException as error:  # noqa: BLE001 - raised by who waits
        one.job.set_exception(error)


def _own(error: BaseException) -> BaseException:
    return copy.copy(error) if isinstance(error, LastgoodError) else error
