"""Builds ResourceBinding and ClusterResourceBinding from the facets of one object.

Everything here is a function of one snapshot: the same facts give the same object on every gateway.
Source: docs/sources.md#bindings, #binding-requests, #scheduling.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from schemas.events.binding import BindingRequested
from schemas.events.eviction import EvictionTask
from schemas.events.placement import PlacementDecided, PlacementFailed, TargetCluster
from schemas.events.rollup import ClusterStatusItem, StatusRolledUp
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.binding_versions import converted
from services._rules.delivery.work_status import (
    FAILED_SUMMARY,
    FULLY_APPLIED,
    NOT_COUNTED,
    NOT_FULLY_APPLIED,
    NOT_YET,
    NOWHERE,
)
from services._rules.effective import effective, tasks_of
from services._rules.generations import generation_of
from services._rules.identities import binding_id, binding_uid
from services._rules.kubernetes.quantity import QuantityError
from services._rules.names import binding_name, binding_reference_key
from services._rules.scheduling.decoding import binding_view
from services._rules.scheduling.reschedule_triggers import answered
from services._rules.scheduling.scheduling_views import Status
from services.apiserver.store.store_port import Key
from services.gateway.state import Bound, Owner
from services.gateway.views.view_shapes import GROUP, condition, fields_of, summed, time_text

NAMESPACED: Final = "resourcebindings"
CLUSTER_WIDE: Final = "clusterresourcebindings"
SCHEDULED_MESSAGE: Final = "Binding has been scheduled successfully."
OWNERS_ANNOTATION: Final = "gateway.fleetlog.io/required-by"
"""How many bindings depend on one, where it does not show all of them."""
LEFT: Final = (
    "It has left all of these clusters since. No policy claims the object, so it is not placed again until one does."
)
_LISTED: Final = 3
"""Refusing clusters that the condition names; all are in the aggregated status."""
_LONGEST: Final = 300


def asked(bound: Bound) -> BindingRequested:
    """The request behind a snapshot that is shown; raises ValueError for one that is not."""
    if bound.binding is None:
        raise ValueError("nothing asks for this object: it has no binding to show")
    return bound.binding


def key_of(bound: Bound) -> Key:
    """Where the binding is shown."""
    binding = asked(bound)
    namespace = binding.key.namespace
    resource = NAMESPACED if namespace else CLUSTER_WIDE
    return Key(GROUP, resource, namespace, binding_name(binding.kind, binding.key.name))


def labels_of(bound: Bound) -> dict[str, str]:
    """Labels of the binding: its permanent id, and the claim of its policy."""
    binding = asked(bound)
    namespaced = bool(binding.key.namespace)
    own = const.RESOURCE_BINDING_ID_LABEL if namespaced else const.CLUSTER_RESOURCE_BINDING_ID_LABEL
    labels = {**binding.labels, own: binding_id(binding.key, binding.uid)}
    policy = binding.policy
    if policy is not None and policy.key.kind == const.MULTI_CLUSTER_SERVICE:
        labels[const.BINDING_MANAGED_BY_LABEL] = const.MULTI_CLUSTER_SERVICE
        labels[const.MULTI_CLUSTER_SERVICE_ID_LABEL] = policy.id
    elif policy is not None and policy.id:
        cluster_wide = policy.key.kind == "ClusterPropagationPolicy"
        claim = const.CLUSTER_PROPAGATION_POLICY_ID_LABEL if cluster_wide else const.PROPAGATION_POLICY_ID_LABEL
        labels[claim] = policy.id
    for owner in bound.owners:
        labels[const.DEPENDED_BY_LABEL_PREFIX + binding_reference_key(owner.namespace, owner.name)] = owner.id
    return labels


def _annotations(bound: Bound) -> dict[str, str]:
    binding = asked(bound)
    annotations = dict(binding.annotations)
    policy = binding.policy
    if policy is not None and policy.key.kind == "ClusterPropagationPolicy":
        annotations[const.CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION] = policy.key.name
    elif policy is not None and policy.key.kind == const.MULTI_CLUSTER_SERVICE:
        annotations[const.MULTI_CLUSTER_SERVICE_NAMESPACE] = policy.key.namespace
        annotations[const.MULTI_CLUSTER_SERVICE_NAME] = policy.key.name
    elif policy is not None:
        annotations[const.PROPAGATION_POLICY_NAMESPACE_ANNOTATION] = policy.key.namespace
        annotations[const.PROPAGATION_POLICY_NAME_ANNOTATION] = policy.key.name
    if isinstance(binding.dependencies, Raw):
        annotations[const.DEPENDENCIES_ANNOTATION] = bytes(binding.dependencies).decode()
    if bound.owner_count > len(bound.owners):
        annotations[OWNERS_ANNOTATION] = str(bound.owner_count)
    placement = _placement(bound)
    if placement is not None and isinstance(placement.placement, Raw):
        annotations[const.APPLIED_PLACEMENT_ANNOTATION] = bytes(placement.placement).decode()
    return annotations


def metadata_of(bound: Bound, version: str) -> Manifest:
    """metadata of the binding; `version` is its resourceVersion."""
    binding = asked(bound)
    key = binding.key
    metadata: Manifest = {"name": key_of(bound).name}
    if key.namespace:
        metadata["namespace"] = key.namespace
    metadata |= {
        "uid": binding_uid(key, binding.uid),
        "resourceVersion": version,
        "generation": _generation(bound),
        "creationTimestamp": time_text(binding.created_at),
        "labels": labels_of(bound),
        "annotations": _annotations(bound),
        "ownerReferences": [owner(binding.api_version, binding.kind, key, binding.uid)],
        "finalizers": _finalizers(binding),
    }
    return metadata


def _finalizers(binding: BindingRequested) -> list[str]:
    if not binding.key.namespace:
        return [const.CLUSTER_RESOURCE_BINDING_FINALIZER]
    distributed = isinstance(binding.dependencies, Raw)
    return [const.RESOURCE_BINDING_FINALIZER, *([const.DEPENDENCIES_FINALIZER] if distributed else [])]


def _generation(bound: Bound) -> int:
    """It grows with every change of the spec, clusters and eviction tasks included."""
    return generation_of(asked(bound), bound.placement, bound.eviction, bound.descheduling)


def owner(api_version: str, kind: str, key: ObjectKey, uid: str) -> Manifest:
    """The controlling owner reference to a template."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": key.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def build(bound: Bound, version: str, api_version: str = const.BINDING_API) -> Manifest:
    """The whole binding in a version; in the present one, parts of its facts stay JSON as they are.

    Source: docs/sources.md#bindings.
    """
    present = {
        "apiVersion": const.BINDING_API,
        "kind": "ResourceBinding" if asked(bound).key.namespace else "ClusterResourceBinding",
        "metadata": metadata_of(bound, version),
        "spec": _spec(bound),
        "status": _status(bound),
    }
    if api_version == const.BINDING_API:
        return present
    return converted(msgspec.json.decode(msgspec.json.encode(present)), api_version)


