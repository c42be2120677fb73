"""Sets of fields as metadata.managedFields keeps them: reading and writing `fieldsV1`, and paths for people.

A path is a tuple of elements in the spelling of `fieldsV1`: `f:name` for a field, `k:{"name":"x"}` for a list item by
its keys, `v:"x"` for an item of a set, `i:0` for an index. A `fieldsV1` is a tree of elements: what has nothing below
it is in the set, what has something below it only if `.` is among that. Trees given are never changed; results share
parts of them.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

Path = tuple[str, ...]
Paths = set[Path]
Fields = dict[str, Any]
"""A `fieldsV1`."""

_encode = msgspec.json.Encoder(order="sorted").encode


def field_element(name: str) -> str:
    """Return the element of a field."""
    return f"f:{name}"


def field_name(element: str) -> str | None:
    """Return the name of a field's element; None for an item of a list."""
    return element.removeprefix("f:") if element.startswith("f:") else None


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


def union(fields: Fields, more: Fields) -> Fields:
    """Return the fields of either of two sets."""
    if not fields or not more:
        return fields or more
    out = fields
    for element, there in more.items():
        here = fields.get(element)
        joined = there if not isinstance(here, dict) else _union(here, there)
        if joined is not here:
            if out is fields:
                out = dict(fields)
            out[element] = joined
    return out


def _union(here: Fields, there: Fields) -> Fields:
    if not here and not there:
        return here
    if not here:
        return there if "." in there else {".": {}, **there}
    if not there:
        return here if "." in here else {".": {}, **here}
    return union(here, there)


def minus(fields: Fields, less: Fields) -> Fields:
    """Return the fields of one set that are not in another."""
    out = fields
    for element, there in less.items():
        here = fields.get(element)
        if element == "." or not isinstance(here, dict):
            continue
        left = _minus(here, there)
        if left is not here:
            if out is fields:
                out = dict(fields)
            if left is None:
                del out[element]
            else:
                out[element] = left
    return out


def _minus(here: Fields, there: Fields) -> Fields | None:
    """Return what is left of the tree of one element, None if nothing is."""
    if not here:
        return here if there and "." not in there else None
    left = minus(here, there)
    if "." in left and (not there or "." in there):
        left = {element: below for element, below in left.items() if element != "."}
    if left is here:
        return here
    return {} if len(left) == 1 and "." in left else left or None


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
