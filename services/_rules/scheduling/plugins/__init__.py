"""Plugins of the scheduler: their interface, which take part, and how they are called."""
