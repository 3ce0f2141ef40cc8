"""A disk in memory, processes above it, and what every call of theirs changes."""
