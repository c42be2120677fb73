"""Names, matching, overrides and admission answer a sample of the recorded cases as recorded."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
Case = dict[str, Any]


def _run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("golden_run_for_policies", HERE / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUN = _run()
RUNNERS = {
    name: RUN.load_runner(HERE / "runners" / f"{name.replace('-', '_')}.py").FILES[name]
    for name in ("names", "policy-match", "override", "admission")
}
CASES = {name: list(RUN.read_cases(HERE / "data" / f"{name}-dev.jsonl.gz")) for name in RUNNERS}


@pytest.mark.parametrize(
    ("name", "case"), [pytest.param(name, case, id=case["id"]) for name, cases in CASES.items() for case in cases]
)
def test_recorded_case_comes_out_as_recorded(name: str, case: Case) -> None:
    before = json.dumps(case)
    assert RUNNERS[name](case)
    assert json.dumps(case) == before


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("names", {"result": "something-else"}),
        ("policy-match", {"winner": {"kind": "PropagationPolicy", "namespace": "default", "name": "nobody"}}),
        ("override", {"result": {"kind": "Other"}}),
        ("override", {"appliedOverrides": [{"policyName": "nobody", "overriders": {}}]}),
        ("admission", {"allowed": False}),
        ("admission", {"defaulted": {"kind": "Other", "metadata": {}, "spec": {}}}),
    ],
)
def test_the_comparison_tells_a_wrong_answer(name: str, wrong: Case) -> None:
    case = next(case for case in CASES[name] if wrong.keys() <= case.keys() and case.get("allowed", True))
    assert not RUNNERS[name](case | wrong)
