"""Decides how a member's object is reconciled with its work: write, delete, leave, refuse (docs/sources.md#apply)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.delivery.metadata_retention import retain_annotations, retain_labels
from services._rules.delivery.semantic_equal import needs_update
from services._rules.interpreter import InterpretError, Operation
from services._rules.interpreter.common.interpretation import describe, set_at
from services._rules.interpreter.native.status_conformance import ConformingInterpreter

_INTERPRETER = ConformingInterpreter()
_LONGEST = 4096
LARGEST_STATUS: Final = 1 << 20
"""Bytes of a status that are collected at most."""
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
    """The object there is not ours to change; the message holds the remedy."""

    message: str


class Remove(Struct, frozen=True):
    """Delete the object with this uid."""

    uid: str


Action = Create | Replace | Leave | Refuse | Remove


def is_managed(live: Manifest) -> bool:
    """Whether a member object bears our mark."""
    return bool((live["metadata"].get("labels") or {}).get(const.MANAGED_LABEL) == const.LABEL_TRUE)


def may_write(desired: Manifest, live: Manifest) -> bool:
    """Whether the live object is ours, or to be taken over."""
    annotations = desired["metadata"].get("annotations") or {}
    return is_managed(live) or annotations.get(const.CONFLICT_RESOLUTION_ANNOTATION) == const.CONFLICT_OVERWRITE


def apply_action(
    desired: Manifest,
    live: Manifest | None,
    cluster: str,
    previous: Manifest | None = None,
    wanted: Manifest | None = None,
) -> Action:
    """What to do so that a member holds the desired manifest; raises InterpretError.

    `previous` is the manifest applied before, where another one was: what it had and the desired one lacks has to go.
    `wanted` is what to write over the live object where a level above the built-in one provides it (see `retained`).
    """
    if live is None:
        return Create(desired)
    if not may_write(desired, live):
        return Refuse(_foreign(desired, cluster))
    if wanted is None:
        wanted = _retain(merge(desired, live), live)
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


def merge(desired: Manifest, live: Manifest) -> Manifest:
    """The desired object over the live one before retention: whatever its kind, this belongs to the member."""
    wanted = retain_labels(retain_annotations(desired, live), live)
    metadata = dict(wanted["metadata"])
    observed = live["metadata"]
    for name in ("resourceVersion", "finalizers", "ownerReferences"):
        if observed.get(name):
            metadata[name] = observed[name]
        else:
            metadata.pop(name, None)
    return {**wanted, "metadata": metadata}


def _retain(merged: Manifest, live: Manifest) -> Manifest:
    if _INTERPRETER.hook_enabled(merged["apiVersion"], merged["kind"], Operation.RETAIN):
        wanted: Manifest = _INTERPRETER.interpret(Operation.RETAIN, merged, live)
        return wanted
    return merged


def retained(answer: Manifest, merged: Manifest) -> Manifest:
    """What a level above the built-in one wants to write, bound to the live object's version; raises InterpretError.

    It must be the same object, and still bear our mark: otherwise it would be lost to us with the write.
    """
    metadata = answer.get("metadata")
    if type(metadata) is not dict:
        raise InterpretError(f"the returned object has {describe(metadata)}, expected an object", "metadata")
    for name in ("apiVersion", "kind"):
        if answer.get(name) != merged[name]:
            raise InterpretError(f"the returned object has {answer.get(name)!r}, expected {merged[name]!r}", name)
    for name in ("namespace", "name"):
        if (metadata.get(name) or "") != (merged["metadata"].get(name) or ""):
            wanted = merged["metadata"].get(name)
            raise InterpretError(
                f"the returned object has {metadata.get(name)!r}, expected {wanted!r}", f"metadata.{name}"
            )
    labels = metadata.get("labels")
    if type(labels) is not dict or labels.get(const.MANAGED_LABEL) != const.LABEL_TRUE:
        raise InterpretError(f"the returned object lacks {const.MANAGED_LABEL}={const.LABEL_TRUE}", "metadata.labels")
    version = merged["metadata"].get("resourceVersion")
    return (
        answer
        if metadata.get("resourceVersion") == version
        else set_at(answer, ("metadata", "resourceVersion"), version)
    )


def withdraw_action(live: Manifest | None, *, keep: bool) -> Action:
    """What to do when a work was withdrawn: delete what is ours, or (`keep`) only take our marks off."""
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


class ReportedStatus(Struct, frozen=True):
    """What a level above the built-in one said: a value, or the problem why there is none.

    `passing` problems may be gone the next time.
    """

    value: Any = None
    problem: str = ""
    passing: bool = False


class Reflection(Struct, frozen=True):
    """What a member object reports: status to collect (None: nothing) and health; `problem` when it is unreadable.

    `unread`: the status could not be read, what was collected last stands. `passing`: worth asking again.
    """

    status: Any = None
    health: str = "Unknown"
    problem: str = ""
    unread: bool = False
    passing: bool = False


def collectable(status: Any) -> Raw:
    """A status from a level above the built-in one as it is reported: names in order; raises InterpretError."""
    if type(status) is not dict:
        raise InterpretError(f"the returned status is {describe(status)}, expected an object")
    # Scripts know no order of names: without one, the same status would be reported again and again.
    data = msgspec.json.encode(status, order="deterministic")
    if len(data) > LARGEST_STATUS:
        raise InterpretError(f"the returned status has {len(data)} bytes, at most {LARGEST_STATUS} are collected")
    return Raw(data)


def reflect(live: Manifest, status: ReportedStatus | None = None, health: ReportedStatus | None = None) -> Reflection:
    """Status and health of a member object; `status` and `health` where a level above the built-in answers."""
    problem = ""
    found = None
    if status is not None:
        found, problem = status.value, status.problem
    else:
        try:
            found = _INTERPRETER.interpret(Operation.STATUS, live)
        except InterpretError as error:
            problem = str(error)
    unread = bool(problem)
    passing = (status is not None and status.passing) or (health is not None and health.passing)
    if health is not None:
        if health.problem:
            return Reflection(found, "Unknown", problem or health.problem, unread, passing)
        return Reflection(found, "Healthy" if health.value else "Unhealthy", problem, unread, passing)
    if not _INTERPRETER.hook_enabled(live["apiVersion"], live["kind"], Operation.HEALTH):
        return Reflection(found, "Healthy", problem, unread, passing)
    try:
        healthy = _INTERPRETER.interpret(Operation.HEALTH, live)
    except InterpretError as error:
        return Reflection(found, "Unknown", problem or str(error), unread, passing)
    return Reflection(found, "Healthy" if healthy else "Unhealthy", problem, unread, passing)


def not_interpreted(operation: Operation, live: Manifest, cluster: str, why: str) -> str:
    """Why a level above the built-in one gave no answer, and what to do about it."""
    if len(why) > _LONGEST:
        why = f"{why[:_LONGEST]}…"
    left = "; the object is left as it is" if operation == Operation.RETAIN else ""
    what = f"{operation} for {live['apiVersion']} {live['kind']} in cluster {cluster}"
    return f"{what}: {why}{left}; correct the script or webhook that answers for this kind"
