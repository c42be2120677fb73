"""Prints what commands found: aligned tables as kubectl aligns them, JSON, YAML and names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from schemas.manifest import Manifest
from services.cli.common.running import Failed
from services.cli.common.terminal_text import harmless

GAP: Final = 3
NONE: Final = "<none>"


def cell(value: object) -> str:
    """One cell of a table: nothing reads `<none>`, line breaks never break a row."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "true" if value else "false"
    return harmless(str(value).replace("\n", "\\n").replace("\r", "\\r"))


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], *, no_headers: bool = False) -> str:
    """Rows below upper-case headers, columns three spaces apart, no blanks at the ends of lines."""
    lines = [[cell(value) for value in row] for row in rows]
    if not no_headers:
        lines.insert(0, [header.upper() for header in headers])
    return aligned(lines)


def aligned(lines: Sequence[Sequence[str]], broadest: int = 0) -> str:
    """Lines of cells as text; every column is as wide as its widest cell, the last one takes what it needs.

    A cell of more than `broadest` characters (0: of any number) moves the rest of its own line only.
    """
    if not lines:
        return ""
    count = max(map(len, lines))
    widths = [0] * count
    for line in lines:
        for index, text in enumerate(line):
            if not broadest or len(text) <= broadest:
                widths[index] = max(widths[index], len(text))
    gap = " " * GAP
    shown = (gap.join(text.ljust(width) for text, width in zip(line, widths, strict=False)).rstrip() for line in lines)
    return "".join(f"{line}\n" for line in shown)


def as_json(value: object) -> str:
    """JSON as kubectl prints it: four blanks per level."""
    return msgspec.json.format(msgspec.json.encode(value), indent=4).decode() + "\n"


def as_yaml(value: object) -> str:
    """YAML as kubectl prints it: keys sorted, lists not indented, no aliases."""
    import yaml

    base: type[Any] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)

    class Dumper(base):  # type: ignore[misc]  # the C dumper where the library was built with it
        def ignore_aliases(self, data: object) -> bool:
            return True

    def text(dumper: Any, value: str) -> Any:
        ambiguous = dumper.resolve(yaml.ScalarNode, value, (True, False)) != "tag:yaml.org,2002:str"
        style = "|" if "\n" in value else '"' if ambiguous else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped: str = yaml.dump(value, Dumper=Dumper, default_flow_style=False, width=1 << 20, allow_unicode=True)
    return dumped


def check_output(output: str, known: Sequence[str] = ("wide", "json", "yaml")) -> None:
    """Raises Failed for an output that a command does not write; an empty one is for people."""
    if output not in ("", *known):
        raise Failed(f"unsupported output {output!r}; use {', '.join(known[:-1])} or {known[-1]}")


def render(output: str, document: Callable[[], object], text: Callable[[], str]) -> None:
    """Print a document as JSON or YAML where that output was chosen, else the text for people."""
    if output in ("json", "yaml"):
        print((as_json if output == "json" else as_yaml)(document()), end="")
    else:
        print(text(), end="")


def counted(counts: Mapping[str, int]) -> str:
    """How many messages of which stream, as a text."""
    return ", ".join(f"{count:,} of {name}" for name, count in counts.items()) or "no messages"


def ending_of(manifest: Manifest) -> str:
    """`deployment.apps/nginx`: how an object is named in messages."""
    group, slash, _ = str(manifest.get("apiVersion", "")).partition("/")
    kind = str(manifest.get("kind", "")).lower()
    return f"{kind}.{group if slash else ''}".rstrip(".") + f"/{manifest['metadata']['name']}"
