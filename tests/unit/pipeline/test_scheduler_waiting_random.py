"""Whatever clusters do: whoever could be placed was called for by the fact that made it possible."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.codec import Known, subject_of
from schemas.envelope import Provenance
from schemas.events.binding import BindingReleased, BindingRequested
from schemas.events.cluster import ClusterRemoved
from schemas.events.placement import PlacementDecided, PlacementFailed
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services.scheduler.decide import decide_with_trace
from services.scheduler.state import SchedulerState, fold
from tests.support.facts import binding, cluster
from tests.support.placements import decide

NOW = 1_793_232_000.0
DIVIDED = {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}
WEIGHTED = {
    "replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted",
    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
}
NAMES = {"clusterNames": ["m1", "m2", "m3"]}
PLACEMENTS: dict[str, Manifest] = {
    "aggregated": {"clusterAffinity": NAMES, "replicaScheduling": DIVIDED},
    "weighted": {"clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b"}}}, "replicaScheduling": WEIGHTED},
    "single": {
        "clusterAffinity": NAMES,
        "replicaScheduling": DIVIDED,
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}],
    },
    "groups": {
        "clusterAffinities": [
            {"affinityName": "first", "clusterNames": ["m1"]},
            {"affinityName": "second", "clusterNames": ["m2", "m3"]},
        ],
        "replicaScheduling": DIVIDED,
    },
    "everywhere": {"clusterAffinity": {"labelSelector": {"matchLabels": {"a": "b"}}}},
}


def key(name: str) -> ObjectKey:
    return ObjectKey("apps", "deployments", "default", name)


def asked(name: str, replicas: int) -> BindingRequested:
    needs = {"replicaRequirements": {"resourceRequest": {"cpu": "1"}}}
    return msgspec.structs.replace(binding(replicas, PLACEMENTS[name], **needs), key=key(name))


def member(name: str, cpu: int, labelled: bool, tainted: bool) -> Known:
    taints = [{"key": "k", "effect": "NoSchedule"}] if tainted else []
    fact = cluster(name, labels={"a": "b"} if labelled else {}, taints=taints)
    manifest = msgspec.json.decode(fact.manifest)
    manifest["status"]["resourceSummary"] = {"allocatable": {"cpu": str(cpu), "pods": "1000"}}
    return msgspec.structs.replace(fact, manifest=msgspec.Raw(msgspec.json.encode(manifest)))


CLUSTERS = st.sampled_from(["m1", "m2", "m3"])
STEPS = st.lists(
    st.one_of(
        st.builds(member, CLUSTERS, st.integers(0, 9), st.booleans(), st.booleans()),
        st.builds(lambda name: ClusterRemoved(name=name, uid=f"uid-{name}"), CLUSTERS),
        st.builds(asked, st.sampled_from(sorted(PLACEMENTS)), st.integers(1, 12)),
        st.builds(lambda name: BindingReleased(key=key(name), uid="u1"), st.sampled_from(sorted(PLACEMENTS))),
    ),
    max_size=30,
)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(STEPS)
def test_nobody_waits_who_could_be_placed(steps: list[Known]) -> None:
    state, seq = SchedulerState(), 0
    dirty: list[ObjectKey] = []

    def happens(event: Known) -> None:
        nonlocal seq
        seq += 1
        dirty.extend(fold(state, seq, subject_of(event), event, NOW))

    def tried(name: ObjectKey) -> Known | None:
        state.ledger.withdraw(name)
        event, considered = decide_with_trace(state, name, NOW, "default-scheduler")
        if considered is not None and considered.attempt.decision.error is not None:
            state.tried(name)
        elif isinstance(event, PlacementDecided):
            state.ledger.promise(name, event.clusters, NOW)
        return event

    for step in steps:
        happens(step)
        while dirty:
            name = dirty.pop(0)
            event = tried(name)
            if event is not None:
                happens(msgspec.structs.replace(event, provenance=Provenance(as_of=seq)))
        for name, scheduled in state.objects.items():
            if isinstance(scheduled.placed, PlacementFailed):
                event = decide(state, name, NOW, "default-scheduler")
                assert event is None or isinstance(event, PlacementFailed), f"{name.name} could be placed: {event}"
