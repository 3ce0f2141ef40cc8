"""Fault injection: stops the process, the power and the disk at every step, and judges the rest.

Levels: L1 fails each call at the seam, L2 kills a real process at each system call, L3 builds
every disk that a persistence model permits after a loss of power, L5 damages every file. Each
runs the same workloads under the same oracles; ``README.md`` beside this file says what each can
see and what it cannot.

``python -m fault_injection run`` is the command. lastgood never imports any of this.
"""
