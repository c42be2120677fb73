"""Reading and writing one place of a manifest by JSON pointer; writing copies only the containers on the way."""

import re
from collections.abc import Sequence
from typing import Any, Final

_INDEX: Final = re.compile(r"[+-]?[0-9]+")


class PointerError(ValueError):
    """A place that does not exist; the message names the first missing step."""


def tokens(path: str) -> list[str]:
    """Steps of an RFC 6901 pointer. Raises PointerError where it does not start with a slash."""
    if not path:
        return []
    if not path.startswith("/"):
        raise PointerError(f"{path!r} is no JSON pointer: it must start with '/'")
    return [token.replace("~1", "/").replace("~0", "~") for token in path[1:].split("/")]


def get(document: Any, steps: Sequence[str]) -> Any:
    """The value at a place. Raises PointerError."""
    for step in steps:
        document = document[_key(document, step)]
    return document


def replace(document: Any, steps: Sequence[str], value: Any) -> Any:
    """The document with another value at an existing place, sharing everything else. Raises PointerError."""
    if not steps:
        return value
    key = _key(document, steps[0])
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[key] = replace(document[key], steps[1:], value)
    return copy


def _key(container: Any, step: str) -> Any:
    if isinstance(container, dict):
        if step not in container:
            raise PointerError(f"there is no field {step!r}")
        return step
    if isinstance(container, list):
        if _INDEX.fullmatch(step) is None:
            raise PointerError(f"{step!r} is no position in a list")
        position = int(step)
        if not 0 <= position < len(container):
            raise PointerError(f"position {step} is outside of a list of {len(container)}")
        return position
    raise PointerError(f"{step!r} is looked for in a value that is neither an object nor a list")
