"""The verbs, by noun: each a function from a ``Command`` to an ``Answer``."""
