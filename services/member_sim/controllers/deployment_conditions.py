"""The status of a Deployment: counts over its ReplicaSets and the conditions Available and Progressing."""

from collections.abc import Sequence

from schemas.manifest import Manifest
from services.member_sim.controllers.deployment_replicasets import Limits, Part
from services.member_sim.world.world_model import condition, seconds, stamp

_NO_DEADLINE = 2**31 - 1


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
