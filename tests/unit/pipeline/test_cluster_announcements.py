"""Kubernetes Events on Clusters: readiness with its cause, taints by whoever set them, the execution namespace."""

from __future__ import annotations

from services._rules.kubernetes.event_objects import Note
from services.cluster_monitor.cluster_announcements import not_tainted, space
from services.cluster_monitor.decide import ClusterDecision, WriteSpec, WriteStatus
from tests.support.monitor_harness import MonitorHarness


def told(decision: ClusterDecision) -> list[Note]:
    return [note for effect in decision.effects if isinstance(effect, WriteSpec | WriteStatus) for note in effect.notes]


def test_lost_cluster_says_endpoint_and_cause() -> None:
    monitor = MonitorHarness("m1")
    (ready,) = told(monitor.probes(0))
    assert (ready.reason, ready.component, ready.warning) == ("ClusterReady", "cluster-status-controller", False)
    assert (ready.kind, ready.key.name, ready.key.namespace, ready.uid) == ("Cluster", "m1", "", "uid-m1")
    why = "GET https://10.0.0.1:6443/readyz: connection refused"
    assert told(monitor.probes(10, online=False, cause=why)) == []
    notes = told(monitor.probes(60, online=False, cause=why))
    assert [(note.reason, note.warning) for note in notes] == [
        ("ClusterNotReachable", True),
        ("TaintClusterSucceed", False),
    ]
    assert notes[0].message == f"cluster is not reachable: {why}"
    assert notes[1].message == "Taint cluster(m1) succeed: added cluster.karmada.io/not-ready:NoSchedule."
    assert told(monitor.probes(70, online=False, cause=why)) == []


def test_taint_policies_tell_of_their_own_taints() -> None:
    monitor = MonitorHarness("m1")
    monitor.probes(0)
    monitor.state.taint_policies["p"] = {
        "metadata": {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {
            "addOnConditions": [{"conditionType": "Ready", "operator": "In", "statusValues": ["True"]}],
            "taints": [{"key": "example/busy", "value": "yes", "effect": "NoExecute"}],
        },
    }
    (note,) = told(monitor.probes(10))
    assert (note.reason, note.component) == ("TaintClusterSucceed", "cluster-taint-policy-controller")
    assert note.message == "Taint cluster(m1) succeed: added example/busy=yes:NoExecute."


def test_execution_space_and_refused_taints_are_told() -> None:
    created, failed = space("m1", "u", created=True), space("m1", "u", created=False, why="no")
    assert (created.reason, created.warning) == ("CreateExecutionSpaceSucceed", False)
    assert created.message == "Create execution space(karmada-es-m1) for cluster(m1) succeed."
    assert (failed.reason, failed.warning) == ("RemoveExecutionSpaceFailed", True)
    assert not_tainted("m1", "u", "no").reason == "TaintClusterFailed"
