"""Runbooks: the steps of a plan, each carried out once, whatever kills the run (design 8)."""
