"""Replays the vectors of the built-in interpretation of known kinds."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from services._rules.interpreter import InterpretError, NativeInterpreter, Operation
from services._rules.interpreter.native.prune import prune
from services._rules.kubernetes.quantity import QuantityError, parse

Case = dict[str, Any]

_EXACT = {"Prune", "Retain", "ReviseReplica"}
_NOW = "<now>"
_QUANTITY_PLACES = {
    "requests", "limits", "overhead", "capacity", "allocatedResources", "averageValue", "value", "divisor", "sizeLimit",
    "resourceRequest",
}  # fmt: skip
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_NATIVE = NativeInterpreter()


def _get_replicas(args: Case) -> Any:
    replicas, requirements = _NATIVE.interpret(Operation.REPLICA, args["object"])
    return {"replicas": replicas, "requirements": requirements}


def _get_dependencies(args: Case) -> Any:
    references = _NATIVE.interpret(Operation.DEPENDENCY, args["object"])
    return sorted(references, key=lambda r: (r["kind"], r.get("namespace", ""), r.get("name", "")))


_CALLS: dict[str, Callable[[Case], Any]] = {
    "GetReplicas": _get_replicas,
    "ReviseReplica": lambda a: _NATIVE.interpret(Operation.REVISE, a["object"], a["replicas"]),
    "Retain": lambda a: _NATIVE.interpret(Operation.RETAIN, a["desired"], a["observed"]),
    "AggregateStatus": lambda a: _NATIVE.interpret(Operation.AGGREGATE, a["object"], a.get("items"), _NOW),
    "GetDependencies": _get_dependencies,
    "ReflectStatus": lambda a: _NATIVE.interpret(Operation.STATUS, a["object"]),
    "InterpretHealth": lambda a: _NATIVE.interpret(Operation.HEALTH, a["object"]),
    "Prune": lambda a: prune(a["object"], a.get("hooks") or ()),
    "HookEnabled": lambda a: _NATIVE.hook_enabled(a["apiVersion"], a["kind"], a["hook"]),
}


def evaluate(case: Case) -> tuple[Any, InterpretError | None]:
    """What this product answers: a result, or an error."""
    try:
        return _CALLS[case["operation"]](case["args"]), None
    except InterpretError as problem:
        return None, problem


def run(case: Case) -> bool | None:
    """Whether the answer is the recorded one."""
    result, problem = evaluate(case)
    if problem is not None or "error" in case:
        return problem is not None and "error" in case
    return _agrees(case, result)


def _agrees(case: Case, result: Any) -> bool:
    expected = case.get("result")
    operation = case["operation"]
    if operation == "ReflectStatus" and (result is None) != (expected is None):
        return False
    kind = (case["args"].get("desired") or {}).get("kind")
    if operation in _EXACT and not (operation == "Retain" and kind == "Pod"):
        return same(result, expected)
    if operation in ("AggregateStatus", "Retain"):
        return same(_typed_form(result), _typed_form(expected))
    return same(_stripped(result), _stripped(expected))


def _typed_form(manifest: Any) -> Any:
    """Without zero values that the typed form of a kind drops or adds, outside of the status."""
    members = {
        name: _stripped(value) if name == "status" else _without_zeros(value) for name, value in manifest.items()
    }
    return {name: member for name, member in members.items() if member}


def _without_zeros(value: Any) -> Any:
    if isinstance(value, dict):
        members = {name: _without_zeros(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member}
    if isinstance(value, list):
        return [_without_zeros(entry) for entry in value]
    return value


def _stripped(value: Any) -> Any:
    """Without empty objects, empty lists and nulls, which the typed form of a kind adds or drops."""
    if isinstance(value, dict):
        members = {name: _stripped(member) for name, member in value.items()}
        return {name: member for name, member in members.items() if member not in (None, {}, [])}
    if isinstance(value, list):
        return [_stripped(entry) for entry in value]
    return value


def same(one: Any, other: Any, place: tuple[str, ...] = ()) -> bool:
    """Whether two JSON values agree: numbers and quantities by value, times by the moment they name."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[n], other[n], (*place, n)) for n in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b, place) for a, b in zip(one, other, strict=True))
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return one == other or _same_quantity(one, other, place) or _same_time(one, other)


def _same_quantity(one: Any, other: Any, place: tuple[str, ...]) -> bool:
    if not _QUANTITY_PLACES & set(place[-2:]):
        return False
    try:
        return parse(one) == parse(other)
    except QuantityError:
        return False


def _same_time(one: Any, other: Any) -> bool:
    if not (isinstance(one, str) and isinstance(other, str) and _TIME.fullmatch(one) and _TIME.fullmatch(other)):
        return False
    return datetime.fromisoformat(one).astimezone(UTC) == datetime.fromisoformat(other).astimezone(UTC)


FILES: dict[str, Callable[[Case], bool | None]] = {"interpreter-native": run}
