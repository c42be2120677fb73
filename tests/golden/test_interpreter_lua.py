"""Interpreter scripts answer a sample of the recorded cases as recorded."""

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).parent


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_interpreter_lua", HERE / "runners" / "interpreter_lua.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()
with gzip.open(HERE / "data" / "interpreter-lua-dev.jsonl.gz") as lines:
    CASES = [json.loads(line) for line in lines]


async def test_recorded_interpretation_by_scripts() -> None:
    assert await RUNNER.run_cases(CASES) == []


async def test_the_comparison_of_scripts_tells_wrong_answers() -> None:
    listed = next(c for c in CASES if c.get("result") == {})
    failing = next(c for c in CASES if "error" in c and "while true" not in c["script"])
    assert await RUNNER.run_cases([{**listed, "result": []}, {**listed, "result": None}]) == [listed["id"]] * 2
    assert await RUNNER.run_cases([{k: v for k, v in failing.items() if k != "error"}]) == [failing["id"]]


def test_every_operation_is_among_the_sample() -> None:
    assert {case["operation"] for case in CASES} == set(RUNNER.FUNCTIONS.values())
