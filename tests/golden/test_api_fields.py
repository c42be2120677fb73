"""Definitions of karmada.io kinds have the names, fields, constraints and columns that were recorded."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"golden_fields_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNER = _module(HERE / "runners" / "api_fields.py")
CASES = list(_module(HERE / "run.py").read_cases(HERE / "data" / "api-fields-dev.jsonl.gz"))


@pytest.mark.parametrize("case", [pytest.param(case, id=case["kind"]) for case in CASES])
def test_the_definition_is_as_recorded(case: dict[str, Any]) -> None:
    assert RUNNER.differences(case) == []


def test_a_field_too_few_or_of_another_type_is_noticed() -> None:
    case = next(case for case in CASES if case["kind"] == "Remedy")
    fields = [
        {**field, "type": "integer"} if field["path"].endswith(".operator") else field for field in case["fields"]
    ]
    found = RUNNER.differences(
        {**case, "fields": [*fields, {"path": ".spec.more", "required": False, "type": "string"}]}
    )
    assert [line.rpartition(" ")[0] for line in found] == [
        ".spec.decisionMatches[].clusterConditionMatch.operator type: 'string', recorded",
        ".spec.more is",
    ]
