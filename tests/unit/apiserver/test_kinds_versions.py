"""Kinds served in several versions: what is stored, and how each version shows it."""

import copy
from pathlib import Path

import pytest

from tests.support.builtin_kinds import kind_of
from tests.support.case_files import Case, assert_within, cases_of


@pytest.mark.parametrize("case", cases_of(Path(__file__).with_name("kind_versions.yaml")))
def test_object_is_shown_in_another_version_and_back(case: Case) -> None:
    source, target = (kind_of(case[version], case["kind"]) for version in ("from", "to"))
    given = {"apiVersion": case["from"], "kind": case["kind"], **case["given"]}
    shown = target.from_store(source.to_store(copy.deepcopy(given)))
    assert_within({"apiVersion": case["to"], "kind": case["kind"], **case["shown"]}, shown)
    assert source.from_store(target.to_store(shown)) == given


def test_first_autoscaler_version_hides_metrics_from_later_ones() -> None:
    memory = {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 70}}
    spec = {"maxReplicas": 3, "metrics": [{"type": "Resource", "resource": memory}]}
    obj = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "a"}, "spec": spec}
    first, latest = (kind_of(f"autoscaling/{version}", "HorizontalPodAutoscaler") for version in ("v1", "v2"))
    found = first.from_store(latest.to_store(obj))
    assert "autoscaling.alpha.kubernetes.io/metrics" in found["metadata"]["annotations"]
    assert "annotations" not in first.to_store(found)["metadata"]
