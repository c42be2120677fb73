"""What a table of one kind consists of: its columns and a function from an object to its cells."""

import datetime as dt
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.manifest import Manifest

Cells = list[Any]

NAME_TEXT = "Name must be unique within a namespace."
AGE_TEXT = "How long ago the object was created."
CREATED_TEXT = "When the object was created."
CONTAINERS_TEXT = "Names of each container in the template."
IMAGES_TEXT = "Images referenced by each container in the template."


class Column(msgspec.Struct, frozen=True):
    """One column; priority 1 is shown by `-o wide` only."""

    name: str
    type: str = "string"
    priority: int = 0
    description: str = ""
    format: str = ""

    def definition(self) -> Manifest:
        """Return the column as a Table has it."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


NAME = Column("Name", description=NAME_TEXT, format="name")
AGE = Column("Age", description=AGE_TEXT)
CONTAINERS = Column("Containers", priority=1, description=CONTAINERS_TEXT)
IMAGES = Column("Images", priority=1, description=IMAGES_TEXT)
SELECTOR = Column("Selector", priority=1, description="Labels that choose the pods.")


class Printer(msgspec.Struct, frozen=True):
    """The table of one kind; `conditions` gives a row's conditions, None for none.

    `hidden` are annotations that the metadata of a row leaves out: they belong to a version of the kind, not to it.
    """

    columns: tuple[Column, ...]
    cells: Callable[[Manifest, dt.datetime], Cells]
    conditions: Callable[[Manifest], list[Manifest] | None] | None = None
    hidden: frozenset[str] = frozenset()


def name_of(obj: Manifest) -> str:
    """Return an object's name."""
    return (obj.get("metadata") or {}).get("name") or ""


def part(obj: Manifest, *path: str) -> Any:
    """Return what is at a path of field names; an empty map where there is nothing."""
    node: Any = obj
    for name in path:
        node = node.get(name) if isinstance(node, dict) else None
        if node is None:
            return {}
    return node
