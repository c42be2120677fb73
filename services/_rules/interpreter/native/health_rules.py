"""Decides whether a member's object is healthy: the native health rules (docs/sources.md#status)."""

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import list_at, object_at, whole_number


def _numbers(obj: Manifest, *names: str) -> list[int]:
    status = object_at(obj, "status")
    return [whole_number(status.get(name), f"status.{name}") for name in names]


def _is_current(obj: Manifest) -> bool:
    generation = whole_number(object_at(obj, "metadata").get("generation"), "metadata.generation")
    return _numbers(obj, "observedGeneration") == [generation]


def deployment_health(obj: Manifest) -> bool:
    """Deployment and StatefulSet: observed, all replicas updated, all updated ones available."""
    updated, available = _numbers(obj, "updatedReplicas", "availableReplicas")
    wanted = object_at(obj, "spec").get("replicas")
    return _is_current(obj) and (wanted is None or updated >= wanted) and available >= updated


def replica_set_health(obj: Manifest) -> bool:
    """ReplicaSet: observed, and as many available as wanted."""
    (available,) = _numbers(obj, "availableReplicas")
    wanted = object_at(obj, "spec").get("replicas")
    return _is_current(obj) and (wanted is None or available >= wanted)


def daemon_set_health(obj: Manifest) -> bool:
    """DaemonSet: observed, updated everywhere, all updated ones available."""
    updated, desired, available = _numbers(obj, "updatedNumberScheduled", "desiredNumberScheduled", "numberAvailable")
    return _is_current(obj) and updated >= desired and available >= updated


def service_health(obj: Manifest) -> bool:
    """Service: a load balancer needs an address, any other type is healthy."""
    return object_at(obj, "spec").get("type") != "LoadBalancer" or _has_address(obj)


def ingress_health(obj: Manifest) -> bool:
    """Ingress: some entry of the load balancer has an address."""
    return _has_address(obj)


def _has_address(obj: Manifest) -> bool:
    entries = list_at(object_at(obj, "status", "loadBalancer"), "ingress", "status.loadBalancer.ingress")
    return any(entry and (entry.get("hostname") or entry.get("ip")) for entry in entries)


def claim_health(obj: Manifest) -> bool:
    """PersistentVolumeClaim: bound."""
    return object_at(obj, "status").get("phase") == "Bound"


def pod_health(obj: Manifest) -> bool:
    """Pod: succeeded, or running and ready."""
    status = object_at(obj, "status")
    if status.get("phase") == "Succeeded":
        return True
    if status.get("phase") != "Running":
        return False
    for condition in list_at(status, "conditions", "status.conditions"):
        if condition and condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return False


def budget_health(obj: Manifest) -> bool:
    """PodDisruptionBudget: at least as many healthy pods as desired."""
    current, desired = _numbers(obj, "currentHealthy", "desiredHealthy")
    return current >= desired
