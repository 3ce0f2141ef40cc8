"""Fault injection: what a crash or a fault may leave, and proof that lastgood survives it."""
