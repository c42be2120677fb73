"""The built-in interpretation answers a sample of the recorded cases as recorded."""

import gzip
import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _runner() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "golden_interpreter_native", HERE / "runners" / "interpreter_native.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _runner()
with gzip.open(HERE / "data" / "interpreter-native-dev.jsonl.gz") as lines:
    CASES = [json.loads(line) for line in lines]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['id']}-{case['operation']}")
def test_recorded_interpretation(case: dict[str, Any]) -> None:
    before = json.dumps(case["args"])
    assert RUNNER.run(case), RUNNER.evaluate(case)
    assert json.dumps(case["args"]) == before


def test_the_comparison_tells_a_wrong_answer() -> None:
    case = next(c for c in CASES if c["operation"] == "GetReplicas" and "result" in c)
    wrong = {**case, "result": {**case["result"], "replicas": case["result"]["replicas"] + 1}}
    assert not RUNNER.run(wrong)
