"""The rules of failover answer a sample of the recorded cases as recorded."""

import gzip
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
Case = dict[str, Any]


def _runner() -> Callable[[Case], bool | None]:
    spec = importlib.util.spec_from_file_location("golden_failover", HERE / "runners" / "failover.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run: Callable[[Case], bool | None] = module.FILES["failover"]
    return run


RUN = _runner()
CASES = [
    json.loads(line) for line in gzip.decompress((HERE / "data" / "failover-dev.jsonl.gz").read_bytes()).splitlines()
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in CASES])
def test_recorded_case_comes_out_as_recorded(case: Case) -> None:
    before = json.dumps(case)
    assert RUN(case)
    assert json.dumps(case) == before


def test_the_comparison_tells_a_wrong_answer() -> None:
    answers = {case["function"]: case for case in CASES if case.get("result")}
    for case in answers.values():
        assert not RUN({**case, "result": {"something": "else"}}), case["function"]
        assert not RUN({"function": case["function"], "args": case["args"], "error": "refused"}), case["function"]
