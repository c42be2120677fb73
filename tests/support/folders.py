"""Which of many tests are below a folder, asked once for each of thirteen thousand."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest


def below(folder: Path, items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """Tests whose file is in the folder or deeper."""
    # Texts: comparing a path with each parent of another costs fifty times as much.
    start = f"{folder}{os.sep}"
    return (item for item in items if str(item.path).startswith(start))
