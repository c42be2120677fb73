"""Texts of Kubernetes Events about policies that cannot be applied to an object (docs/sources.md#events)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.constants import MULTI_CLUSTER_SERVICE, NETWORKING_API, POLICY_API
from services._rules.endpoints.multi_cluster_services import marker_key
from services._rules.interpreter import Operation
from services._rules.kubernetes.event_objects import Note
from services._rules.names import namespaced_key
from services.detector.binding_request import priority_class
from services.detector.effects import Tell
from services.detector.policies.policy_view import PolicyView
from services.detector.state import PRIORITY_CLASSES, DetectorState

LONGEST: Final = 1024
_PREEMPTION_OFF: Final = (
    "spec.preemption is Always, but feature gate PropagationPolicyPreemption is off: objects stay with the policy that "
    "claimed them until it is deleted or selects them no more; turn the gate on to let this policy take them"
)
_DEPENDENCIES_OFF: Final = (
    "spec.propagateDeps is true, but feature gate PropagateDeps is off: what objects need beside them (ConfigMaps, "
    "Secrets, …) does not follow them; turn the gate on, or select it in a policy"
)


def unresolved(
    state: DetectorState, key: ObjectKey, manifest: Manifest, view: PolicyView | None, why: str
) -> Note | None:
    """The Event of a policy that cannot be applied; None while PriorityClasses are not listed yet."""
    if view is None or (priority_class(view.spec) and PRIORITY_CLASSES not in state.listed):
        return None
    return _note(key, manifest, "ApplyPolicyFailed", f"Apply policy({_named(view)}) failed: {why}")


def not_interpreted(state: DetectorState, key: ObjectKey, manifest: Manifest, why: str) -> Note:
    """The Event of an object whose replicas or components no interpreter returned; its binding stays as it was."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    components = state.options.components and state.interpreter.hook_enabled(api_version, kind, Operation.COMPONENT)
    reason, what = ("GetComponentsFailed", "components") if components else ("GetReplicasFailed", "replicas")
    return _note(key, manifest, reason, f"The object's {what} are not known, and it stays as it is in clusters: {why}")


def unused(state: DetectorState, view: PolicyView) -> Note | None:
    """The Event about fields of a policy that have no effect, because their gate is off."""
    found = []
    if view.match is not None and view.match.preempts and not state.options.preemption:
        found.append(_PREEMPTION_OFF)
    if view.spec.get("propagateDeps") is True and not state.options.dependencies:
        found.append(_DEPENDENCIES_OFF)
    return of_policy(view, "FieldNotActedOn", "; ".join(found)) if found else None


def of_policy(view: PolicyView, reason: str, message: str, *, warning: bool = True) -> Note:
    """An Event about a policy, on the policy itself."""
    plural = "clusterpropagationpolicies" if view.key.kind == "ClusterPropagationPolicy" else "propagationpolicies"
    named = ObjectKey("policy.karmada.io", plural, view.key.namespace, view.key.name)
    return Note(named, view.uid, POLICY_API, view.key.kind, reason, message[:LONGEST], "resource-detector", warning)


def gated(view: PolicyView) -> Note:
    """The Event about a MultiClusterService while its feature gate is off."""
    gate = MULTI_CLUSTER_SERVICE
    message = f"feature gate {gate} is off, so nothing is made of it; set FLEETLOG_FEATURE_GATES={gate}=true"
    named = marker_key(view.key.namespace, view.key.name)
    return Note(named, view.uid, NETWORKING_API, gate, "FieldNotActedOn", message, "resource-detector", warning=True)


def overrides_missing(key: ObjectKey, manifest: Manifest, view: PolicyView, lacking: Sequence[PolicyKey]) -> Note:
    """The Event of an object whose policy depends on override policies that do not exist."""
    why = f"spec.dependentOverrides: {some(item.name for item in lacking)} not found; the object waits until they exist"
    return _note(key, manifest, "ApplyPolicyFailed", f"Apply policy({_named(view)}) failed: {why}")


def preempted_by(key: ObjectKey, manifest: Manifest, preempted: PolicyKey | None, view: PolicyView) -> Note | None:
    """The Event of an object that a policy takes from another."""
    if preempted is None:
        return None
    note = _note(key, manifest, "PreemptPolicySucceed", f"{view.key} preempted {preempted}")
    return msgspec.structs.replace(note, warning=False)


def preemption_failed(preempted: Note, why: str) -> Note:
    """The Event of an object whose claim could not be written when a policy took it from another."""
    message = f"{preempted.message}, but its claim could not be written: {why}"[:LONGEST]
    return msgspec.structs.replace(preempted, reason="PreemptPolicyFailed", message=message, warning=True)


def told_of(note: Note | None) -> tuple[Tell, ...]:
    """The effect that tells of a Kubernetes Event, if there is one to tell."""
    return (Tell(note),) if note is not None else ()


def some(names: Iterable[str], most: int = 5) -> str:
    """A few names of many."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + more


def _named(view: PolicyView) -> str:
    return namespaced_key(view.key.namespace, view.key.name)


def _note(key: ObjectKey, manifest: Manifest, reason: str, message: str) -> Note:
    uid = str(manifest["metadata"].get("uid", ""))
    return Note(
        key, uid, manifest["apiVersion"], manifest["kind"], reason, message[:LONGEST], "resource-detector", True
    )
