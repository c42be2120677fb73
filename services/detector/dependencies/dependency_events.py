"""Texts of Kubernetes Events about dependencies, on owners, their bindings and attached bindings.

Source: docs/sources.md#events.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from schemas.events.binding import BindingRequested
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.dependencies.dependency_index import CONFLICT_RESOLUTION, PRESERVE
from services._rules.identities import binding_uid
from services._rules.kubernetes.event_objects import Note
from services._rules.names import binding_name, namespaced_key
from services.detector.dependencies.references import Reference

COMPONENT: Final = "dependencies-distributor"
_LONGEST: Final = 1024
_LISTED: Final = 10
_CONFLICTS: Final = {
    CONFLICT_RESOLUTION: "ConflictResolution conflicted (Overwrite vs Abort)",
    PRESERVE: "PreserveResourcesOnDeletion conflicted (true vs false)",
}


def found(key: ObjectKey, manifest: Manifest, references: Sequence[Reference]) -> Note:
    """The Event on an owner whose dependencies became others."""
    said = _several(f"{item.kind} {item.name or 'by label'}" for item in references)
    return _on_template(key, manifest, "GetDependenciesSucceed", f"The object's dependencies: {said}", warning=False)


def not_found(key: ObjectKey, manifest: Manifest, why: str) -> Note:
    """The Event on an owner whose dependencies no interpreter tells; those known before go with it still."""
    message = f"The object's dependencies are not known, and those known before still follow it: {why}"
    return _on_template(key, manifest, "GetDependenciesFailed", message, warning=True)


def followed(binding: BindingRequested) -> Note:
    """The Event on the binding of an owner that other objects follow from now on."""
    said = _several(f"{key.resource} {namespaced_key(key.namespace, key.name)}" for key in binding.requires)
    message = f"These go to every cluster of this binding: {said}"
    return _on_binding(binding, "SyncScheduleResultToDependenciesSucceed", message, warning=False)


def not_followed(binding: BindingRequested, why: str) -> Note:
    """The Event on the binding of an owner whose dependencies cannot follow it."""
    message = f"Dependencies of this binding stay as they are: {why}"
    return _on_binding(binding, "SyncScheduleResultToDependenciesFailed", message, warning=True)


def conflicting(binding: BindingRequested) -> Note:
    """The Event on an attached binding whose owners disagree."""
    parts = "; ".join(_CONFLICTS[name] for name in binding.contradictions)
    message = f"Dependency policy conflict detected: {parts}."
    return _on_binding(binding, "DependencyPolicyConflict", message, warning=True)


def _several(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"{', '.join(listed[:_LISTED])}{more}" if listed else "none"


def _on_template(key: ObjectKey, manifest: Manifest, reason: str, message: str, *, warning: bool) -> Note:
    uid = str(manifest["metadata"].get("uid", ""))
    return Note(key, uid, manifest["apiVersion"], manifest["kind"], reason, message[:_LONGEST], COMPONENT, warning)


def _on_binding(binding: BindingRequested, reason: str, message: str, *, warning: bool) -> Note:
    owner = binding.key
    plural, kind = (
        ("resourcebindings", "ResourceBinding")
        if owner.namespace
        else ("clusterresourcebindings", "ClusterResourceBinding")
    )
    key = ObjectKey("work.karmada.io", plural, owner.namespace, binding_name(binding.kind, owner.name))
    uid = binding_uid(owner, binding.uid)
    return Note(key, uid, const.BINDING_API, kind, reason, message[:_LONGEST], COMPONENT, warning)
