"""Calls that fail: how one is struck, and what a job may do after it."""
