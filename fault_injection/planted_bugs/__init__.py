"""Planted bugs: each a small patch of lastgood, never a switch in it."""
