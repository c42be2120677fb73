"""ClusterTaintPolicies: what conditions of a cluster add to its taints and take from them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services._kit.base.settings import SettingsError, load
from services._rules.failover.cluster_taint_policies import apply_policies
from services.cluster_monitor.decide import FINALIZER, WriteSpec
from services.cluster_monitor.settings import MonitorSettings
from tests.support.monitor_harness import MonitorHarness

FAILED = {"key": "example/failed", "effect": "NoExecute"}
NOW = "2026-10-29T00:00:00Z"


def policy(name: str = "p", created: str = "2026-01-01T00:00:00Z", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": created}, "spec": {"taints": [FAILED], **spec}}


def when(status: str, operator: str = "In", kind: str = "Ready") -> list[dict[str, Any]]:
    return [{"conditionType": kind, "operator": operator, "statusValues": [status]}]


def cluster(ready: str | None, *taints: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    conditions = [] if ready is None else [{"type": "Ready", "status": ready}]
    return {
        "metadata": {"name": "m1", **metadata},
        "spec": {"syncMode": "Push", "taints": list(taints)},
        "status": {"conditions": conditions},
    }


def test_condition_adds_a_taint_and_another_removes_it() -> None:
    both = policy(addOnConditions=when("False"), removeOnConditions=when("True"))
    added = apply_policies(cluster("False"), [both], NOW)
    assert added == [{**FAILED, "timeAdded": NOW}]
    assert apply_policies(cluster("False", *added), [both], "later") == added
    assert apply_policies(cluster("True", *added), [both], "later") == []


def test_not_in_ignores_an_absent_condition() -> None:
    assert apply_policies(cluster(None), [policy(addOnConditions=when("True", "NotIn"))], NOW) == []
    assert apply_policies(cluster("False"), [policy(addOnConditions=when("True", "NotIn"))], NOW) != []


def test_later_policy_wins_and_removal_within_one() -> None:
    adds = policy("a", "2026-01-02T00:00:00Z", addOnConditions=when("False"))
    removes = policy("b", "2026-01-01T00:00:00Z", removeOnConditions=when("False"))
    assert apply_policies(cluster("False"), [adds, removes], NOW) != []
    younger = {**removes, "metadata": {"name": "b", "creationTimestamp": "2026-01-03T00:00:00Z"}}
    assert apply_policies(cluster("False"), [younger, adds], NOW) == []
    itself = policy(addOnConditions=when("False"), removeOnConditions=when("False"))
    assert apply_policies(cluster("False"), [itself], NOW) == []


def test_only_targeted_clusters_are_tainted() -> None:
    wanted = when("False")
    named = policy(addOnConditions=wanted, targetClusters={"clusterNames": ["m1"]})
    others = policy(addOnConditions=wanted, targetClusters={"clusterNames": ["m2"]})
    broken = policy(addOnConditions=wanted, targetClusters={"clusterNames": "m1"})
    assert [bool(apply_policies(cluster("False"), [each], NOW)) for each in (named, others, broken)] == [
        True,
        False,
        False,
    ]


def test_monitor_taints_by_policy() -> None:
    monitor = MonitorHarness("m1")
    monitor.state.taint_policies["p"] = policy(addOnConditions=when("False"), removeOnConditions=when("True"))
    verdict = monitor.probes(0, online=False)
    (write,) = [effect for effect in verdict.effects if isinstance(effect, WriteSpec)]
    assert [(taint["key"], taint["effect"]) for taint in write.taints] == [
        ("cluster.karmada.io/not-ready", "NoSchedule"),
        ("example/failed", "NoExecute"),
    ]
    fact: Any = verdict.events[0]
    assert msgspec.json.decode(fact.manifest)["spec"]["taints"] == write.taints


def test_monitor_adds_no_no_execute_without_policies() -> None:
    monitor = MonitorHarness("m1")
    monitor.cluster.manifest = cluster("False", uid="c1", finalizers=[FINALIZER])
    (write,) = [effect for effect in monitor.decides().effects if isinstance(effect, WriteSpec)]
    assert {taint["effect"] for taint in write.taints} == {"NoSchedule"}


def test_monitor_refuses_an_unknown_gate() -> None:
    with pytest.raises(SettingsError, match="FLEETLOG_FEATURE_GATES"):
        load(MonitorSettings, {"FLEETLOG_CONTROL_KUBECONFIG": "x", "FLEETLOG_FEATURE_GATES": "Nothing=true"})
