"""Common parts of all interpreters: the manifest type, its error, and reading and writing of nested fields.

Writers return a new manifest that shares everything but the touched path with the old one.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, Protocol

from schemas.manifest import Manifest


class Operation(StrEnum):
    """What can be asked about an object, under the names of the API."""

    REPLICA = "InterpretReplica"
    COMPONENT = "InterpretComponent"
    REVISE = "ReviseReplica"
    RETAIN = "Retain"
    AGGREGATE = "AggregateStatus"
    DEPENDENCY = "InterpretDependency"
    STATUS = "InterpretStatus"
    HEALTH = "InterpretHealth"


LONGEST_PROBLEM: Final = 1000
"""Characters of what is said about an object: it goes into conditions, Events and logs."""


def shortened(text: str) -> str:
    """A text, cut where it is longer than anyone should have to read."""
    return text if len(text) <= LONGEST_PROBLEM else f"{text[:LONGEST_PROBLEM]}…"


class InterpretError(Exception):
    """An object that cannot be interpreted: what is wrong with it, and the field (a dotted path, may be empty).

    Both are cut where they are too long for a condition or an Event.
    """

    def __init__(self, what: str, field: str = "") -> None:
        what, field = shortened(what), shortened(field)
        super().__init__(f"{field}: {what}" if field else what)
        self.what = what
        self.field = field


class InterpretLater(InterpretError):
    """No answer this time, perhaps the next: the same question is worth asking again after a pause."""


class Interpreter(Protocol):
    """What interprets objects: which operations it offers for which kinds, and their results.

    Arguments and results by operation: InterpretReplica (object, and whether requirements are for quota estimation):
    replicas and what each requires; InterpretComponent (object): components; ReviseReplica (object, replicas): object;
    Retain (desired, observed): object; AggregateStatus (object, items or None, time in RFC 3339): object;
    InterpretDependency (object): references; InterpretStatus (object): status or None; InterpretHealth (object): bool.
    """

    def hook_enabled(self, api_version: str, kind: str, operation: Operation) -> bool:
        """Whether an operation is offered for a kind."""
        ...

    def interpret(self, operation: Operation, obj: Manifest, *arguments: Any) -> Any:
        """The result of an operation on an object; raises InterpretError, also where it is not offered."""
        ...


def target_of(obj: Manifest) -> tuple[str, str]:
    """The apiVersion and kind of an object, by which it is interpreted."""
    return str(obj.get("apiVersion")), str(obj.get("kind"))


def describe(value: object) -> str:
    """The type of a JSON value in the words of JSON, for error texts."""
    names = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
        dict: "an object",
        type(None): "null",
    }
    return names.get(type(value), type(value).__name__)


def object_at(obj: Manifest, *path: str) -> Manifest:
    """The object at a path, empty where it is missing or null; raises InterpretError where something else is."""
    value: Any = obj
    for depth, name in enumerate(path):
        value = value.get(name)
        if value is None:
            return {}
        if type(value) is not dict:
            raise InterpretError(f"is {describe(value)}, expected an object", ".".join(path[: depth + 1]))
    return value  # type: ignore[no-any-return] # a dict by now


def list_at(obj: Manifest, name: str, field: str = "") -> list[Any]:
    """The list in a field, empty where it is missing or null; raises InterpretError where something else is."""
    value = obj.get(name)
    if value is None:
        return []
    if type(value) is not list:
        raise InterpretError(f"is {describe(value)}, expected a list", field or name)
    return value


def text_at(obj: Manifest, name: str, field: str = "") -> str:
    """The text in a field, empty where it is missing or null; raises InterpretError where something else is."""
    value = obj.get(name)
    if value is None:
        return ""
    if type(value) is not str:
        raise InterpretError(f"is {describe(value)}, expected a text", field or name)
    return value


def whole_number(value: object, field: str) -> int:
    """A whole number, zero for null; a number with a zero fraction counts, raises InterpretError for anything else."""
    if type(value) is int:
        return value
    if value is None:
        return 0
    if type(value) is float and value.is_integer():
        return int(value)
    raise InterpretError(f"is {describe(value)}, expected a whole number", field)


def set_at(obj: Manifest, path: Sequence[str], value: object) -> Manifest:
    """A copy of the object with a field set; objects on the way are created where missing or null."""
    name = path[0]
    copy = obj.copy()
    if len(path) == 1:
        copy[name] = value
        return copy
    below = copy.get(name)
    if below is None:
        below = {}
    elif type(below) is not dict:
        raise InterpretError(f"is {describe(below)}, expected an object", name)
    copy[name] = set_at(below, path[1:], value)
    return copy


def without(obj: Manifest, path: Sequence[str], names: Sequence[str]) -> Manifest:
    """The object without some members of the object at a path; the same object where there is nothing to remove."""
    if path:
        below = obj.get(path[0])
        if type(below) is not dict:
            return obj
        changed = without(below, path[1:], names)
        if changed is below:
            return obj
        copy = obj.copy()
        copy[path[0]] = changed
        return copy
    if not any(name in obj for name in names):
        return obj
    return {name: value for name, value in obj.items() if name not in names}
