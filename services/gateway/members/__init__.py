"""Requests of callers for members: who may make them, how many at once, and how they are answered."""