def _placement(bound: Bound) -> PlacementDecided | PlacementFailed | None:
    """The placement of this very object; one of another uid counts as absent."""
    placement = bound.placement
    return placement if placement is not None and placement.uid == asked(bound).uid else None


def _rollup(bound: Bound) -> StatusRolledUp | None:
    rollup = bound.rollup
    return rollup if rollup is not None and rollup.uid == asked(bound).uid else None


def _spec(bound: Bound) -> Manifest:
    binding = asked(bound)
    spec: Manifest = fields_of(binding.spec)
    spec.pop("clusters", None)
    spec.pop("gracefulEvictionTasks", None)
    targets = targets_of(bound)
    if targets:
        spec["clusters"] = [_target(target) for target in targets]
    tasks = tasks_of(bound.eviction, binding.uid)
    if tasks:
        spec["gracefulEvictionTasks"] = [_task(task) for task in tasks]
    if bound.owners:
        spec["requiredBy"] = [_owner(item) for item in bound.owners]
    return spec


def _owner(item: Owner) -> Manifest:
    entry: Manifest = {"namespace": item.namespace, "name": item.name}
    return entry | ({"clusters": [_target(target) for target in item.clusters]} if item.clusters else {})


def targets_of(bound: Bound) -> tuple[TargetCluster, ...]:
    """Clusters in spec.clusters: those decided upon, without those the object is leaving, less what was taken back."""
    placement = _placement(bound)
    if placement is None:
        return ()
    # Works show whether a cluster is still a member: here the decision is shown as it stands.
    named = [target.name for target in placement.clusters]
    where = effective(
        asked(bound),
        placement,
        bound.eviction,
        eviction_seq=bound.eviction_seq,
        descheduling=bound.descheduling,
        placement_seq=bound.placement_seq,
        clusters=named,
    )
    return where.targets


def _target(target: TargetCluster) -> Manifest:
    return {"name": target.name, "replicas": target.replicas} if target.replicas else {"name": target.name}


def _task(task: EvictionTask) -> Manifest:
    entry: Manifest = {"fromCluster": task.from_cluster, "reason": task.reason, "producer": task.producer}
    optional: dict[str, Any] = {
        "purgeMode": task.purge_mode or None,
        "message": task.message or None,
        "replicas": task.replicas or None,
        "gracePeriodSeconds": task.grace_period_seconds,
        "suppressDeletion": task.suppress_deletion,
        "creationTimestamp": time_text(task.created_at) if task.created_at else None,
        "preservedLabelState": task.preserved_state or None,
        "clustersBeforeFailover": list(task.clusters_before) or None,
    }
    return entry | {name: value for name, value in optional.items() if value is not None}


