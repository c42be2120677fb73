"""Completion of command lines: scripts for shells, and what may come next, values of the control plane included."""
