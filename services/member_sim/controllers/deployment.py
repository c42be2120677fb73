"""Deployments: which ReplicaSet carries the present template, how far each may grow or shrink, and the status."""

from collections.abc import Sequence

from schemas.manifest import Manifest
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
    condition,
    earliest,
    key_of,
    owner_reference,
    seconds,
    stamp,
)
from services.member_sim.world.world_state import State

_NO_DEADLINE = 2**31 - 1


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


def status_of(
    deployment: Manifest,
    current: Part | None,
    parts: Sequence[Part],
    limits: Limits,
    now: float,
    *,
    bump: bool,
) -> tuple[Manifest, float | None]:
    """Return the new status and when the progress deadline passes; zero counts are left out."""
    old = deployment.get("status") or {}
    available = sum(part.counts.available for part in parts)
    total = sum(part.counts.active for part in parts)
    counts = {
        "replicas": total,
        "updatedReplicas": current.counts.active if current else 0,
        "readyReplicas": sum(part.counts.ready for part in parts),
        "availableReplicas": available,
        # A set that was created in this very turn is not among the parts yet, but its pods are already missing.
        "unavailableReplicas": max(max(sum(part.wanted for part in parts), limits.replicas) - available, 0),
    }
    status: Manifest = {"observedGeneration": deployment["metadata"].get("generation", 1)}
    status |= {name: number for name, number in counts.items() if number}
    collisions = (old.get("collisionCount") or 0) + bump
    if collisions:
        status["collisionCount"] = collisions
    available_now = _available(deployment, available >= limits.replicas - limits.unavailable, now)
    progressing, deadline = _progressing(deployment, current, limits, counts, now)
    kept = [c for c in old.get("conditions") or () if c["type"] not in ("Available", "Progressing")]
    status["conditions"] = [*kept, available_now, *([progressing] if progressing else [])]
    return status, deadline


def _available(deployment: Manifest, enough: bool, now: float) -> Manifest:
    if enough:
        return _condition(deployment, "Available", "True", "MinimumReplicasAvailable", "Enough replicas serve.", now)
    message = "Fewer replicas serve than the rollout strategy demands."
    return _condition(deployment, "Available", "False", "MinimumReplicasUnavailable", message, now)


def _progressing(
    deployment: Manifest,
    current: Part | None,
    limits: Limits,
    counts: dict[str, int],
    now: float,
) -> tuple[Manifest | None, float | None]:
    """Return the condition and its deadline; any movement of the counts renews the deadline."""
    spec = deployment["spec"]
    allowed = spec.get("progressDeadlineSeconds") or _NO_DEADLINE
    if allowed >= _NO_DEADLINE:
        return None, None
    old = condition(deployment, "Progressing")
    if spec.get("paused"):
        return _condition(deployment, "Progressing", "Unknown", "DeploymentPaused", "The rollout is paused.", now), None
    if old is not None and old.get("reason") == "DeploymentPaused":
        old = None
    if current is None:
        return old, None
    name = current.name
    before = deployment.get("status") or {}
    complete = (
        counts["updatedReplicas"] == limits.replicas
        and counts["replicas"] == limits.replicas
        and counts["availableReplicas"] == limits.replicas
    )
    if complete:
        text = f'Replica set "{name}" is rolled out.'
        return _condition(deployment, "Progressing", "True", "NewReplicaSetAvailable", text, now), None
    settled = old is not None and old.get("reason") == "NewReplicaSetAvailable"
    if old is not None and settled and name in (old.get("message") or ""):
        # A rollout that once succeeded stays so while pods come and go; only a new template starts over.
        return old, None
    moved = _moved(before, counts)
    if (old is None or settled) and not counts["updatedReplicas"]:
        text = f'Created new replica set "{name}".'
        entry = _condition(deployment, "Progressing", "True", "NewReplicaSetCreated", text, now, moved=True)
        return entry, now + allowed
    if old is None or moved or settled:
        text = f'Replica set "{name}" is progressing.'
        entry = _condition(deployment, "Progressing", "True", "ReplicaSetUpdated", text, now, moved=True)
        return entry, now + allowed
    since = seconds(old.get("lastUpdateTime") or "")
    if old.get("reason") == "ProgressDeadlineExceeded" or now >= since + allowed:
        text = f'Replica set "{name}" made no progress for {allowed} s.'
        return _condition(deployment, "Progressing", "False", "ProgressDeadlineExceeded", text, now), None
    return old, since + allowed


def _moved(before: Manifest, counts: dict[str, int]) -> bool:
    """Return whether the rollout advanced: more updated, ready or available pods, or fewer old ones."""
    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    if any(counts[name] > (before.get(name) or 0) for name in grown):
        return True
    old_before = (before.get("replicas") or 0) - (before.get("updatedReplicas") or 0)
    return counts["replicas"] - counts["updatedReplicas"] < old_before


def _condition(
    deployment: Manifest, kind: str, status: str, reason: str, message: str, now: float, *, moved: bool = False
) -> Manifest:
    """Return the condition, with its times unchanged where neither its status nor its reason changed."""
    old = condition(deployment, kind)
    same_status = old is not None and old.get("status") == status
    if old is not None and same_status and old.get("reason") == reason and old.get("message") == message and not moved:
        return old
    at = stamp(now)
    return {
        "type": kind,
        "status": status,
        "lastUpdateTime": at,
        "lastTransitionTime": (old or {}).get("lastTransitionTime", at) if same_status else at,
        "reason": reason,
        "message": message,
    }
