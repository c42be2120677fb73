"""Whatever clusters do: whoever could be placed was called for by the fact that made it possible."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known
from schemas.events.binding import BindingRequested
from schemas.events.cluster import ClusterChanged
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services.scheduler.decide import decide_with_trace
from tests.support.facts import (
    DIVIDED,
    DYNAMIC,
    NOW,
    ONE_CLUSTER,
    UNSCHEDULABLE,
    binding,
    cpus,
    member,
    released,
    removed,
)
from tests.support.harness import SCHEDULER, Harness

NAMES = {"clusterNames": ["m1", "m2", "m3"]}
PLACEMENTS: dict[str, Manifest] = {
    "aggregated": {"clusterAffinity": NAMES, **DIVIDED},
    "weighted": {
        "clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b"}}},
        "replicaScheduling": DYNAMIC["replicaScheduling"],
    },
    "single": {
        "clusterAffinity": NAMES,
        **DIVIDED,
        **ONE_CLUSTER,
    },
    "groups": {
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2", "m3"]},
        ],
        **DIVIDED,
    },
    "everywhere": {"clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b"}}}},
}


def asked(name: str, replicas: int) -> BindingRequested:
    return binding(replicas, PLACEMENTS[name], name=name, **cpus())


def described(name: str, cpu: int, labelled: bool, tainted: bool) -> ClusterChanged:
    return member(name, cpu, labels={"a": "b"} if labelled else {}, taints=UNSCHEDULABLE if tainted else [])


CLUSTERS = st.sampled_from(["m1", "m2", "m3"])
STEPS = st.lists(
    st.one_of(
        st.builds(described, CLUSTERS, st.integers(0, 9), st.booleans(), st.booleans()),
        st.builds(removed, CLUSTERS),
        st.builds(asked, st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 12)),
        st.builds(released, st.sampled_from(sorted(PLACEMENTS))),
    ),
    max_size=30,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(STEPS)
def test_no_schedulable_object_stays_in_the_queue(steps: list[Known]) -> None:
    scheduler = Harness(SCHEDULER)
    state = scheduler.state

    def tried(name: ObjectKey) -> list[Known]:
        state.ledger.withdraw(name)
        event, considered = decide_with_trace(state, name, NOW, "default-scheduler")
        if considered is not None and considered.attempt.decision.error is not None:
            state.tried(name)
        elif isinstance(event, PlacementDecided):
            state.ledger.promise(name, event.clusters, NOW)
        return [] if event is None else [event]

    for step in steps:
        dirty = sorted(scheduler.given(step), key=str)
        while dirty:
            scheduler.takes(tried(dirty.pop(0)))
            dirty.extend(sorted(scheduler.marked, key=str))
        for name, scheduled in state.objects.items():
            if isinstance(scheduled.placed, PlacementFailed):
                event = scheduler.decided(name)
                assert event is None or isinstance(event, PlacementFailed), f"{name.name} could be placed: {event}"
