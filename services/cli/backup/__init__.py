"""Backups of an installation, restoring them, and what ends a restore."""
