"""Builds what a binding asks for from a template and its policy (docs/sources.md#binding-requests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from schemas.events.binding import BindingRequested
from schemas.keys import PolicyKey
from schemas.manifest import Manifest
from services._rules.interpreter import Interpreter, InterpretError, NativeInterpreter, Operation
from services._rules.interpreter.native.replicas import wrong_count

PriorityOf = Callable[[str], int | None]
"""Value of a PriorityClass by its name; None where there is none."""

NATIVE: Final[Interpreter] = NativeInterpreter()
"""What is understood without any customization."""
_COPIED: Final = ("propagateDeps", "placement", "failover", "preserveResourcesOnDeletion", "suspension")
_CLASS_SOURCE: Final = "KubePriorityClass"


class DetectorOptions(Struct, frozen=True):
    """What settings and feature gates make of bindings and claims."""

    components: bool = False
    """MultiplePodTemplatesScheduling: workloads of several pod templates are described template by template."""
    priorities: bool = False
    """PriorityBasedScheduling: the policy's priority class becomes a number."""
    affinities: bool = False
    """WorkloadAffinity: the groups that an object belongs to are named."""
    dependencies: bool = True
    """PropagateDeps: what an object needs beside it follows it, where its policy asks for that."""
    quotas: bool = False
    """ResourceQuotaEstimate: requirements name the namespace and the priority class of pods."""
    namespaces: bool = True
    """Namespaces go to every cluster by themselves."""
    services: bool = True
    """MultiClusterService: the Service of its name belongs to it."""
    preemption: bool = False
    """PropagationPolicyPreemption: policies with `preemption: Always` take templates from other policies."""


def options_of(gates: Mapping[str, bool]) -> DetectorOptions:
    """What feature gates add to bindings."""
    return DetectorOptions(
        components=gates["MultiplePodTemplatesScheduling"],
        priorities=gates["PriorityBasedScheduling"],
        affinities=gates["WorkloadAffinity"],
        dependencies=gates["PropagateDeps"],
        quotas=gates["ResourceQuotaEstimate"],
        services=gates["MultiClusterService"],
        preemption=gates["PropagationPolicyPreemption"],
    )


class Unresolved(ValueError):
    """A policy's request cannot be resolved now; the message tells the user what to do."""


class Asked(Struct, frozen=True):
    """Spec of a ResourceBinding, its replicas, and whether they are divided."""

    spec: Manifest
    replicas: int = 0
    workload: bool = False


def binding_spec(
    manifest: Manifest,
    policy: Manifest | None,
    options: DetectorOptions,
    priority_of: PriorityOf,
    interpreter: Interpreter = NATIVE,
) -> Asked:
    """What the binding of an object asks for; `policy` is the claiming policy's spec, None for what goes everywhere.

    Raises InterpretError when the template does not have the shape of its kind, Unresolved for a class that is missing.
    """
    metadata = manifest["metadata"]
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    resource = {
        "apiVersion": api_version,
        "kind": kind,
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
    }
    if metadata.get("namespace"):
        resource["namespace"] = metadata["namespace"]
    spec: Manifest = {"resource": resource}
    if policy is None:
        return Asked(spec)
    replicas, workload = _size(spec, manifest, options, interpreter)
    for name in _COPIED:
        value = policy.get(name)
        if value is not None:
            spec[name] = value
    spec.setdefault("placement", {})
    spec["schedulerName"] = policy.get("schedulerName") or "default-scheduler"
    spec["conflictResolution"] = policy.get("conflictResolution") or "Abort"
    if options.priorities and metadata.get("namespace") and policy.get("schedulePriority") is not None:
        spec["schedulePriority"] = {"priority": _priority(policy["schedulePriority"], priority_of)}
    if options.affinities and metadata.get("namespace"):
        groups = affinity_groups(policy, metadata.get("labels") or {})
        if groups:
            spec["workloadAffinityGroups"] = groups
    return Asked(spec, replicas, workload)


