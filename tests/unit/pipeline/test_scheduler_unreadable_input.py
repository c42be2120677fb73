"""Whatever a binding, a cluster or an estimator says: a defined decision or a clear condition, never a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known
from schemas.events.cluster import ClusterChanged
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementFailed
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


@pytest.mark.parametrize(
    ("constraints", "told"),
    [
        ([("cluster", 5, 1)], "the number of feasible clusters is less than spreadConstraint.MinGroups"),
        ([("cluster", 1, 0)], "no enough resource when selecting 0 clusters"),
        ([("cluster", -2, -1)], "no enough resource when selecting 0 clusters"),
        (
            [("region", 3, 5), ("cluster", 1, 5)],
            "the number of feasible region is less than spreadConstraint.MinGroups",
        ),
        (
            [("region", 1, 2), ("cluster", 9, 9)],
            "the number of clusters is less than the cluster spreadConstraint.MinG",
        ),
        ([("provider", 1, 1)], "just support cluster and region spread constraint"),
        ([("planet", 1, 1)], "just support cluster and region spread constraint"),
    ],
)
def test_unmet_spread_constraints_are_named(constraints: list[tuple[str, int, int]], told: str) -> None:
    spread = [{"spreadByField": field, "minGroups": least, "maxGroups": most} for field, least, most in constraints]
    fleet = (cluster("m1", region="r1", provider="p"), cluster("m2", region="r2", provider="p"))
    event = decided(*fleet, binding(3, {**DIVIDED, "spreadConstraints": spread}))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "SchedulerError"
    assert told in event.message


def test_spread_by_missing_property_fits_no_cluster() -> None:
    spread = [{"spreadByField": field, "minGroups": 1, "maxGroups": 1} for field in ("zone", "cluster")]
    event = decided(cluster("m1"), cluster("m2"), binding(3, {**DIVIDED, "spreadConstraints": spread}))
    assert isinstance(event, PlacementFailed)
    assert (event.reason, event.clusters) == ("NoClusterFit", ())
    assert event.message == "0/2 clusters are available: 2 cluster(s) did not have zones property."


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"m1": -1, "m2": -7},
        {"m1": 2**31 - 1, "m2": 2**31 - 1},
        {"m1": 2**62},
        {"stranger": 50},
        {"m1": 3},
        {"m1": 2, "m2": 4},
    ],
)
def test_estimates_lower_capacity_and_never_raise_it(answers: dict[str, int]) -> None:
    lease = LeaseTaken(service="estimator", instance="e")
    fleet = (with_pods("m1", "4"), with_pods("m2", "4"))
    event = decided(lease, *fleet, binding(6, DIVIDED), estimated(99, **answers))
    assert isinstance(event, PlacementDecided)
    assert not event.estimate_missed
    most = {name: min(4, answers[name]) if answers.get(name, -1) >= 0 else 4 for name in ("m1", "m2")}
    found = targets(event)
    assert sum(count or 0 for count in found.values()) == 6
    assert all((count or 0) <= most[name] for name, count in found.items())


def test_estimate_of_zero_makes_unschedulable() -> None:
    lease = LeaseTaken(service="estimator", instance="e")
    event = decided(lease, with_pods("m1", "4"), binding(3, DIVIDED), estimated(99, m1=0))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "Unschedulable"
    assert "Clusters available replicas 0 are not enough to schedule." in event.message
