"""Which plugins a list turns on, and what each of the product's plugins does when it is off (reference 02 §2.1)."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view, cluster_view
from services._rules.scheduling.index import ClusterIndex
from services._rules.scheduling.plugin_set import (
    GATED,
    STANDARD,
    PluginError,
    PluginSet,
    builtin_names,
    enabled,
    registry,
)
from services._rules.scheduling.schedule import schedule
from services._rules.scheduling.scheduling_views import Decision, Peers, SchedulingOptions

KNOWN = frozenset(("Foo", "Bar", "Baz"))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("*", "Bar Baz Foo"),
        ("*,-Foo", "Bar Baz"),
        ("-Foo,*", "Bar Baz"),
        ("-Foo", ""),
        ("-Foo,Foo", "Foo"),
        ("Foo,-Foo", ""),
        ("Foo,-Foo,Foo", "Foo"),
        ("Foo,Bar", "Bar Foo"),
        ("Foo,Unknown,-Other", "Foo"),
        ("*,-Unknown", "Bar Baz Foo"),
        ("", ""),
    ],
)
def test_a_list_is_walked_in_its_order(wanted: str, found: str) -> None:
    assert sorted(enabled(KNOWN, wanted.split(","))) == found.split()


def test_two_plugins_of_one_name_are_refused() -> None:
    assert registry(STANDARD, ["Mine"]) == STANDARD | {"Mine"}
    with pytest.raises(PluginError, match=r"^a plugin named TaintToleration already exists$"):
        registry(STANDARD, ["TaintToleration"])
    with pytest.raises(PluginError, match=r"^a plugin named Mine already exists$"):
        registry(STANDARD, ["Mine", "Mine"])


def test_workload_affinity_is_known_only_with_its_gate() -> None:
    assert builtin_names({"WorkloadAffinity": False}) == STANDARD
    assert builtin_names({"WorkloadAffinity": True}) == STANDARD | GATED


def cluster(name: str, **parts: Any) -> Manifest:
    apis = [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment"}]}]
    return {
        "metadata": {"name": name, "labels": {"env": parts.get("env", "prod")}},
        "spec": {"region": "r1", "taints": parts.get("taints", [])},
        "status": {"apiEnablements": parts.get("apis", apis), "resourceSummary": {"allocatable": {"pods": 10}}},
    }


def decide(clusters: list[Manifest], without: str, running: dict[str, int] | None = None, **placement: Any) -> Decision:
    spec = {
        "resource": {"apiVersion": "apps/v1", "kind": "Deployment"},
        "replicas": 2,
        "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in (running or {}).items()],
        "gracefulEvictionTasks": [{"fromCluster": "leaving"}],
    }
    options = SchedulingOptions(plugins=PluginSet(STANDARD - {without}))
    return schedule(ClusterIndex(cluster_view(item) for item in clusters), binding_view(spec), options=options)


ODD = [
    cluster("dev", env="dev"),
    cluster("tainted", taints=[{"key": "k", "effect": "NoSchedule"}]),
    cluster("bare", apis=[]),
    cluster("leaving"),
    cluster("good"),
]


@pytest.mark.parametrize(
    ("without", "also"),
    [
        ("none", []),
        ("ClusterAffinity", ["dev"]),
        ("TaintToleration", ["tainted"]),
        ("APIEnablement", ["bare"]),
        ("ClusterEviction", ["leaving"]),
    ],
)
def test_a_filter_that_is_off_refuses_nobody(without: str, also: list[str]) -> None:
    assert sorted(item.name for item in decide(ODD, without).clusters) == sorted(["good", *also])


def test_the_spread_filter_can_be_off() -> None:
    constraints = [
        {"spreadByField": "zone", "minGroups": 1, "maxGroups": 1},
        {"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1},
    ]
    assert decide([cluster("m1")], "none", spreadConstraints=constraints).error == "FitError"
    assert decide([cluster("m1")], "SpreadConstraint", spreadConstraints=constraints).error is None


def test_without_locality_a_cluster_that_runs_the_binding_is_not_preferred() -> None:
    clusters = [cluster("m1"), cluster("m2"), cluster("m3")]
    one = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
    running = {"m3": 0}
    assert [item.name for item in decide(clusters, "none", running, spreadConstraints=one).clusters] == ["m3"]
    assert [item.name for item in decide(clusters, "ClusterLocality", running, spreadConstraints=one).clusters] == [
        "m1"
    ]


def test_without_any_plugin_all_live_clusters_pass() -> None:
    view = binding_view(
        {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap"},
            "placement": {"clusterAffinity": {"clusterNames": ["x"]}},
        }
    )
    gone = cluster("gone")
    gone["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    index = ClusterIndex(cluster_view(item) for item in [*ODD, gone])
    found = schedule(index, view, options=SchedulingOptions(plugins=PluginSet(frozenset())))
    assert len(found.clusters) == len(ODD)


def test_sets_of_plugins_do_not_share_remembered_outcomes() -> None:
    index = ClusterIndex(cluster_view(item) for item in ODD)
    view = binding_view({"resource": {"apiVersion": "apps/v1", "kind": "Deployment"}, "replicas": 1})
    counts = {
        names: len(schedule(index, view, options=SchedulingOptions(plugins=PluginSet(names))).clusters)
        for names in (STANDARD, STANDARD - {"TaintToleration"}, frozenset[str](), STANDARD)
    }
    assert list(counts.values()) == [3, 4, 5]


def test_either_kind_of_peers_can_be_switched_off() -> None:
    peers = Peers((frozenset({"m1"}),), frozenset({"m2"}))
    assert PluginSet(STANDARD | GATED).heeded(peers) == peers
    assert PluginSet(STANDARD | {"WorkloadAffinity"}).heeded(peers) == Peers((frozenset({"m1"}),))
    assert PluginSet(STANDARD | {"WorkloadAntiAffinity"}).heeded(peers) == Peers((), frozenset({"m2"}))
    assert PluginSet(STANDARD).heeded(peers) is None
    assert PluginSet(STANDARD | GATED).heeded(None) is None
