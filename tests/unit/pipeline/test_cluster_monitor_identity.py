"""Clusters are removed when their objects are; who answers at a member's address is compared with who joined."""

from __future__ import annotations

from msgspec.structs import replace

from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.control_plane import AbsenceHeld, AbsenceReleased
from services.cluster_monitor.decide import (
    Announce,
    ClusterDecision,
    WriteIdentity,
    WriteSpec,
)
from services.cluster_monitor.member_identity import is_another
from services.cluster_monitor.state import Probe
from tests.support.facts import NOW
from tests.support.monitor_harness import MonitorHarness, cluster_object

HEALTHY = Probe(at=NOW, online=True, healthy=True, summary={"kubernetesVersion": "v1.31"}, identity="k1")


def changed(decision: ClusterDecision) -> ClusterChanged:
    return next(event for event in decision.events if isinstance(event, ClusterChanged))


def test_all_clusters_missing_are_held_until_confirmed() -> None:
    monitor = MonitorHarness("m1", "m2", identity="k1")
    monitor.lists()
    assert not any(isinstance(event, ClusterRemoved) for event in monitor.decides().events)
    held = monitor.decides_all().events[0]
    assert isinstance(held, AbsenceHeld)
    assert held.missing == ("m1", "m2")
    monitor.confirms("clusters", monitor.seq, "ours")
    (removed,) = monitor.decides().events
    assert isinstance(removed, ClusterRemoved)
    assert removed.reason.startswith("missing from the control plane, confirmed by anna")


def test_one_cluster_missing_from_a_list_is_removed() -> None:
    monitor = MonitorHarness("m1", "m2", identity="k1")
    monitor.lists("m2")
    (removed,) = monitor.decides().events
    assert removed == ClusterRemoved(
        name="m1", uid="uid-m1", reason="missing from a complete list of the control plane"
    )


def test_removal_seen_by_the_watch_is_a_fact() -> None:
    monitor = MonitorHarness("m1", identity="k1")
    monitor.state.told("m1", there=False)
    monitor.cluster.manifest = None
    (removed,) = monitor.decides().events
    assert isinstance(removed, ClusterRemoved)
    assert removed.reason == "deleted from the control plane"


def test_other_identity_at_the_address_is_not_ready_at_once() -> None:
    monitor = MonitorHarness("m1", identity="k1")
    monitor.cluster.probe = replace(HEALTHY, identity="k2")
    verdict = monitor.decides()
    fact = changed(verdict)
    assert (fact.identity, fact.stranger) == ("k1", "k2")
    assert is_another(monitor.cluster)
    held = next(event for event in verdict.events if isinstance(event, AbsenceHeld))
    assert (held.scope, held.identity, held.expected) == ("member/m1", "k2", "k1")
    assert any(isinstance(effect, Announce) for effect in verdict.effects)
    assert any(isinstance(effect, WriteSpec) for effect in verdict.effects)
    assert b'"ClusterIdentityChanged"' in bytes(fact.manifest)
    # Out of reach is no proof that it is the member again.
    monitor.cluster.probe = Probe(at=NOW)
    again = [event for event in monitor.decides().events if isinstance(event, ClusterChanged)]
    assert all(event.stranger == "k2" for event in again)
    assert is_another(monitor.cluster)
    monitor.cluster.probe = HEALTHY
    assert not is_another(monitor.cluster)
    verdict = monitor.decides()
    fact = changed(verdict)
    assert fact.stranger == ""
    assert any(isinstance(event, AbsenceReleased) for event in verdict.events)


def test_confirmed_other_identity_becomes_the_member() -> None:
    monitor = MonitorHarness("m1", identity="k1")
    monitor.cluster.probe = replace(HEALTHY, identity="k2")
    monitor.decides()
    monitor.confirms("member/m1", monitor.cluster.held_at, "k2")
    verdict = monitor.decides()
    assert WriteIdentity("m1", "", "k2") in verdict.effects
    fact = changed(verdict)
    assert (fact.identity, fact.stranger) == ("k2", "")


def test_first_identity_seen_counts_without_spec_id() -> None:
    monitor = MonitorHarness("m1", identity="k1")
    monitor.cluster.manifest = cluster_object("m1")
    monitor.cluster.fact = None
    monitor.cluster.probe = HEALTHY
    fact = changed(monitor.decides())
    assert fact.identity == "k1"
    monitor.cluster.probe = replace(HEALTHY, identity="k2")
    fact = changed(monitor.decides())
    assert (fact.identity, fact.stranger) == ("k1", "k2")
