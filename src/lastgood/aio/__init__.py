"""The same names, awaited: what ``lastgood`` offers, for programs that run in an event loop.

::

    async with lastgood.aio.open_store("state", keys=keys) as store:
        async with store.session("s", reducer=apply, initial={}) as session:
            await session.append("paid", {"id": 17})

There is one implementation of every protocol, the synchronous one. Each handle here owns one
synchronous handle and one thread, begun when it is opened and ended when it is closed; all its
calls are made in that thread, in the order in which they were asked for. So:

* What is asked for later takes effect later, whatever is cancelled (C7-04).
* Appends that wait while the disk is busy are written together, with one flush; they are
  acknowledged in the order of the log.
* Reducers, validators and migrations run in that thread only, one at a time, in a copy of the
  context (``contextvars``) of the task that asked. They are plain functions, never coroutines.
* Events and states are read before anything is waited for: other tasks may change them then.

A call that is cancelled either never began, or is waited for to its end, before
``CancelledError`` is raised: nothing of it can happen afterwards. A timeout is no exception:
it ends when the call has ended.

A handle belongs to the event loop that opened it. Once that loop is closed, it may be closed
in another.
"""

from __future__ import annotations

from lastgood.aio.checkpoints import CheckpointStore
from lastgood.aio.session import Session
from lastgood.aio.store import Store, open_store

__all__ = ["CheckpointStore", "Session", "Store", "open_store"]
