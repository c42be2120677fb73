"""Probes and Cluster objects in, conditions, taints and facts out."""

from __future__ import annotations

from typing import Any

import msgspec

from schemas.agent import Expiry
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from services.cluster_monitor.decide import (
    AddFinalizer,
    ClusterDecision,
    DropFinalizer,
    WriteStatus,
)
from services.cluster_monitor.readiness import rfc3339
from tests.support.facts import NOW
from tests.support.monitor_harness import READY, MonitorHarness


def capacity(allocated: str) -> dict[str, Any]:
    return {**READY, "resourceSummary": {"allocatable": {"cpu": "100"}, "allocated": {"cpu": allocated}}}


def probed() -> MonitorHarness:
    """A cluster that is ready since its first probe."""
    made = MonitorHarness("m1")
    made.probes(0)
    return made


def test_new_cluster_is_tainted_until_it_is_ready() -> None:
    monitor = MonitorHarness("m1")
    monitor.manifest["metadata"]["finalizers"] = []
    verdict = monitor.decides()
    assert any(isinstance(effect, AddFinalizer) for effect in verdict.effects)
    assert monitor.taints == ["cluster.karmada.io/not-ready"]
    monitor.probes(0)
    assert monitor.ready == "True"
    assert monitor.taints == []


def test_deciding_a_cluster_again_changes_nothing() -> None:
    monitor = probed()
    monitor.decides()
    verdict = monitor.decides()
    assert not verdict.events
    assert not verdict.effects


def test_failure_is_published_only_when_it_lasts() -> None:
    monitor = probed()
    monitor.probes(10, online=False)
    assert monitor.ready == "True"
    monitor.probes(30, online=False)
    assert monitor.ready == "True"
    monitor.probes(41, online=False)
    assert monitor.ready == "False"
    assert monitor.taints == ["cluster.karmada.io/not-ready"]


def test_nothing_is_due_between_two_probes() -> None:
    """The window ends while a probe waits for an answer: it is the next probe that ends the matter."""
    monitor = probed()
    monitor.probes(10, online=False)
    verdict = monitor.decides(at=41)
    assert verdict == ClusterDecision()
    assert monitor.ready == "True"


def test_one_good_probe_restarts_the_window() -> None:
    monitor = probed()
    monitor.probes(10, online=False)
    monitor.probes(20)
    monitor.probes(30, online=False)
    monitor.probes(45, online=False)
    assert monitor.ready == "True"


def test_recovery_has_to_last_too() -> None:
    monitor = MonitorHarness("m1")
    monitor.probes(0, online=False)
    assert monitor.ready == "False"
    monitor.probes(10)
    assert monitor.ready == "False"
    monitor.probes(41)
    assert monitor.ready == "True"


def test_unreachable_cluster_keeps_its_status() -> None:
    monitor = probed()
    monitor.probes(1, online=False)
    monitor.probes(32, online=False)
    assert monitor.manifest["status"]["kubernetesVersion"] == "v1.31.4"


def test_emptied_cluster_has_no_allocated_resources() -> None:
    monitor = MonitorHarness("m1")
    monitor.probes(0, summary=capacity("30"))
    full = capacity("30")
    del full["resourceSummary"]["allocated"]
    monitor.probes(10, summary=full)
    assert "allocated" not in monitor.manifest["status"]["resourceSummary"]
    # A restart starts from the object alone: it must say what the last fact says.
    monitor.cluster.probe = None
    assert not monitor.decides(at=20).events


def test_small_changes_of_capacity_are_no_facts() -> None:
    monitor = MonitorHarness("m1")
    monitor.probes(0, summary=capacity("10"))
    monitor.decides()
    verdict = monitor.probes(10, summary=capacity("12"))
    assert any(isinstance(effect, WriteStatus) for effect in verdict.effects)
    assert not verdict.events
    verdict = monitor.probes(20, summary=capacity("30"))
    (event,) = verdict.events
    assert isinstance(event, ClusterChanged)
    summary = msgspec.json.decode(event.manifest)["status"]["resourceSummary"]
    assert summary["allocated"] == {"cpu": "30"}


