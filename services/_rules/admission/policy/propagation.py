"""Defaults and rules of PropagationPolicy and ClusterPropagationPolicy (docs/sources.md#admission)."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from schemas.manifest import Manifest
from services._rules.admission.common.answer import Context, Refusal
from services._rules.admission.policy import placement_rules as placement
from services._rules.admission.policy.selector_namespaces import selector_namespaces, with_selector_namespaces
from services._rules.constants import (
    CLUSTER_PROPAGATION_POLICY_FINALIZER,
    CLUSTER_PROPAGATION_POLICY_ID_LABEL,
    MULTICLUSTER_API,
    PROPAGATION_POLICY_FINALIZER,
    PROPAGATION_POLICY_ID_LABEL,
)
from services._rules.kubernetes.validation.field_errors import FieldError, invalid

_GRACE_SECONDS: Final = 600


class _Scope(Struct, frozen=True):
    label: str
    finalizer: str
    namespaced: bool


NAMESPACED: Final = _Scope(PROPAGATION_POLICY_ID_LABEL, PROPAGATION_POLICY_FINALIZER, True)
CLUSTER_WIDE: Final = _Scope(CLUSTER_PROPAGATION_POLICY_ID_LABEL, CLUSTER_PROPAGATION_POLICY_FINALIZER, False)


def default(scope: _Scope, obj: Manifest, operation: str, context: Context) -> Manifest:
    """The policy with everything filled in that its writer left open."""
    spec = dict(obj.get("spec") or {})
    if scope.namespaced:
        spec = with_selector_namespaces(spec, context.namespace)
    if spec.get("placement"):
        spec["placement"] = _placement(spec["placement"])
    if any(
        item.get("kind") == "ServiceImport" and item.get("apiVersion") == MULTICLUSTER_API
        for item in spec.get("resourceSelectors") or ()
    ):
        spec["propagateDeps"] = True
    failover = spec.get("failover") or {}
    application = failover.get("application") or {}
    if application.get("purgeMode") in placement.GRACEFUL and application.get("gracePeriodSeconds") is None:
        spec["failover"] = failover | {"application": application | {"gracePeriodSeconds": _GRACE_SECONDS}}
    if spec.get("suspension"):
        # Scheduling is suspended on bindings only; on a policy the field does not exist.
        spec["suspension"] = {name: value for name, value in spec["suspension"].items() if name != "scheduling"}
    obj = obj | {"spec": spec}
    return _identified(scope, obj, context.identity) if operation == "CREATE" else obj


def validate(scope: _Scope, obj: Manifest, old: Manifest | None) -> list[FieldError]:
    """What is wrong with a policy. Raises Refusal where what identifies it has changed or is missing."""
    spec, labels = obj.get("spec") or {}, (obj.get("metadata") or {}).get("labels") or {}
    if old is not None:
        _kept(scope, spec, labels, old)
    if scope.label not in labels:
        raise Refusal(
            f"label {scope.label} is missing: it identifies the policy and is set when it is created; keep it"
        )
    found = placement.placement(spec.get("placement") or {}, "spec.placement")
    found += placement.failover(spec.get("failover") or {}, bool(spec.get("propagateDeps")), "spec.failover")
    if scope.namespaced:
        found += selector_namespaces(spec, (obj.get("metadata") or {}).get("namespace") or "")
    return found + _preemption(spec) + _suspension(spec.get("suspension") or {})


def _kept(scope: _Scope, spec: Mapping[str, Any], labels: Mapping[str, str], old: Manifest) -> None:
    """Raises Refusal where an update changes what stays as it was made."""
    name, scheduler = spec.get("schedulerName") or "", (old.get("spec") or {}).get("schedulerName") or ""
    if name != scheduler:
        raise Refusal(
            f"spec.schedulerName: {name!r} cannot take the place of {scheduler!r}: keep it, or make a new policy"
        )
    identity = ((old.get("metadata") or {}).get("labels") or {}).get(scope.label, "")
    if labels.get(scope.label, "") != identity:
        raise Refusal(
            f"label {scope.label} must not be changed: it is set once, when the policy is created; keep {identity!r} "
            f"instead of {labels.get(scope.label, '')!r}"
        )


def _placement(value: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(value)
    if value.get("spreadConstraints"):
        result["spreadConstraints"] = [_spread(item) for item in value["spreadConstraints"]]
    division = value.get("replicaScheduling")
    if (
        division is not None
        and division.get("replicaSchedulingType") == "Divided"
        and not division.get("replicaDivisionPreference")
    ):
        result["replicaScheduling"] = division | {"replicaDivisionPreference": "Weighted"}
    return result


def _spread(item: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(item)
    if not item.get("spreadByField") and not item.get("spreadByLabel"):
        result["spreadByField"] = "cluster"
    if not item.get("minGroups"):
        result["minGroups"] = 1
    return result


def _identified(scope: _Scope, obj: Manifest, identity: str) -> Manifest:
    """A user's value of the identity is never kept: two policies must not pass for one."""
    metadata = obj.get("metadata") or {}
    finalizers = metadata.get("finalizers") or []
    if scope.finalizer not in finalizers:
        finalizers = [*finalizers, scope.finalizer]
    labels = {**(metadata.get("labels") or {}), scope.label: identity}
    return obj | {"metadata": metadata | {"labels": labels, "finalizers": finalizers}}


def _preemption(spec: Mapping[str, Any]) -> list[FieldError]:
    if spec.get("preemption") != "Always":
        return []
    return [
        invalid(
            f"spec.resourceSelectors[{position}].name", "", "must be set: with preemption the name limits the effect"
        )
        for position, item in enumerate(spec.get("resourceSelectors") or ())
        if not item.get("name")
    ]


def _suspension(value: Mapping[str, Any]) -> list[FieldError]:
    names = (value.get("dispatchingOnClusters") or {}).get("clusterNames")
    if value.get("dispatching") and names:
        return [
            invalid("spec.suspension", value, "dispatching stops every cluster: remove it or dispatchingOnClusters")
        ]
    return []
