"""Remedies: which actions clusters are told, when that is decided anew, and what is said of broken ones."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.events.cluster import ClusterChanged
from schemas.manifest import Manifest
from services._rules.history.event_words import summarize
from services.cluster_monitor.decide import Announce, WriteSpec, named
from tests.support.monitor_harness import MonitorHarness


def remedy(name: str = "r", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Manifest:
    metadata = {"name": name, "uid": f"uid-{name}", "creationTimestamp": created}
    return {"metadata": metadata, "spec": {"actions": ["TrafficControl"], **spec}}


def when(status: str, operator: str = "Equal", kind: str = "Ready") -> dict[str, Any]:
    match = {"conditionType": kind, "operator": operator, "conditionStatus": status}
    return {"decisionMatches": [{"clusterConditionMatch": match}]}


def monitor_of(*remedies: Manifest) -> MonitorHarness:
    monitor = MonitorHarness("m1")
    monitor.state.remedies_listed = True
    monitor.state.remedies.update((item["metadata"]["name"], item) for item in remedies)
    return monitor


def told(monitor: MonitorHarness) -> list[str] | None:
    found: list[str] | None = monitor.manifest.get("status", {}).get("remedyActions")
    return found


def test_condition_sets_actions_and_another_clears_them() -> None:
    monitor = monitor_of(remedy(**when("False")))
    monitor.probes(0, online=False)
    assert told(monitor) == ["TrafficControl"]
    fact = monitor.cluster.fact
    assert isinstance(fact, ClusterChanged)
    assert msgspec.json.decode(fact.manifest)["status"]["remedyActions"] == ["TrafficControl"]
    assert "Remedies ask for TrafficControl" in summarize(fact)
    monitor.probes(40)
    monitor.probes(80)
    assert monitor.ready == "True"
    assert told(monitor) is None


def test_actions_are_the_sorted_union_of_all_remedies() -> None:
    monitor = monitor_of(remedy("b", actions=["z", "TrafficControl"]), remedy("a", actions=["a", "z"]))
    monitor.probes(0)
    assert told(monitor) == ["TrafficControl", "a", "z"]


@pytest.mark.parametrize(
    ("spec", "acts"),
    [
        ({}, True),
        ({"clusterAffinity": {}}, False),
        ({"clusterAffinity": {"clusterNames": ["m1"]}}, True),
        ({"clusterAffinity": {"clusterNames": ["m2"]}}, False),
        ({"decisionMatches": []}, False),
        ({"decisionMatches": [{}]}, False),
        (when("True"), True),
        (when("False", "NotEqual"), True),
        (when("True", "NotEqual"), False),
        (when("True", "NotEqual", "Absent"), False),
        (when("True", "Like"), False),
    ],
)
def test_remedy_acts_on_what_it_names(spec: dict[str, Any], acts: bool) -> None:
    monitor = monitor_of(remedy(**spec))
    monitor.probes(0)
    assert told(monitor) == (["TrafficControl"] if acts else None)


def test_edit_by_hand_is_corrected() -> None:
    monitor = monitor_of(remedy())
    monitor.probes(0)
    monitor.manifest["status"]["remedyActions"] = ["TrafficControl", "Own"]
    monitor.decides()
    assert told(monitor) == ["TrafficControl"]
    monitor.state.remedies.clear()
    monitor.decides()
    assert told(monitor) is None
    assert not monitor.decides().effects


def test_nothing_is_cleared_before_remedies_are_known() -> None:
    monitor = MonitorHarness("m1")
    monitor.manifest["status"] = {"remedyActions": ["TrafficControl"]}
    monitor.probes(0)
    assert told(monitor) == ["TrafficControl"]


def test_creation_alone_triggers_nothing() -> None:
    """given a cluster that never reported, when remedies exist, then only one that came after it acts."""
    monitor = monitor_of(remedy())
    monitor.manifest["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    monitor.decides()
    assert told(monitor) is None
    monitor.state.remedies["late"] = remedy("late", "2026-01-03T00:00:00Z", actions=["Late"])
    monitor.decides()
    assert told(monitor) is not None


def test_leaving_cluster_is_left_alone() -> None:
    monitor = monitor_of(remedy())
    monitor.manifest["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    monitor.probes(0)
    assert told(monitor) is None


def test_broken_remedy_is_told_and_stops_no_other() -> None:
    monitor = monitor_of(remedy("broken", decisionMatches=["x"]), remedy("odd", **when("True", "Like")), remedy("good"))
    monitor.probes(0)
    assert told(monitor) == ["TrafficControl"]
    told_of = [effect.note for effect in monitor.decides_all().effects if isinstance(effect, Announce)]
    notes = {note.key.name: note for note in told_of}
    assert sorted(notes) == ["broken", "odd"]
    assert "operator 'Like' never matches: it is one of Equal, NotEqual" in notes["odd"].message
    assert all(note.reason == "InvalidRemedy" for note in notes.values())


def test_refused_taints_are_not_written_again_before_they_change() -> None:
    """given taints that the control plane refused, when nothing else is asked for, then the cluster stays as it is."""
    monitor = MonitorHarness("m1")
    taint = {"key": "k", "effect": "PreferNoSchedule"}
    condition = {"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}
    monitor.state.taint_policies["p"] = {
        "metadata": {"name": "p"},
        "spec": {"taints": [taint], "addOnConditions": [condition]},
    }
    monitor.cluster.refused = named([taint])
    decision = monitor.probes(0)
    assert not [effect for effect in decision.effects if isinstance(effect, WriteSpec)]
    assert monitor.taints == []
    monitor.state.taint_policies["p"]["spec"]["taints"] = [{"key": "k", "effect": "NoSchedule"}]
    monitor.decides()
    assert monitor.taints == ["k"]
