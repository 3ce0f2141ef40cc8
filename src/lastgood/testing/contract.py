"""The contract of a back end, whole."""

from __future__ import annotations

from lastgood.testing.ownership import OwnerContract, SwapContract
from lastgood.testing.races import RaceContract
from lastgood.testing.records import RecordsContract
from lastgood.testing.segments import SegmentContract


class StorageContract(RecordsContract, SegmentContract, SwapContract, OwnerContract, RaceContract):
    """Everything that ``lastgood.storage.interface`` promises and that a test can see.

    Subclass it in a test module, under a name that pytest collects::

        class TestMyStorage(StorageContract):
            def make_root(self):
                return MyRoot(...)

    Every method whose name begins with ``test_`` takes no argument but ``self``, needs no
    fixture and raises ``AssertionError`` itself, so that it also speaks under ``python -O``.
    Override ``reopener`` too if other processes can open the store. What only a crash shows
    (P1, and P2 in the middle of a write) is beyond this suite.
    """
