"""Takes from a member's object the status that the control plane collects (docs/sources.md#status)."""

import re
from collections.abc import Callable
from typing import Any, Final

from schemas.manifest import Manifest
from services._rules.constants import TEMPLATE_GENERATION_ANNOTATION
from services._rules.interpreter.common.interpretation import (
    InterpretError,
    describe,
    object_at,
    whole_number,
)
from services._rules.interpreter.common.shape_checks import check_status
from services._rules.interpreter.native.time_format import canonical_time

Reflector = Callable[[Manifest], Any]

_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_INT64: Final = 2**63

# Field and whether its zero is written: Kubernetes writes some counters always and leaves others out.
_COUNTERS: Final[dict[str, tuple[tuple[str, bool], ...]]] = {
    "Deployment": (
        ("observedGeneration", False),
        ("replicas", False),
        ("updatedReplicas", False),
        ("readyReplicas", False),
        ("availableReplicas", False),
        ("unavailableReplicas", False),
    ),
    "ReplicaSet": (
        ("replicas", True),
        ("readyReplicas", False),
        ("availableReplicas", False),
        ("observedGeneration", False),
    ),
    "DaemonSet": (
        ("currentNumberScheduled", True),
        ("numberMisscheduled", True),
        ("desiredNumberScheduled", True),
        ("numberReady", True),
        ("observedGeneration", False),
        ("updatedNumberScheduled", False),
        ("numberAvailable", False),
        ("numberUnavailable", False),
    ),
    "StatefulSet": (
        ("replicas", True),
        ("readyReplicas", False),
        ("currentReplicas", False),
        ("updatedReplicas", False),
        ("availableReplicas", True),
    ),
    "Job": (("active", False), ("succeeded", False), ("failed", False)),
    "PodDisruptionBudget": (
        ("disruptionsAllowed", True),
        ("currentHealthy", True),
        ("desiredHealthy", True),
        ("expectedPods", True),
    ),
    "HorizontalPodAutoscaler": (("currentReplicas", False), ("desiredReplicas", True)),
}


def reflect_whole(obj: Manifest) -> Manifest | None:
    """The whole status, or None where there is none; the rule for kinds without one of their own."""
    if "status" not in obj:
        return None
    status = obj["status"]
    if type(status) is not dict:
        raise InterpretError(f"is {describe(status)}, expected an object", "status")
    return status


def reflect_workload(obj: Manifest) -> Manifest | None:
    """Counters of an apps/v1 workload with the generations that show how current they are.

    Raises InterpretError where the annotation with the template's generation is missing or no whole number.
    """
    kind = str(obj.get("kind"))
    status = reflect_whole(obj)
    if status is None:
        return None
    check_status(kind, status)
    metadata = object_at(obj, "metadata")
    result: Manifest = {}
    generation = whole_number(metadata.get("generation"), "metadata.generation")
    if generation:
        result["generation"] = generation
    template_generation = _template_generation(object_at(metadata, "annotations"))
    if template_generation:
        result["resourceTemplateGeneration"] = template_generation
    _count(kind, status, result)
    return result or None


def _template_generation(annotations: Manifest) -> int:
    text = annotations.get(TEMPLATE_GENERATION_ANNOTATION, "")
    if type(text) is str and _WHOLE.fullmatch(text):
        number = int(text)
        if -_INT64 <= number < _INT64:
            return number
    raise InterpretError(
        f"is {text!r}, expected the template's generation: its status cannot be collected",
        f"metadata.annotations[{TEMPLATE_GENERATION_ANNOTATION}]",
    )


def _count(kind: str, status: Manifest, result: Manifest) -> None:
    for name, always in _COUNTERS[kind]:
        number = whole_number(status.get(name), f"status.{name}")
        if number or always:
            result[name] = number


def reflect_service(obj: Manifest) -> Manifest | None:
    """The load balancer's entries; nothing for a Service of another type."""
    if object_at(obj, "spec").get("type") != "LoadBalancer":
        return None
    status = reflect_whole(obj)
    if status is None:
        return None
    check_status("Service", status)
    if "loadBalancer" not in status:
        return {}
    return {"loadBalancer": status["loadBalancer"]}


def reflect_job(obj: Manifest) -> Manifest | None:
    """Counters, conditions and times of a Job."""
    status = reflect_whole(obj)
    if status is None:
        return None
    check_status("Job", status)
    result: Manifest = {}
    conditions = status.get("conditions")
    if conditions:
        result["conditions"] = [_timed(condition or {}) for condition in conditions]
    for name in ("startTime", "completionTime"):
        moment = canonical_time(status.get(name), f"status.{name}")
        if moment is not None:
            result[name] = moment
    _count("Job", status, result)
    return result


def _timed(condition: Manifest) -> Manifest:
    copy = condition.copy()
    for name in ("lastProbeTime", "lastTransitionTime"):
        if copy.get(name) is not None:
            copy[name] = canonical_time(copy[name], f"status.conditions.{name}")
    return copy


def reflect_budget(obj: Manifest) -> Manifest | None:
    """Counters and disrupted pods of a PodDisruptionBudget."""
    status = reflect_whole(obj)
    if status is None:
        return None
    check_status("PodDisruptionBudget", status)
    result: Manifest = {}
    disrupted = status.get("disruptedPods")
    if disrupted:
        result["disruptedPods"] = {
            pod: canonical_time(moment, "status.disruptedPods") for pod, moment in disrupted.items()
        }
    _count("PodDisruptionBudget", status, result)
    return result


def reflect_autoscaler(obj: Manifest) -> Manifest | None:
    """Replica counts of a HorizontalPodAutoscaler."""
    status = reflect_whole(obj)
    if status is None:
        return None
    check_status("HorizontalPodAutoscaler", status)
    result: Manifest = {}
    _count("HorizontalPodAutoscaler", status, result)
    return result
