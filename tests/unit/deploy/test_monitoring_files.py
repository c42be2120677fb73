"""What prometheus-operator gets is what the files say, its pods exist, and the page lists every alert."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from k8s.manifests import deployment
from k8s.slo import BURNS, OBJECTIVES
from schemas.topology import SERVICES

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "k8s" / "monitoring"
PAGE = (ROOT / "docs" / "monitoring.md").read_text()


def _rules(name: str) -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load((MONITORING / name).read_text())["groups"] for rule in group["rules"]]


def test_operator_gets_the_rules_of_the_files() -> None:
    objects = yaml.safe_load_all((MONITORING / "operator/prometheus-rules.yaml").read_text())
    found = {one["metadata"]["name"]: one["spec"] for one in objects}
    assert found == {
        f"fleetlog-{name}": yaml.safe_load((MONITORING / f"{name}.yml").read_text())
        for name in ("alerts", "rules", "slo")
    }


@pytest.mark.parametrize("service", SERVICES)
def test_pod_monitor_finds_the_pods_of_a_service(service: str) -> None:
    spec = yaml.safe_load((MONITORING / "operator/pod-monitor.yaml").read_text())["spec"]
    template = deployment(service)["spec"]["template"]
    assert spec["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (endpoint,) = spec["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in template["spec"]["containers"][0]["ports"]}
    # One that has its own label `namespace` means that of an object.
    assert endpoint["honorLabels"] is True
    labels = {each["targetLabel"]: each["sourceLabels"] for each in endpoint["relabelings"]}
    assert labels.keys() == {"job", "instance", "installation"}
    for (source,) in labels.values():
        name = source.removeprefix("__meta_kubernetes_pod_label_")
        known = {re.sub(r"\W", "_", label) for label in template["metadata"]["labels"]}
        assert name == source or name in known


def test_severities_are_the_two_that_are_routed() -> None:
    rules = [rule for name in ("alerts.yml", "rules.yml", "slo.yml") for rule in _rules(name) if "alert" in rule]
    assert {rule["labels"]["severity"] for rule in rules} == {"critical", "warning"}
    for rule in rules:
        assert rule["annotations"].keys() == {"summary", "description"}, rule["alert"]


def test_page_lists_every_alert_and_objective() -> None:
    written = {rule["alert"] for rule in _rules("rules.yml") if "alert" in rule}
    table = {
        name for row in re.findall(r"^\| (`Fleetlog.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"\w+", row)
    }
    assert table == written
    listed = re.findall(r"^\| `([a-z-]+)` \|.*\| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert listed == [(objective.name, f"{objective.percent:g}") for objective in OBJECTIVES]
    burns = re.findall(r"^\| (?:critical|warning) \| above ([\d.]+) \| .* \| (\w+) \|$", PAGE, re.MULTILINE)
    assert burns == [(f"{burn.factor:g}", burn.severity) for burn in BURNS]


def test_alerts_ask_for_metrics_that_are_documented() -> None:
    rules = yaml.safe_load((ROOT / "k8s/monitoring/alerts.yml").read_text())["groups"][0]["rules"]
    documented = set(re.findall(r"^\| `(fleetlog_\w+)`", (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))
    asked = {name for rule in rules for name in re.findall(r"fleetlog_\w+", rule["expr"])}
    assert asked
    assert asked <= documented
    assert all(rule["annotations"].keys() == {"summary", "description"} for rule in rules)
    without = next(rule["expr"] for rule in rules if rule["alert"] == "FleetlogNoLeader")
    assert set(re.findall(r"\w+", without.partition('"')[2].partition('"')[0])) == {"gateway", "search"}
