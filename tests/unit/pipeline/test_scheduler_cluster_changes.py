"""Who runs in a cluster that is described otherwise is left alone where deciding it anew could say nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.eviction import EvictionFinished
from schemas.events.placement import PlacementDecided
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from tests.support.facts import NOW, ONE_CLUSTER, UNSCHEDULABLE, binding, cpus, evicted, key, member, removed
from tests.support.harness import SCHEDULER, Harness, seen_at

NAMES = {"clusterNames": ["m1", "m2", "m3"]}
LABELLED = {"labelSelector": {"matchLabels": {"a": "b"}}}
GROUPS = [{"affinityName": "first", "clusterNames": ["m1"]}, {"affinityName": "second", "clusterNames": ["m2", "m3"]}]
PLACEMENTS: dict[str, Manifest] = {
    "named": {"clusterAffinity": NAMES},
    "labelled": {"clusterAffinity": LABELLED},
    "anywhere": {},
    "tolerant": {"clusterAffinity": NAMES, "clusterTolerations": [{"operator": "Exists"}]},
    "one": {"clusterAffinity": NAMES, **ONE_CLUSTER},
    "groups": {"clusterAffinities": GROUPS},
}
WORKLOADS = {f"{name}-workload": {**placement} for name, placement in PLACEMENTS.items()}


def asked(name: str) -> BindingRequested:
    """A request for what has no replicas, or for a workload of which every cluster gets all."""
    placed = {**PLACEMENTS, **WORKLOADS}[name]
    if name in WORKLOADS:
        return binding(2, placed, name=name, **cpus())
    return binding(0, placed, name=name)


def described(name: str, labelled: bool, tainted: bool, served: bool, deleting: bool, cpu: int = 8) -> ClusterChanged:
    taints = UNSCHEDULABLE if tainted else []
    return member(name, cpu, serves=served, labels={"a": "b"} if labelled else {}, deleting=deleting, taints=taints)


def leaves(name: str, where: str, over: bool) -> Known:
    if over:
        return EvictionFinished(key=key(name), uid="u1", left=(where,))
    return evicted(where, name=name, created_at=NOW)


NAMED = st.sampled_from(sorted({**PLACEMENTS, **WORKLOADS}))
CLUSTERS = st.sampled_from(["m1", "m2", "m3"])
RARELY = st.sampled_from([False, False, False, True])
MEMBERS = st.builds(
    described, CLUSTERS, st.booleans(), st.booleans(), st.sampled_from([True, True, False]), RARELY, st.integers(0, 9)
)
STEPS = st.lists(
    st.one_of(
        MEMBERS,
        MEMBERS,
        st.builds(removed, CLUSTERS),
        st.builds(asked, NAMED),
        st.builds(leaves, NAMED, CLUSTERS, st.booleans()),
    ),
    max_size=25,
)


class Settled(Harness):
    """A scheduler that decides everything that becomes dirty."""

    def __init__(self, *events: Known) -> None:
        super().__init__(SCHEDULER)
        for event in events:
            self.settle(self.given(event))

    def given(self, *events: Known) -> set[ObjectKey]:
        """Fold events as decided in view of all before them."""
        return super().given(*(seen_at(event, self.seq) for event in events))

    def settle(self, dirty: set[ObjectKey]) -> None:
        """Decide until no key is dirty."""
        while dirty:
            self.decides(dirty.pop())
            dirty |= self.marked

    def check(self, spared: set[ObjectKey]) -> None:
        """No object that is placed and was not marked would be decided otherwise."""
        for name in spared:
            if isinstance(self.state.objects[name].placed, PlacementDecided):
                event = self.decided(name)
                assert event is None, f"{name.name} was left alone, and would be decided {event}"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(STEPS)
def test_cluster_change_marks_every_object_it_moves(steps: list[Known]) -> None:
    scheduler = Settled(*(asked(name) for name in sorted(PLACEMENTS)))
    for step in steps:
        known = scheduler.state.clusters.by_name.get(step.name) if isinstance(step, ClusterChanged) else None
        dirty = scheduler.given(step)
        # That a kind is not served any more moves nobody (reference 02 §1.3).
        if known is not None and known.apis <= scheduler.state.clusters.by_name[known.name].apis:
            scheduler.check(set(scheduler.state.objects) - dirty)
        scheduler.settle(dirty)


def settled(*names: str) -> Settled:
    return Settled(*(described(name, True, False, True, False) for name in ("m1", "m2")), *map(asked, names))


@pytest.mark.parametrize("name", ["named", "labelled", "anywhere", "tolerant", "named-workload"])
def test_taint_leaves_objects_that_run_there(name: str) -> None:
    scheduler = settled(name)
    assert [target.name for target in scheduler.state.objects[key(name)].targets] == ["m1", "m2"]
    assert scheduler.given(described("m1", True, True, True, False)) == set()
    assert scheduler.given(described("m1", True, False, True, False)) == set()


def test_taint_marks_objects_with_anti_affinity() -> None:
    scheduler = settled()
    apart = {"workloadAntiAffinity": {"groupByLabelKey": "team"}}
    group = {"workloadAffinityGroups": {"antiAffinityGroup": "team=a"}}
    request = binding(0, {**PLACEMENTS["named"], "workloadAffinity": apart}, name="apart", **group)
    scheduler.settle(scheduler.given(request))
    assert scheduler.given(described("m1", True, True, True, False)) == {key("apart")}
