"""Decides the works of a FederatedResourceQuota: a ResourceQuota for each cluster that it assigns a share to.

A ResourceQuota of the same name that a policy propagates goes before it in every cluster (docs/quotas.md). What is
assigned to a cluster that is no member waits until one of that name joins.
"""

from __future__ import annotations

from msgspec import UNSET, Raw

from schemas.events.work import WorkEvent, WorkRendered
from schemas.keys import ObjectKey, PolicyKey
from schemas.manifest import Manifest
from services._rules.delivery.work_labels import marked_for_work
from services._rules.quota.specification import KIND, Assignment, FederatedQuota
from services.override_renderer.render import Rendered, rendered_bytes
from services.override_renderer.state import Bound, RendererState

_API_VERSION = "v1"
_KIND = "ResourceQuota"


def assigned_works(
    state: RendererState, key: ObjectKey, bound: Bound, quota: FederatedQuota
) -> tuple[list[WorkRendered], list[tuple[str, bytes]], set[str]]:
    """The works that differ from those on the log, bytes to be stored before them, and all clusters with a share."""
    events: list[WorkRendered] = []
    blobs: list[tuple[str, bytes]] = []
    wanted: set[str] = set()
    for assignment in quota.assignments:
        member = state.clusters.get(assignment.cluster)
        if member is None or member.deleting:
            continue
        wanted.add(assignment.cluster)
        previous = bound.works.get(assignment.cluster)
        if assignment.problem:
            event = _problem(key, quota, assignment)
        else:
            rendered = rendered_bytes(_marked(key, quota, assignment), "abort")
            event = _rendered(key, quota, assignment.cluster, rendered)
            if rendered.shared:
                blobs.append((rendered.digest, rendered.data))
        if previous is None or not _same(previous[0], event):
            events.append(event)
    return events, blobs, wanted


def _rendered(key: ObjectKey, quota: FederatedQuota, cluster: str, rendered: Rendered) -> WorkRendered:
    return WorkRendered(
        cluster=cluster,
        key=key,
        uid=quota.uid,
        api_version=_API_VERSION,
        kind=_KIND,
        digest=rendered.digest,
        manifest=Raw(rendered.data) if not rendered.shared else UNSET,
        shared=rendered.shared,
        policy=PolicyKey(KIND, quota.namespace, quota.name),
    )


def _problem(key: ObjectKey, quota: FederatedQuota, assignment: Assignment) -> WorkRendered:
    """The share cannot be used: what the cluster has stays as it is, and the reason is on record."""
    return WorkRendered(
        cluster=assignment.cluster,
        key=key,
        uid=quota.uid,
        api_version=_API_VERSION,
        kind=_KIND,
        digest="",
        problem=assignment.problem,
        policy=PolicyKey(KIND, quota.namespace, quota.name),
    )


def _marked(key: ObjectKey, quota: FederatedQuota, assignment: Assignment) -> Manifest:
    """The ResourceQuota with the marks of its work."""
    metadata = {"name": key.name, "namespace": key.namespace}
    spec = {"hard": dict(assignment.hard)}
    manifest: Manifest = {"apiVersion": _API_VERSION, "kind": _KIND, "metadata": metadata, "spec": spec}
    return marked_for_work(manifest, assignment.cluster, key, quota.uid)


def _same(before: WorkEvent, event: WorkRendered) -> bool:
    return (
        isinstance(before, WorkRendered)
        and before.uid == event.uid
        and before.problem == event.problem
        and before.digest == event.digest
        and before.policy == event.policy
    )
