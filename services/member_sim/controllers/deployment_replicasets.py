"""The parts of a Deployment: its ReplicaSets with what their pods do, the rollout limits, and its annotations."""

from typing import NamedTuple

from schemas.manifest import Manifest
from services._rules.interpreter.common.int_or_percent import scaled_value
from services.member_sim.world.pod_reading import Counts

REVISION = "deployment.kubernetes.io/revision"
HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"
HASH = "pod-template-hash"
_NOT_INHERITED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        HISTORY,
        DESIRED,
        MAXIMUM,
    )
)


class Part(NamedTuple):
    """One ReplicaSet of a Deployment with what its pods do."""

    manifest: Manifest
    wanted: int
    counts: Counts

    @property
    def name(self) -> str:
        """Name of the ReplicaSet."""
        return str(self.manifest["metadata"]["name"])


class Limits(NamedTuple):
    """How far a rollout may go beyond and below the wanted number of replicas."""

    replicas: int
    surge: int
    unavailable: int
    recreate: bool


def limits_of(spec: Manifest) -> Limits:
    """Return the rollout limits; surge rounds up, unavailable down, and both zero means one may be unavailable."""
    replicas = spec.get("replicas", 1)
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Limits(replicas, 0, replicas, recreate=True)
    rolling = strategy.get("rollingUpdate") or {}
    surge = scaled_value(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = scaled_value(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return Limits(replicas, surge, min(unavailable, replicas), recreate=False)


def growth(present: int, total: int, limits: Limits) -> int:
    """Return by how much the new set may grow now."""
    if limits.recreate:
        return limits.replicas - present
    return max(min(limits.replicas + limits.surge - total, limits.replicas - present), 0)


def sizes_of(limits: Limits) -> dict[str, str]:
    """Return the annotations that record which size a ReplicaSet was scaled for."""
    return {DESIRED: str(limits.replicas), MAXIMUM: str(limits.replicas + limits.surge)}


def inherited(deployment: Manifest) -> dict[str, str]:
    """Return the annotations that a Deployment hands down to its ReplicaSet."""
    annotations = deployment["metadata"].get("annotations") or {}
    return {name: value for name, value in annotations.items() if name not in _NOT_INHERITED}


def revision_of(manifest: Manifest) -> int:
    """Return the recorded rollout revision, 0 when there is none."""
    text = (manifest["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(text) if text.isdigit() else 0
