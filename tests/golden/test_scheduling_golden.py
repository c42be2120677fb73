"""Scheduling, division and estimates answer a sample of the recorded cases as recorded."""

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
Case = dict[str, Any]


def _check(name: str) -> Callable[[Case], bool | None]:
    spec = importlib.util.spec_from_file_location(f"golden_{name}", HERE / "runners" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    check: Callable[[Case], bool | None] = module.FILES[name]
    return check


def _cases(name: str) -> list[Case]:
    lines = gzip.decompress((HERE / "data" / f"{name}-dev.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


CHECKS = {name: _check(name) for name in ("scheduler", "division", "estimation")}
CASES = [
    pytest.param(name, case, id=case["id"])
    for name, check in CHECKS.items()
    for case in _cases(name)
    if name == "scheduler" or check(case) is not None
]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_recorded_case_comes_out_as_recorded(name: str, case: Case) -> None:
    before = json.dumps(case)
    assert CHECKS[name](case)
    assert json.dumps(case) == before


def test_the_comparison_of_decisions_tells_a_wrong_one() -> None:
    case = next(item.values[1] for item in CASES if item.values[0] == "scheduler" and _placed(item.values[1]))
    outcome = case["outcomes"][0]
    moved = [{**item, "name": f"{item['name']}x"} for item in outcome["clusters"]]
    assert not CHECKS["scheduler"]({**case, "outcomes": [{"clusters": moved}]})
    assert not CHECKS["scheduler"]({**case, "outcomes": [{"error": "FitError"}]})


def _placed(case: Any) -> bool:
    return bool(case["outcomes"][0].get("clusters"))
