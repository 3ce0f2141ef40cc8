"""For those who write a back end of their own: the contract it must keep."""

from lastgood.testing.contract import StorageContract

__all__ = ["StorageContract"]
