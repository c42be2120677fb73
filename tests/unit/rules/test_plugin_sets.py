"""Which plugins a list turns on, and what each of the product's plugins does when it is off (reference 02 §2.1)."""

from typing import Any

import pytest

from schemas.manifest import Manifest
from services._rules.scheduling.decoding import binding_view
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
from tests.support.scheduling import DEPLOYMENT, index_of, member, spread

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


def decide(clusters: list[Manifest], without: str, running: dict[str, int] | None = None, **placement: Any) -> Decision:
    spec = {
        "resource": DEPLOYMENT,
        "replicas": 2,
        "placement": {"clusterAffinity": {"labelSelector": {"matchLabels": {"env": "prod"}}}, **placement},
        "clusters": [{"name": name, "replicas": count} for name, count in (running or {}).items()],
        "gracefulEvictionTasks": [{"fromCluster": "leaving"}],
    }
    options = SchedulingOptions(plugins=PluginSet(STANDARD - {without}))
    return schedule(index_of(*clusters), binding_view(spec), options=options)


PROD = {"labels": {"env": "prod"}}
ODD = [
    member("dev", metadata={"labels": {"env": "dev"}}),
    member("tainted", metadata=PROD, taints=[{"key": "k", "effect": "NoSchedule"}]),
    member("bare", metadata=PROD, apis=[]),
    member("leaving", metadata=PROD),
    member("good", metadata=PROD),
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
def test_disabled_filter_refuses_no_cluster(without: str, also: list[str]) -> None:
    assert sorted(item.name for item in decide(ODD, without).clusters) == sorted(["good", *also])


def test_the_spread_filter_can_be_off() -> None:
    constraints = spread(zone=(1, 1), cluster=(1, 1))
    assert decide([member("m1", metadata=PROD)], "none", spreadConstraints=constraints).error == "FitError"
    assert decide([member("m1", metadata=PROD)], "SpreadConstraint", spreadConstraints=constraints).error is None


def test_current_target_is_not_preferred_without_locality() -> None:
    clusters = [member(name, metadata=PROD) for name in ("m1", "m2", "m3")]
    one = spread(cluster=(1, 1))
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
    gone = member("gone", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    index = index_of(*ODD, gone)
    found = schedule(index, view, options=SchedulingOptions(plugins=PluginSet(frozenset())))
    assert len(found.clusters) == len(ODD)


def test_sets_of_plugins_do_not_share_remembered_outcomes() -> None:
    index = index_of(*ODD)
    view = binding_view({"resource": DEPLOYMENT, "replicas": 1})
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
