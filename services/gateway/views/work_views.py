"""Builds Work objects from works and observations of a cluster (docs/sources.md#rendering, #apply, #status)."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from schemas.events.work import AppliedOverride, WorkRendered, WorkWithdrawn
from schemas.keys import ObjectKey
from schemas.manifest import Manifest
from services._rules import constants as const
from services._rules.delivery.work_labels import with_work_labels
from services._rules.delivery.work_status import DISPATCHING, SUSPENDED
from services._rules.endpoints.multi_cluster_services import is_marker
from services._rules.identities import binding_id, work_id, work_uid
from services._rules.names import binding_name, execution_namespace, work_name
from services._rules.secrets.secret_objects import is_secret as secrecy
from services.apiserver.store.store_port import Key
from services.gateway.state import Copy, Since, manifest_of
from services.gateway.views.binding_views import owner
from services.gateway.views.view_shapes import GROUP, condition, encode, summed, time_text

WORKS: Final = "works"
REDACTED_ANNOTATION: Final = "gateway.fleetlog.io/redacted"
"""On a Work: why its manifest is shown without content."""
SECRET_REDACTED: Final = "the content of a Secret is not shown"
BYTES_MISSING: Final = "the bytes of the manifest cannot be read from stream BLOBS"


def fact_of(copy: Copy) -> WorkRendered | WorkWithdrawn:
    """The fact behind a snapshot that is shown; raises ValueError for one that is not."""
    if copy.work is None:
        raise ValueError("no work was rendered: there is nothing to show")
    return copy.work


def key_of(copy: Copy) -> Key:
    """Where the work is shown."""
    work = fact_of(copy)
    name = work_name(work.kind, work.key.name, work.key.namespace)
    return Key(GROUP, WORKS, execution_namespace(work.cluster), name)


def _everywhere(key: ObjectKey) -> bool:
    """Whether the object is in every cluster without a binding: namespaces are."""
    return key.group == "" and key.resource == "namespaces"


def _unbound(work: WorkRendered | WorkWithdrawn) -> bool:
    """Whether no binding asks for the work: namespaces are everywhere, quotas assign their shares themselves."""
    return work.policy is not None or _everywhere(work.key)


def labels_of(copy: Copy) -> dict[str, str]:
    """Labels of the work: its own permanent id and that of its binding."""
    work = fact_of(copy)
    key, uid = work.key, work.uid
    labels = {const.WORK_ID_LABEL: work_id(work.cluster, key, uid)}
    if work.policy is not None and work.policy.kind == const.MULTI_CLUSTER_SERVICE:
        labels[const.MULTI_CLUSTER_SERVICE_NAMESPACE] = work.policy.namespace
        labels[const.MULTI_CLUSTER_SERVICE_NAME] = work.policy.name
        if copy.rendered is not None and copy.rendered.policy_id:
            labels[const.MULTI_CLUSTER_SERVICE_ID_LABEL] = copy.rendered.policy_id
    elif work.policy is not None:
        labels[const.FEDERATED_QUOTA_NAMESPACE_LABEL] = work.policy.namespace
        labels[const.FEDERATED_QUOTA_NAME_LABEL] = work.policy.name
    if not _unbound(work):
        label = const.RESOURCE_BINDING_ID_LABEL if key.namespace else const.CLUSTER_RESOURCE_BINDING_ID_LABEL
        labels[label] = binding_id(key, uid)
    return labels


def _annotations(copy: Copy, redacted: str) -> dict[str, str]:
    work = fact_of(copy)
    key = work.key
    annotations: dict[str, str] = {}
    if not _unbound(work):
        name = binding_name(work.kind, key.name)
        if key.namespace:
            annotations[const.RESOURCE_BINDING_NAMESPACE_ANNOTATION] = key.namespace
            annotations[const.RESOURCE_BINDING_NAME_ANNOTATION] = name
        else:
            annotations[const.CLUSTER_RESOURCE_BINDING_NAME_ANNOTATION] = name
    rendered = copy.rendered
    if rendered is not None:
        if not _unbound(work):
            annotations[const.CONFLICT_RESOLUTION_ANNOTATION] = rendered.conflict_resolution.lower()
        if rendered.provider:
            annotations[const.PROVISION_CLUSTER_ANNOTATION] = rendered.provider
        if rendered.cluster_overrides:
            annotations[const.APPLIED_CLUSTER_OVERRIDES_ANNOTATION] = _overrides(rendered.cluster_overrides)
        if rendered.overrides:
            annotations[const.APPLIED_OVERRIDES_ANNOTATION] = _overrides(rendered.overrides)
    if redacted:
        annotations[REDACTED_ANNOTATION] = redacted
    return annotations


def _overrides(applied: tuple[AppliedOverride, ...]) -> str:
    """The record of applied override rules, sorted by the name of their policy (docs/sources.md#overrides)."""
    entries = sorted(applied, key=lambda item: item.policy)
    return encode([{"policyName": item.policy, "overriders": item.overriders} for item in entries]).decode()


def metadata_of(copy: Copy, version: str, created: float, redacted: str = "") -> Manifest:
    """metadata of the work; `version` is its resourceVersion, `created` its age in seconds since 1970."""
    work = fact_of(copy)
    key = work.key
    shown = key_of(copy)
    metadata: Manifest = {
        "name": shown.name,
        "namespace": shown.namespace,
        "uid": work_uid(work.cluster, key, work.uid),
        "resourceVersion": version,
        "generation": _generation(copy),
        "creationTimestamp": time_text(created),
        "labels": labels_of(copy),
        "annotations": _annotations(copy, redacted),
    }
    if not is_marker(key):
        metadata["finalizers"] = [const.WORK_FINALIZER]
    if _everywhere(key):
        metadata["ownerReferences"] = [owner(work.api_version, work.kind, key, work.uid)]
    if copy.withdrawn:
        metadata["deletionTimestamp"] = time_text(copy.withdrawn)
        metadata["deletionGracePeriodSeconds"] = 0
    return metadata


def _generation(copy: Copy) -> int:
    """It grows with what the member gets, and by one with the deletion."""
    rendered = copy.rendered
    number = max(rendered.generation, 1) if rendered is not None else 1
    return number + 1 if copy.withdrawn else number


def is_secret(copy: Copy) -> bool:
    """Whether the work carries a Secret, whose content is never served."""
    work = fact_of(copy)
    return secrecy(work.api_version, work.kind)


def needed_blob(copy: Copy) -> str:
    """Digest of the manifest that showing this work needs and its fact does not carry; empty for none."""
    rendered = copy.rendered
    if rendered is None or is_secret(copy) or manifest_of(rendered) is not None:
        return ""
    return rendered.digest


def build(copy: Copy, version: str, created: float, blob: bytes | None = None) -> Manifest:
    """The whole work; `blob` are the manifest's bytes where `needed_blob` names some, None when they are not there."""
    work, rendered = fact_of(copy), copy.rendered
    redacted = SECRET_REDACTED if is_secret(copy) else ""
    manifests: list[Any] = []
    if rendered is not None and (rendered.digest or manifest_of(rendered) is not None):
        data = None if redacted else manifest_of(rendered) or blob
        if data is None:
            redacted = redacted or BYTES_MISSING
            manifests.append(_outline(work))
        else:
            manifests.append(_marked(rendered, data) if rendered.shared else msgspec.Raw(data))
    spec: Manifest = {"workload": {"manifests": manifests}}
    if rendered is not None:
        spec["suspendDispatching"] = rendered.suspended
        spec["preserveResourcesOnDeletion"] = rendered.preserve_on_deletion
    return {
        "apiVersion": const.WORK_API,
        "kind": "Work",
        "metadata": metadata_of(copy, version, created, redacted),
        "spec": spec,
        "status": _status(copy),
    }


def _marked(work: WorkRendered, data: bytes) -> Manifest:
    """The manifest as this cluster gets it, of the bytes that it shares with others."""
    return with_work_labels(msgspec.json.decode(data), work.cluster, work.key, work.uid)


def _outline(work: WorkRendered | WorkWithdrawn) -> Manifest:
    metadata = {"name": work.key.name}
    if work.key.namespace:
        metadata["namespace"] = work.key.namespace
    return {"apiVersion": work.api_version, "kind": work.kind, "metadata": metadata}


def summary(copy: Copy, version: str, created: float) -> Manifest:
    """metadata, the kind of the manifest and the status of the conditions."""
    shown = summed(metadata_of(copy, version, created), {"Applied": _applied(copy)})
    return {**shown, "spec": {"workload": {"manifests": [{"kind": fact_of(copy).kind}]}}}


def _applied(copy: Copy) -> Since | None:
    """The Applied condition; None before the cluster reported on this very object."""
    seen = copy.observed
    if seen is None or seen.uid != fact_of(copy).uid or (seen.absent and not seen.message):
        return None
    if is_marker(seen.key):
        # It asks for a report, and is applied nowhere.
        return None
    return copy.applied


def _status(copy: Copy) -> Manifest:
    work = fact_of(copy)
    status: Manifest = {}
    conditions: list[Manifest] = []
    applied, seen = _applied(copy), copy.observed
    if applied is not None and seen is not None:
        if applied.status:
            said = ("AppliedSuccessful", "Manifest has been successfully applied")
        else:
            said = ("AppliedFailed", seen.message or "Failed to apply all manifests (0/1)")
        conditions.append(condition("Applied", applied, *said))
    if copy.dispatching is not None:
        words = DISPATCHING if copy.dispatching.status else SUSPENDED
        conditions.append(condition("Dispatching", copy.dispatching, words.reason, words.message))
    if copy.rendered is not None and copy.rendered.problem:
        conditions.append(condition("Degraded", Since(True, copy.since), "RenderFailed", copy.rendered.problem))
    if conditions:
        status["conditions"] = conditions
    if seen is not None and applied is not None and applied.status:
        group, _, api_version = work.api_version.rpartition("/")
        identifier: Manifest = {"ordinal": 0, "version": api_version, "kind": work.kind, "resource": ""}
        if group:
            identifier["group"] = group
        if work.key.namespace:
            identifier["namespace"] = work.key.namespace
        identifier["name"] = work.key.name
        entry: Manifest = {"identifier": identifier, "health": seen.health}
        if seen.status is not UNSET:
            # A Secret has no status; whatever else reports one is shown as the member gave it.
            entry["status"] = seen.status
        status["manifestStatuses"] = [entry]
    return status
