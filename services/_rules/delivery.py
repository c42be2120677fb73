"""Decides how a member object is brought to what a work says: write, delete, leave, refuse (reference 03 §3)."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from services._rules import constants as const
from services._rules.interpreter import INTERPRET_HEALTH, RETAIN, InterpretError, NativeInterpreter
from services._rules.semantic_equal import needs_update
from services._rules.status_retain import retain_annotations, retain_labels

Manifest = dict[str, Any]

_INTERPRETER = NativeInterpreter()
_BINDING_MARKS = (
    const.RESOURCE_BINDING_ID_LABEL,
    const.WORK_ID_LABEL,
    const.MANAGED_LABEL,
)
_BINDING_NOTES = (
    const.MANAGED_ANNOTATIONS_ANNOTATION,
    const.MANAGED_LABELS_ANNOTATION,
    const.RESOURCE_BINDING_NAMESPACE_ANNOTATION,
    const.RESOURCE_BINDING_NAME_ANNOTATION,
    const.TEMPLATE_UID_ANNOTATION,
    const.TEMPLATE_GENERATION_ANNOTATION,
    const.WORK_NAMESPACE_ANNOTATION,
    const.WORK_NAME_ANNOTATION,
)


class Create(Struct, frozen=True):
    """Nothing is there: create the object."""

    manifest: Manifest


class Replace(Struct, frozen=True):
    """Something of ours is there with other content: write this over it."""

    manifest: Manifest


class Leave(Struct, frozen=True):
    """What is there needs no write."""


class Refuse(Struct, frozen=True):
    """What is there is not ours to touch; the message says what to do about it."""

    message: str


class Remove(Struct, frozen=True):
    """Delete the object with this uid."""

    uid: str


Action = Create | Replace | Leave | Refuse | Remove


def is_managed(live: Manifest) -> bool:
    """Whether a member object bears our mark."""
    return bool((live["metadata"].get("labels") or {}).get(const.MANAGED_LABEL) == const.LABEL_TRUE)


def apply_action(desired: Manifest, live: Manifest | None, cluster: str, previous: Manifest | None = None) -> Action:
    """What to do so that a member holds the desired manifest (§3.3, §3.4); raises InterpretError.

    `previous` is the manifest applied before, where another one was: what it had and the desired one lacks has to go.
    """
    if live is None:
        return Create(desired)
    annotations = desired["metadata"].get("annotations") or {}
    if not is_managed(live) and annotations.get(const.CONFLICT_RESOLUTION_ANNOTATION) != const.CONFLICT_OVERWRITE:
        return Refuse(_foreign(desired, cluster))
    wanted = _over(desired, live)
    if is_managed(live) and not needs_update(wanted, live, previous):
        return Leave()
    return Replace(wanted)


def _foreign(desired: Manifest, cluster: str) -> str:
    metadata = desired["metadata"]
    place = f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]
    return (
        f"{desired['kind']} {place} exists in cluster {cluster} and is not managed from here; annotate the template "
        f"with {const.CONFLICT_RESOLUTION_ANNOTATION}=overwrite, or set conflictResolution: Overwrite in the policy, "
        "to take it over"
    )


def _over(desired: Manifest, live: Manifest) -> Manifest:
    """The desired object as it is to be written over the live one: what belongs to the member is kept."""
    wanted = retain_labels(retain_annotations(desired, live), live)
    metadata = dict(wanted["metadata"])
    observed = live["metadata"]
    for name in ("resourceVersion", "finalizers", "ownerReferences"):
        if observed.get(name):
            metadata[name] = observed[name]
        else:
            metadata.pop(name, None)
    wanted = {**wanted, "metadata": metadata}
    if _INTERPRETER.hook_enabled(wanted["apiVersion"], wanted["kind"], RETAIN):
        wanted = _INTERPRETER.retain(wanted, live)
    return wanted


def withdraw_action(live: Manifest | None, *, keep: bool) -> Action:
    """What to do when a work was withdrawn (§3.6): delete what is ours, or (`keep`) only take our marks off."""
    if live is None or not is_managed(live):
        return Leave()
    metadata = live["metadata"]
    if not keep:
        return Leave() if "deletionTimestamp" in metadata else Remove(str(metadata.get("uid", "")))
    namespaced = bool(metadata.get("namespace"))
    claim_label = const.PROPAGATION_POLICY_ID_LABEL if namespaced else const.CLUSTER_PROPAGATION_POLICY_ID_LABEL
    claim_notes = (
        (const.PROPAGATION_POLICY_NAMESPACE_ANNOTATION, const.PROPAGATION_POLICY_NAME_ANNOTATION)
        if namespaced
        else (const.CLUSTER_PROPAGATION_POLICY_NAME_ANNOTATION,)
    )
    labels = _less(metadata.get("labels"), (*_BINDING_MARKS, claim_label))
    annotations = _less(metadata.get("annotations"), (*_BINDING_NOTES, *claim_notes))
    kept = {name: value for name, value in metadata.items() if name not in ("labels", "annotations", "managedFields")}
    return Replace(
        {
            **{name: value for name, value in live.items() if name != "status"},
            "metadata": {**kept, "labels": labels, "annotations": annotations},
        }
    )


def _less(pairs: dict[str, str] | None, names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in (pairs or {}).items() if name not in names}


class Reflection(Struct, frozen=True):
    """What a member object reports: status to collect (None: nothing) and health; `problem` when it is unreadable."""

    status: Any = None
    health: str = "Unknown"
    problem: str = ""


def reflect(live: Manifest) -> Reflection:
    """Status and health of a member object (§4.2)."""
    problem = ""
    status = None
    try:
        status = _INTERPRETER.reflect_status(live)
    except InterpretError as error:
        problem = str(error)
    if not _INTERPRETER.hook_enabled(live["apiVersion"], live["kind"], INTERPRET_HEALTH):
        return Reflection(status, "Healthy", problem)
    try:
        health = "Healthy" if _INTERPRETER.interpret_health(live) else "Unhealthy"
    except InterpretError as error:
        return Reflection(status, "Unknown", problem or str(error))
    return Reflection(status, health, problem)
