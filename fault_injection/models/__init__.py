"""Persistence models: which disks may be left where power is lost."""