def summary(bound: Bound, version: str) -> Manifest:
    """metadata and the status of the conditions; `version` is the resourceVersion."""
    scheduled = bound.scheduled if _placement(bound) is not None else None
    applied = bound.applied if _rollup(bound) is not None else None
    return summed(metadata_of(bound, version), {"Scheduled": scheduled, "FullyApplied": applied})


def _status(bound: Bound) -> Manifest:
    status: Manifest = {}
    conditions: list[Manifest] = []
    placement, rollup = _placement(bound), _rollup(bound)
    if placement is not None and bound.scheduled is not None:
        current = _is_current(bound, placement)
        if bound.observed_generation:
            present = _generation(bound)
            status["schedulerObservedGeneration"] = present if current else min(bound.observed_generation, present)
        if placement.affinity_name:
            status["schedulerObservingAffinityName"] = placement.affinity_name
        if placement.scheduled_at:
            status["lastScheduledTime"] = time_text(_last_run(bound, placement) if current else placement.scheduled_at)
        reason, message = "Success", SCHEDULED_MESSAGE
        if isinstance(placement, PlacementFailed):
            reason, message = placement.reason, placement.message
        elif _has_left(bound, placement):
            message = f"{message} {LEFT}"
        conditions.append(condition("Scheduled", bound.scheduled, reason, message))
    if rollup is not None and bound.applied is not None:
        words = FULLY_APPLIED if rollup.fully_applied else NOT_FULLY_APPLIED
        message = f"{words.message}{_failures(rollup)}"
        conditions.append(condition("FullyApplied", bound.applied, words.reason, message))
        if rollup.items:
            status["aggregatedStatus"] = [_item(item) for item in rollup.items]
    if conditions:
        status["conditions"] = conditions
    return status


def _failures(rollup: StatusRolledUp) -> str:
    """The first clusters that refused the object, each with its reason and what helps, and those still to report."""
    silent = [item.cluster for item in rollup.items if not item.applied and item.message in ("", NOT_YET)]
    failed = [item for item in rollup.items if item.message not in ("", NOT_YET)]
    parts = [f"{item.cluster}: {_reason(item)}" for item in failed[:_LISTED]]
    if not rollup.items and not rollup.fully_applied:
        parts.append(NOWHERE)
    if len(failed) > _LISTED:
        parts.append(f"and {len(failed) - _LISTED} more clusters")
    if silent:
        more = f" and {len(silent) - _LISTED} more clusters" if len(silent) > _LISTED else ""
        names = ", ".join(silent[:_LISTED])
        parts.append(f"waiting for {names}{more} to report (`kubectl get clusters` shows which are ready)")
    return f": {'; '.join(parts)}" if parts else ""


def _reason(item: ClusterStatusItem) -> str:
    return item.message.removeprefix(FAILED_SUMMARY).removeprefix(f"cluster {item.cluster}: ")[:_LONGEST]


def _has_left(bound: Bound, placement: PlacementDecided | PlacementFailed) -> bool:
    """Whether an object left all clusters that it was placed in, and nothing places it again."""
    return asked(bound).policy is None and bool(placement.clusters) and not targets_of(bound)


def _is_current(bound: Bound, placement: PlacementDecided | PlacementFailed) -> bool:
    """Whether scheduling is up to date: what was decided stands, and answers what is asked for now.

    The scheduler writes nothing about a change that leaves its decision as it is. Source: docs/sources.md#scheduling.
    """
    if isinstance(placement, PlacementFailed) or targets_of(bound) != placement.clusters:
        return False
    if placement.binding_generation >= asked(bound).generation:
        return True
    spec = _spec(bound)
    if fields_of(spec.get("suspension") or Raw(b"{}")).get("scheduling") or not isinstance(placement.placement, Raw):
        return False
    last = time_text(placement.scheduled_at) if placement.scheduled_at else None
    try:
        view = binding_view(msgspec.json.decode(msgspec.json.encode(spec)))
        return answered(view, Status(placement.affinity_name, last), bytes(placement.placement).decode())
    except (msgspec.ValidationError, QuantityError, ValueError):
        return False


def _last_run(bound: Bound, placement: PlacementDecided | PlacementFailed) -> float:
    """When scheduling succeeded last: what follows clusters is scheduled at each change of them and of its own spec."""
    if bound.followed is None:
        return placement.scheduled_at
    binding, eviction = asked(bound), bound.eviction
    left = eviction.provenance.decided_at if eviction is not None and eviction.uid == binding.uid else 0.0
    return max(placement.scheduled_at, bound.ran_at, binding.provenance.decided_at, left)


def _item(item: ClusterStatusItem) -> Manifest:
    entry: Manifest = {"clusterName": item.cluster}
    if item.status is not UNSET:
        entry["status"] = item.status
    # The field has omitempty in its type: Karmada leaves a false value out, too.
    if item.applied:
        entry["applied"] = True
    message = item.message or (f"{NOT_COUNTED}{item.problem}" if item.problem else "")
    if message:
        entry["appliedMessage"] = message
    entry["health"] = item.health
    return entry
