"""Replicas of a workload, what each needs, and the setting of another number.

Source: docs/sources.md#binding-requests, #interpreters.
"""

from typing import Any, Final, TypeAlias

from schemas.manifest import Manifest
from services._rules.interpreter.common.interpretation import (
    InterpretError,
    describe,
    object_at,
    whole_number,
)
from services._rules.kubernetes.pod_resources import add_to, is_node_resource, node_units, pod_sum, quantity_of
from services._rules.kubernetes.quantity import QuantityError, parse

Requirements: TypeAlias = dict[str, Any]
Replicas: TypeAlias = tuple[int, Requirements | None]

MOST_REPLICAS: Final = 10_000_000
"""Replicas of one object in all clusters together that can be meant."""


def workload_replicas(obj: Manifest, quota: bool = False) -> Replicas:
    """Deployment, ReplicaSet, StatefulSet: spec.replicas, zero where unset.

    `quota` adds what quota estimation needs (namespace, priority class).
    """
    spec = object_at(obj, "spec")
    return whole_number(spec.get("replicas"), "spec.replicas"), _of_template(object_at(spec, "template"), quota)


def job_replicas(obj: Manifest, quota: bool = False) -> Replicas:
    """Job: its parallelism, at most its completions."""
    spec = object_at(obj, "spec")
    replicas = whole_number(spec.get("parallelism"), "spec.parallelism")
    if spec.get("completions") is not None:
        replicas = min(replicas, whole_number(spec["completions"], "spec.completions"))
    return replicas, _of_template(object_at(spec, "template"), quota)


def pod_replicas(obj: Manifest, quota: bool = False) -> Replicas:
    """Pod: one."""
    return 1, _of_template(obj, quota)


def revise_replicas(obj: Manifest, replicas: int) -> Manifest:
    """Sets spec.replicas where the field exists."""
    return _revise(obj, "replicas", replicas)


def revise_parallelism(obj: Manifest, replicas: int) -> Manifest:
    """Sets spec.parallelism of a Job where the field exists."""
    return _revise(obj, "parallelism", replicas)


def wrong_count(replicas: object) -> str:
    """Why a number of replicas cannot be meant; empty when it can."""
    if type(replicas) is not int:
        return f"is {describe(replicas)}, expected a whole number"
    if not 0 <= replicas <= MOST_REPLICAS:
        return f"is {replicas}, expected 0 to {MOST_REPLICAS}"
    return ""


def wrong_request(requirements: Requirements | None) -> str:
    """Which requested amount cannot be meant, and why; empty when all can."""
    for name, amount in ((requirements or {}).get("resourceRequest") or {}).items():
        try:
            negative = parse(amount) < parse("0")
        except QuantityError as problem:
            return f"resourceRequest.{name}: {problem}"
        if negative:
            return f"resourceRequest.{name}: is {amount}, expected no less than 0"
    return ""


def completed(obj: Manifest, found: Replicas, quota: bool = False) -> Replicas:
    """Replicas of any level as callers get them: for quota estimation requirements name the object's namespace."""
    replicas, requirements = found
    if quota and requirements is not None and not requirements.get("namespace"):
        namespace = (obj.get("metadata") or {}).get("namespace")
        if namespace:
            requirements = {**requirements, "namespace": namespace}
    return replicas, requirements


def _revise(obj: Manifest, field: str, replicas: int) -> Manifest:
    if "spec" not in obj:
        return obj
    spec = obj["spec"]
    if type(spec) is not dict:
        raise InterpretError(f"is {describe(spec)}, expected an object", "spec")
    if field not in spec:
        return obj
    if type(spec[field]) is not int:
        raise InterpretError(f"is {describe(spec[field])}, expected a whole number", f"spec.{field}")
    return {**obj, "spec": {**spec, field: replicas}}


def _of_template(template: Manifest, quota: bool) -> Requirements | None:
    pod = object_at(template, "spec")
    claim = _node_claim(pod)
    request = resource_request(pod)
    requirements: Requirements = {}
    if claim:
        requirements["nodeClaim"] = claim
    if request:
        requirements["resourceRequest"] = request
    if not requirements:
        return None
    if quota:
        namespace = object_at(template, "metadata").get("namespace")
        if namespace:
            requirements["namespace"] = namespace
        if pod.get("priorityClassName"):
            requirements["priorityClassName"] = pod["priorityClassName"]
    return requirements


def _node_claim(pod: Manifest) -> Requirements:
    affinity = object_at(pod, "affinity", "nodeAffinity").get("requiredDuringSchedulingIgnoredDuringExecution")
    claim: Requirements = {}
    if affinity is not None:
        claim["hardNodeAffinity"] = affinity
    if pod.get("nodeSelector"):
        claim["nodeSelector"] = pod["nodeSelector"]
    if pod.get("tolerations"):
        claim["tolerations"] = pod["tolerations"]
    return claim


def resource_request(pod: Manifest) -> dict[str, str]:
    """What one pod asks for, in canonical quantities: its containers together or its largest init container,
    whichever is more, plus the overhead; zero entries are left out.
    """
    total = pod_sum(pod, _requests)
    add_to(total, _amounts(pod.get("overhead") or {}))
    return {name: str(quantity_of(name, amount)) for name, amount in total.items() if amount > 0}


def _requests(container: Manifest | None) -> dict[str, int]:
    """Requests of a container; a resource without one is requested as far as it is limited."""
    resources = (container or {}).get("resources") or {}
    return _amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def _amounts(requests: Manifest) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, text in requests.items():
        if name != "pods" and not is_node_resource(name):
            continue
        try:
            found[name] = node_units(name, parse(text))
        except QuantityError as problem:
            raise InterpretError(str(problem), f"resources.{name}") from None
    return found
