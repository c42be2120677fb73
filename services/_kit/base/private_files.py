"""Writes files that only their owner reads."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec


def private_text(path: Path, text: str) -> None:
    """Write a file that only its owner reads, atomically: readers never see half of it, even after a loss of power."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def private_json(path: Path, value: object) -> None:
    """Write a value as indented JSON to a file that only its owner reads, atomically."""
    private_text(path, msgspec.json.format(msgspec.json.encode(value), indent=2).decode())
