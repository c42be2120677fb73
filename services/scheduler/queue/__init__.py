"""Bindings that could not be scheduled: when each is tried again, and what has to change first."""
