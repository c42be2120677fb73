"""The dashboards are what their generator writes, and a panel never shares its place."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

DASHBOARDS = Path(__file__).parents[3] / "k8s" / "dashboards"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards", DASHBOARDS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_committed_files_match_the_generator(generator: ModuleType) -> None:
    present = {path.name: path.read_text() for path in DASHBOARDS.glob("*.json")}
    assert present == generator.documents(), "run: python k8s/dashboards/generate.py"


def test_choices_of_a_dashboard_are_named_in_its_panels(generator: ModuleType) -> None:
    for uid, (_, panels) in generator.DASHBOARDS.items():
        names = {name for name, _ in generator.VARIABLES.get(uid, ())}
        queries = " ".join(query for _, query, _, _ in panels)
        assert set(re.findall(r"\$(?!__)(\w+)", queries)) == names
        assert "$" not in generator.filled(queries, "1m")


def test_panels_do_not_overlap(generator: ModuleType) -> None:
    for text in generator.documents().values():
        places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in json.loads(text)["panels"]]
        assert len(set(places)) == len(places)
        assert all(x + generator.WIDTH <= generator.COLUMNS for x, _ in places)
