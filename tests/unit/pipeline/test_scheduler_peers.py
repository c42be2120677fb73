"""Workload affinity: groups run together or apart, decisions still being written included (reference 02 §8.3)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.eviction import EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided, PlacementEvent, PlacementFailed
from schemas.keys import ObjectKey
from services._kit.base.settings import load
from services._rules.scheduling.scheduling_views import Peers
from services.scheduler.app import Scheduler
from services.scheduler.decide import Rules, decide_with_trace
from services.scheduler.decision_trace import explained
from services.scheduler.peers import PeerIndex
from services.scheduler.settings import SchedulerSettings
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import binding, cluster

NOW = 1_793_232_000.0
GATED = {"FLEETLOG_FEATURE_GATES": "WorkloadAffinity=true"}
ANYWHERE: dict[str, Any] = {}
ONE = {"spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]}


def only(*names: str) -> dict[str, Any]:
    return {"clusterAffinity": {"clusterNames": list(names)}}


def key(name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey("apps", "deployments", namespace, name)


def asked(
    name: str,
    placement: dict[str, Any],
    together: str = "",
    apart: str = "",
    namespace: str = "default",
) -> BindingRequested:
    """The request to place a workload of these groups."""
    groups = {"affinityGroup": together, "antiAffinityGroup": apart}
    spec = {"workloadAffinityGroups": {field: group for field, group in groups.items() if group}}
    made = binding(2, placement, **(spec if together or apart else {}))
    return msgspec.structs.replace(made, key=key(name, namespace))


class World:
    """A scheduler with its gates, at the end of a log."""

    def __init__(self, *events: Known, **variables: str) -> None:
        self.rules: Rules = load(SchedulerSettings, {**GATED, **variables}).rules()
        self.state = SchedulerState()
        self.seq = 0
        self.dirty: set[ObjectKey] = set()
        self.log: list[tuple[int, Known]] = []
        self.given(*events)

    def given(self, *events: Known) -> None:
        for event in events:
            self.seq += 1
            self.log.append((self.seq, event))
            self.dirty = set(fold(self.state, self.seq, subject_of(event), event))

    def decides(self, name: str, namespace: str = "default") -> PlacementEvent | None:
        event, _ = decide_with_trace(self.state, key(name, namespace), NOW, "default-scheduler", rules=self.rules)
        if event is not None:
            event = msgspec.structs.replace(event, provenance=Provenance(as_of=self.seq))
            self.given(event)
        return event


def where(event: PlacementEvent | None) -> list[str]:
    assert isinstance(event, PlacementDecided), event
    return [target.name for target in event.clusters]


FLEET = (cluster("m1"), cluster("m2"), cluster("m3"))


def test_the_first_of_a_group_is_free_and_the_others_follow() -> None:
    world = World(*FLEET, asked("a", only("m2", "m3"), "app=x"), asked("b", ANYWHERE, "app=x"))
    assert where(world.decides("a")) == ["m2", "m3"]
    assert where(world.decides("b")) == ["m2", "m3"]


def test_all_placed_members_have_to_agree() -> None:
    world = World(*FLEET, asked("a", only("m1", "m2"), "app=x"))
    world.decides("a")
    world.given(asked("b", only("m2", "m3"), "app=x"))
    assert where(world.decides("b")) == ["m2"]
    world.given(asked("c", ANYWHERE, "app=x"))
    assert where(world.decides("c")) == ["m2"]
    world.given(asked("d", only("m1"), "app=x"))
    failed = world.decides("d")
    assert isinstance(failed, PlacementFailed)
    assert failed.reason == "NoClusterFit"
    assert "1 ResourceBinding with the same affinity group does not target this cluster" in failed.message


def test_a_member_that_could_not_be_placed_binds_nobody() -> None:
    world = World(*FLEET, asked("a", only("nowhere"), "app=x"), asked("b", ANYWHERE, "app=x"))
    assert isinstance(world.decides("a"), PlacementFailed)
    assert where(world.decides("b")) == ["m1", "m2", "m3"]


def test_members_of_an_anti_affinity_group_keep_apart() -> None:
    world = World(*FLEET, *(asked(name, ONE, apart="app=x") for name in "abcd"))
    assert [where(world.decides(name)) for name in "abc"] == [["m1"], ["m2"], ["m3"]]
    failed = world.decides("d")
    assert isinstance(failed, PlacementFailed)
    assert "3 cluster already has workload with the same anti-affinity group" in failed.message


def test_groups_of_other_namespaces_kinds_of_group_and_values_do_not_matter() -> None:
    world = World(
        *FLEET,
        asked("a", only("m1"), apart="app=x"),
        asked("a", only("m1"), apart="app=x", namespace="other"),
        asked("b", only("m1"), apart="app=y"),
        asked("c", only("m1"), together="app=x"),
    )
    for name, namespace in (("a", "default"), ("a", "other"), ("b", "default"), ("c", "default")):
        assert where(world.decides(name, namespace)) == ["m1"]


def test_an_empty_label_value_is_a_group() -> None:
    world = World(*FLEET, asked("a", ONE, apart="app="), asked("b", ONE, apart="app="))
    assert where(world.decides("a")) == ["m1"]
    assert where(world.decides("b")) == ["m2"]


def test_without_the_gate_groups_are_ignored() -> None:
    world = World(*FLEET, asked("a", ONE, apart="app=x"), asked("b", ONE, apart="app=x"), FLEETLOG_FEATURE_GATES="")
    assert where(world.decides("a")) == where(world.decides("b")) == ["m1"]


def test_either_plugin_can_be_turned_off_alone() -> None:
    facts = (*FLEET, asked("a", ONE, "app=x", "app=y"), asked("b", only("m1"), "app=x", "app=y"))
    apart = World(*facts, FLEETLOG_PLUGINS="*,-WorkloadAntiAffinity")
    apart.decides("a")
    assert where(apart.decides("b")) == ["m1"]
    both = World(*facts)
    both.decides("a")
    assert isinstance(both.decides("b"), PlacementFailed)


def test_where_it_runs_already_a_workload_stays() -> None:
    world = World(*FLEET, asked("a", only("m1")), asked("b", only("m1"), apart="app=x"))
    world.decides("a")
    world.decides("b")
    # Only now it becomes a member of the group, and only now it is asked to spread.
    world.given(asked("a", only("m1", "m2"), apart="app=x"))
    assert where(world.decides("a")) == ["m1", "m2"]


def test_a_member_that_leaves_a_cluster_makes_room_for_one_that_waits() -> None:
    world = World(*FLEET, asked("a", only("m1"), apart="app=x"), asked("b", only("m1"), apart="app=x"))
    world.decides("a")
    assert isinstance(world.decides("b"), PlacementFailed)
    world.given(
        EvictionRequested(key=key("a"), uid="u1", tasks=(EvictionTask(from_cluster="m1", reason="x", producer="y"),))
    )
    assert key("b") in world.dirty
    assert where(world.decides("b")) == ["m1"]


def test_a_member_that_is_gone_binds_nobody_any_more() -> None:
    world = World(*FLEET, asked("a", only("m1"), "app=x"), asked("b", only("m2"), "app=x"))
    world.decides("a")
    assert isinstance(world.decides("b"), PlacementFailed)
    world.given(BindingReleased(key=key("a"), uid="u1"))
    assert world.dirty == {key("a"), key("b")}
    assert where(world.decides("b")) == ["m2"]


def test_a_first_placement_wakes_nobody() -> None:
    world = World(*FLEET, asked("a", only("nowhere"), apart="app=x"), asked("b", only("m1"), apart="app=x"))
    assert isinstance(world.decides("a"), PlacementFailed)
    world.decides("b")
    assert key("a") not in world.dirty


def test_a_decision_counts_before_it_is_written() -> None:
    scheduler = Scheduler(load(SchedulerSettings, GATED))
    state = scheduler.new_state()
    for seq, event in enumerate((*FLEET, asked("a", ONE, apart="app=x"), asked("b", ONE, apart="app=x")), 1):
        fold(state, seq, subject_of(event), event)
    first = scheduler.decide(state, key("a"), NOW).events[0]
    second = scheduler.decide(state, key("b"), NOW).events[0]
    assert isinstance(first, PlacementDecided)
    assert isinstance(second, PlacementDecided)
    assert where(first) == ["m1"]
    assert where(second) == ["m2"]
    # What never arrived does not count for who decides next.
    state.peers.withdraw_all()
    again = scheduler.decide(state, key("b"), NOW).events[0]
    assert isinstance(again, PlacementDecided)
    assert where(again) == ["m1"]


def test_an_explanation_names_the_plugin_that_kept_a_workload_away() -> None:
    world = World(*FLEET, asked("a", only("m1"), apart="app=x"), asked("b", ONE, apart="app=x"))
    world.decides("a")
    event, considered = decide_with_trace(world.state, key("b"), NOW, "default-scheduler", rules=world.rules)
    assert isinstance(event, PlacementDecided)
    assert considered is not None
    told = explained(event, considered)
    assert [(item.filter, item.names) for item in told.refused] == [("WorkloadAntiAffinity", ("m1",))]


def test_a_fresh_start_knows_the_same_peers() -> None:
    world = World(*FLEET, asked("a", ANYWHERE, "app=x"), asked("b", ANYWHERE, "app=x", "app=y"))
    world.decides("a")
    world.decides("b")
    world.given(asked("b", only("m2"), "app=z", "app=y"), asked("a", only("m1"), "app=x"), cluster("m4"))
    world.decides("a")
    world.given(asked("c", ONE, apart="app=y"), BindingReleased(key=key("c"), uid="u1"))
    # What counts after a start is the last fact of every subject, in the order of the log.
    last: dict[str, tuple[int, Known]] = {subject_of(event): (seq, event) for seq, event in world.log}
    fresh = SchedulerState()
    for subject, (seq, event) in sorted(last.items(), key=lambda item: item[1][0]):
        fold(fresh, seq, subject, event)
    assert fresh.peers == world.state.peers
    assert [fresh.peers.of(key(name)) for name in "abc"] == [world.state.peers.of(key(name)) for name in "abc"]
    assert world.state.peers.of(key("b")) == Peers()


@pytest.mark.parametrize("groups", [None, [], "x", {"affinityGroup": 5}, {"antiAffinityGroup": None}, {}])
def test_groups_that_are_none_are_ignored(groups: Any) -> None:
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
def test_the_index_says_what_a_look_at_all_workloads_would(
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
