"""Deployments: which ReplicaSet carries the present template, how far each may grow or shrink, and the status."""

from schemas.manifest import Manifest
from services.member_sim.controllers.deployment_conditions import status_of
from services.member_sim.controllers.deployment_replicasets import (
    HASH,
    REVISION,
    Limits,
    Part,
    growth,
    inherited,
    limits_of,
    revision_of,
    sizes_of,
)
from services.member_sim.controllers.rollout import changes, expired
from services.member_sim.world.pod_reading import count, is_active, starting, template_hash
from services.member_sim.world.world_model import (
    APPS,
    NOTHING,
    PODS,
    REPLICASETS,
    Decision,
    Key,
    Turn,
    Write,
    earliest,
    key_of,
    owner_reference,
    seconds,
)
from services.member_sim.world.world_state import State


def decide_deployment(state: State, key: Key, turn: Turn) -> Decision:
    """Decide the writes for one Deployment: ReplicaSets created, scaled, removed; revision; status."""
    deployment = state.find(key)
    if deployment is None or state.closing(key.namespace) or "deletionTimestamp" in deployment["metadata"]:
        return NOTHING
    spec = deployment["spec"]
    limits = limits_of(spec)
    min_ready = spec.get("minReadySeconds") or 0
    sets = state.children(deployment["metadata"]["uid"], REPLICASETS)
    pods = {s["metadata"]["uid"]: state.children(s["metadata"]["uid"], PODS) for s in sets}
    moment = starting(state, (p for found in pods.values() for p in found), turn.config, turn.now)
    if moment is not None and moment <= turn.now:
        # Pods that started together are still being written: one status for all of them comes after.
        return Decision([], moment + 1)
    parts = [
        Part(s, s["spec"].get("replicas") or 0, count(pods[s["metadata"]["uid"]], min_ready, turn.now))
        for s in sorted(sets, key=_age)
        if "deletionTimestamp" not in s["metadata"]
    ]
    current = current_set(state, deployment, parts)
    old = [part for part in parts if part is not current]
    writes: list[Write] = []
    paused = bool(spec.get("paused"))
    collided = False
    noted: Manifest | None = None
    if not paused:
        revision = 1 + max((revision_of(part.manifest) for part in old), default=0)
        if current is None:
            waits = limits.recreate and any(
                is_active(pod) or "deletionTimestamp" in pod["metadata"]
                for part in old
                for pod in pods[part.manifest["metadata"]["uid"]]
            )
            if not waits:
                created = new_set(state, deployment, old, limits, revision)
                collided = state.find(key_of(REPLICASETS, created)) is not None
                if not collided:
                    writes.append(Write("create", key_of(REPLICASETS, created), created))
        else:
            noted = revised(deployment, max(revision, revision_of(current.manifest)))
    writes += changes(deployment, current, old, limits, paused)
    if not paused:
        writes += expired(spec, old)
    if any(write.op == "create" for write in writes):
        # The status follows once the new ReplicaSet is there.
        return Decision(writes)
    status, deadline = status_of(deployment, current, parts, limits, turn.now, bump=collided)
    if noted is None and moment is not None and _can_wait(deployment, status, writes):
        deadline = earliest(deadline, moment + 1)
    elif noted is not None or status != (deployment.get("status") or {}):
        writes.append(Write("status", key, status, uid=deployment["metadata"]["uid"], annotations=noted))
    upcoming = [part.counts.next_available for part in parts]
    return Decision(writes, earliest(deadline, *upcoming))


def current_set(state: State, deployment: Manifest, parts: list[Part]) -> Part | None:
    """Return the oldest part whose template is the Deployment's, by hash label or, for foreign hashes, by content."""
    wanted = _hash_of(state, deployment)
    for part in parts:
        if (part.manifest["metadata"].get("labels") or {}).get(HASH) == wanted:
            return part
    template = deployment["spec"]["template"]
    return next((part for part in parts if _same_template(part.manifest["spec"]["template"], template)), None)


def new_set(state: State, deployment: Manifest, old: list[Part], limits: Limits, revision: int) -> Manifest:
    """Return the ReplicaSet for the present template, as large as the limits allow at once."""
    meta, spec = deployment["metadata"], deployment["spec"]
    digest = _hash_of(state, deployment)
    template = spec["template"]
    template_meta = template.get("metadata") or {}
    labels = {**(template_meta.get("labels") or {}), HASH: digest}
    selector = spec.get("selector") or {}
    size = growth(0, sum(part.wanted for part in old), limits)
    rs_spec: Manifest = {
        "replicas": size,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), HASH: digest}},
        "template": {**template, "metadata": {**template_meta, "labels": labels}},
    }
    if spec.get("minReadySeconds"):
        rs_spec["minReadySeconds"] = spec["minReadySeconds"]
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name']}-{digest}",
            "namespace": meta["namespace"],
            "labels": labels,
            "annotations": {**inherited(deployment), **sizes_of(limits), REVISION: str(revision)},
            "ownerReferences": [owner_reference(APPS, deployment)],
        },
        "spec": rs_spec,
    }


def revised(deployment: Manifest, revision: int) -> Manifest | None:
    """Return the annotation with the Deployment's revision, None when it is present already."""
    annotations = deployment["metadata"].get("annotations") or {}
    return None if annotations.get(REVISION) == str(revision) else {REVISION: str(revision)}


def _hash_of(state: State, deployment: Manifest) -> str:
    meta = deployment["metadata"]
    collisions = (deployment.get("status") or {}).get("collisionCount") or 0
    memo = (meta["uid"], meta.get("generation") or 0, collisions)
    found = state.hashes.get(memo)
    if found is None:
        found = state.hashes[memo] = template_hash(deployment["spec"]["template"], collisions)
    return found


def _same_template(ours: Manifest, wanted: Manifest) -> bool:
    labels = dict((ours.get("metadata") or {}).get("labels") or {})
    labels.pop(HASH, None)
    expected = (wanted.get("metadata") or {}).get("labels") or {}
    return labels == expected and ours.get("spec") == wanted.get("spec")


def _age(manifest: Manifest) -> tuple[float, int, str]:
    meta = manifest["metadata"]
    return seconds(meta.get("creationTimestamp") or ""), revision_of(manifest), meta["name"]


def _can_wait(deployment: Manifest, status: Manifest, writes: list[Write]) -> bool:
    """Return whether a status that is about to change again, because pods start, need not be written now."""
    before = deployment.get("status") or {}
    return (
        not writes
        and before.get("observedGeneration") == status["observedGeneration"]
        and before.get("availableReplicas", 0) <= status.get("availableReplicas", 0)
    )
