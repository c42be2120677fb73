"""Traces of changes: spans made of what stands on the log, joined by its causes."""
