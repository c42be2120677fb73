"""Which FederatedHPAs may go down to no replicas."""

from __future__ import annotations

from typing import Any

import pytest

from services._rules.admission.later.federated_hpa import default, validate

QUEUE: dict[str, Any] = {
    "type": "External",
    "external": {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "10"}},
}
CPU: dict[str, Any] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
}


def fields(metric: dict[str, Any], least: int, said: str | None) -> list[str]:
    """Fields that are wrong."""
    metadata: dict[str, Any] = {"name": "web", "namespace": "default"}
    if said is not None:
        metadata["annotations"] = {"fleetlog.io/scale-to-zero": said}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": 5, "metrics": [metric]}
    return [error.field for error in validate(default({"metadata": metadata, "spec": spec}))]


@pytest.mark.parametrize(
    ("metric", "least", "said", "wrong"),
    [
        (QUEUE, 0, "true", []),
        (QUEUE, 1, "true", []),
        (QUEUE, 1, None, ["spec.metrics[0].type"]),
        (QUEUE, 0, "false", ["spec.minReplicas", "spec.metrics[0].type"]),
        (CPU, 0, "true", ["spec.minReplicas"]),
        (CPU, 0, None, ["spec.minReplicas"]),
        (QUEUE, -1, "true", ["spec.minReplicas"]),
    ],
)
def test_scale_to_zero_has_to_be_asked_for(
    metric: dict[str, Any], least: int, said: str | None, wrong: list[str]
) -> None:
    assert fields(metric, least, said) == wrong