def test_labels_and_taints_are_facts() -> None:
    monitor = probed()
    monitor.decides()
    monitor.manifest["metadata"]["labels"] = {"tier": "gold"}
    assert monitor.decides().events


def test_an_unreachable_cluster_says_where_and_why() -> None:
    monitor = MonitorHarness("m1")
    monitor.probes(0, online=False, cause="GET https://10.0.0.1:6443/readyz: connection refused")
    (ready,) = [item for item in monitor.manifest["status"]["conditions"] if item["type"] == "Ready"]
    assert ready["reason"] == "ClusterNotReachable"
    assert ready["message"] == "cluster is not reachable: GET https://10.0.0.1:6443/readyz: connection refused"


def fact_taints(decision: ClusterDecision) -> list[dict[str, Any]]:
    (event,) = decision.events
    assert isinstance(event, ClusterChanged)
    taints: list[dict[str, Any]] = msgspec.json.decode(event.manifest)["spec"]["taints"]
    return taints


def test_taint_without_a_time_counts_from_its_first_fact() -> None:
    monitor = probed()
    monitor.decides()
    monitor.manifest["spec"]["taints"] = [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoSchedule"}]
    evicts, repels = fact_taints(monitor.decides(at=5))
    assert (evicts["timeAdded"], "timeAdded" in repels) == (rfc3339(NOW + 5), False)
    assert not monitor.decides(at=60).events
    monitor.manifest["spec"]["taints"].append({"key": "l", "effect": "NoExecute"})
    first, _, second = fact_taints(monitor.decides(at=90))
    assert (first["timeAdded"], second["timeAdded"]) == (rfc3339(NOW + 5), rfc3339(NOW + 90))


def test_a_condition_may_lack_anything() -> None:
    monitor = probed()
    monitor.decides()
    monitor.manifest["status"]["conditions"] += [{"status": "True"}, {"type": "NetworkReady"}, {}]
    assert monitor.decides(at=1).events
    monitor.probes(10)
    assert monitor.ready == "True"
    assert not monitor.decides(at=11).events


def test_leaving_cluster_is_released_once_empty_or_unreachable() -> None:
    for online in (True, False):
        monitor = MonitorHarness("m1")
        monitor.probes(0, online=online)
        monitor.manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        verdict = monitor.decides()
        assert any(isinstance(event, ClusterChanged) and event.deleting for event in verdict.events)
        assert any(isinstance(effect, DropFinalizer) for effect in verdict.effects) is not online
        monitor.cluster.empty = True
        verdict = monitor.decides()
        if online:
            assert any(isinstance(effect, DropFinalizer) for effect in verdict.effects)


def test_removed_cluster_is_a_fact_after_a_complete_list() -> None:
    monitor = probed()
    monitor.cluster.manifest = None
    monitor.state.listed = False
    assert not monitor.decides().events
    monitor.state.listed = True
    (event,) = monitor.decides().events
    assert isinstance(event, ClusterRemoved)


def test_cluster_without_probes_is_unknown() -> None:
    monitor = probed()
    assert monitor.ready == "True"
    monitor.cluster.unprobed = True
    monitor.decides(at=200)
    assert monitor.ready == "Unknown"
    assert monitor.taints == ["cluster.karmada.io/unreachable"]
    monitor.cluster.unprobed = False
    monitor.probes(210)
    monitor.probes(250)
    assert monitor.ready == "True"
    assert monitor.taints == []


def test_expiring_credentials_are_a_condition_and_a_fact() -> None:
    monitor = probed()
    expiry = Expiry(at=NOW + 86_400, since=NOW - 300 * 86_400, what="the client certificate in Secret a/m1")
    verdict = monitor.probes(10, expiry=expiry)
    found = [c for c in monitor.manifest["status"]["conditions"] if c["type"] == "CredentialsExpiring"]
    assert [(c["status"], c["reason"]) for c in found] == [("True", "ExpiresSoon")]
    assert "the client certificate in Secret a/m1 expires at" in found[0]["message"]
    assert len(verdict.events) == 1
    assert not monitor.decides(at=10).events
