"""Sets of fields as metadata.managedFields keeps them: reading and writing `fieldsV1`, and paths for people.

In memory a set is a set of paths; a path is a tuple of elements in the spelling of `fieldsV1`: `f:name` for a field,
`k:{"name":"x"}` for a list item by its keys, `v:"x"` for an item of a set, `i:0` for an index.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

Path = tuple[str, ...]
Paths = set[Path]

_encode = msgspec.json.Encoder(order="sorted").encode


def field_element(name: str) -> str:
    """Return the element of a field."""
    return f"f:{name}"


def key_element(keys: dict[str, Any]) -> str:
    """Return the element of a list item that is known by some of its fields."""
    return f"k:{_encode(keys).decode()}"


def value_element(value: Any) -> str:
    """Return the element of an item of a set."""
    return f"v:{_encode(value).decode()}"


def read_fields(fields: Any) -> Paths:
    """Return the paths in a `fieldsV1`; anything that is none counts as empty."""
    found: Paths = set()
    if isinstance(fields, dict):
        _read(fields, (), found)
    return found


def _read(node: dict[str, Any], path: Path, found: Paths) -> None:
    for element, below in node.items():
        if element == ".":
            found.add(path)
        elif isinstance(below, dict):
            here = (*path, element)
            if below:
                _read(below, here, found)
            else:
                found.add(here)


def write_fields(paths: Iterable[Path]) -> dict[str, Any]:
    """Return the `fieldsV1` of a set of paths."""
    root: dict[str, Any] = {}
    # In order, a path comes before everything below it.
    for path in sorted(paths):
        node, complete = root, False
        for element in path:
            child = node.get(element)
            if child is not None:
                complete = True
            else:
                if complete and not node:
                    # A member that was a leaf until now gets its first child.
                    node["."] = {}
                child = node[element] = {}
                complete = False
            node = child
    return root


def has_field(fields: dict[str, Any], path: Path) -> bool:
    """Say whether a path is in a `fieldsV1`, without reading the rest of it."""
    node: Any = fields
    for element in path:
        node = node.get(element)
        if node is None:
            return False
    return not node or "." in node


def path_text(path: Path) -> str:
    """Return a path as messages show it: `.spec.containers[name="x"].image`."""
    out: list[str] = []
    for element in path:
        kind, value = element[0], element[2:]
        if kind == "f":
            out.append(f".{value}")
        elif kind == "k":
            keys: dict[str, Any] = msgspec.json.decode(value)
            out.append(f"[{','.join(f'{name}={_encode(item).decode()}' for name, item in sorted(keys.items()))}]")
        elif kind == "v":
            out.append(f"[={value}]")
        else:
            out.append(f"[{value}]")
    return "".join(out)
