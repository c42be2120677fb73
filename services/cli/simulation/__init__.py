"""Simulated members of an installation: what their pods use."""
