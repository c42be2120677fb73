"""Whatever a binding, a cluster or an estimator says: a defined decision or a clear condition, never a crash."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.estimate import CapacityEstimated, ClusterEstimate
from schemas.events.lease import LeaseTaken
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import KEY, binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
AGGREGATED: dict[str, Any] = {
    "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
}
CPU = {"resourceRequest": {"cpu": "1"}}


def with_pods(name: str, pods: Any, **status: Any) -> ClusterChanged:
    """A member whose status says this of its room."""
    fact = cluster(name)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"pods": pods, "cpu": "100"}, **status}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def with_part(name: str, **parts: Any) -> ClusterChanged:
    """A member with some part of its manifest exchanged."""
    fact = cluster(name)
    manifest = {**msgspec.json.decode(fact.manifest), **parts}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def asked(parts: dict[str, Any]) -> BindingRequested:
    """A request whose spec has these parts, whatever they are."""
    fact = binding(3, AGGREGATED)
    spec = {**msgspec.json.decode(fact.spec), **parts}
    return msgspec.structs.replace(fact, spec=msgspec.Raw(msgspec.json.encode(spec)))


def decided(*events: Known) -> PlacementEvent | None:
    state = SchedulerState()
    for seq, event in enumerate(events, 1):
        fold(state, seq, subject_of(event), event)
    return decide(state, KEY, NOW, "default-scheduler")


def counts(event: PlacementEvent | None) -> dict[str, int | None]:
    assert isinstance(event, PlacementDecided), event
    return {target.name: target.replicas for target in event.clusters}


@pytest.mark.parametrize("pods", ["-5", "abc", "", [], {}, True, None, "1e9999", "NaN", "Infinity", -(2**62), "0"])
def test_room_that_is_no_amount_or_none_is_no_room(pods: Any) -> None:
    assert counts(decided(with_pods("odd", pods), with_pods("good", "3"), binding(3, AGGREGATED))) == {"good": 3}


@pytest.mark.parametrize("pods", ["1e400", "9" * 400, 2**63, "9999999Ei"])
@pytest.mark.parametrize("preference", [AGGREGATED, {}])
def test_room_beyond_all_measure_holds_everything_and_no_more(pods: Any, preference: dict[str, Any]) -> None:
    most = 2**31 - 1
    found = counts(decided(with_pods("vast", pods), binding(most, preference, replicaRequirements=None)))
    assert found == {"vast": most}


@pytest.mark.parametrize(
    "parts",
    [{"status": None}, {"status": {}}, {"spec": None}, {"status": {"resourceSummary": []}}],
)
def test_a_cluster_without_status_or_spec_offers_nothing(parts: dict[str, Any]) -> None:
    event = decided(with_part("bare", **parts), with_pods("good", "9"), binding(3, AGGREGATED))
    assert counts(event) == {"good": 3}


def test_models_with_countless_nodes_are_affordable() -> None:
    models = {"resourceModels": [{"grade": 0, "ranges": [{"name": "cpu", "min": "4", "max": "8"}]}]}
    vast = with_pods("vast", "1000000", allocatableModelings=[{"grade": 0, "count": 2**62}])
    manifest = msgspec.json.decode(vast.manifest)
    manifest["spec"] = {**(manifest.get("spec") or {}), **models}
    vast = msgspec.structs.replace(vast, manifest=msgspec.Raw(msgspec.json.encode(manifest)))
    one = {**AGGREGATED, "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}
    parts = [{"name": name, "replicas": 1, "replicaRequirements": CPU} for name in ("leader", "worker")]
    assert list(counts(decided(vast, binding(0, one, components=parts)))) == ["vast"]
    assert counts(decided(vast, binding(50, AGGREGATED, replicaRequirements=CPU))) == {"vast": 50}


@pytest.mark.parametrize(
    "modelings", [[{"grade": 0, "count": "many"}], [{"grade": "x", "count": 1}], [5], "x", [{"grade": 0, "count": -1}]]
)
def test_models_that_make_no_sense_leave_the_summary(modelings: Any) -> None:
    odd = with_pods("odd", "5", allocatableModelings=modelings)
    assert counts(decided(odd, binding(3, AGGREGATED, replicaRequirements=CPU))) == {"odd": 3}


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
def test_a_binding_that_cannot_be_read_is_told_by_field(spec: dict[str, Any], told: str) -> None:
    event = decided(with_pods("m1", "9"), asked(spec))
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
def test_constraints_that_cannot_be_met_are_named(constraints: list[tuple[str, int, int]], told: str) -> None:
    spread = [{"spreadByField": field, "minGroups": least, "maxGroups": most} for field, least, most in constraints]
    fleet = (cluster("m1", region="r1", provider="p"), cluster("m2", region="r2", provider="p"))
    event = decided(*fleet, binding(3, {**AGGREGATED, "spreadConstraints": spread}))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "SchedulerError"
    assert told in event.message


def test_a_constraint_on_what_nobody_has_fits_no_cluster() -> None:
    spread = [{"spreadByField": field, "minGroups": 1, "maxGroups": 1} for field in ("zone", "cluster")]
    event = decided(cluster("m1"), cluster("m2"), binding(3, {**AGGREGATED, "spreadConstraints": spread}))
    assert isinstance(event, PlacementFailed)
    assert (event.reason, event.clusters) == ("NoClusterFit", ())
    assert event.message == "0/2 clusters are available: 2 cluster(s) did not have zones property."


def estimated(answers: dict[str, int]) -> CapacityEstimated:
    estimates = tuple(ClusterEstimate(name, count, position=99) for name, count in answers.items())
    seen = Provenance(as_of=99)
    return CapacityEstimated(key=KEY, uid="u1", estimates=estimates, requirements_digest="", provenance=seen)


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
def test_estimators_may_lower_what_fits_and_never_raise_it(answers: dict[str, int]) -> None:
    lease = LeaseTaken(service="estimator", instance="e")
    fleet = (with_pods("m1", "4"), with_pods("m2", "4"))
    event = decided(lease, *fleet, binding(6, AGGREGATED), estimated(answers))
    assert isinstance(event, PlacementDecided)
    assert not event.estimate_missed
    most = {name: min(4, answers[name]) if answers.get(name, -1) >= 0 else 4 for name in ("m1", "m2")}
    found = counts(event)
    assert sum(count or 0 for count in found.values()) == 6
    assert all((count or 0) <= most[name] for name, count in found.items())


def test_estimators_that_leave_no_room_are_believed() -> None:
    lease = LeaseTaken(service="estimator", instance="e")
    event = decided(lease, with_pods("m1", "4"), binding(3, AGGREGATED), estimated({"m1": 0}))
    assert isinstance(event, PlacementFailed)
    assert event.reason == "Unschedulable"
    assert "Clusters available replicas 0 are not enough to schedule." in event.message
