"""Whatever a binding, a cluster or an estimator says: a defined decision or a clear condition, never a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementFailed
from tests.support.facts import DIVIDED, ONE_CLUSTER, binding, cluster, cpus, edited, estimated, targets
from tests.support.harness import SCHEDULER, Harness


def with_pods(name: str, pods: Any, **summary: Any) -> ClusterChanged:
    """A member whose status says this of its capacity."""
    status = msgspec.json.decode(cluster(name).manifest)["status"]
    status["resourceSummary"] = {"allocatable": {"pods": pods, "cpu": "100"}, **summary}
    found: ClusterChanged = edited(cluster(name), status=status)
    return found


def decided(*events: Known) -> Any:
    return Harness(SCHEDULER, *events).decided()


@pytest.mark.parametrize("pods", ["-5", "abc", "", [], {}, True, None, "1e9999", "NaN", "Infinity", -(2**62), "0"])
def test_invalid_capacity_counts_as_none(pods: Any) -> None:
    assert targets(decided(with_pods("odd", pods), with_pods("good", "3"), binding(3, DIVIDED))) == {"good": 3}


@pytest.mark.parametrize("pods", ["1e400", "9" * 400, 2**63, "9999999Ei"])
@pytest.mark.parametrize("preference", [DIVIDED, {}])
def test_immeasurable_capacity_holds_all_replicas(pods: Any, preference: dict[str, Any]) -> None:
    most = 2**31 - 1
    found = targets(decided(with_pods("vast", pods), binding(most, preference, replicaRequirements=None)))
    assert found == {"vast": most}


@pytest.mark.parametrize(
    "parts",
    [{"status": None}, {"status": {}}, {"spec": None}, {"status": {"resourceSummary": []}}],
)
def test_cluster_without_status_or_spec_has_no_capacity(parts: dict[str, Any]) -> None:
    event = decided(edited(cluster("bare"), **parts), with_pods("good", "9"), binding(3, DIVIDED))
    assert targets(event) == {"good": 3}


def test_models_with_countless_nodes_are_affordable() -> None:
    models = {"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "4", "max": "8"}]}]}
    vast = with_pods("vast", "1000000", allocatableModelings=[{"grade": 0, "count": 2**62}])
    vast = edited(vast, spec={"syncMode": "Push", **models})
    one = {**DIVIDED, **ONE_CLUSTER}
    parts = [{"name": name, "replicas": 1, **cpus()} for name in ("leader", "worker")]
    assert list(targets(decided(vast, binding(0, one, components=parts)))) == ["vast"]
    assert targets(decided(vast, binding(50, DIVIDED, **cpus()))) == {"vast": 50}


@pytest.mark.parametrize(
    "modelings", [[{"grade": 0, "count": "many"}], [{"grade": "x", "count": 1}], [5], "x", [{"grade": 0, "count": -1}]]
)
def test_invalid_resource_models_leave_the_summary(modelings: Any) -> None:
    odd = with_pods("odd", "5", allocatableModelings=modelings)
    assert targets(decided(odd, binding(3, DIVIDED, **cpus()))) == {"odd": 3}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"replicas": 2**31}, "$.replicas"),
        ({"replicas": 2**63 - 1}, "$.replicas"),
        ({"replicas": "abc"}, "$.replicas"),
        ({"replicas": 1.5}, "$.replicas"),
        ({"replicas": [3]}, "$.replicas"),
        ({"replicaRequirements": {"resourceRequest": {"cpu": "abc"}}}, "'abc' is not a quantity"),
        ({"replicaRequirements": {"resourceRequest": {"cpu": [1]}}}, "$.replicaRequirements.resourceRequest[...]"),
        ({"replicaRequirements": {"resourceRequest": {"cpu": True}}}, "$.replicaRequirements.resourceRequest[...]"),
        (
            {"components": [{"name": "x", "replicaRequirements": {"resourceRequest": {"cpu": True}}}]},
            "cpu is True, not",
        ),
        ({"replicaRequirements": []}, "$.replicaRequirements"),
        ({"replicaRequirements": {"resourceRequest": "cpu"}}, "$.replicaRequirements.resourceRequest"),
        ({"components": [{"name": "x", "replicas": "abc"}]}, "component 'x': replicas is 'abc'"),
        ({"components": [{"name": "x", "replicas": -1}]}, "component 'x': replicas is -1"),
        ({"components": [{"name": "x", "replicaRequirements": []}]}, "component 'x': replicaRequirements is []"),
        ({"components": [{"name": "x", "replicaRequirements": {"resourceRequest": [1]}}]}, "[1] is not a list of res"),
        ({"components": {}}, "$.components"),
        ({"components": [5]}, "$.components[0]"),
        ({"placement": {"spreadConstraints": [{"maxGroups": "all"}]}}, "$.spreadConstraints[0].maxGroups"),
        ({"placement": {"clusterAffinity": {"clusterNames": "m1"}}}, "$.clusterAffinity.clusterNames"),
        ({"placement": []}, "$.placement"),
        ({"rescheduleTriggeredAt": "yesterday"}, "$.rescheduleTriggeredAt"),
        ({"resource": None}, "$.resource"),
    ],
)
def test_unreadable_binding_fails_with_its_field_named(spec: dict[str, Any], told: str) -> None:
    event = decided(with_pods("m1", "9"), edited(binding(3, DIVIDED), "spec", **spec))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "SchedulerError"
    assert event.message.startswith("the binding cannot be read: ")
    assert told in event.message


def test_spread_by_missing_property_fits_no_cluster() -> None:
    spread = [{"spreadByField": field, "minGroups": 1, "maxGroups": 1} for field in ("zone", "cluster")]
    event = decided(cluster("m1"), cluster("m2"), binding(3, {**DIVIDED, "spreadConstraints": spread}))
    assert isinstance(event, PlacementFailed)
    assert (event.reason, event.clusters) == ("NoClusterFit", ())
    assert event.message == "0/2 clusters are available: 2 cluster(s) did not have zones property."


def test_estimate_of_zero_makes_unschedulable() -> None:
    lease = LeaseTaken(service="estimator", instance="e")
    event = decided(lease, with_pods("m1", "4"), binding(3, DIVIDED), estimated(99, m1=0))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "Unschedulable"
    assert "Clusters available replicas 0 are not enough to schedule." in event.message
