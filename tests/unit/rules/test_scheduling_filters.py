"""Filters: taints, affinity, eviction, served APIs and peers decide which clusters an object may go to."""

from typing import Any

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, Peers, Status
from tests.support.scheduling import DEPLOYMENT, DUPLICATED, index_of, member, replicas_of

TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}
M1, M2, M3 = member("m1"), member("m2"), member("m3")
TAINTED = member("m1", taints=[TAINT])


def decide(
    clusters: list[Manifest],
    running: dict[str, int] | None = None,
    peers: Peers | None = None,
    evicting: str = "",
    observed: str = "",
    **placement: Any,
) -> Decision:
    """Schedule one replica to each of these clusters that passes all filters."""
    spec = {
        "resource": DEPLOYMENT,
        "replicas": 1,
        "placement": {"replicaScheduling": DUPLICATED, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in (running or {}).items()],
        "gracefulEvictionTasks": [{"fromCluster": name} for name in evicting.split()],
    }
    return schedule(index_of(*clusters), binding_view(spec), Status(observed), peers=peers)


def test_current_target_bypasses_taints_and_missing_apis() -> None:
    clusters = [TAINTED, member("m2", apis=[]), M3]
    assert replicas_of(decide(clusters)) == {"m3": 1}
    assert replicas_of(decide(clusters, {"m1": 1, "m2": 1})) == {"m1": 1, "m2": 1, "m3": 1}


def test_current_target_bypasses_no_affinity_or_eviction() -> None:
    clusters = [M1, M2]
    affinity = {"clusterNames": ["m2"]}
    assert replicas_of(decide(clusters, {"m1": 1}, clusterAffinity=affinity)) == {"m2": 1}
    assert replicas_of(decide(clusters, {"m1": 1}, evicting="m1")) == {"m2": 1}


def test_fit_error_counts_reasons_of_filters() -> None:
    clusters = [
        TAINTED,
        member("m2", taints=[TAINT]),
        member("m3", apis=[]),
        member("m4", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    decision = decide(clusters)
    assert decision.error == "FitError"
    assert decision.message == (
        "0/4 clusters are available: 1 cluster(s) did not have the API resource,"
        " 2 cluster(s) had untolerated taint {k=v:NoSchedule}."
    )
    assert decide([]).message == "0/0 clusters are available: no cluster exists."


def test_tolerated_and_advisory_taints_pass() -> None:
    advice = member("m2", taints=[{**TAINT, "effect": "PreferNoSchedule"}])
    clusters = [TAINTED, advice]
    assert replicas_of(decide(clusters)) == {"m2": 1}
    tolerations = [{"key": "k", "operator": "Exists"}]
    assert replicas_of(decide(clusters, clusterTolerations=tolerations)) == {"m1": 1, "m2": 1}


def test_peers_keep_workloads_together_and_apart() -> None:
    clusters = [M1, M2, M3]
    together = Peers(together=(frozenset({"m1", "m2"}), frozenset({"m2", "m3"})))
    assert replicas_of(decide(clusters, peers=together)) == {"m2": 1}
    apart = Peers(apart=frozenset({"m2"}))
    assert replicas_of(decide(clusters, peers=apart)) == {"m1": 1, "m3": 1}
    assert replicas_of(decide(clusters, {"m2": 1}, peers=apart)) == {"m1": 1, "m2": 1, "m3": 1}


def test_observed_affinity_term_selects_clusters() -> None:
    clusters = [M1, M2]
    terms = [{"affinityName": "a", "clusterNames": ["m1"]}, {"affinityName": "b", "clusterNames": ["m2"]}]
    assert replicas_of(decide(clusters, observed="b", clusterAffinities=terms)) == {"m2": 1}
    assert replicas_of(decide(clusters, clusterAffinities=terms)) == {"m1": 1, "m2": 1}
