"""DaemonSets: one pod on every node that accepts it, replaced node by node when the template changes."""

from schemas.manifest import Manifest
from services._rules.interpreter.common.int_or_percent import scaled_value
from services.member_sim.controllers.pod_scheduling import Placer, placed_pod, selected, tolerated
from services.member_sim.controllers.replicaset import removals
from services.member_sim.world.pod_reading import (
    REVISION_LABEL,
    available_at,
    count,
    is_active,
    is_finished,
    pod_from,
    starting,
    template_hash,
)
from services.member_sim.world.world_model import (
    DAEMONSETS,
    NODES,
    NOTHING,
    PODS,
    Decision,
    Key,
    Turn,
    Write,
    earliest,
    key_of,
)
from services.member_sim.world.world_state import State

_CONDITIONS = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/not-ready", "NoSchedule"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)


def decide_daemonset(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one DaemonSet."""
    owner = state.find(key)
    if owner is None or state.closing(key.namespace) or "deletionTimestamp" in owner["metadata"]:
        return NOTHING
    spec = owner["spec"]
    template_spec = spec["template"].get("spec") or {}
    revision = template_hash(spec["template"])
    tolerations = [*(template_spec.get("tolerations") or ()), *_daemon_tolerations()]
    eligible = {n["metadata"]["name"] for n in state.all_of(NODES) if _wants(n, template_spec, tolerations)}
    by_node: dict[str, Manifest] = {}
    stray: list[Manifest] = []
    for pod in state.children(owner["metadata"]["uid"], PODS):
        node = _node_of(pod)
        if is_finished(pod) or node not in eligible or (node in by_node and is_active(pod)):
            stray += [pod] if "deletionTimestamp" not in pod["metadata"] else []
        else:
            by_node[node] = pod
    writes = removals(stray)
    for node in sorted(eligible - by_node.keys()):
        writes.append(_create(state, owner, node, tolerations, revision, turn))
    pods = list(by_node.values())
    if not writes:
        writes += removals(_outdated(spec, pods, revision, len(eligible), turn.now))
    moment = starting(state, pods, turn.config, turn.now)
    if not writes and moment is not None and (owner.get("status") or {}).get("observedGeneration"):
        return Decision([], moment + 1)
    status, upcoming = _status(owner, pods, stray, len(eligible), revision, turn.now)
    if status != owner.get("status"):
        writes.append(Write("status", key, status, uid=owner["metadata"]["uid"]))
    return Decision(writes, earliest(upcoming))


def _daemon_tolerations() -> list[Manifest]:
    return [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _CONDITIONS]


def _wants(node: Manifest, spec: Manifest, tolerations: list[Manifest]) -> bool:
    if not selected(spec, node):
        return False
    taints = (node.get("spec") or {}).get("taints") or ()
    return all(t.get("effect") == "PreferNoSchedule" or tolerated(t, tolerations) for t in taints)


def _create(state: State, owner: Manifest, node: str, tolerations: list[Manifest], revision: str, turn: Turn) -> Write:
    """Return the pod for one node, bound to it by affinity and, when it has room, placed already."""
    template = owner["spec"]["template"]
    affinity = (template.get("spec") or {}).get("affinity") or {}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    node_affinity = {**(affinity.get("nodeAffinity") or {}), "requiredDuringSchedulingIgnoredDuringExecution": required}
    pod = pod_from(
        DAEMONSETS,
        owner,
        template,
        name=f"{owner['metadata']['name']}-{turn.ids.suffix()}",
        labels={REVISION_LABEL: revision, "pod-template-generation": str(owner["metadata"].get("generation", 1))},
        spec={"tolerations": tolerations, "affinity": {**affinity, "nodeAffinity": node_affinity}},
    )
    return Write("create", key_of(PODS, pod), placed_pod(Placer(state, turn, pod["spec"]), pod))


def _node_of(pod: Manifest) -> str:
    """Return the node a pod is on or is meant for."""
    placed = pod["spec"].get("nodeName")
    if placed:
        return str(placed)
    affinity = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""


def _outdated(spec: Manifest, pods: list[Manifest], revision: str, nodes: int, now: float) -> list[Manifest]:
    """Return the pods of another revision that may be replaced now."""
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    allowed = scaled_value((strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1), nodes, up=True) or 1
    min_ready = spec.get("minReadySeconds") or 0
    old = [p for p in pods if is_active(p) and (p["metadata"].get("labels") or {}).get(REVISION_LABEL) != revision]
    serving = sum(1 for pod in pods if is_active(pod) and _serves(pod, min_ready, now))
    down = [pod for pod in old if not _serves(pod, min_ready, now)]
    up = [pod for pod in old if _serves(pod, min_ready, now)]
    return down + up[: max(allowed - (nodes - serving), 0)]


def _serves(pod: Manifest, min_ready: int, now: float) -> bool:
    since = available_at(pod, min_ready)
    return since is not None and since <= now


def _status(
    owner: Manifest, pods: list[Manifest], stray: list[Manifest], nodes: int, revision: str, now: float
) -> tuple[Manifest, float | None]:
    counts = count(pods, owner["spec"].get("minReadySeconds") or 0, now)
    active = [pod for pod in pods if is_active(pod)]
    status: Manifest = {
        "currentNumberScheduled": counts.active,
        "numberMisscheduled": sum(1 for pod in stray if is_active(pod)),
        "desiredNumberScheduled": nodes,
        "numberReady": counts.ready,
        "observedGeneration": owner["metadata"].get("generation", 1),
    }
    numbers = {
        "updatedNumberScheduled": sum(
            1 for pod in active if (pod["metadata"].get("labels") or {}).get(REVISION_LABEL) == revision
        ),
        "numberAvailable": counts.available,
        "numberUnavailable": nodes - counts.available,
    }
    return {**status, **{name: number for name, number in numbers.items() if number > 0}}, counts.next_available
