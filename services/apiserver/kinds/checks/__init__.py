"""Validation shared by many kinds: metadata, pods, containers, volumes, formats."""
