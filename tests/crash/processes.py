"""Work for child processes, forked: what each does, and what it was told, as lines on a pipe."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lastgood.errors import (
    BusyError,
    ConflictError,
    DurabilityUnknownError,
    FencedError,
    LockedError,
)
from lastgood.formats import names
from lastgood.saving import ADOPTED, SaveReceipt
from tests.crash.scenes import DIRECTORY, believed, checkpoint, reader, told, writer
from tests.crash.seam import Locks, Seam
from tests.crash.sessions import given, opened


@dataclass(slots=True)
class Child:
    """A forked process.

    Attributes:
        pid: Its id.
        pipe: What it says.
    """

    pid: int
    pipe: int

    def finish(self) -> list[str]:
        """Wait for its end, and return what it said, line by line."""
        with os.fdopen(self.pipe) as pipe:
            said = pipe.read().split("\n")[:-1]
        _, status = os.waitpid(self.pid, 0)
        if status != 0:
            raise AssertionError(f"a child ended with {status}: {said[-3:]}")
        return said

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)


Say = Callable[[str], None]


class Spy(Seam):
    """Notes every temporary that is created: its name, and whether exclusively.

    Attributes:
        temporaries: ``NAME exclusive`` or ``NAME shared``, in order.
    """

    def __init__(self, *, locks: Locks) -> None:
        super().__init__(locks=locks)
        self.temporaries: list[str] = []

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        if name == "open" and args[0].endswith(".tmp") and args[1] & os.O_CREAT:
            self.temporaries.append(f"{args[0]} {'exclusive' if args[1] & os.O_EXCL else 'shared'}")
        return super()._call(name, call, args, options)


def fork(work: Callable[[Say], None], *, start: float = 0.0) -> Child:
    """Run ``work`` in a child from ``start`` on; whatever escapes it is its last line."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    code = 1
    try:
        os.close(reading)

        def say(line: str) -> None:
            os.write(writing, f"{line}\n".encode())

        time.sleep(max(0.0, start - time.monotonic()))
        try:
            work(say)
            code = 0
        except BaseException as error:  # noqa: BLE001 - the child never comes back into pytest
            say(f"escaped {type(error).__name__}: {error}")
    finally:
        os._exit(code)


def wait_stopped(pid: int) -> None:
    """Until the child has stopped itself."""
    found, status = os.waitpid(pid, os.WUNTRACED)
    if found != pid or not os.WIFSTOPPED(status):
        raise AssertionError(f"the child did not stop: {status}")


def count_up(place: Path, saves: int, *, locks: Locks, author: str) -> Callable[[Say], None]:
    """Open, load, save one more, close, until ``saves`` were acknowledged to this process.

    Lines: ``saved SEQUENCE REVISION``, ``adopted …`` with a revision of the adopting owner's, or
    ``unknown SEQUENCE 0``.
    """

    def work(say: Say) -> None:
        done = 0
        while done < saves:
            try:
                with writer(place, Seam(locks=locks)) as store:
                    sequence = believed(store.load_latest())[0] + 1
                    came = told(store, sequence, author)
            except (LockedError, BusyError, DurabilityUnknownError, ConflictError):
                continue  # another one is opening; nothing was saved
            if isinstance(came, SaveReceipt):
                adopted = came.status == "saved" and ADOPTED in came.warnings
                say(f"{'adopted' if adopted else came.status} {came.sequence} {came.revision}")
                done += 1
            elif isinstance(came, DurabilityUnknownError):
                say(f"unknown {sequence} 0")
            elif not isinstance(came, ConflictError):
                raise came

    return work


def sizes_of(count: int) -> list[int]:
    """So many sizes, 10 bytes to 200 KiB, small and large mixed."""
    return [int(10 * 20_480 ** ((number * 37 % count) / (count - 1))) for number in range(count)]


def contend(place: str, number: int, start: Any, done: Any, pipe: Any) -> None:
    """Open the session when all do; append if it was got, and keep it until ``done``.

    For processes that are spawned. Sends ``("locked", text, seconds)``, or ``("held", items)``
    before it appends them and ``("appended", items)`` behind it.
    """
    start.wait()
    began = time.monotonic()
    try:
        session = opened(Path(place), lock_wait_s=1.0)
    except LockedError as error:
        pipe.send(("locked", str(error), time.monotonic() - began))
        return
    with session:
        pipe.send(("held", str(os.getpid())))
        items = [f"{number}-{count}" for count in range(500)]
        for item, size in zip(items, sizes_of(500), strict=True):
            session.append(*given(item, pad_bytes=size))
        pipe.send(("appended", items))
        done.wait()


def append_for_ever(place: Path, items: int, *, locks: Locks, author: str) -> Callable[[Say], None]:
    """Open, append one item, save, close, until ``items`` were acknowledged to this process.

    Lines: ``told ITEM``, ``maybe ITEM``, and ``made NAME`` for each temporary, with its flags.
    """

    def work(say: Say) -> None:
        done = count = 0
        while done < items:
            item, count = f"{author}-{count}", count + 1
            seam = Spy(locks=locks)
            said = ""
            try:
                with opened(place, seam) as session:
                    said = "maybe"
                    session.append(*given(item))
                    said = "told"
                    done += 1
                    session.save()
            except (LockedError, BusyError, FencedError, ConflictError, DurabilityUnknownError):
                pass
            if said:
                say(f"{said} {item}")
            for made in seam.temporaries:
                say(f"made {made}")

    return work


def delete_lock(place: Path, *, duration_s: float) -> Callable[[Say], None]:
    """Delete the lock file over and over."""

    def work(say: Say) -> None:
        end = time.monotonic() + duration_s
        count = 0
        while time.monotonic() < end:
            with suppress(FileNotFoundError):
                os.unlink(place / DIRECTORY / names.LOCK)
                count += 1
            time.sleep(0.003)
        say(f"deleted {count}")

    return work


def save_for(place: Path, *, duration_s: float) -> Callable[[Say], None]:
    """Save, and so prune, as fast as it goes; the last line is the last sequence."""

    def work(say: Say) -> None:
        end = time.monotonic() + duration_s
        with writer(place) as store:
            sequence = believed(store.load_latest())[0]
            while time.monotonic() < end:
                sequence += 1
                store.save(checkpoint(sequence))
        say(str(sequence))

    return work


def load_for(place: Path, *, duration_s: float) -> Callable[[Say], None]:
    """Load over and over, by one handle and by fresh ones; sequences never fall."""

    def work(say: Say) -> None:
        end = time.monotonic() + duration_s
        newest = loads = 0
        with reader(place) as store:
            while time.monotonic() < end:
                with reader(place) as fresh:
                    for handle in (store, fresh):
                        sequence = believed(handle.load_latest())[0]
                        if sequence < newest:
                            raise AssertionError(f"{sequence} was loaded after {newest}")
                        newest = sequence
                        loads += 1
        say(f"{loads} {newest}")

    return work


def check_for(place: Path, *, duration_s: float) -> Callable[[Say], None]:
    """List and verify over and over; nothing is ever found, the current one never falls."""

    def work(say: Say) -> None:
        end = time.monotonic() + duration_s
        newest = checks = 0
        with reader(place) as store:
            while time.monotonic() < end:
                report = store.verify()
                current = report.selection.current if report.selection else None
                sequence = current.sequence if current else 0
                if sequence < newest or report.findings:
                    raise AssertionError(f"{sequence} after {newest}, {report.findings}")
                newest = sequence
                checks += 1
        say(f"{checks} {newest}")

    return work
