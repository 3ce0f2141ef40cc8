"""Damage and changes by hand: what can be made of a store, and what is believed of it."""
