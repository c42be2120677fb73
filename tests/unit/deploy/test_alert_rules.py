"""Prometheus' own tool reads the alerts, and finds that those about autoscaling are raised when they should be."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
ALERTS = ROOT / "k8s/monitoring/alerts.yml"
CASES = Path(__file__).with_name("alert_tests.yaml")


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    return found


def told(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alerts_are_read_by_prometheus(promtool: str) -> None:
    assert "SUCCESS" in told(promtool, "check", "rules", str(ALERTS))


def test_alerts_are_raised_by_what_they_are_for(promtool: str, tmp_path: Path) -> None:
    # Cases name the file of the rules beside them.
    shutil.copy(ALERTS, tmp_path / "alerts.yml")
    shutil.copy(CASES, tmp_path / CASES.name)
    assert "SUCCESS" in told(promtool, "test", "rules", str(tmp_path / CASES.name))


def test_alerts_about_autoscaling_have_cases_for_both_outcomes() -> None:
    rules = yaml.safe_load(ALERTS.read_text())["groups"][0]["rules"]
    about = {rule["alert"] for rule in rules if "autoscaler" in rule["expr"] or "federatedhpa" in rule["expr"]}
    cases = [case for test in yaml.safe_load(CASES.read_text())["tests"] for case in test["alert_rule_test"]]
    assert len(about) == 7
    for raised in (True, False):
        assert {case["alertname"] for case in cases if bool(case["exp_alerts"]) is raised} == about
