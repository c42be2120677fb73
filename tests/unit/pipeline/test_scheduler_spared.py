"""Who runs in a cluster that is described otherwise is left alone where deciding it anew could say nothing else."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged, ClusterRemoved
from schemas.events.eviction import EvictionFinished, EvictionRequested, EvictionTask
from schemas.events.placement import PlacementDecided
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
NAMES = {"clusterNames": ["m1", "m2", "m3"]}
LABELLED = {"labelSelector": {"matchLabels": {"a": "b"}}}
ONE = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]
GROUPS = [{"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2", "m3"]}]
PLACEMENTS: dict[str, Manifest] = {
    "named": {"clusterAffinity": NAMES},
    "labelled": {"clusterAffinity": LABELLED},
    "anywhere": {},
    "tolerant": {"clusterAffinity": NAMES, "clusterTolerations": [{"operator": "Exists"}]},
    "one": {"clusterAffinity": NAMES, "spreadConstraints": ONE},
    "groups": {"clusterAffinities": GROUPS},
}
WORKLOADS = {f"{name}-workload": {**placement} for name, placement in PLACEMENTS.items()}


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str) -> BindingRequested:
    """A request for what has no replicas, or for a workload of which every cluster gets all."""
    placed = {**PLACEMENTS, **WORKLOADS}[name]
    if name in WORKLOADS:
        needs = {"replicaRequirements": {"resourceRequest": {"cpu": "1"}}}
        return msgspec.structs.replace(binding(2, placed, **needs), key=key(name))
    return msgspec.structs.replace(binding(0, placed), key=key(name))


def member(name: str, labelled: bool, tainted: bool, served: bool, deleting: bool, cpu: int = 8) -> ClusterChanged:
    taints = [{"key": "k", "effect": "NoSchedule"}] if tainted else []
    fact = cluster(name, labels={"a": "b"} if labelled else {}, deleting=deleting, taints=taints)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(cpu), "pods": "1000"}}
    if not served:
        manifest["status"]["apiEnablements"] = []
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


def evicted(name: str, where: str, over: bool) -> Known:
    task = EvictionTask(
        from_cluster=where, reason="r", producer="p", purge_mode="Gracefully", created_at=NOW, removed=over
    )
    if over:
        return EvictionFinished(key=key(name), uid="u1", left=(where,))
    return EvictionRequested(key=key(name), uid="u1", tasks=(task,))


NAMED = st.sampled_from(sorted({**PLACEMENTS, **WORKLOADS}))
CLUSTERS = st.sampled_from(["m1", "m2", "m3"])
RARELY = st.sampled_from([False, False, False, True])
MEMBERS = st.builds(
    member, CLUSTERS, st.booleans(), st.booleans(), st.sampled_from([True, True, False]), RARELY, st.integers(0, 9)
)
STEPS = st.lists(
    st.one_of(
        MEMBERS,
        MEMBERS,
        st.builds(lambda name: ClusterRemoved(name=name, uid=f"uid-{name}"), CLUSTERS),
        st.builds(asked, NAMED),
        st.builds(evicted, NAMED, CLUSTERS, st.booleans()),
    ),
    max_size=25,
)


class World:
    """A scheduler's state in which everything that was marked was decided."""

    def __init__(self) -> None:
        self.state = SchedulerState()
        self._seq = 0

    def happens(self, event: Known) -> set[ObjectKey]:
        """Take in a fact; who is marked by it."""
        self._seq += 1
        event = msgspec.structs.replace(event, provenance=Provenance(as_of=self._seq - 1))
        return set(fold(self.state, self._seq, subject_of(event), event, NOW))

    def settle(self, dirty: set[ObjectKey]) -> None:
        """Decide until there is nothing to decide."""
        while dirty:
            name = dirty.pop()
            event = decide(self.state, name, NOW, "default-scheduler")
            if event is not None:
                dirty |= self.happens(event)

    def check(self, spared: set[ObjectKey]) -> None:
        """None of those who are placed and were not marked could be told anything else."""
        for name in spared:
            if not isinstance(self.state.objects[name].placed, PlacementDecided):
                continue
            event = decide(self.state, name, NOW, "default-scheduler")
            assert event is None, f"{name.name} was left alone, and would be decided {event}"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_nobody_is_left_alone_who_would_be_decided_otherwise(steps: list[Known]) -> None:
    world = World()
    for name in sorted(PLACEMENTS):
        world.settle(world.happens(asked(name)))
    for step in steps:
        known = world.state.clusters.by_name.get(step.name) if isinstance(step, ClusterChanged) else None
        dirty = world.happens(step)
        # That a kind is not served any more moves nobody (reference 02 §1.3).
        if known is not None and known.apis <= world.state.clusters.by_name[known.name].apis:
            world.check(set(world.state.objects) - dirty)
        world.settle(dirty)


def settled(*names: str) -> World:
    world = World()
    for name in ("m1", "m2"):
        world.happens(member(name, True, False, True, False))
    for name in names:
        world.settle(world.happens(asked(name)))
    return world


@pytest.mark.parametrize("name", ["named", "labelled", "anywhere", "tolerant", "named-workload"])
def test_a_taint_marks_nobody_who_runs_there(name: str) -> None:
    world = settled(name)
    assert [target.name for target in world.state.objects[key(name)].targets] == ["m1", "m2"]
    assert world.happens(member("m1", True, True, True, False)) == set()
    assert world.happens(member("m1", True, False, True, False)) == set()


@pytest.mark.parametrize("name", ["one", "groups"])
def test_where_clusters_are_chosen_between_a_taint_is_looked_at(name: str) -> None:
    assert settled(name).happens(member("m1", True, True, True, False)) == {key(name)}


def test_who_has_to_heed_where_others_run_is_looked_at() -> None:
    world = World()
    for name in ("m1", "m2"):
        world.happens(member(name, True, False, True, False))
    apart = {"workloadAntiAffinity": {"groupByLabelKey": "team"}}
    group = {"workloadAffinityGroups": {"antiAffinityGroup": "team=a"}}
    request = binding(0, {**PLACEMENTS["named"], "workloadAffinity": apart}, **group)
    world.settle(world.happens(msgspec.structs.replace(request, key=key("apart"))))
    assert world.happens(member("m1", True, True, True, False)) == {key("apart")}


def test_who_does_not_run_there_is_looked_at_when_a_taint_goes() -> None:
    world = World()
    world.happens(member("m1", True, False, True, False))
    world.happens(member("m2", True, True, True, False))
    world.settle(world.happens(asked("named")))
    assert [target.name for target in world.state.objects[key("named")].targets] == ["m1"]
    assert world.happens(member("m2", True, False, True, False)) == {key("named")}


def test_who_runs_there_is_looked_at_when_its_affinity_does_not_match_any_more() -> None:
    assert settled("labelled").happens(member("m1", False, False, True, False)) == {key("labelled")}
