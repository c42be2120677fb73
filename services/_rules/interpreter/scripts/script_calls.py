"""Arguments and validated results of each script operation (docs/sources.md#interpreters).

A script answers with values: the name of a Lua type and, for tables, JSON in which every empty table is an empty list.
"""

import math
from collections.abc import Sequence
from typing import Any, Final, assert_never

from msgspec import Struct
from msgspec.json import decode

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import InterpretError, Operation
from services._rules.interpreter.scripts.empty_tables import settle_empties
from services._rules.interpreter.scripts.result_types import components_of, dependencies_of, requirements_of

# The global function that a script defines for an operation.
FUNCTIONS: Final = {
    Operation.REPLICA: "GetReplicas",
    Operation.COMPONENT: "GetComponents",
    Operation.REVISE: "ReviseReplica",
    Operation.RETAIN: "Retain",
    Operation.AGGREGATE: "AggregateStatus",
    Operation.DEPENDENCY: "GetDependencies",
    Operation.STATUS: "ReflectStatus",
    Operation.HEALTH: "InterpretHealth",
}
_LEAST, _MOST = -(2**31), 2**31 - 1
_OPTIONAL: Final = ("applied", "appliedMessage", "health")


class LuaValue(Struct, frozen=True, gc=False):
    """One value that a script returned.

    `kind` is a Lua type, or "unfit" for a table that is no JSON, with the reason in `json`. `json` is the text of a
    table; `scalar` a number or boolean; `empties`: whether empty tables are among a table's members.
    """

    kind: str
    json: bytes = b""
    scalar: float | bool | None = None
    empties: bool = False


def item_arguments(items: Sequence[Manifest] | None) -> list[Manifest] | None:
    """Reports of members as AggregateStatus gets them: members that are false, empty or null are left out."""
    if items is None:
        return None
    return [
        {name: value for name, value in item.items() if value is not None and (value or name not in _OPTIONAL)}
        for item in items
    ]


def arguments_of(operation: Operation, arguments: Sequence[Any]) -> tuple[Any, ...]:
    """The arguments of the script's function."""
    if operation == Operation.AGGREGATE:
        return (arguments[0], item_arguments(arguments[1]))
    return tuple(arguments)


def result_of(operation: Operation, first: LuaValue, second: LuaValue, arguments: Sequence[Any]) -> Any:
    """The result of an operation; raises InterpretError where the script returned something else than it must.

    GetReplicas gives `{"replicas", "requirements"}`; dependencies are those of this script alone.
    """
    match operation:
        case Operation.REPLICA:
            return {"replicas": _replicas(first), "requirements": _requirements(second)}
        case Operation.HEALTH:
            if first.kind != "boolean":
                raise _wrong(operation, first, "a boolean")
            return bool(first.scalar)
        case Operation.COMPONENT:
            return None if first.kind == "nil" else components_of(_table(operation, first, ()))
        case Operation.DEPENDENCY:
            return dependencies_of([_table(operation, first, ())])
        case Operation.STATUS:
            status = _table(operation, first, ())
            return {} if status == [] else status
        case Operation.REVISE | Operation.RETAIN | Operation.AGGREGATE:
            return _object(operation, first, arguments)
        case _:
            assert_never(operation)


def _object(operation: Operation, value: LuaValue, arguments: Sequence[Any]) -> Manifest:
    witnesses = {Operation.REVISE: arguments[:1], Operation.RETAIN: arguments}.get(operation, ())
    found = _table(operation, value, witnesses)
    if type(found) is not dict:
        raise InterpretError(f"{FUNCTIONS[operation]} returned a list, expected the whole object")
    if not found.get("kind") or type(found["kind"]) is not str:
        raise InterpretError(f"{FUNCTIONS[operation]} returned an object without kind, expected the whole object")
    return found


def _table(operation: Operation, value: LuaValue, witnesses: Sequence[Any]) -> Any:
    if value.kind == "unfit":
        raise InterpretError(f"{FUNCTIONS[operation]} returned what is no JSON: {value.json.decode(errors='replace')}")
    if value.kind != "table":
        raise _wrong(operation, value, "a table")
    found = decode(value.json)
    return settle_empties(found, witnesses) if value.empties and found != [] else found


def _replicas(value: LuaValue) -> int:
    if value.kind != "number" or value.scalar is None:
        raise _wrong(Operation.REPLICA, value, "a number")
    number = value.scalar
    # What a 32-bit conversion makes of numbers it cannot hold.
    if math.isnan(number) or not _LEAST - 1 < number < _MOST + 1:
        return _LEAST
    return int(number)


def _requirements(value: LuaValue) -> dict[str, Any] | None:
    if value.kind == "nil":
        return None
    found = _table(Operation.REPLICA, value, ())
    return requirements_of({} if found == [] else found)


def _wrong(operation: Operation, value: LuaValue, wanted: str) -> InterpretError:
    return InterpretError(f"{FUNCTIONS[operation]} returned a {value.kind}, expected {wanted}")
