"""Texts of Kubernetes Events about policies that cannot be applied to an object (docs/sources.md#events)."""

from __future__ import annotations

from typing import Final

from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.constants import POLICY_API
from services._rules.interpreter import Operation
from services._rules.kubernetes.event_objects import Note
from services._rules.names import namespaced_key
from services._rules.policies.unsupported import unsupported_fields
from services.detector.binding_request import priority_class
from services.detector.policy_view import PolicyView
from services.detector.state import PRIORITY_CLASSES, DetectorState

LONGEST: Final = 1024


def unresolved(
    state: DetectorState, key: ObjectKey, manifest: Manifest, view: PolicyView | None, why: str
) -> Note | None:
    """The Event of a policy that cannot be applied; None while PriorityClasses are not listed yet."""
    if view is None or (priority_class(view.spec) and PRIORITY_CLASSES not in state.listed):
        return None
    policy = namespaced_key(view.key.namespace, view.key.name)
    return _note(key, manifest, "ApplyPolicyFailed", f"Apply policy({policy}) failed: {why}")


def not_interpreted(state: DetectorState, key: ObjectKey, manifest: Manifest, why: str) -> Note:
    """The Event of an object whose replicas or components no interpreter returned; its binding stays as it was."""
    api_version, kind = manifest["apiVersion"], manifest["kind"]
    components = state.options.components and state.interpreter.hook_enabled(api_version, kind, Operation.COMPONENT)
    reason, what = ("GetComponentsFailed", "components") if components else ("GetReplicasFailed", "replicas")
    return _note(key, manifest, reason, f"The object's {what} are not known, and it stays as it is in clusters: {why}")


def unused(key: PolicyKey, uid: str, manifest: Manifest) -> Note | None:
    """The Event about fields of a policy that have no effect yet."""
    found = unsupported_fields(key.kind, manifest)
    if not found:
        return None
    plural = "clusterpropagationpolicies" if key.kind == "ClusterPropagationPolicy" else "propagationpolicies"
    named = ObjectKey("policy.karmada.io", plural, key.namespace, key.name)
    return Note(named, uid, POLICY_API, key.kind, "FieldNotActedOn", "; ".join(found), "resource-detector", True)


def _note(key: ObjectKey, manifest: Manifest, reason: str, message: str) -> Note:
    uid = str(manifest["metadata"].get("uid", ""))
    return Note(
        key, uid, manifest["apiVersion"], manifest["kind"], reason, message[:LONGEST], "resource-detector", True
    )
