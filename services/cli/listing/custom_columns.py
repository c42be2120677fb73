"""Tables whose columns people choose: `-o custom-columns=NAME:.metadata.name,…` or a file of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from services._rules.kubernetes.jsonpath import Find, JSONPathError
from services.cli.common.printing import NONE, aligned
from services.cli.common.running import Failed
from services.cli.common.terminal_text import harmless
from services.cli.listing.jsonpath_template import compiled, shown


class Columns:
    """Headers and the paths of their values."""

    def __init__(self, headers: list[str], paths: list[str]) -> None:
        self.headers = headers
        self._finds: list[Find] = []
        for path in paths:
            try:
                self._finds.append(compiled(path))
            except JSONPathError as error:
                raise Failed(f"custom-columns: {error}") from None

    def table(self, items: Iterable[Any], *, no_headers: bool) -> str:
        """A line for each object."""
        lines = [] if no_headers else [self.headers]
        lines += [[_cell(find(item)) for find in self._finds] for item in items]
        return aligned(lines)


def of_text(text: str) -> Columns:
    """Columns of `HEADER:path,HEADER:path`; raises Failed."""
    headers, paths = [], []
    for part in _split(text):
        header, colon, path = part.partition(":")
        if not colon or not header or not path:
            raise Failed(f"custom-columns: {part!r} is no HEADER:PATH; write for example NAME:.metadata.name")
        headers.append(header)
        paths.append(path)
    if not headers:
        raise Failed("custom-columns needs columns: -o custom-columns=NAME:.metadata.name")
    return Columns(headers, paths)


def of_file(text: str, name: str) -> Columns:
    """Columns of a file with a line of headers and a line of paths; raises Failed."""
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        raise Failed(f"{name}: expected a line of headers and a line with as many paths")
    return Columns(*lines)


def _split(text: str) -> list[str]:
    """Parts between commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for index, char in enumerate(text):
        depth += (char in "[(") - (char in "])")
        if char == "," and depth == 0:
            parts.append(text[begin:index])
            begin = index + 1
    parts.append(text[begin:])
    return [part for part in parts if part]


def _cell(values: list[Any]) -> str:
    return harmless(",".join(map(shown, values))) or NONE
