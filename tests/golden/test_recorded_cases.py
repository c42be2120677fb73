"""The product answers a sample of the recorded cases as recorded, and each comparison tells a wrong answer."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.golden.run import load_runners, read_cases
from tests.golden.runners import api_fields, interpreter_lua

HERE = Path(__file__).parent
Case = dict[str, Any]

RUNNERS = {name: runners[0] for name, runners in load_runners(HERE / "runners").cases.items()}
# Files with functions that their runner does not replay.
LEFT_OUT = {"division", "estimation"}
BEHAVIOURS = {
    "names": "policies",
    "policy-match": "policies",
    "override": "overrides",
    "admission": "admission of policies",
    "scheduler": "scheduling and division",
    "division": "scheduling and division",
    "estimation": "capacity of members",
    "failover": "failover and evictions",
    "federatedhpa": "federated autoscaling",
    "interpreter-native": "interpretation of kinds",
    "interpreter-lua": "interpretation of kinds",
    "api-fields": "admission of policies",
}
SAMPLES = {name: list(read_cases(HERE / "data" / f"{name}-dev.jsonl.gz")) for name in BEHAVIOURS}


def samples(name: str) -> list[Any]:
    """The recorded cases of one file that its runner replays."""
    check = RUNNERS[name]
    cases = [case for case in SAMPLES[name] if name not in LEFT_OUT or check(case) is not None]
    marks = pytest.mark.behaviour(BEHAVIOURS[name])
    return [pytest.param(name, case, id=f"{name}-{case.get('id', case.get('kind'))}", marks=marks) for case in cases]


@pytest.mark.parametrize(
    ("name", "case"), [sample for name in SAMPLES if name != "interpreter-lua" for sample in samples(name)]
)
def test_recorded_case_comes_out_as_recorded(name: str, case: Case) -> None:
    before = json.dumps(case)
    assert RUNNERS[name](case)
    assert json.dumps(case) == before


async def test_recorded_scripts_come_out_as_recorded() -> None:
    cases = SAMPLES["interpreter-lua"]
    assert {case["operation"] for case in cases} == set(interpreter_lua.FUNCTIONS.values())
    assert await interpreter_lua.run_cases(cases) == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("names", {"result": "something-else"}),
        ("policy-match", {"winner": {"kind": "PropagationPolicy", "namespace": "default", "name": "other"}}),
        ("override", {"result": {"kind": "Other"}}),
        ("override", {"appliedOverrides": [{"policyName": "other", "overriders": {}}]}),
        ("admission", {"allowed": False}),
        ("admission", {"defaulted": {"kind": "Other", "metadata": {}, "spec": {}}}),
        ("scheduler", {"outcomes": [{"clusters": [{"name": "other", "replicas": 1}]}]}),
        ("scheduler", {"outcomes": [{"error": "FitError"}]}),
        ("interpreter-native", {"operation": "GetReplicas", "result": {"replicas": -1}}),
        ("federatedhpa", {"result": {"replicas": -7}}),
    ],
)
def test_comparison_tells_a_wrong_answer(name: str, wrong: Case) -> None:
    kept = {key: value for key, value in wrong.items() if key == "operation"}
    case = next(
        case
        for case in SAMPLES[name]
        if wrong.keys() <= case.keys() and kept.items() <= case.items() and case.get("allowed", True) and placed(case)
    )
    assert RUNNERS[name](case)
    assert not RUNNERS[name](case | wrong)


def placed(case: Case) -> bool:
    """Whether a recorded decision of the scheduler has clusters; true of all other cases."""
    return bool(case.get("outcomes", [{"clusters": True}])[0].get("clusters"))


def test_comparison_of_failover_tells_a_wrong_answer() -> None:
    answers = {case["function"]: case for case in SAMPLES["failover"] if case.get("result")}
    for case in answers.values():
        wrong = {"function": case["function"], "args": case["args"], "error": "refused"}
        assert not RUNNERS["failover"]({**case, "result": {"something": "else"}}), case["function"]
        assert not RUNNERS["failover"](wrong), case["function"]


async def test_comparison_of_scripts_tells_a_wrong_answer() -> None:
    cases = SAMPLES["interpreter-lua"]
    listed = next(c for c in cases if c.get("result") == {})
    failing = next(c for c in cases if "error" in c and "while true" not in c["script"])
    assert await interpreter_lua.run_cases([{**listed, "result": []}, {**listed, "result": None}]) == [listed["id"]] * 2
    assert await interpreter_lua.run_cases([{k: v for k, v in failing.items() if k != "error"}]) == [failing["id"]]


def test_comparison_of_definitions_tells_a_wrong_field() -> None:
    case = next(case for case in SAMPLES["api-fields"] if case["kind"] == "Remedy")
    fields = [
        {**field, "type": "integer"} if field["path"].endswith(".operator") else field for field in case["fields"]
    ]
    more = {"path": ".spec.more", "required": False, "type": "string"}
    found = api_fields.differences({**case, "fields": [*fields, more]})
    assert [line.rpartition(" ")[0] for line in found] == [
        ".spec.decisionMatches[].clusterConditionMatch.operator type: 'string', recorded",
        ".spec.more is",
    ]
