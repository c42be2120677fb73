"""ReplicaSets: pods created or removed until as many are active as wanted, and the counts in the status."""

from schemas.manifest import Manifest
from services.member_sim.controllers.pod_scheduling import Placer, placed_pod
from services.member_sim.world.pod_reading import count, is_active, pod_from, starting, victims
from services.member_sim.world.world_model import (
    NOTHING,
    PODS,
    REPLICASETS,
    Decision,
    Key,
    Turn,
    Write,
    earliest,
    key_of,
)
from services.member_sim.world.world_state import State

BURST = 500
"""Pods created or removed for one set in one decision; the rest follows when these are seen."""


def decide_replicaset(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one ReplicaSet."""
    replicaset = state.find(key)
    if replicaset is None or state.closing(key.namespace) or "deletionTimestamp" in replicaset["metadata"]:
        return NOTHING
    spec = replicaset["spec"]
    pods = state.children(replicaset["metadata"]["uid"], PODS)
    active = [pod for pod in pods if is_active(pod)]
    wanted = spec.get("replicas", 1)
    if len(active) < wanted:
        return Decision(grow(state, replicaset, wanted - len(active), turn), None)
    if len(active) > wanted:
        return Decision(removals(victims(active, min(len(active) - wanted, BURST))), None)
    moment = starting(state, active, turn.config, turn.now)
    if moment is not None:
        # The counts change again when these pods start; one status write then covers all.
        return Decision([], moment + 1)
    counts = count(active, spec.get("minReadySeconds") or 0, turn.now)
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    labelled = sum(1 for pod in active if selector.items() <= (pod["metadata"].get("labels") or {}).items())
    numbers = {
        "fullyLabeledReplicas": labelled,
        "readyReplicas": counts.ready,
        "availableReplicas": counts.available,
    }
    status: Manifest = {"replicas": counts.active, **{name: number for name, number in numbers.items() if number}}
    status["observedGeneration"] = replicaset["metadata"].get("generation", 1)
    writes = []
    if status != replicaset.get("status"):
        writes.append(Write("status", key, status, uid=replicaset["metadata"]["uid"]))
    return Decision(writes, earliest(counts.next_available))


def grow(state: State, replicaset: Manifest, missing: int, turn: Turn) -> list[Write]:
    """Return the pods to create, placed where there is room."""
    template = replicaset["spec"]["template"]
    placer = Placer(state, turn, template.get("spec") or {})
    prefix = replicaset["metadata"]["name"]
    writes = []
    for _ in range(min(missing, BURST)):
        pod = pod_from(REPLICASETS, replicaset, template, name=f"{prefix}-{turn.ids.suffix()}")
        pod["metadata"]["generateName"] = f"{prefix}-"
        writes.append(Write("create", key_of(PODS, pod), placed_pod(placer, pod)))
    return writes


def removals(pods: list[Manifest]) -> list[Write]:
    """Return the deletions of some pods."""
    return [Write("delete", key_of(PODS, pod), uid=pod["metadata"]["uid"]) for pod in pods]
