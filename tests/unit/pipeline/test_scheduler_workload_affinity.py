"""Workload affinity: groups run together or apart, decisions still being written included (reference 02 §8.3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._kit.base.settings import load
from services._rules.scheduling.scheduling_views import Peers
from services.scheduler.app import Scheduler
from services.scheduler.decide import decide_with_trace
from services.scheduler.decision_trace import explained
from services.scheduler.peers import PeerIndex
from services.scheduler.settings import SchedulerSettings
from tests.support.facts import NOW, ONE_CLUSTER, binding, cluster, evicted, key, only, released, targets
from tests.support.harness import Harness, running, scheduler_with

GATED = {"FLEETLOG_FEATURE_GATES": "WorkloadAffinity=true"}


def asked(
    name: str, placement: Manifest, together: str = "", apart: str = "", namespace: str = "default"
) -> BindingRequested:
    """The request to place a workload of these groups."""
    groups = {"affinityGroup": together, "antiAffinityGroup": apart}
    spec = {"workloadAffinityGroups": {field: group for field, group in groups.items() if group}}
    return binding(2, placement, name=name, namespace=namespace, **(spec if together or apart else {}))


class Gated(Harness):
    """A scheduler with its feature gates."""

    def __init__(self, *events: Known, **variables: str) -> None:
        self.rules = load(SchedulerSettings, {**GATED, **variables}).rules()
        super().__init__(scheduler_with(self.rules), *events)


def where(event: PlacementEvent | None) -> list[str]:
    return list(targets(event))


FLEET = (cluster("m1"), cluster("m2"), cluster("m3"))


def test_affinity_group_runs_where_all_its_workloads_run() -> None:
    scheduler = Gated(*FLEET, asked("a", only("m1", "m2"), "app=x"))
    scheduler.decides("a")
    scheduler.given(asked("b", only("m2", "m3"), "app=x"))
    assert where(scheduler.decides("b")) == ["m2"]
    scheduler.given(asked("c", {}, "app=x"))
    assert where(scheduler.decides("c")) == ["m2"]
    scheduler.given(asked("d", only("m1"), "app=x"))
    failed = scheduler.decides("d")
    assert isinstance(failed, PlacementFailed)
    assert failed.reason == "NoClusterFit"
    assert "1 ResourceBinding with the same affinity group does not target this cluster" in failed.message


def test_anti_affinity_group_is_kept_apart() -> None:
    scheduler = Gated(*FLEET, *(asked(name, ONE_CLUSTER, apart="app=x") for name in "abcd"))
    assert [where(scheduler.decides(name)) for name in "abc"] == [["m1"], ["m2"], ["m3"]]
    failed = scheduler.decides("d")
    assert isinstance(failed, PlacementFailed)
    assert "3 cluster already has workload with the same anti-affinity group" in failed.message


def test_an_empty_label_value_is_a_group() -> None:
    scheduler = Gated(*FLEET, asked("a", ONE_CLUSTER, apart="app="), asked("b", ONE_CLUSTER, apart="app="))
    assert where(scheduler.decides("a")) == ["m1"]
    assert where(scheduler.decides("b")) == ["m2"]


def test_groups_are_ignored_without_the_gate() -> None:
    scheduler = Gated(
        *FLEET,
        asked("a", ONE_CLUSTER, apart="app=x"),
        asked("b", ONE_CLUSTER, apart="app=x"),
        FLEETLOG_FEATURE_GATES="",
    )
    assert where(scheduler.decides("a")) == where(scheduler.decides("b")) == ["m1"]


def test_eviction_requeues_workloads_kept_apart() -> None:
    scheduler = Gated(*FLEET, asked("a", only("m1"), apart="app=x"), asked("b", only("m1"), apart="app=x"))
    scheduler.decides("a")
    assert isinstance(scheduler.decides("b"), PlacementFailed)
    assert key("b") in scheduler.given(evicted("m1", name="a"))
    assert where(scheduler.decides("b")) == ["m1"]


def test_released_workload_does_not_bind_its_group() -> None:
    scheduler = Gated(*FLEET, asked("a", only("m1"), "app=x"), asked("b", only("m2"), "app=x"))
    scheduler.decides("a")
    assert isinstance(scheduler.decides("b"), PlacementFailed)
    assert scheduler.given(released("a")) == {key("a"), key("b")}
    assert where(scheduler.decides("b")) == ["m2"]


def test_first_placement_marks_no_other_workload() -> None:
    scheduler = Gated(*FLEET, asked("a", only("nowhere"), apart="app=x"), asked("b", only("m1"), apart="app=x"))
    assert isinstance(scheduler.decides("a"), PlacementFailed)
    scheduler.decides("b")
    assert key("a") not in scheduler.marked


def test_affinity_counts_decisions_on_their_way() -> None:
    service = running(Scheduler(load(SchedulerSettings, GATED)))
    apart = (asked(name, ONE_CLUSTER, apart="app=x") for name in "ab")
    scheduler = Harness(service, *FLEET, *apart)
    assert [where(scheduler.decided(name)) for name in "ab"] == [["m1"], ["m2"]]
    # What never arrived does not count for who decides next.
    scheduler.state.peers.withdraw_all()
    assert where(scheduler.decided("b")) == ["m1"]


def test_explanation_names_the_anti_affinity_plugin() -> None:
    scheduler = Gated(*FLEET, asked("a", only("m1"), apart="app=x"), asked("b", ONE_CLUSTER, apart="app=x"))
    scheduler.decides("a")
    event, considered = decide_with_trace(scheduler.state, key("b"), NOW, "default-scheduler", rules=scheduler.rules)
    assert isinstance(event, PlacementDecided)
    assert considered is not None
    told = explained(event, considered)
    assert [(item.filter, item.names) for item in told.refused] == [("WorkloadAntiAffinity", ("m1",))]


def test_restart_knows_the_same_groups() -> None:
    scheduler = Gated(*FLEET, asked("a", {}, "app=x"), asked("b", {}, "app=x", "app=y"))
    scheduler.decides("a")
    scheduler.decides("b")
    scheduler.given(asked("b", only("m2"), "app=z", "app=y"), asked("a", only("m1"), "app=x"), cluster("m4"))
    scheduler.decides("a")
    scheduler.given(asked("c", ONE_CLUSTER, apart="app=y"), released("c"))
    fresh = scheduler.restarted().state
    assert fresh.peers == scheduler.state.peers
    assert [fresh.peers.of(key(name)) for name in "abc"] == [scheduler.state.peers.of(key(name)) for name in "abc"]
    assert scheduler.state.peers.of(key("b")) == Peers()


@pytest.mark.parametrize("groups", [None, [], "x", {"affinityGroup": 5}, {"antiAffinityGroup": None}, {}])
def test_invalid_groups_are_ignored(groups: Any) -> None:
    index = PeerIndex()
    assert index.follow(key("a"), {"workloadAffinityGroups": groups}, ["m1"]) == []
    assert index.of(key("a")) is None


NAMES = [key(name) for name in "abcd"] + [key("a", "other")]
CLUSTERS = st.frozensets(st.sampled_from(["m1", "m2", "m3"]))
GROUP = st.sampled_from(["", "x", "y"])


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["follow", "gone", "promise", "withdraw"]), st.sampled_from(NAMES), GROUP, GROUP, CLUSTERS
        ),
        max_size=25,
    )
)
def test_peer_index_equals_a_scan_of_all_workloads(
    steps: list[tuple[str, ObjectKey, str, str, frozenset[str]]],
) -> None:
    index = PeerIndex()
    groups: dict[ObjectKey, tuple[str, str]] = {}
    written: dict[ObjectKey, frozenset[str]] = {}
    promised: dict[ObjectKey, frozenset[str]] = {}
    for step, who, together, apart, clusters in steps:
        if step == "follow" and (together or apart):
            named = {"affinityGroup": together, "antiAffinityGroup": apart}
            index.follow(who, {"workloadAffinityGroups": named}, clusters)
            groups[who], written[who] = (together, apart), clusters
            promised.pop(who, None)
        elif step in ("follow", "gone"):
            index.follow(who, None if step == "gone" else {}, clusters)
            for known in (groups, written, promised):
                known.pop(who, None)
        elif step == "promise":
            index.promise(who, clusters)
            if who in groups:
                promised[who] = clusters
        else:
            index.withdraw(who)
            promised.pop(who, None)
    runs = {**written, **promised}
    for who in NAMES:
        found = index.of(who)
        if who not in groups:
            assert found is None
            continue
        others = [item for item in groups if item != who and item.namespace == who.namespace]
        same = [runs[item] for item in others if groups[who][0] and groups[item][0] == groups[who][0] and runs[item]]
        used = [runs[item] for item in others if groups[who][1] and groups[item][1] == groups[who][1]]
        common = (frozenset.intersection(*same),) if same else ()
        assert found == Peers(common, frozenset().union(*used))
