"""Writes measured figures as a table into docs/performance.md; what else stands there is kept."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

Figure = dict[str, Any]

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN: Final = "<!-- figures: written by `just bench --write-doc` -->"
END: Final = "<!-- end of figures -->"
_HEAD: Final = "# Performance\n\nMeasured with `just bench`; every figure is also printed as a line of JSON.\n\n"
_COUNTS: Final = ("deployments", "objects", "bindings")


def table(figures: Sequence[Figure]) -> str:
    """The figures in Markdown, with where and when they were measured."""
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    loads = [figure["load"] for figure in figures]
    lines = [
        BEGIN,
        f"{day}, {os.cpu_count()} cores, Python {platform.python_version()}, load {min(loads)} to {max(loads)}.",
        "",
        "| figure | value | unit | of |",
        "|---|---:|---|---|",
    ]
    for figure in figures:
        counts = [f"{figure[name]} {name}" for name in _COUNTS if isinstance(figure.get(name), int)]
        more = ", ".join([*counts, *([figure["what"]] if "what" in figure else [])])
        lines.append(f"| {figure['name']} | {figure['value']:g} | {figure['unit']} | {more} |")
    return "\n".join([*lines, END])


def write(figures: Sequence[Figure], document: Path = DOCUMENT) -> None:
    """Replace the table in the document, or add it at the end."""
    text = document.read_text() if document.exists() else _HEAD
    before, found, rest = text.partition(BEGIN)
    after = rest.partition(END)[2] if found else "\n"
    document.write_text(before + table(figures) + after)
