"""Replays the vectors of interpreter scripts in Lua, in a process of their own as services run them."""

from typing import Any

from services._kit.interpretation.lua.pool import LuaPool
from services._rules.interpreter import InterpretError
from services._rules.interpreter.scripts.script_calls import FUNCTIONS
from tests.support.recorded_files import Case, FileRunner, whole_file

_OPERATIONS = {function: operation for operation, function in FUNCTIONS.items()}
_ARGUMENTS = {
    "Retain": lambda a: [a["desired"], a["observed"]],
    "ReviseReplica": lambda a: [a["object"], a["replicas"]],
    "AggregateStatus": lambda a: [a["object"], a.get("items")],
}


async def evaluate(pool: LuaPool, case: Case) -> tuple[Any, InterpretError | None]:
    """What this product answers: a result, or an error."""
    function = case["operation"]
    arguments = _ARGUMENTS.get(function, lambda a: [a["object"]])(case["args"])
    try:
        return await pool.evaluate(_OPERATIONS[function], case["script"], arguments), None
    except InterpretError as problem:
        return None, problem


def agrees(case: Case, result: Any, problem: InterpretError | None) -> bool:
    """Whether the answer is the recorded one, to the last null and empty list."""
    if problem is not None or "error" in case:
        return problem is not None and "error" in case
    return same(result, case.get("result"))


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal; numbers by value, but true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


async def run_cases(cases: list[Case]) -> list[str]:
    """The ids of the cases whose answers are wrong. A script is never put aside: each line stands for itself."""
    pool = LuaPool(1, pause=0.0)
    try:
        return [case["id"] for case in cases if not agrees(case, *await evaluate(pool, case))]
    finally:
        await pool.close()


run_file = whole_file(run_cases)
FILE_RUNNERS: dict[str, FileRunner] = {"interpreter-lua": run_file}
