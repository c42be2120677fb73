"""Prometheus' own tool reads the rules, and finds that they record what they say and are raised when they should be."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.slo import OBJECTIVES

HERE = Path(__file__).parent
MONITORING = HERE.parents[2] / "k8s" / "monitoring"
CASES = ("alert_tests.yaml", "rule_tests.yaml")

Pair = tuple[str, str]
FAILURES: dict[str, Pair] = {
    "apiserver-availability": (
        'fleetlog_apiserver_requests_total{method="PUT", code="429"',
        'fleetlog_apiserver_requests_total{method="PUT", code="409"',
    ),
    "gateway-availability": (
        'fleetlog_gateway_requests_total{verb="list", resource="works", code="503"',
        'fleetlog_gateway_requests_total{verb="list", resource="works", code="404"',
    ),
    "scheduler-availability": (
        'karmada_scheduler_schedule_attempts_total{schedule_type="ReconcileSchedule", result="error"',
        'karmada_scheduler_schedule_attempts_total{schedule_type="ScaleSchedule", result="scheduled"',
    ),
    "scheduler-estimator-availability": (
        'fleetlog_scheduler_estimates_total{answer="missed"',
        'fleetlog_scheduler_estimates_total{answer="used"',
    ),
    "policy-apply-availability": (
        'policy_apply_attempts_total{result="error"',
        'policy_apply_attempts_total{result="success"',
    ),
    "binding-sync-work-availability": (
        'binding_sync_work_duration_seconds_count{result="error"',
        'binding_sync_work_duration_seconds_count{result="success"',
    ),
    "work-sync-workload-availability": (
        'work_sync_workload_duration_seconds_count{result="error"',
        'work_sync_workload_duration_seconds_count{result="success"',
    ),
}
"""By objective, a series of what counts as a failure and one of what does not."""
TIMES: dict[str, Pair] = {
    "apiserver-latency": ('fleetlog_apiserver_request_seconds_%s{method="GET"', "0.4"),
    "gateway-latency": ('fleetlog_gateway_request_seconds_%s{verb="get"', "0.5"),
    "scheduler-latency": (
        'karmada_scheduler_e2e_scheduling_duration_seconds_%s{schedule_type="ScaleSchedule", result="scheduled"',
        "0.512",
    ),
    "scheduler-estimator-latency": ('fleetlog_stage_seconds_%s{component="estimator"', "0.128"),
    "policy-apply-latency": ('resource_apply_policy_duration_seconds_%s{result="success"', "1.024"),
    "binding-sync-work-latency": ('binding_sync_work_duration_seconds_%s{result="success"', "1.024"),
    "work-sync-workload-latency": ('work_sync_workload_duration_seconds_%s{result="success"', "2.048"),
    "cluster-sync-latency": ('cluster_sync_status_duration_seconds_%s{member_cluster="m1"', "1.0"),
}
"""By objective, a histogram and the bucket of what is in time."""
PER_MINUTE = 10_000
MINUTES = 120
"""For so long things go wrong; afterwards they go well for two hours."""


@pytest.fixture(scope="module")
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is not installed (Debian: apt-get install prometheus)")
    return found


@pytest.fixture(scope="module")
def written() -> dict[str, dict[str, Any]]:
    """Rules by the name of what they record or raise, of the files that are written by hand."""
    files = [yaml.safe_load((MONITORING / name).read_text()) for name in ("alerts.yml", "rules.yml")]
    rules = [rule for file in files for group in file["groups"] for rule in group["rules"]]
    found = {rule.get("record") or rule["alert"]: rule for rule in rules}
    assert len(found) == len(rules)
    return found


def told(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["alerts.yml", "rules.yml", "slo.yml"])
def test_rules_are_read_by_prometheus(promtool: str, name: str) -> None:
    assert "SUCCESS" in told(promtool, "check", "rules", str(MONITORING / name))


@pytest.mark.parametrize("cases", CASES)
def test_rules_do_what_they_are_for(promtool: str, tmp_path: Path, cases: str) -> None:
    # Cases name the files of rules beside them.
    for file in (MONITORING / "alerts.yml", MONITORING / "rules.yml", HERE / cases):
        shutil.copy(file, tmp_path / file.name)
    assert "SUCCESS" in told(promtool, "test", "rules", str(tmp_path / cases))


def test_every_rule_has_cases(written: dict[str, dict[str, Any]]) -> None:
    tests = [test for name in CASES for test in yaml.safe_load((HERE / name).read_text())["tests"]]
    outcomes = {
        (case["alertname"], bool(case["exp_alerts"])) for one in tests for case in one.get("alert_rule_test", ())
    }
    recorded = set()
    for case in (case for one in tests for case in one.get("promql_expr_test", ())):
        alert = re.match(r'ALERTS\{alertname="(\w+)"', case["expr"])
        if alert is not None:
            outcomes.add((alert[1], bool(case["exp_samples"])))
        elif case["exp_samples"]:
            recorded.add(case["expr"])
    assert recorded == {name for name, rule in written.items() if "record" in rule}
    alerts = {name for name, rule in written.items() if "alert" in rule}
    assert {name for name, raised in outcomes if raised} == alerts
    assert {name for name, raised in outcomes if not raised} == alerts


def test_rules_tell_installations_apart(written: dict[str, dict[str, Any]]) -> None:
    for name, rule in written.items():
        for labels in re.findall(r"\b(?:by|on) ?\(([^)]*)\)", rule["expr"]):
            assert "installation" in labels, name
        for aggregation in re.findall(r"\b(?:sum|min|max|avg|count)\b(?! by \()", rule["expr"]):
            raise AssertionError(f"{name}: {aggregation} over all installations")


def _series(name: str, installation: str, bad: int) -> Iterator[dict[str, str]]:
    """Two hours with so many bad ones of 10,000 in a minute, and two hours without."""
    good = PER_MINUTE - bad

    def counter(series: str, before: int, after: int) -> dict[str, str]:
        values = f"0+{before}x{MINUTES} {before * MINUTES + after}+{after}x{MINUTES}"
        return {"series": f'{series}, installation="{installation}"}}', "values": values}

    if name in FAILURES:
        failed, done = FAILURES[name]
        # Where nothing ever failed, there is no such series.
        if bad:
            yield counter(failed, bad, 0)
        yield counter(done, good, PER_MINUTE)
    else:
        histogram, bound = TIMES[name]
        yield counter(histogram % "count", PER_MINUTE, PER_MINUTE)
        yield counter(f'{histogram % "bucket"}, le="{bound}"', good, PER_MINUTE)


def _case(name: str) -> dict[str, list[dict[str, Any]]]:
    """Installations by how much of what happens is bad, and which of them raise what."""
    budget = 100 if name == "work-sync-workload-latency" else 10
    bad = {"burning": 20 * budget, "smouldering": 5 * budget, "fine": budget // 2, "clean": 0}
    selector = f'sloth_slo="{name}"'
    identity = f'sloth_id="fleetlog-{name}", sloth_service="fleetlog", {selector}'

    def raised(severity: str, at: str, *installations: str) -> dict[str, Any]:
        kept = "alertname, alertstate, installation"
        expr = f'sum by ({kept}) (ALERTS{{{selector}, sloth_severity="{severity}", alertstate="firing"}})'
        stem = "".join(part.capitalize() for part in name.split("-"))
        labels = f'alertname="Fleetlog{stem}BurnRateHigh", alertstate="firing"'
        samples = [{"labels": f'{{{labels}, installation="{one}"}}', "value": 1} for one in installations]
        return {"expr": expr, "eval_time": at, "exp_samples": samples}

    def value(metric: str, at: str, expected: dict[str, float]) -> dict[str, Any]:
        expr = f"round(max by (installation, sloth_id, sloth_service, sloth_slo) ({metric}{{{selector}}}), 0.0001)"
        samples = [
            {"labels": f'{{{identity}, installation="{one}"}}', "value": number} for one, number in expected.items()
        ]
        return {"expr": expr, "eval_time": at, "exp_samples": samples}

    shares = {installation: round(count / PER_MINUTE, 4) for installation, count in bad.items()}
    pages = ["burning"] if name in FAILURES else []
    return {
        "input_series": [one for installation, count in bad.items() for one in _series(name, installation, count)],
        "promql_expr_test": [
            *(value(f"slo:sli_error:ratio_rate{window}", "110m", shares) for window in ("5m", "30m", "1h", "2h", "6h")),
            *(value(f"slo:sli_error:ratio_rate{window}", "110m", shares) for window in ("1d", "3d", "30d")),
            value("slo:sli_error:ratio_rate5m", "140m", dict.fromkeys(bad, 0)),
            value("slo:current_burn_rate:ratio", "110m", {"burning": 20, "smouldering": 5, "fine": 0.5, "clean": 0}),
            value("slo:period_burn_rate:ratio", "110m", {"burning": 20, "smouldering": 5, "fine": 0.5, "clean": 0}),
            value(
                "slo:period_error_budget_remaining:ratio",
                "110m",
                {"burning": -19, "smouldering": -4, "fine": 0.5, "clean": 1},
            ),
            value("slo:objective:ratio", "110m", dict.fromkeys(bad, 1 - budget / PER_MINUTE)),
            value("slo:error_budget:ratio", "110m", dict.fromkeys(bad, budget / PER_MINUTE)),
            value("slo:time_period:days", "110m", dict.fromkeys(bad, 30)),
            value("sloth_slo_info", "110m", dict.fromkeys(bad, 1)),
            raised("page", "110m", *pages),
            raised("ticket", "110m", "burning", "smouldering"),
            # Both windows have to burn: pages end half an hour after what they were raised by, tickets last.
            raised("page", "155m"),
            raised("ticket", "155m", "burning", "smouldering"),
        ],
    }


@pytest.mark.parametrize("names", [FAILURES, TIMES], ids=["failures", "times"])
def test_objectives_burn_their_budgets_and_recover(promtool: str, tmp_path: Path, names: dict[str, Pair]) -> None:
    assert FAILURES.keys() | TIMES.keys() == {objective.name for objective in OBJECTIVES}
    shutil.copy(MONITORING / "slo.yml", tmp_path)
    cases = [_case(name) for name in names]
    # One run for all: each evaluates every rule.
    together = {part: [one for case in cases for one in case[part]] for part in ("input_series", "promql_expr_test")}
    tests = {"rule_files": ["slo.yml"], "evaluation_interval": "5m", "tests": [{"interval": "1m", **together}]}
    (tmp_path / "cases.yaml").write_text(yaml.safe_dump(tests))
    assert "SUCCESS" in told(promtool, "test", "rules", str(tmp_path / "cases.yaml"))


def test_thresholds_of_objectives_are_those_of_the_cases() -> None:
    for objective in OBJECTIVES:
        if objective.fast:
            histogram, bound = TIMES[objective.name]
            assert objective.fast.startswith(histogram.partition("%")[0])
            assert f'le="{bound}"' in objective.fast
