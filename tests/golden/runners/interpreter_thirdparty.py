"""Replays the vectors of the bundled interpreter scripts, in a process of their own as services run them."""

from typing import Any

from services._kit.interpretation.lua.pool import LuaPool
from services._rules.interpreter import InterpretError
from services._rules.interpreter.scripts.bundled import Shipped
from services._rules.interpreter.scripts.result_types import dependencies_of
from services._rules.kubernetes.quantity import Quantity, QuantityError, parse
from tests.support.recorded_files import Case, FileRunner, whole_file

ANYTHING = "{{EXCLUDE}}"
_ARGUMENTS = {
    "Retain": lambda a: [a["desired"], a["observed"]],
    "ReviseReplica": lambda a: [a["object"], a["replicas"]],
    "AggregateStatus": lambda a: [a["object"], a.get("items")],
}
_PARTS = {
    "InterpretComponent": "components",
    "ReviseReplica": "revised",
    "Retain": "retained",
    "AggregateStatus": "aggregatedStatus",
    "InterpretDependency": "dependencies",
    "InterpretStatus": "status",
    "InterpretHealth": "healthy",
}


async def evaluate(pool: LuaPool, shipped: Shipped, case: Case) -> dict[str, Any]:
    """The named parts of what this product answers; raises InterpretError."""
    operation = case["operation"]
    arguments = _ARGUMENTS.get(operation, lambda a: [a["object"]])(case["args"])
    (script,) = shipped.scripts(case["apiVersion"], case["kind"], operation)
    result = await pool.evaluate(operation, script, arguments)
    if operation == "InterpretReplica":
        return {"replica": result["replicas"], "requires": result["requirements"]}
    return {_PARTS[operation]: result}


def quantity(value: Any) -> Quantity | None:
    """A text or number read as a quantity, None for what is none."""
    try:
        return None if isinstance(value, bool) else parse(value)
    except (QuantityError, TypeError):
        return None


def same(found: Any, wanted: Any) -> bool:
    """Whether two values are equal as the vectors compare them: what is empty counts as absent, quantities by value."""
    if wanted == ANYTHING or (not found and not wanted):
        return True
    if isinstance(wanted, dict) and isinstance(found, dict | None):
        found = found or {}
        return all(same(found.get(name), wanted.get(name)) for name in {*found, *wanted})
    if isinstance(found, dict) and not wanted:
        return all(same(value, None) for value in found.values())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(found) == len(wanted) and all(same(*pair) for pair in zip(found, wanted, strict=True))
    if type(found) is type(wanted) and found == wanted:
        return True
    one, other = quantity(found), quantity(wanted)
    return one is not None and other is not None and one.nano == other.nano


def agrees(case: Case, answer: dict[str, Any]) -> bool:
    """Whether every recorded part is what was answered.

    Dependencies are a set, sorted in every answer as interpreter-lua has them; here they are in the order of a script.
    """
    parts = {**case["output"]}
    if "dependencies" in parts:
        parts["dependencies"] = dependencies_of([parts["dependencies"]])
    return all(same(answer.get(name), wanted) for name, wanted in parts.items())


async def run_cases(cases: list[Case]) -> list[str]:
    """The ids of the cases whose answers are wrong."""
    pool, shipped, failed = LuaPool(1, pause=0.0), Shipped(), []
    try:
        for case in cases:
            try:
                if not agrees(case, await evaluate(pool, shipped, case)):
                    failed.append(case["id"])
            except (InterpretError, ValueError):
                failed.append(case["id"])
    finally:
        await pool.close()
    return failed


run_file = whole_file(run_cases)
FILE_RUNNERS: dict[str, FileRunner] = {"interpreter-thirdparty": run_file}
