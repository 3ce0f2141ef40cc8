"""Checkpoints for long-running jobs: kill them at any instant, go on from the last good one."""

__version__ = "0.1.0"
