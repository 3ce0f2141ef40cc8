"""Checks that speak under ``python -O``, and what the contract's tests share."""

from __future__ import annotations

from collections.abc import Callable

from lastgood.errors import LastgoodError
from lastgood.storage.interface import OwnedStorage, StorageRoot

SESSION = "0123456789abcdef0123456789abcdef01234567"
OTHER_SESSION = "fedcba9876543210fedcba9876543210fedcba98"
MAX_BYTES = 32 * 1024 * 1024


class ContractCase:
    """What every part of the contract starts from.

    The tests take no argument but ``self``, so that any runner can drive them.
    """

    def make_root(self) -> StorageRoot:
        """Return a new, empty store; called once a test."""
        raise NotImplementedError("Say where the contract is to be tested: override make_root")

    def reopener(self) -> Callable[[], StorageRoot] | None:
        """Return what opens the store of the last ``make_root`` in another process.

        It must survive pickling. None, where a store cannot be shared among processes: then the
        races of processes are not run.
        """
        return None

    def make_session(self) -> OwnedStorage:
        """A session, opened for writing, in a new store."""
        return self.make_root().session(SESSION, access="write")


def require(condition: object, message: str) -> None:
    """Fail with ``message`` unless ``condition`` holds.

    Raises:
        AssertionError: It does not.
    """
    if not condition:
        raise AssertionError(message)


def refuses(call: Callable[[], object], *errors: type[LastgoodError], what: str) -> LastgoodError:
    """Return the error that ``call`` raises, which must be exactly one of ``errors``.

    Raises:
        AssertionError: It returned, or raised something else.
    """
    try:
        got = call()
    except LastgoodError as error:
        if type(error) not in errors:
            raise AssertionError(f"{what}: {type(error).__name__}: {error}") from error
        return error
    raise AssertionError(f"{what}: it returned {got!r:.60}")


def content(storage: OwnedStorage, name: str) -> bytes:
    """All bytes of ``name``."""
    return storage.read(name, max_bytes=MAX_BYTES)