def same_request(bound: BindingRequested, wanted: BindingRequested) -> bool:
    """Whether nothing that is asked for differs; a policy that was edited without effect asks for the same."""
    same = bound.dependencies == wanted.dependencies and bound.requires == wanted.requires
    return same and bound.contradictions == wanted.contradictions and _asks_alike(bound, wanted)


def succeeding(bound: BindingRequested, wanted: BindingRequested, reason: str) -> BindingRequested:
    """A request with its generation, and the reason if it has another policy than the one before.

    What an object requires beside it is no part of its spec: that alone is no new generation.
    """
    generation = bound.generation if _asks_alike(bound, wanted) else bound.generation + 1
    moved = _policy_id(bound) != _policy_id(wanted)
    return replace(wanted, generation=generation, reason=reason if moved else "")


def frozen_at(bound: BindingRequested) -> int:
    """The generation whose copies stay when a policy places what went everywhere before."""
    return bound.frozen or (bound.generation if bound.everywhere else 0)


def _asks_alike(bound: BindingRequested, wanted: BindingRequested) -> bool:
    same = bound.spec == wanted.spec and _policy_id(bound) == _policy_id(wanted)
    where = (bound.everywhere, bound.attached, bound.frozen) == (wanted.everywhere, wanted.attached, wanted.frozen)
    return same and where


def _policy_id(binding: BindingRequested) -> tuple[PolicyKey, str, bool] | None:
    """What distinguishes the policy of a binding, its generation aside."""
    policy = binding.policy
    return None if policy is None else (policy.key, policy.id, policy.unselected)


def _size(spec: Manifest, manifest: Manifest, options: DetectorOptions, interpreter: Interpreter) -> tuple[int, bool]:
    """Enter how large the workload is; its replicas, and whether they are divided."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    if options.components and interpreter.hook_enabled(api_version, kind, Operation.COMPONENT):
        # A set of components is placed whole: there are no replicas to divide.
        components = interpreter.interpret(Operation.COMPONENT, manifest)
        if components:
            spec["components"] = components
        return 0, False
    if not interpreter.hook_enabled(api_version, kind, Operation.REPLICA):
        return 0, False
    replicas, requirements = interpreter.interpret(Operation.REPLICA, manifest, options.quotas)
    why = wrong_count(replicas)
    if why:
        raise InterpretError(why, "spec.replicas")
    if replicas:
        spec["replicas"] = replicas
    if requirements is not None:
        spec["replicaRequirements"] = requirements
    return replicas, replicas > 0 or requirements is not None


def priority_class(policy: Manifest | None) -> str:
    """Name of the PriorityClass that a policy's spec refers to; empty when it refers to none."""
    asked = (policy or {}).get("schedulePriority")
    return str(asked.get("priorityClassName") or "") if isinstance(asked, dict) else ""


def _priority(asked: Manifest, priority_of: PriorityOf) -> int:
    source = asked.get("priorityClassSource")
    if source != _CLASS_SOURCE:
        raise Unresolved(f"schedulePriority.priorityClassSource {source!r} is not supported yet; use {_CLASS_SOURCE}")
    name = str(asked.get("priorityClassName") or "")
    found = priority_of(name)
    if found is None:
        raise Unresolved(
            f"schedulePriority.priorityClassName {name!r}: the control plane has no such PriorityClass; create it"
        )
    return found


def affinity_groups(policy: Manifest, labels: dict[str, str]) -> dict[str, str]:
    """The groups of an object with these labels: `<key>=<value>` where it has the label, if with an empty value."""
    affinity = (policy.get("placement") or {}).get("workloadAffinity") or {}
    groups: dict[str, str] = {}
    for part, name in (("affinity", "affinityGroup"), ("antiAffinity", "antiAffinityGroup")):
        label = (affinity.get(part) or {}).get("groupByLabelKey")
        if label and label in labels:
            groups[name] = f"{label}={labels[label]}"
    return groups
