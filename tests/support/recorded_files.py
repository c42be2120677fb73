"""Files of recorded cases that runners replay whole."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec

from services._kit.base.logs import configure

Case = dict[str, Any]
FileRunner = Callable[[Path], tuple[int, int, list[str]] | None]


def whole_file(run_cases: Callable[[list[Case]], Coroutine[Any, Any, list[str]]]) -> FileRunner:
    """A runner of a file: cases, passed ones and the ids of failed ones, which `run_cases` gives."""

    def run_file(path: Path) -> tuple[int, int, list[str]]:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as lines:
            cases = [msgspec.json.decode(line) for line in lines if line.strip()]
        # Standard output belongs to the lines about the files.
        configure("golden", "golden", "error")
        failed = asyncio.run(run_cases(cases))
        return len(cases), len(cases) - len(failed), failed

    return run_file
