"""Which clusters should not be used for a Service, until when, and what stays because only they offer it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.endpoints import EndpointConditions, PortOfSlice, SliceEndpoint
from schemas.envelope import Provenance
from schemas.events.endpoints import EndpointsCollected
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.keys import ObjectKey
from services._rules.endpoints.health_gates import (
    GONE_AFTER,
    OPEN,
    Backing,
    Backings,
    ClusterHealth,
    Gate,
    Leaving,
    admitted,
    gate,
    leaving,
)
from services._rules.kubernetes.taints import Taint, Toleration

NOW = 1_700_000_000.0
ADDED = "2023-11-14T22:13:10Z"
"""Ten seconds before NOW."""
TAINT = Taint("maintenance", "NoExecute", time_added=ADDED)
HERE, AWAY = frozenset({"m1", "m2"}), frozenset({"m2"})
EVICTED = {"m1": Leaving("TaintUntolerated")}


def tolerating(seconds: int | None = None) -> Backing:
    toleration = Toleration("maintenance", "Exists", effect="NoExecute", toleration_seconds=seconds)
    return Backing("Deployment web", HERE, {}, (toleration,))


@pytest.mark.parametrize(
    ("health", "backings", "wanted"),
    [
        (ClusterHealth(), Backings(), OPEN),
        (ClusterHealth(leaving=True), Backings(), Gate("m1 is being removed")),
        (ClusterHealth(ready=False), Backings(), Gate("m1 is not ready")),
        (
            ClusterHealth(ready=False, why="ClusterNotReachable"),
            Backings(),
            Gate("m1 is not ready (ClusterNotReachable)"),
        ),
        (ClusterHealth(taints=(TAINT,)), Backings(), Gate("m1 is tainted maintenance:NoExecute")),
        (
            ClusterHealth(taints=(TAINT,)),
            Backings((Backing("Deployment web", HERE),)),
            Gate("m1 is tainted maintenance:NoExecute"),
        ),
        # Tolerated without end, by one of several, for a while, no longer, by the Service where it has no workload.
        (ClusterHealth(taints=(TAINT,)), Backings((tolerating(),)), OPEN),
        (ClusterHealth(taints=(TAINT,)), Backings((Backing("Job x", HERE), tolerating())), OPEN),
        (ClusterHealth(taints=(TAINT,)), Backings((tolerating(40),)), Gate(until=NOW + 30)),
        (ClusterHealth(taints=(TAINT,)), Backings((tolerating(10),)), Gate("m1 is tainted maintenance:NoExecute")),
        (ClusterHealth(taints=(TAINT,)), Backings((), (tolerating(),)), OPEN),
        (
            ClusterHealth(taints=(TAINT,)),
            Backings((Backing("Deployment web", HERE),), (tolerating(),)),
            Gate("m1 is tainted maintenance:NoExecute"),
        ),
        # One that runs elsewhere tolerates nothing here.
        (
            ClusterHealth(taints=(TAINT,)),
            Backings((Backing("Deployment web", AWAY, {}, tolerating().tolerations),)),
            Gate("m1 is tainted maintenance:NoExecute"),
        ),
        # Evicted, also beside one that was never there; but not beside one that stays.
        (
            ClusterHealth(),
            Backings((Backing("Deployment web", AWAY, EVICTED),)),
            Gate("Deployment web is being evicted from m1 (TaintUntolerated)"),
        ),
        (
            ClusterHealth(),
            Backings((Backing("Deployment other", AWAY), Backing("Deployment web", AWAY, EVICTED))),
            Gate("Deployment web is being evicted from m1 (TaintUntolerated)"),
        ),
        (
            ClusterHealth(),
            Backings((Backing("Deployment canary", HERE), Backing("Deployment web", AWAY, EVICTED))),
            OPEN,
        ),
        # It came back: the placement in force names the cluster again.
        (ClusterHealth(), Backings((Backing("Deployment web", HERE, EVICTED),)), OPEN),
        (
            ClusterHealth(),
            Backings((Backing("Deployment web", HERE),), (Backing("Service web", AWAY, EVICTED),)),
            Gate("Service web is being evicted from m1 (TaintUntolerated)"),
        ),
        # The eviction is over: its last pods go.
        (
            ClusterHealth(),
            Backings((Backing("Deployment web", AWAY, {"m1": Leaving("its grace is over", NOW + 5)}),)),
            Gate("Deployment web is being evicted from m1 (its grace is over)", NOW + 5),
        ),
        (ClusterHealth(), Backings((Backing("Deployment web", AWAY, {"m1": Leaving("", NOW)}),)), OPEN),
    ],
)
def test_a_gate_closes_for_its_reason(health: ClusterHealth, backings: Backings, wanted: Gate) -> None:
    assert gate("m1", health, backings, NOW) == wanted


def test_a_taint_of_an_unknown_moment_is_waited_for() -> None:
    taint = Taint("maintenance", "NoExecute", time_added="yesterday")
    assert gate("m1", ClusterHealth(taints=(taint,)), Backings((tolerating(5),)), NOW) == OPEN


def test_an_eviction_names_what_is_left_and_when_it_is_gone() -> None:
    key = ObjectKey("apps", "deployments", "default", "web")
    task = EvictionTask(from_cluster="m1", reason="ApplicationFailure", producer="p")
    at = Provenance(decided_at=NOW)
    under_way = EvictionRequested(key=key, uid="u", tasks=(task,), left=("m3",), provenance=at)
    ended = Leaving("its grace is over", NOW + GONE_AFTER)
    assert leaving(under_way) == {"m1": Leaving("ApplicationFailure"), "m3": ended}
    assert leaving(EvictionFinished(key=key, uid="u", left=("m1",), provenance=at)) == {"m1": ended}
    assert leaving(None) == {}


def offer(cluster: str, *ready: bool, name: str = "a", family: str = "IPv4", ports: str = "http") -> EndpointsCollected:
    """A slice with endpoints that are ready or not."""
    return EndpointsCollected(
        cluster=cluster,
        namespace="default",
        name=name,
        service="web",
        address_type=family,
        endpoints=tuple(
            SliceEndpoint((f"10.0.0.{number}",), EndpointConditions(ready=each)) for number, each in enumerate(ready)
        ),
        ports=tuple(PortOfSlice(port) for port in ports.split()),
    )


@pytest.mark.parametrize(
    ("offers", "gated", "left", "kept"),
    [
        ([offer("m1", True), offer("m2", True)], "m2", ["m1/a"], []),
        ([offer("m1", True), offer("m2", True)], "", ["m1/a", "m2/a"], []),
        # The only one, all of them, or the only one with a ready endpoint.
        ([offer("m2", True)], "m2", ["m2/a"], ["m2/a"]),
        ([offer("m1", True), offer("m2", True)], "m1 m2", ["m1/a", "m2/a"], ["m1/a", "m2/a"]),
        ([offer("m1", False), offer("m2", True)], "m2", ["m1/a", "m2/a"], ["m2/a"]),
        ([offer("m1"), offer("m2", False, True)], "m2", ["m1/a", "m2/a"], ["m2/a"]),
        # What is not ready anywhere is no loss.
        ([offer("m1", False), offer("m2", False)], "m2", ["m1/a"], []),
        # Another address type or port is another offer.
        (
            [offer("m1", True), offer("m2", True), offer("m2", True, name="six", family="IPv6")],
            "m2",
            ["m1/a", "m2/six"],
            ["m2/six"],
        ),
        ([offer("m1", True), offer("m2", True, ports="http admin")], "m2", ["m1/a", "m2/a"], ["m2/a"]),
        ([offer("m1", True, ports="http admin"), offer("m2", True)], "m2", ["m1/a"], []),
        ([offer("m1", True, ports=""), offer("m2", True, ports="")], "m2", ["m1/a"], []),
    ],
)
def test_a_gated_cluster_leaves_unless_only_it_offers(
    offers: list[EndpointsCollected], gated: str, left: list[str], kept: list[str]
) -> None:
    gates = {each.cluster: Gate("why" if each.cluster in gated.split() else "") for each in offers}
    found: dict[Any, EndpointsCollected] = admitted({(each.cluster, each.name): each for each in offers}, gates)
    assert sorted(f"{cluster}/{name}" for cluster, name in found) == left
    assert sorted(f"{cluster}/{name}" for (cluster, name), each in found.items() if each.kept == "why") == kept
