"""StatefulSets: numbered pods with their claims, started in order, updated from the highest number down."""

from schemas.manifest import Manifest
from services.member_sim.controllers.pod_scheduling import Placer, placed_pod
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
    CLAIMS,
    NOTHING,
    PODS,
    STATEFULSETS,
    Decision,
    Key,
    Turn,
    Write,
    earliest,
    key_of,
)
from services.member_sim.world.world_state import State


def decide_statefulset(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one StatefulSet."""
    owner = state.find(key)
    if owner is None or state.closing(key.namespace) or "deletionTimestamp" in owner["metadata"]:
        return NOTHING
    spec = owner["spec"]
    revision = f"{key.name}-{template_hash(spec['template'])}"
    pods = {_ordinal(pod): pod for pod in state.children(owner["metadata"]["uid"], PODS)}
    writes, upcoming = _steps(state, owner, pods, revision, turn)
    pods_now = list(pods.values())
    moment = starting(state, pods_now, turn.config, turn.now)
    if not writes and moment is not None and (owner.get("status") or {}).get("observedGeneration"):
        return Decision([], moment + 1)
    status, next_available = _status(owner, pods_now, revision, turn.now)
    if status != owner.get("status"):
        writes.append(Write("status", key, status, uid=owner["metadata"]["uid"]))
    return Decision(writes, earliest(upcoming, next_available))


def _steps(
    state: State, owner: Manifest, pods: dict[int, Manifest], revision: str, turn: Turn
) -> tuple[list[Write], float | None]:
    """Return the next pods to create or remove, and when a pod that the order waits for becomes available."""
    spec = owner["spec"]
    start = (spec.get("ordinals") or {}).get("start") or 0
    wanted = range(start, start + spec.get("replicas", 1))
    parallel = spec.get("podManagementPolicy") == "Parallel"
    min_ready = spec.get("minReadySeconds") or 0
    writes: list[Write] = []
    for number in wanted:
        pod = pods.get(number)
        if pod is None:
            writes += _create(state, owner, number, _revision_for(owner, number, revision), turn)
        elif is_finished(pod) and "deletionTimestamp" not in pod["metadata"]:
            writes += removals([pod])
        else:
            since = available_at(pod, min_ready) if is_active(pod) else None
            if parallel or (since is not None and since <= turn.now):
                continue
            if not parallel:
                return writes, since
        if writes and not parallel:
            return writes, None
    surplus = [pods[n] for n in sorted(pods, reverse=True) if n not in wanted and is_active(pods[n])]
    going = any("deletionTimestamp" in pod["metadata"] for pod in pods.values())
    if surplus:
        chosen = surplus if parallel else ([] if going else surplus[:1])
        return writes + removals(chosen), None
    if not writes and not going:
        writes += removals(_outdated(spec, pods, revision))
    return writes, None


def _outdated(spec: Manifest, pods: dict[int, Manifest], revision: str) -> list[Manifest]:
    """Return the next pod to replace: the highest number of another revision, once all above it serve."""
    strategy = spec.get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return []
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    for number in sorted(pods, reverse=True):
        if number < partition:
            return []
        if pods[number]["metadata"].get("labels", {}).get(REVISION_LABEL) != revision:
            return [pods[number]]
        if available_at(pods[number], 0) is None:
            return []
    return []


def _create(state: State, owner: Manifest, number: int, revision: str, turn: Turn) -> list[Write]:
    meta, spec = owner["metadata"], owner["spec"]
    name = f"{meta['name']}-{number}"
    template = spec["template"]
    volumes = list((template.get("spec") or {}).get("volumes") or ())
    writes = []
    for claim in spec.get("volumeClaimTemplates") or ():
        claim_name = f"{claim['metadata']['name']}-{name}"
        volumes = [v for v in volumes if v["name"] != claim["metadata"]["name"]]
        volumes.append({"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim_name}})
        if state.get(CLAIMS, meta["namespace"], claim_name) is None:
            labels = {
                **(claim["metadata"].get("labels") or {}),
                **((spec.get("selector") or {}).get("matchLabels") or {}),
            }
            body = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": claim_name, "namespace": meta["namespace"], "labels": labels},
                "spec": claim["spec"],
            }
            writes.append(Write("create", Key(CLAIMS, meta["namespace"], claim_name), body))
    labels = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(number),
        REVISION_LABEL: revision,
    }
    changed: Manifest = {"hostname": name}
    if spec.get("serviceName"):
        changed["subdomain"] = spec["serviceName"]
    if volumes:
        changed["volumes"] = volumes
    pod = pod_from(STATEFULSETS, owner, template, name=name, labels=labels, spec=changed)
    placer = Placer(state, turn, pod["spec"])
    return [*writes, Write("create", key_of(PODS, pod), placed_pod(placer, pod))]


def _revision_for(owner: Manifest, number: int, revision: str) -> str:
    """Return the revision a recreated pod gets; only the newest template is kept, so it is always that one."""
    strategy = owner["spec"].get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition") or 0
    previous: str = (owner.get("status") or {}).get("currentRevision") or revision
    return previous if number < partition else revision


def _status(owner: Manifest, pods: list[Manifest], revision: str, now: float) -> tuple[Manifest, float | None]:
    spec = owner["spec"]
    old = owner.get("status") or {}
    counts = count(pods, spec.get("minReadySeconds") or 0, now)
    active = [pod for pod in pods if is_active(pod)]
    labels = [pod["metadata"].get("labels", {}).get(REVISION_LABEL) for pod in active]
    updated = sum(1 for label in labels if label == revision)
    wanted = spec.get("replicas", 1)
    current = old.get("currentRevision") or revision
    if updated == counts.active == wanted == counts.ready:
        current = revision
    status: Manifest = {
        "observedGeneration": owner["metadata"].get("generation", 1),
        "replicas": counts.active,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
        "availableReplicas": counts.available,
    }
    numbers = {
        "readyReplicas": counts.ready,
        "currentReplicas": sum(1 for label in labels if label == current),
        "updatedReplicas": updated,
    }
    status |= {name: number for name, number in numbers.items() if number}
    return status, counts.next_available


def _ordinal(pod: Manifest) -> int:
    tail = pod["metadata"]["name"].rpartition("-")[2]
    return int(tail) if tail.isdigit() else -1
